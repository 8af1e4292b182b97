// Dispatch: the table of kernels by operation and device, and call(), which calls one.
//
// call<Op::kCopy>(device, source, destination) is an indexed load and an indirect call. An
// operation's kernels have the same argument types on all devices. The first use of the table fills
// it. CUDA's column then has functions that open the CUDA module, replace the column by the
// module's kernels, and call the kernel. While a profile records, each call is a span; otherwise
// profiling costs one load. Any thread may use call().
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>
#include <utility>

#include "core/device/stream.h"
#include "core/elementwise/list.h"
#include "core/elementwise/losses.h"
#include "core/kernels/declared/conv.h"
#include "core/kernels/declared/elementwise.h"
#include "core/kernels/declared/index.h"
#include "core/kernels/declared/linear.h"
#include "core/kernels/declared/loss.h"
#include "core/kernels/declared/norm.h"
#include "core/kernels/declared/optimizer.h"
#include "core/kernels/declared/order.h"
#include "core/kernels/declared/pool.h"
#include "core/kernels/declared/random.h"
#include "core/kernels/declared/reduce.h"
#include "core/kernels/declared/softmax.h"
#include "core/memory/storage.h"
#include "core/ops/dispatch/kernel_names.h"
#include "core/ops/dispatch/recorded_call.h"
#include "core/reductions/list.h"
#include "core/tensor/layout/deferred.h"

