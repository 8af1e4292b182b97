#include "tests/core/ops/dtype_sweep.h"
#include "tests/core/cuda/on_device.h"

namespace dl::testing {
namespace {

class CudaEveryDType : public OnDevice {};

TEST_F(CudaEveryDType, PairsOfTensors) {
  sweep_pairs_of_tensors(kGPU);
}
TEST_F(CudaEveryDType, TensorsAndNumbers) {
  sweep_tensors_and_numbers(kGPU);
}
TEST_F(CudaEveryDType, InPlace) {
  sweep_in_place(kGPU);
}
TEST_F(CudaEveryDType, FunctionsOfOneTensor) {
  sweep_functions_of_one_tensor(kGPU);
}
TEST_F(CudaEveryDType, Conversions) {
  sweep_conversions(kGPU);
}
TEST_F(CudaEveryDType, Reductions) {
  sweep_reductions(kGPU);
}

}  // namespace
}  // namespace dl::testing
