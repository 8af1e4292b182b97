// Module: the few calls of NCCL that a group is made of, without NCCL's and CUDA's types.
//
// module.cc is compiled into libdlrun_nccl.so, the only thing that is linked with NCCL: loading it
// costs a process 20 ms, so it is opened at the first collective on a GPU. It holds nothing of
// dlrun and shows one function, which returns this table. Tests put a table of their own in its
// place. Communicators are non-blocking: a call may return kInProgress, and async_error() says
// when it is over.
//
// Thread-safety: NCCL's: one thread at a time a communicator, but for abort(); async_error() is no
// exception, as it ends what a non-blocking call has begun. Every group_start() needs its
// group_end(), also after an error between them.
// Unless said otherwise a function returns kSuccess, kInProgress or an error for error_text().
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "collectives/process_group.h"

namespace dl::collectives::nccl {

// Of this table; a module of another version is refused.
inline constexpr std::uint32_t kModuleVersion = 3;
inline constexpr char kModuleSymbol[] = "dlrun_nccl_module";

inline constexpr int kSuccess = 0;
inline constexpr int kRemoteError = 6;  // a peer, or the network to it, failed
inline constexpr int kInProgress = 7;

using Comm = void*;
struct UniqueId {
  char bytes[128];
};

struct Module {
  std::uint32_t version;
  int built_with;  // 22809 is NCCL 2.28.9

  int (*get_version)(int* version);  // of the library that was found
  const char* (*error_text)(int code);
  const char* (*last_error)();  // what NCCL says of the last one in words; never null
  int (*unique_id)(UniqueId* id);
  // NCCL takes the thread's device, which then is the one of before again: the thread must have one
  // of its own (Runtime::make_stream() gives it one).
  int (*init)(Comm* comm, int size, const UniqueId* id, int rank, int device);
  // Of a communicator whose calls return when they are over, for benchmarks to compare with.
  int (*init_blocking)(Comm* comm, int size, const UniqueId* id, int rank, int device);
  int (*async_error)(Comm comm, int* state);
  int (*finalize)(Comm comm);
  int (*destroy)(Comm comm);
  int (*abort)(Comm comm);
  int (*group_start)();
  int (*group_end)();

  // `stream` is a cudaStream_t. kBool travels as bytes; there kSum, kMax and kBor are NCCL's
  // maximum, kProd, kMin and kBand its minimum.
  int (*all_reduce)(const void* input, void* output, std::size_t count, DType dtype, ReduceOp op,
                    Comm comm, void* stream);
  int (*reduce)(const void* input, void* output, std::size_t count, DType dtype, ReduceOp op,
                int root, Comm comm, void* stream);
  int (*reduce_scatter)(const void* input, void* output, std::size_t count, DType dtype,
                        ReduceOp op, Comm comm, void* stream);
  // The rest moves bytes.
  int (*broadcast)(void* buffer, std::size_t bytes, int root, Comm comm, void* stream);
  int (*all_gather)(const void* input, void* output, std::size_t bytes, Comm comm, void* stream);
  int (*send)(const void* buffer, std::size_t bytes, int peer, Comm comm, void* stream);
  int (*receive)(void* buffer, std::size_t bytes, int peer, Comm comm, void* stream);
};

// What a code means, and what NCCL has said about it, in words.
inline std::string text_of(const Module& nccl, int code) {
  const std::string_view said = nccl.last_error();
  return std::string(nccl.error_text(code)).append(said.empty() ? "" : ": ").append(said);
}

extern "C" {
using GetModule = const Module* (*)();
}

}  // namespace dl::collectives::nccl
