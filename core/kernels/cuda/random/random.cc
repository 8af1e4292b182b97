// CUDA's random numbers, the same as on the CPU. An invalid probability is reported as a fault
// (fault.h) and gives NaN.
#include "core/kernels/declared/random.h"

#include "core/kernels/cuda/order/sorted_pairs.h"
#include "core/kernels/cuda/random/random_kernels.h"
#include "core/kernels/cuda/runtime/launch.h"

namespace dl::kernels::cuda {

void philox_uniform(const Tensor& out, double low, double high, const random::PhiloxSeed& seed) {
  if (out.numel() == 0) return;
  const Launch launch;
  philox_uniform_launch(out.dtype(), out.data_ptr(), out.numel(), low, high, seed, launch.stream());
  DL_CUDA_LAUNCHED("philox_uniform");
}

void philox_normal(const Tensor& out, double mean, double std, const random::PhiloxSeed& seed) {
  if (out.numel() == 0) return;
  const Launch launch;
  philox_normal_launch(out.dtype(), out.data_ptr(), out.numel(), mean, std, seed, launch.stream());
  DL_CUDA_LAUNCHED("philox_normal");
}

void philox_dropout(const Tensor& input, double p, const random::PhiloxSeed& seed,
                    const Tensor& out) {
  if (input.numel() == 0) return;
  const Launch launch;
  philox_dropout_launch(input.dtype(), input.data_ptr(), out.data_ptr(), input.numel(), p, seed,
                        launch.stream());
  DL_CUDA_LAUNCHED("philox_dropout");
}

void philox_randint(const Tensor& out, std::int64_t low, std::uint64_t range,
                    const random::PhiloxSeed& seed) {
  if (out.numel() == 0) return;
  const Launch launch;
  philox_randint_launch(out.dtype(), out.data_ptr(), out.numel(), low, range, seed,
                        launch.stream());
  DL_CUDA_LAUNCHED("philox_randint");
}

void philox_bernoulli(const Tensor& probabilities, const random::PhiloxSeed& seed,
                      const Tensor& out) {
  if (out.dtype() != DType::kF32 && out.dtype() != DType::kF64) {
    refuse_dtype("bernoulli", out.dtype(), "float32 or float64");
  }
  if (out.numel() == 0) return;
  const Launch launch;
  philox_bernoulli_launch(out.dtype(), probabilities.data_ptr(), out.data_ptr(), out.numel(), seed,
                          launch.fault(), launch.stream());
  DL_CUDA_LAUNCHED("philox_bernoulli");
}

void philox_randperm(const Tensor& out, const random::PhiloxSeed& seed) {
  if (out.numel() == 0) return;
  const Launch launch;
  const std::int64_t count = out.numel();
  const SortedPairs pairs(count, launch.stream());
  permutation_keys_launch(pairs.keys(), pairs.numbers(), count, seed, launch.stream());
  DL_CUDA_LAUNCHED("philox_randperm");
  pairs.run(64, out.data<std::int64_t>());
}

}  // namespace dl::kernels::cuda
