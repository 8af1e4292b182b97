// The kernels as a recording thread calls them.
#include "core/args/axis_taps.h"
#include "core/ops/dispatch/dispatch.h"
#include "core/random/philox.h"
#include "core/tape/recorder.h"

namespace dl {
namespace {

template <Op op, typename Kernel>
struct Watched;
template <Op op, typename R, typename... Params>
struct Watched<op, R (*)(Params...)> {
  static R call(Params... arguments) {
    const auto kernel =
        reinterpret_cast<R (*)(Params...)>(kernel_table().get(op, DeviceType::kCPU));
    constexpr std::size_t kResults = info(op).outputs > 0 ? info(op).outputs : tape::kAnyTensor;
    return tape::run(name_of_call(op, arguments...), kResults, kernel,
                     std::forward<Params>(arguments)...);
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
