#include "core/ops/dispatch/dispatch.h"

namespace dl {
namespace {

// In the place of a kernel that CPUs do not have.
template <Op op, typename Kernel>
struct Missing;
template <Op op, typename R, typename... Args>
struct Missing<op, R (*)(Args...)> {
  [[noreturn]] static R call(Args... args) {
    throw_error(ErrorKind::kNotImplemented, "{}: only on CUDA devices", name_of_call(op, args...));
  }
};

}  // namespace

void fill_cpu_kernels(KernelTable& table) noexcept {
#define DL_OP(enumerator, kernel, name, on_cpu, on_cuda, gradcheck, outputs, flops) \
  table.set<Op::enumerator>(DeviceType::kCPU, &kernels::cpu::kernel);
#define DL_CUDA_OP(enumerator, kernel, name, on_cpu, on_cuda, gradcheck, outputs, flops) \
  table.set<Op::enumerator>(DeviceType::kCPU,                                            \
                            &Missing<Op::enumerator, KernelOf<Op::enumerator>::Type>::call);
#include "core/ops/op_list.def"
#undef DL_OP
}

KernelTable& kernel_table() noexcept {
  static KernelTable table;
  static const bool filled = [] {
    fill_cpu_kernels(table);
    fill_lazy_cuda_kernels(table);
    return true;
  }();
  static_cast<void>(filled);
  return table;
}

}  // namespace dl
