#include "core/ops/dispatch.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "core/tensor/factories.h"
#include "tests/core/support.h"

namespace dl {
namespace {

TEST(Dispatch, EverySlotIsFilled) {
  for (std::size_t op = 0; op < kOpCount; ++op) {
    for (std::size_t device = 0; device < kDeviceTypeCount; ++device) {
      EXPECT_NE(kernel_table().slots[op][device], nullptr)
          << info(static_cast<Op>(op)).name << " on device type " << device;
    }
  }
}

TEST(Dispatch, NamesAreUnique) {
  std::set<std::string_view> names;
  std::set<std::string_view> kernels;
  for (std::size_t op = 0; op < kOpCount; ++op) {
    EXPECT_TRUE(names.insert(info(static_cast<Op>(op)).name).second);
    EXPECT_TRUE(kernels.insert(info(static_cast<Op>(op)).kernel).second);
  }
}

TEST(Dispatch, ADeviceThatIsNotBuiltInRefusesByTheOperationsName) {
  const Tensor x = zeros({2});
  EXPECT_ERROR(call<Op::kRelu>(Device{DeviceType::kCUDA, 0}, x, x), kNotImplemented,
               "relu: a tensor is on a CUDA device, and this build has no CUDA");
}

}  // namespace
}  // namespace dl
