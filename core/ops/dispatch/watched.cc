// The kernels as a recording thread calls them.
#include "core/args/axis_taps.h"
#include "core/ops/dispatch/dispatch.h"
#include "core/random/philox.h"
#include "core/tape/recorder.h"

namespace dl {
namespace {

// Kernels that work part by part (core/tape/plan/chain.h). Operands are the kernel's tensors.
template <Op op>
inline constexpr tape::PartOperands kParts{};
template <>
inline constexpr tape::PartOperands kParts<Op::kBatchNorm>{.also_read = 0, .written = 5};
template <>
inline constexpr tape::PartOperands kParts<Op::kBatchNormBackward>{
    .read = 0, .also_read = 1, .written = 5, .in_place = true};
template <>
inline constexpr tape::PartOperands kParts<Op::kRowNorm>{.read = 0, .written = 3};
template <>
inline constexpr tape::PartOperands kParts<Op::kRowNormBackward>{
    .read = 0, .also_read = 1, .written = 4, .in_place = true};

// How many of its last tensors a kernel changes.
template <Op op>
inline constexpr std::size_t kResults = info(op).outputs > 0 ? info(op).outputs : tape::kAnyTensor;
// It works in place, on the last one alone; the index may be a constant.
template <>
inline constexpr std::size_t kResults<Op::kAddOffsets> = 1;

template <Op op>
inline constexpr std::nullptr_t kInParts = nullptr;
template <>
inline constexpr auto kInParts<Op::kUnary> = &kernels::cpu::unary_in_parts;
template <>
inline constexpr auto kInParts<Op::kUnaryBackward> = &kernels::cpu::unary_backward_in_parts;
template <>
inline constexpr auto kInParts<Op::kBinary> = &kernels::cpu::binary_in_parts;

template <Op op, typename Kernel>
struct Watched;
template <Op op, typename R, typename... Params>
struct Watched<op, R (*)(Params...)> {
  static R call(Params... arguments) {
    const auto kernel =
        reinterpret_cast<R (*)(Params...)>(kernel_table().get(op, DeviceType::kCPU));
    const tape::Call<R, Params...> call{.name = name_of_call(op, arguments...),
                                        .results = kResults<op>,
                                        .function = kernel,
                                        .parts = kParts<op>,
                                        .in_parts = kInParts<op>,
                                        .kernel = info(op).kernel};
    return tape::run(call, std::forward<Params>(arguments)...);
  }
};

AnyKernel watched(Op op) {
  static constexpr AnyKernel (*kWatched[kOpCount])() = {
#define DL_OP(enumerator, kernel, name, on_cpu, on_cuda, gradcheck, outputs, flops) \
  [] {                                                                              \
    return reinterpret_cast<AnyKernel>(                                             \
        &Watched<Op::enumerator, KernelOf<Op::enumerator>::Type>::call);            \
  },
#include "core/ops/op_list.def"
#undef DL_OP
  };
  return kWatched[static_cast<std::size_t>(op)]();
}

}  // namespace

AnyKernel detail::watched_kernel(Op op, Device device, AnyKernel kernel) {
  if (device.type == DeviceType::kCPU) {
    return tape::Recorder::current() != nullptr ? watched(op) : kernel;
  }
  not_repeatable("an operation on a GPU");
  return kernel;
}

}  // namespace dl
