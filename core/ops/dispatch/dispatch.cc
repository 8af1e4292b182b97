#include "core/ops/dispatch/dispatch.h"

namespace dl {

void fill_cpu_kernels(KernelTable& table) noexcept {
#define DL_OP(enumerator, kernel, name, on_cpu, on_cuda, gradcheck, outputs, flops) \
  table.set<Op::enumerator>(DeviceType::kCPU, &kernels::cpu::kernel);
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