namespace dl {

enum class Op : std::uint16_t {
#define DL_OP(enumerator, kernel, name, on_cpu, on_cuda, gradcheck, outputs, flops) enumerator,
#include "core/ops/op_list.def"
#undef DL_OP
};
// NOLINTBEGIN(bugprone-macro-parentheses): terms of a sum
inline constexpr std::size_t kOpCount = 0
#define DL_OP(enumerator, kernel, name, on_cpu, on_cuda, gradcheck, outputs, flops) +1
#include "core/ops/op_list.def"
#undef DL_OP
    ;
// NOLINTEND(bugprone-macro-parentheses)
inline constexpr std::size_t kDeviceTypeCount = 2;

struct OpInfo {
  std::string_view name;
  std::string_view kernel;
  Gradient gradient;
  std::size_t outputs;  // the number of results among the kernel's tensors; they come last
  OpFlops flops;
};

inline constexpr OpInfo kOpInfo[] = {
#define DL_OP(enumerator, kernel, name, on_cpu, on_cuda, gradcheck, outputs, flops) \
  {name, #kernel, Gradient::gradcheck, outputs, op_flops::flops},
#include "core/ops/op_list.def"
#undef DL_OP
};
constexpr const OpInfo& info(Op op) noexcept {
  return kOpInfo[static_cast<std::size_t>(op)];
}

constexpr AutocastPolicy policy_of(Op op, DeviceType device) noexcept {
  constexpr AutocastPolicy kPolicies[kOpCount][kDeviceTypeCount] = {
#define DL_OP(enumerator, kernel, name, on_cpu, on_cuda, gradcheck, outputs, flops) \
  {AutocastPolicy::on_cpu, AutocastPolicy::on_cuda},
#include "core/ops/op_list.def"
#undef DL_OP
  };
  return kPolicies[static_cast<std::size_t>(op)][static_cast<std::size_t>(device)];
}
template <typename Fn>
constexpr AutocastPolicy policy_of(Fn fn, DeviceType device) noexcept
  requires requires { facts(fn).on_cpu; }
{
  return device == DeviceType::kCUDA ? facts(fn).on_cuda : facts(fn).on_cpu;
}

template <Op op>
struct KernelOf;
#define DL_OP(enumerator, kernel, name, on_cpu, on_cuda, gradcheck, outputs, flops) \
  template <>                                                                       \
  struct KernelOf<Op::enumerator> {                                                 \
    using Type = decltype(&kernels::cpu::kernel);                                   \
  };
#include "core/ops/op_list.def"
#undef DL_OP

using AnyKernel = void (*)();
// Slots are atomic because the first use of a CUDA device replaces CUDA's slots while other threads
// may read them.
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
// Fills CUDA's column with functions that open the CUDA module and replace the column.
void fill_lazy_cuda_kernels(KernelTable& table) noexcept;
KernelTable& kernel_table() noexcept;

// Identifies the lists for which a module's kernels were built: a hash of the names in op_list.def
// and in the families' lists, and of TensorImpl's size. It does not cover the kernels' argument
// types.
constexpr std::uint64_t kernels_abi() noexcept {
  std::uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a
  const auto mix = [&hash](std::string_view text) {
    for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  };
#define DL_OP(enumerator, kernel, name, on_cpu, on_cuda, gradcheck, outputs, flops) \
  mix(#enumerator " " #kernel ";");
#include "core/ops/op_list.def"
#undef DL_OP
  for (const UnaryFacts& row : kUnaryFacts) mix(row.name);
  for (const BinaryFacts& row : kBinaryFacts) mix(row.name);
  for (const PairLossFacts& row : kPairLossFacts) mix(row.name);
  for (const ReductionFacts& row : kReductionFacts) mix(row.text);
  for (const ExtremeFacts& row : kExtremeFacts) mix(row.name);
  for (const TernaryFacts& row : kTernaryFacts) mix(row.name);
  return hash ^ sizeof(TensorImpl);
}

// The operation's name in errors and profiles. If the first argument has a name (as a row of a
// family, or in a member `op`), it is that name; else it is the name in op_list.def.
template <typename... Args>
std::string_view name_of_call(Op op, const Args&...) noexcept {
  return info(op).name;
}
template <typename Fn, typename... Args>
std::string_view name_of_call(Op, Fn fn, const Args&...) noexcept
  requires requires { facts(fn).name; }
{
  return facts(fn).name;
}
template <typename First, typename... Args>
std::string_view name_of_call(Op, const First& first, const Args&...) noexcept
  requires requires { std::string_view(first.op); }
{
  return first.op;
}

// True if the kernel accepts tensors of any strides. call() then passes a tensor over the source
// instead of a deferred tensor, if it can (core/tensor/layout/deferred.h). Other kernels access the
// deferred tensor's own memory, which first copies the elements there.
constexpr bool takes_any_strides(Op op) noexcept {
  switch (op) {
    case Op::kCopy:
    case Op::kFill:
    case Op::kUnary:
    case Op::kUnaryBackward:
    case Op::kBinary:
    case Op::kTernary:
    case Op::kReduce:
      return true;
    default:
      return false;
  }
}

namespace detail {
// While this thread records (core/tape): a function that calls the kernel and writes the call down.
AnyKernel watched_kernel(Op op, Device device, AnyKernel kernel);

// Out of line, and instantiated once for each kernel signature, so that call() stays small.
template <typename R, typename... Params>
[[gnu::noinline, gnu::cold]] R call_recorded(Op op, R (*kernel)(Params...),
                                             std::type_identity_t<Params>... args) {
  const Tensor* const tensors[] = {as_tensor(args)...};
  const RecordedCall span(op, name_of_call(op, args...), tensors);
  return kernel(std::forward<Params>(args)...);
}

template <typename T>
bool may_be_deferred(const T& arg) noexcept {
  const Tensor* const tensor = as_tensor(arg);
  return tensor != nullptr && tensor->defined() && !tensor->impl()->is_materialized();
}
template <typename T>
decltype(auto) replace_if_tensor(T& arg, const Tensor& tensor) noexcept {
  if constexpr (std::is_same_v<std::remove_const_t<T>, Tensor>) {
    return tensor;
  } else {
    return arg;
  }
}
template <typename R, typename... Params, std::size_t... i>
[[gnu::noinline, gnu::cold]] R call_in_stored_order(std::index_sequence<i...>, Op op,
                                                    R (*kernel)(Params...),
                                                    std::type_identity_t<Params>... args) {
  const Tensor* const tensors[] = {as_tensor(args)...};
  const Tensor none;
  // A braced list is evaluated in order. Results are the last arguments, so their StoredOrder are
  // made last, as deferred.h requires.
  const StoredOrder stored[] = {StoredOrder(tensors[i] != nullptr ? *tensors[i] : none)...};
  if (profiler::is_recording()) {
    return call_recorded(op, kernel, replace_if_tensor(args, *stored[i])...);
  }
  return kernel(replace_if_tensor(args, *stored[i])...);
}
}  // namespace detail

template <Op op, typename... Args>
decltype(auto) call(Device device, Args&&... args) {
  AnyKernel found = kernel_table().get(op, device.type);
  if (detail::thread_watch != nullptr) [[unlikely]]
    found = detail::watched_kernel(op, device, found);
  const auto kernel = reinterpret_cast<typename KernelOf<op>::Type>(found);
  if constexpr (takes_any_strides(op)) {
    if ((detail::may_be_deferred(args) || ...)) [[unlikely]] {
      return detail::call_in_stored_order(std::index_sequence_for<Args...>{}, op, kernel,
                                          std::forward<Args>(args)...);
    }
  }
  if (profiler::is_recording()) [[unlikely]]
    return detail::call_recorded(op, kernel, std::forward<Args>(args)...);
  return kernel(std::forward<Args>(args)...);
}

}  // namespace dl
