// The CUDA column of the kernel table before the CUDA module is opened: a call of any slot opens
// the module, or throws an error with the operation's name if that fails.

#include "core/base/error.h"
#include "core/base/mutex.h"
#include "core/device/cuda/module/module.h"
#include "core/ops/dispatch/dispatch.h"

namespace dl {
namespace {

// Replaces all slots. A thread that still reads an old slot calls this too; it then does nothing.
void open_kernels(std::string_view op) {
  static constinit Mutex mutex;
  const Lock lock(mutex);
  const cuda::Module* module = nullptr;
  try {
    module = &cuda::module();
  } catch (const Error& error) {
    throw_error(error.kind(), "{}: a tensor is on a CUDA device: {}", op, error.what());
  }
  DL_CHECK(module->kernels_abi == kernels_abi(), kMismatch,
           "cuda: the module's kernels belong to another build of dlrun");
  for (std::size_t i = 0; i < kOpCount; ++i) {
    kernel_table().set(static_cast<Op>(i), DeviceType::kCUDA, module->kernels[i]);
  }
}

template <Op op, typename Kernel>
struct Opening;
template <Op op, typename R, typename... Args>
struct Opening<op, R (*)(Args...)> {
  static R call(Args... args) {
    open_kernels(name_of_call(op, args...));
    // Calls the kernel directly: dl::call() is running already, and would record the call twice.
    const AnyKernel kernel = kernel_table().get(op, DeviceType::kCUDA);
    return reinterpret_cast<R (*)(Args...)>(kernel)(args...);
  }
};

}  // namespace

void fill_lazy_cuda_kernels(KernelTable& table) noexcept {
#define DL_OP(enumerator, kernel, name, on_cpu, on_cuda, gradcheck, outputs, flops) \
  table.set<Op::enumerator>(DeviceType::kCUDA,                                      \
                            &Opening<Op::enumerator, KernelOf<Op::enumerator>::Type>::call);
#include "core/ops/op_list.def"
#undef DL_OP
}

}  // namespace dl
