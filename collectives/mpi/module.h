// Module: the few calls of MPI that a group is made of, without MPI's types.
//
// mpi.h is another header for every MPI: a handle is a pointer in Open MPI and a number in MPICH.
// So module.cc is compiled once for each into a shared object of its own, the only thing that is
// linked with MPI; it holds nothing of dlrun and shows one function, which returns this table.
// library.h opens it on first use. All data are bytes; the sums are dlrun's own (core.h).
//
// Thread-safety: MPI's own, at MPI_THREAD_MULTIPLE; `start` and `finish` from one and the same
// thread. Unless said otherwise a function returns 0, or MPI's error code for `error_text`.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dl::collectives::mpi {

// Of this table; a module of another version is refused.
inline constexpr std::uint32_t kModuleVersion = 1;
inline constexpr char kModuleSymbol[] = "dlrun_mpi_module";

// An MPI_Comm or an MPI_Request, whatever type that is.
using Handle = std::uint64_t;

struct Started {
  int rank;  // in MPI_COMM_WORLD
  int size;
  int most_tag;
  bool is_multiple;  // MPI_THREAD_MULTIPLE; else nothing but `finish` may be called
  bool was_started;  // by the program, which then ends it too
};

struct Ended {
  int source;     // a receive's sender
  bool is_ended;  // else the other two say nothing
  bool is_cancelled;
};

struct Module {
  std::uint32_t version;
  const char* library;  // "Open MPI 4.1.4": what it was compiled for

  // MPI_Init_thread, unless the program has called it. Errors are returned from then on.
  int (*start)(Started* started);
  int (*finish)();  // MPI_Finalize, unless the program has called it
  void (*error_text)(int code, char* text, std::size_t room);  // ends with a zero

  // Collective, and they block.
  int (*duplicate_world)(Handle* comm);
  int (*split)(Handle comm, int color, int key, Handle* made);  // color < 0: none is made
  int (*free)(Handle comm);

  // Start something. Bytes up to INT_MAX; the buffers are MPI's until `test` says that it ended.
  int (*all_gather)(const void* input, void* output, std::size_t bytes, Handle comm,
                    Handle* request);
  int (*broadcast)(void* buffer, std::size_t bytes, int root, Handle comm, Handle* request);
  int (*send)(const void* buffer, std::size_t bytes, int peer, int tag, Handle comm,
              Handle* request);
  // Ends only once the receiver has found a place for it.
  int (*send_matched)(const void* buffer, std::size_t bytes, int peer, int tag, Handle comm,
                      Handle* request);
  int (*receive)(void* buffer, std::size_t bytes, int peer, int tag, Handle comm,
                 Handle* request);  // peer < 0: from any rank

  int (*test)(Handle* request, Ended* ended);
  int (*cancel)(Handle request);  // a receive; `test` then says what became of it
};

extern "C" {
using GetModule = const Module* (*)();
}

}  // namespace dl::collectives::mpi
