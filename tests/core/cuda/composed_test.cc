// The cases of tests/core/ops/composed_cases.h on a GPU.
#include "tests/core/ops/composed_cases.h"

#include <string_view>

#include "tests/core/cuda/on_device.h"

namespace dl::testing {
namespace {

class CudaComposed : public OnDevice {};

TEST_F(CudaComposed, AgreeWithPyTorch) {
  const parity::Arrays arrays("composed");
  for (const ComposedCase& c : composed_cases()) {
    for (const DType dtype : {DType::kF64, DType::kF32}) {
      for (const bool dense : {true, false}) {
        const std::string_view name = c.name;
        if (name == "unique rows" || name == "unique columns") continue;  // on CPUs only
        EXPECT_NO_THROW(check_composed(c, arrays, dtype, dense, kGPU)) << name;
      }
    }
  }
}

}  // namespace
}  // namespace dl::testing
