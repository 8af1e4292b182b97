// libdlrun_cuda.so's entry point, and its table: for each row of op_list.def the kernel
// dl::kernels::cuda::<kernel>, wrapped.
//
// A wrapper makes the first CUDA tensor's device the active one, and notes the running kernel and
// its tensors for error texts.
#include <fmt/format.h>

#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>

#include "core/base/version.h"
#include "core/elementwise/losses.h"
#include "core/kernels/cuda/runtime/launch.h"
#include "core/kernels/cuda/runtime/real_runtime.h"
#include "core/ops/dispatch/dispatch.h"

namespace dl::cuda {
namespace {

// As a user knows what reports a fault.
const char* name_of_op(int op) {
  // One loss of the family reports faults: the one that takes probabilities.
  if (op == static_cast<int>(Op::kPairLoss)) return facts(PairLoss::kBce).name.data();
  return op >= 0 && static_cast<std::size_t>(op) < kOpCount ? info(static_cast<Op>(op)).name.data()
                                                            : "an operation";
}

template <typename T>
void describe_one(const T& argument, std::string& text) {
  if constexpr (std::is_same_v<T, Tensor>) {
    if (!text.ends_with('(')) text += ", ";
    text += argument.defined()
                ? fmt::format("{}[{}] on {}", short_name(argument.dtype()),
                              fmt::join(argument.sizes().begin(), argument.sizes().end(), ", "),
                              argument.device().str())
                : "none";
  }
}

// The device of an argument, or -1.
template <typename T>
int device_of(const T& argument) {
  if constexpr (std::is_same_v<T, Tensor>) {
    return argument.defined() && argument.device().type == DeviceType::kCUDA
               ? argument.device().index
               : -1;
  } else if constexpr (std::is_same_v<T, Device>) {
    return argument.index;
  } else {
    return -1;
  }
}

// Notes the running kernel. Kernels may call others, so the destructor restores the previous one.
class Running {
 public:
  explicit Running(const RunningOp& op) noexcept : before_(running_op()) { running_op() = op; }
  ~Running() { running_op() = before_; }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

 private:
  RunningOp before_;
};

template <Op op>
struct KernelHere;
#define DL_OP(enumerator, kernel, name, on_cpu, on_cuda, gradcheck, outputs, flops) \
  template <>                                                                       \
  struct KernelHere<Op::enumerator> {                                               \
    static constexpr KernelOf<Op::enumerator>::Type value = kernels::cuda::kernel;  \
  };
#include "core/ops/op_list.def"
#undef DL_OP

template <Op op, typename Kernel>
struct Wrapped;
template <Op op, typename R, typename... Args>
struct Wrapped<op, R (*)(Args...)> {
  using Arguments = std::tuple<const std::remove_cvref_t<Args>&...>;

  static void describe(const void* arguments, std::string& text) {
    std::apply([&text](const auto&... each) { (describe_one(each, text), ...); },
               *static_cast<const Arguments*>(arguments));
  }

  static R call(Args... args) {
    const Arguments arguments(args...);
    int device = -1;
    const auto look = [&device](const auto& argument) {
      if (device < 0) device = device_of(argument);
    };
    (look(args), ...);
    const Running running({.index = static_cast<int>(op),
                           // NOLINTNEXTLINE(bugprone-suspicious-stringview-data-usage): a literal
                           .name = name_of_call(op, args...).data(),
                           .describe = &describe,
                           .arguments = &arguments});
    const OnDevice on(device);
    return KernelHere<op>::value(args...);
  }
};

void (*const kKernels[])() = {
#define DL_OP(enumerator, kernel, name, on_cpu, on_cuda, gradcheck, outputs, flops) \
  reinterpret_cast<void (*)()>(&Wrapped<Op::enumerator, KernelOf<Op::enumerator>::Type>::call),
#include "core/ops/op_list.def"
#undef DL_OP
};

}  // namespace
}  // namespace dl::cuda

extern "C" __attribute__((visibility("default"))) const dl::cuda::Module* dlrun_cuda_module(
    std::uint32_t abi, const char* version, const dl::cuda::Host* host) {
  if (abi != dl::cuda::kModuleAbi || dl::kVersion != version) return nullptr;
  static const dl::cuda::Module module{
      .runtime = &dl::cuda::start_runtime(host, &dl::cuda::name_of_op),
      .kernels = dl::cuda::kKernels,
      .kernels_abi = dl::kernels_abi()};
  return &module;
}
