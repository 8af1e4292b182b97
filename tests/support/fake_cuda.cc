#include "tests/support/fake_cuda.h"

#include <array>

#include "core/ops/dispatch/dispatch.h"

namespace dl::test {

FakeRuntime& use_fake_cuda() {
  static FakeRuntime& runtime = []() -> FakeRuntime& {
    // Never destroyed: cached memory is in its books until the process ends.
    static auto* const made = new FakeRuntime;
    static std::array<AnyKernel, kOpCount> kernels;
    for (std::size_t i = 0; i < kOpCount; ++i) {
      kernels[i] = kernel_table().get(static_cast<Op>(i), DeviceType::kCPU);
    }
    static const cuda::Module module{
        .runtime = made, .kernels = kernels.data(), .kernels_abi = kernels_abi()};
    cuda::use_module(module);
    return *made;
  }();
  return runtime;
}

}  // namespace dl::test
