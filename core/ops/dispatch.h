// Dispatch: from an operation and a device to the kernel, through one table.
//
// call<Op::kCopy>(device, source, destination) is an indexed load and an indirect call; the
// argument types are those of the CPU's kernel, which all devices share. The CPU's column is filled
// at the first call; CUDA's holds functions that open the CUDA module, put its kernels in their
// place and call again. Any thread may call.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

#include "core/device/stream.h"
#include "core/kernels/cpu/all.h"

namespace dl {

enum class Op : std::uint16_t {
#define DL_OP(enumerator, kernel, name, on_cpu, on_cuda, gradcheck) enumerator,
#include "core/ops/op_list.def"
#undef DL_OP
};
// NOLINTBEGIN(bugprone-macro-parentheses): terms of a sum
inline constexpr std::size_t kOpCount = 0
#define DL_OP(enumerator, kernel, name, on_cpu, on_cuda, gradcheck) +1
#include "core/ops/op_list.def"
#undef DL_OP
    ;
// NOLINTEND(bugprone-macro-parentheses)
inline constexpr std::size_t kDeviceTypeCount = 2;

// What autocast does to an operation's floating inputs on a device.
enum class AutocastPolicy : std::uint8_t {
  kLow,     // to the low precision type: matmul, convolution
  kFull,    // to float32: losses; on CUDA also exp, sums, softmax
  kWidest,  // nothing: operands of different dtypes meet in the wider one, as they always do
  kKeep,    // nothing
};

enum class Gradient : std::uint8_t { kGradcheck, kNoGradient };

struct OpInfo {
  std::string_view name;
  std::string_view kernel;
  Gradient gradient;
};

const OpInfo& info(Op op) noexcept;

constexpr AutocastPolicy policy_of(Op op, DeviceType device) noexcept {
  constexpr AutocastPolicy kPolicies[kOpCount][kDeviceTypeCount] = {
#define DL_OP(enumerator, kernel, name, on_cpu, on_cuda, gradcheck) \
  {AutocastPolicy::on_cpu, AutocastPolicy::on_cuda},
#include "core/ops/op_list.def"
#undef DL_OP
  };
  return kPolicies[static_cast<std::size_t>(op)][static_cast<std::size_t>(device)];
}

template <Op op>
struct KernelOf;
#define DL_OP(enumerator, kernel, name, on_cpu, on_cuda, gradcheck) \
  template <>                                                       \
  struct KernelOf<Op::enumerator> {                                 \
    using Type = decltype(&kernels::cpu::kernel);                   \
  };
#include "core/ops/op_list.def"
#undef DL_OP

using AnyKernel = void (*)();
// Slots are atomic because CUDA's are replaced at the first use of a CUDA device, while other
// threads may look up the CPU's.
struct KernelTable {
  std::atomic<AnyKernel> slots[kOpCount][kDeviceTypeCount] = {};

  AnyKernel get(Op op, DeviceType device) const noexcept {
    return slots[static_cast<std::size_t>(op)][static_cast<std::size_t>(device)].load(
        std::memory_order_relaxed);
  }
  void set(Op op, DeviceType device, AnyKernel kernel) noexcept {
    slots[static_cast<std::size_t>(op)][static_cast<std::size_t>(device)].store(
        kernel, std::memory_order_relaxed);
  }
  template <Op op>
  void set(DeviceType device, typename KernelOf<op>::Type kernel) noexcept {
    set(op, device, reinterpret_cast<AnyKernel>(kernel));
  }
};

void fill_cpu_kernels(KernelTable& table) noexcept;
void fill_cuda_kernels(KernelTable& table) noexcept;  // with what opens the module
KernelTable& kernel_table() noexcept;

// Which list of operations a module's kernels are for: a hash of op_list.def's rows and of what
// kernels are passed.
constexpr std::uint64_t kernels_abi() noexcept {
  std::uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a
  const auto mix = [&hash](std::string_view text) {
    for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  };
#define DL_OP(enumerator, kernel, name, on_cpu, on_cuda, gradcheck) \
  mix(#enumerator " " #kernel ";");
#include "core/ops/op_list.def"
#undef DL_OP
  return hash ^ sizeof(TensorImpl);
}

template <Op op, typename... Args>
decltype(auto) call(Device device, Args&&... args) {
  const AnyKernel kernel = kernel_table().get(op, device.type);
  return reinterpret_cast<typename KernelOf<op>::Type>(kernel)(std::forward<Args>(args)...);
}

}  // namespace dl
