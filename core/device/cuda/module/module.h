// The interface of the module libdlrun_cuda.so, which is opened at the first CUDA use.
//
// A program that never uses a CUDA device loads no CUDA library and runs on machines without CUDA.
// Thread-safety: any thread may call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "core/device/cuda/module/runtime.h"
#include "core/device/math_flags.h"

namespace dl::cuda {

// Functions of the program that the module's kernels call. Both may throw.
struct Host {
  void* (*current_stream)(int device);
  // Memory from the caching allocator, to be used in the stream's order.
  void* (*allocate)(int device, std::size_t bytes, void* stream);
  void (*deallocate)(int device, void* block) noexcept;
  const dl::detail::MathFlags* math;
};

struct Module {
  Runtime* runtime;
  // One for each row of op_list.def, in its order; kernels_abi identifies the list
  // (core/ops/dispatch/cuda.cc).
  void (*const* kernels)();
  std::uint64_t kernels_abi;
};

// Increment it with each change of the structs above, of Runtime or of kernel arguments.
inline constexpr std::uint32_t kModuleAbi = 3;
// extern "C"; returns null if `abi` differs from the module's. `version` is dlrun's. Throws if
// there is no device.
using OpenModule = const Module* (*)(std::uint32_t abi, const char* version, const Host* host);
inline constexpr char kModuleSymbol[] = "dlrun_cuda_module";

// The module, opened at the first call. Throws kNotImplemented in a build without CUDA, kNotFound
// if the driver, a device, the module or one of its libraries is missing; the text says which and
// what to do. A failure is final: later calls throw it again.
const Module& module();
inline Runtime& runtime() {
  return *module().runtime;
}
// The error text of module(); empty if it does not throw.
std::string unavailable_reason();

// Defined in core/memory.
const Host& host() noexcept;

namespace detail {
// Defined in no_cuda.cc or open.cc.
const Module& open_module();
}  // namespace detail

// For tests: sets what module() returns, before its first call.
void use_module(const Module& module);

}  // namespace dl::cuda
