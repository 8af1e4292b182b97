#include "core/ops/dispatch/dispatch.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "core/device/cuda/cuda.h"
#include "core/device/cuda/module/module.h"
#include "core/tensor/factories.h"
#include "tests/core/support.h"

namespace dl {
namespace {

TEST(Dispatch, EverySlotIsFilled) {
  for (std::size_t op = 0; op < kOpCount; ++op) {
    for (std::size_t device = 0; device < kDeviceTypeCount; ++device) {
      EXPECT_NE(kernel_table().get(static_cast<Op>(op), static_cast<DeviceType>(device)), nullptr)
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
  for (const UnaryFacts& row : kUnaryFacts) EXPECT_TRUE(names.insert(row.name).second) << row.name;
  // The forms of one operation, with numbers and with tensors, share a name.
  const auto has_two_forms = [](std::string_view name) { return name == "pow" || name == "clamp"; };
  for (const BinaryFacts& row : kBinaryFacts) {
    EXPECT_TRUE(names.insert(row.name).second || has_two_forms(row.name)) << row.name;
  }
  for (const TernaryFacts& row : kTernaryFacts) {
    EXPECT_TRUE(names.insert(row.name).second || has_two_forms(row.name)) << row.name;
  }
  for (const ReductionFacts& row : kReductionFacts) {
    // The forms of norm share a name.
    EXPECT_TRUE(names.insert(row.name).second || row.name == "norm") << row.name;
  }
  for (const ExtremeFacts& row : kExtremeFacts) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_TRUE(names.insert(row.arg_name).second) << row.arg_name;
  }
}

TEST(Dispatch, ADeviceThatIsNotThereRefusesByTheOperationsName) {
  if (cuda::is_available()) GTEST_SKIP() << "there is a CUDA device here";
  const Tensor x = zeros({2});
  try {
    call<Op::kUnary>(Device{DeviceType::kCUDA, 0}, UnaryFn::kRelu, x, Parameters{}, x);
    ADD_FAILURE() << "relu ran on a device that is not there";
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()),
              "relu: a tensor is on a CUDA device: " + cuda::unavailable_reason());
  }
}

}  // namespace
}  // namespace dl
