// A network whose numbers have diverged shows it: no kernel makes a number of NaN.
#include "core/device/parallel.h"
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

}  // namespace
}  // namespace dl::testing
