// Module: the few MPI calls that a group needs, without MPI's types.
//
// Every MPI has its own mpi.h: a handle is a pointer in Open MPI and a number in MPICH. So
// module.cc is compiled once for each MPI, into a shared object of its own, and only this object is
// linked with MPI. It contains nothing else of dlrun and exports one function, which returns this
// table. library.h opens it on first use. All data are bytes; dlrun computes the sums itself
// (core.h).
//
// Thread-safety: MPI's own, at MPI_THREAD_MULTIPLE, but `start` and `finish` must be called from
// the same thread. Unless said otherwise a function returns 0, or MPI's error code for
// `error_text`.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dl::collectives::mpi {

// Version of this table; a module of another version is refused.
inline constexpr std::uint32_t kModuleVersion = 3;
inline constexpr char kModuleSymbol[] = "dlrun_mpi_module";

// An MPI_Comm or an MPI_Request, whatever its type.
using Handle = std::uint64_t;

struct Started {
  int rank;  // in MPI_COMM_WORLD
  int size;
  int most_tag;
  bool is_multiple;  // MPI_THREAD_MULTIPLE; if false, only `finish` may be called
  bool was_started;  // by the program, which then also ends MPI
};

struct Ended {
  int source;     // a receive's sender
  bool is_ended;  // if false, the other two are not valid
  bool is_cancelled;
};

// Most requests in one call of test_some.
inline constexpr int kMostTested = 64;

struct Module {
  std::uint32_t version;
  // Transfers of at most 8 KiB go in messages of this size, because larger ones wait until the
  // receiver has answered; 0: in one message.
  std::size_t small_slice;
  // Larger transfers form a pipeline of messages of at least this size.
  std::size_t least_slice;
  const char* library;  // "Open MPI 4.1.4": the MPI it was compiled for

  // Calls MPI_Init_thread, unless the program has. MPI then returns errors instead of aborting.
  int (*start)(Started* started);
  int (*finish)();  // MPI_Finalize, unless the program has called it
  void (*error_text)(int code, char* text, std::size_t room);  // ends with a zero byte

  // Collective and blocking.
  int (*duplicate_world)(Handle* comm);
  int (*split)(Handle comm, int color, int key, Handle* made);  // color < 0: makes none
  int (*free)(Handle comm);

  // Nonblocking. At most INT_MAX bytes; the buffers belong to MPI until `test` reports the end.
  int (*all_gather)(const void* input, void* output, std::size_t bytes, Handle comm,
                    Handle* request);
  int (*broadcast)(void* buffer, std::size_t bytes, int root, Handle comm, Handle* request);
  int (*send)(const void* buffer, std::size_t bytes, int peer, int tag, Handle comm,
              Handle* request);
  // Ends only after the receiver has matched it.
  int (*send_matched)(const void* buffer, std::size_t bytes, int peer, int tag, Handle comm,
                      Handle* request);
  int (*receive)(void* buffer, std::size_t bytes, int peer, int tag, Handle comm,
                 Handle* request);  // peer < 0: from any rank

  int (*test)(Handle* request, Ended* ended);
  // Tests at most kMostTested requests: sets each ended request to 0, and stores their number.
  int (*test_some)(Handle* requests, int count, int* ended);
  int (*cancel)(Handle request);  // a receive; `test` then reports the outcome
};

extern "C" {
using GetModule = const Module* (*)();
}

}  // namespace dl::collectives::mpi
