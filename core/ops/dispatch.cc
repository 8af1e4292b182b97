#include "core/ops/dispatch.h"

namespace dl {
namespace {

constexpr OpInfo kInfo[] = {
#define DL_OP(enumerator, kernel, name, autocast, gradcheck) \
  {name, #kernel, AutocastPolicy::autocast, Gradient::gradcheck},
#include "core/ops/op_list.def"
#undef DL_OP
};

}  // namespace

const OpInfo& info(Op op) noexcept {
  return kInfo[static_cast<std::size_t>(op)];
}

void fill_cpu_kernels(KernelTable& table) noexcept {
#define DL_OP(enumerator, kernel, name, autocast, gradcheck) \
  table.set<Op::enumerator>(DeviceType::kCPU, &kernels::cpu::kernel);
#include "core/ops/op_list.def"
#undef DL_OP
}

const KernelTable& kernel_table() noexcept {
  static const KernelTable table = [] {
    KernelTable filled;
    fill_cpu_kernels(filled);
    fill_cuda_kernels(filled);
    return filled;
  }();
  return table;
}

}  // namespace dl
