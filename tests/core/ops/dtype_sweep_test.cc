#include "tests/core/ops/dtype_sweep.h"

#include <gtest/gtest.h>

namespace dl::testing {
namespace {

TEST(EveryDType, PairsOfTensors) {
  sweep_pairs_of_tensors({});
}
TEST(EveryDType, TensorsAndNumbers) {
  sweep_tensors_and_numbers({});
}
TEST(EveryDType, InPlace) {
  sweep_in_place({});
}
TEST(EveryDType, FunctionsOfOneTensor) {
  sweep_functions_of_one_tensor({});
}
TEST(EveryDType, Conversions) {
  sweep_conversions({});
}
TEST(EveryDType, Reductions) {
  sweep_reductions({});
}

}  // namespace
}  // namespace dl::testing
