// Module: the few NCCL calls that a group needs, without NCCL's and CUDA's types.
//
// module.cc is compiled into libdlrun_nccl.so, the only object that is linked with NCCL. Loading it
// takes 20 ms, so it is opened at the first collective on a GPU. It contains nothing else of dlrun
// and exports one function, which returns this table. Tests substitute tables of their own.
// Communicators are non-blocking: a call may return kInProgress, and async_error() tells when it is
// over.
//
// Thread-safety is NCCL's: one thread at a time a communicator, except for abort(). This includes
// async_error(), which completes what a non-blocking call has begun. Every group_start() needs its
// group_end(), even after an error between them. Unless its comment says otherwise, a function
// returns kSuccess, kInProgress or an error; error_text() gives the error's text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "collectives/api/process_group.h"

namespace dl::collectives::nccl {

// Version of this table; a module of another version is refused.
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
  const char* (*last_error)();  // NCCL's text for the last error; never null
  int (*unique_id)(UniqueId* id);
  // NCCL uses `device`, then restores the thread's current device, so the thread must have set one
  // (Runtime::make_stream() does).
  int (*init)(Comm* comm, int size, const UniqueId* id, int rank, int device);
  // Makes a communicator with blocking calls, for benchmarks to compare with.
  int (*init_blocking)(Comm* comm, int size, const UniqueId* id, int rank, int device);
  int (*async_error)(Comm comm, int* state);
  int (*finalize)(Comm comm);
  int (*destroy)(Comm comm);
  int (*abort)(Comm comm);
  int (*group_start)();
  int (*group_end)();

  // `stream` is a cudaStream_t. kBool is passed as bytes: NCCL's max stands for kSum, kMax and
  // kBor, its min for kProd, kMin and kBand.
  int (*all_reduce)(const void* input, void* output, std::size_t count, DType dtype, ReduceOp op,
                    Comm comm, void* stream);
  int (*reduce)(const void* input, void* output, std::size_t count, DType dtype, ReduceOp op,
                int root, Comm comm, void* stream);
  int (*reduce_scatter)(const void* input, void* output, std::size_t count, DType dtype,
                        ReduceOp op, Comm comm, void* stream);
  // The following calls move bytes.
  int (*broadcast)(void* buffer, std::size_t bytes, int root, Comm comm, void* stream);
  int (*all_gather)(const void* input, void* output, std::size_t bytes, Comm comm, void* stream);
  int (*send)(const void* buffer, std::size_t bytes, int peer, Comm comm, void* stream);
  int (*receive)(void* buffer, std::size_t bytes, int peer, Comm comm, void* stream);
};

// NCCL's text for a code, with the details of its last error.
inline std::string text_of(const Module& nccl, int code) {
  const std::string_view said = nccl.last_error();
  return std::string(nccl.error_text(code)).append(said.empty() ? "" : ": ").append(said);
}

extern "C" {
using GetModule = const Module* (*)();
}

}  // namespace dl::collectives::nccl
