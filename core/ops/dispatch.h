// Dispatch: from an operation and a device to the kernel, through one table.
//
// call<Op::kCopy>(device, source, destination) is an indexed load and an indirect call; the
// argument types are those of the CPU's kernel, which all devices share. The table is filled at the
// first call by one named function for each device and never changes after. Any thread may call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

#include "core/device/stream.h"
#include "core/kernels/cpu/all.h"

namespace dl {

enum class Op : std::uint16_t {
#define DL_OP(enumerator, kernel, name, autocast, gradcheck) enumerator,
#include "core/ops/op_list.def"
#undef DL_OP
};
inline constexpr std::size_t kOpCount = 0
#define DL_OP(enumerator, kernel, name, autocast, gradcheck) +1
#include "core/ops/op_list.def"
#undef DL_OP
    ;
inline constexpr std::size_t kDeviceTypeCount = 2;

// What autocast does to an operation's floating inputs.
enum class AutocastPolicy : std::uint8_t {
  kLow,     // to the low precision type: matmul, convolution
  kFull,    // to float32: exp, sums, losses
  kWidest,  // all to the widest of them
  kKeep,    // nothing
};

enum class Gradient : std::uint8_t { kGradcheck, kNoGradient };

struct OpInfo {
  std::string_view name;
  std::string_view kernel;
  AutocastPolicy autocast;
  Gradient gradient;
};

const OpInfo& info(Op op) noexcept;

template <Op op>
struct KernelOf;
#define DL_OP(enumerator, kernel, name, autocast, gradcheck) \
  template <>                                                \
  struct KernelOf<Op::enumerator> {                          \
    using Type = decltype(&kernels::cpu::kernel);            \
  };
#include "core/ops/op_list.def"
#undef DL_OP

using AnyKernel = void (*)();
struct KernelTable {
  AnyKernel slots[kOpCount][kDeviceTypeCount] = {};

  template <Op op>
  void set(DeviceType device, typename KernelOf<op>::Type kernel) noexcept {
    slots[static_cast<std::size_t>(op)][static_cast<std::size_t>(device)] =
        reinterpret_cast<AnyKernel>(kernel);
  }
};

void fill_cpu_kernels(KernelTable& table) noexcept;
void fill_cuda_kernels(KernelTable& table) noexcept;
const KernelTable& kernel_table() noexcept;

template <Op op, typename... Args>
decltype(auto) call(Device device, Args&&... args) {
  const AnyKernel kernel =
      kernel_table().slots[static_cast<std::size_t>(op)][static_cast<std::size_t>(device.type)];
  return reinterpret_cast<typename KernelOf<op>::Type>(kernel)(std::forward<Args>(args)...);
}

}  // namespace dl
