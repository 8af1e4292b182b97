// A network whose numbers have diverged shows it: no kernel makes a number of NaN.
#include "core/device/parallel.h"
#include "core/ops/norm/norm.h"
#include "tests/core/ops/nan_cases.h"

namespace dl::testing {
namespace {

class NaNOf : public ::testing::TestWithParam<DType> {
 protected:
  // The cases are so small that on a busy machine threads would only wait for each other.
  NaNOf() { set_num_threads(1); }
  ~NaNOf() override { set_num_threads(before_); }

 private:
  int before_ = num_threads();
};
INSTANTIATE_TEST_SUITE_P(DTypes, NaNOf,
                         ::testing::Values(DType::kF32, DType::kF64, DType::kF16, DType::kBF16),
                         [](const auto& p) { return std::string(name_of(p.param)); });

TEST_P(NaNOf, StaysThroughEveryPathOfTheCPU) {
  for (const NanCase& c : nan_cases()) {
    for (const MemoryFormat format : {MemoryFormat::kContiguous, MemoryFormat::kChannelsLast}) {
      expect_nan_stays(c, GetParam(), {}, format, NanPlaces::kTheDefinitions);
    }
  }
}

// The rows and groups that hold a NaN become NaN as a whole, the others stay numbers.
TEST_P(NaNOf, StaysInNormsOfRows) {
  for (const std::int64_t width : {4, 9, 70, 5000}) {
    Tensor x = full({2, width}, 2.0, {.dtype = GetParam()});
    x.select(1, 0).fill_(1);
    x[1][width / 2] = std::nan("");
    const Tensor norms[] = {layer_norm(x, {width}, {}, {}, 1e-5), rms_norm(x, {width}, {}, 1e-5),
                            group_norm(x.view({2, 1, width}), 1, {}, {}, 1e-5).view({2, width})};
    for (const Tensor& y : norms) {
      EXPECT_EQ(y[0].isnan().sum().item<std::int64_t>(), 0) << width;
      EXPECT_EQ(y[1].isnan().sum().item<std::int64_t>(), width) << width;
    }
  }
}

}  // namespace
}  // namespace dl::testing
