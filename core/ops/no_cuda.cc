// The CUDA column of the kernel table in a build without CUDA: every slot refuses by name.
#include "core/base/error.h"
#include "core/ops/dispatch.h"

namespace dl {
namespace {

template <Op op, typename Kernel>
struct Refusal;
template <Op op, typename R, typename... Args>
struct Refusal<op, R (*)(Args...)> {
  static R call(Args...) {
    throw_error(ErrorKind::kNotImplemented,
                "{}: a tensor is on a CUDA device, and this build has no CUDA", info(op).name);
  }
};

}  // namespace

void fill_cuda_kernels(KernelTable& table) noexcept {
#define DL_OP(enumerator, kernel, name, autocast, gradcheck) \
  table.set<Op::enumerator>(DeviceType::kCUDA,               \
                            &Refusal<Op::enumerator, KernelOf<Op::enumerator>::Type>::call);
#include "core/ops/op_list.def"
#undef DL_OP
}

}  // namespace dl
