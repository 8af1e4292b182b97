// The module libdlrun_cuda.so, opened at the first CUDA use: what it offers and what it gets.
//
// A program that never touches a CUDA device loads no CUDA library, and runs where there is none.
// Thread-safety: any thread may call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "core/device/cuda/module/runtime.h"
#include "core/device/math_flags.h"

namespace dl::cuda {

// What kernels ask of the program that opened them. Both may throw.
struct Host {
  void* (*current_stream)(int device);
  // Out of the caching allocator, for use in the stream's order.
  void* (*allocate)(int device, std::size_t bytes, void* stream);
  void (*deallocate)(int device, void* block) noexcept;
  const dl::detail::MathFlags* math;
};

struct Module {
  Runtime* runtime;
  // One a row of op_list.def, in its order; kernels_abi says of which list
  // (core/ops/dispatch/cuda.cc).
  void (*const* kernels)();
  std::uint64_t kernels_abi;
};

// To be raised with each change of the structures above, of Runtime or of what kernels are passed.
inline constexpr std::uint32_t kModuleAbi = 3;
// extern "C"; null where `abi` is not the module's own. `version` is dlrun's. Throws where there is
// no device.
using OpenModule = const Module* (*)(std::uint32_t abi, const char* version, const Host* host);
inline constexpr char kModuleSymbol[] = "dlrun_cuda_module";

// The module, opened at the first call. Throws kNotImplemented in a build without CUDA, kNotFound
// where the driver, a device, the module or a library that it needs is missing; the text says which
// and what to do. A failure is final: it is thrown again by later calls.
const Module& module();
inline Runtime& runtime() {
  return *module().runtime;
}
// Why module() throws; empty where it does not.
std::string unavailable_reason();

// core/memory
const Host& host() noexcept;

namespace detail {
// no_cuda.cc or open.cc
const Module& open_module();
}  // namespace detail

// Tests: what module() gives, before its first call.
void use_module(const Module& module);

}  // namespace dl::cuda
