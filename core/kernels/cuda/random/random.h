// The kernels of core/kernels/cpu/random/philox.h, with the same numbers. An invalid probability is
// reported as a fault (fault.h) and gives NaN.
#pragma once

#include "core/random/philox.h"
#include "core/tensor/tensor.h"

namespace dl::kernels::cuda {

void philox_uniform(const Tensor& out, double low, double high, const random::PhiloxSeed& seed);
void philox_normal(const Tensor& out, double mean, double std, const random::PhiloxSeed& seed);
void philox_dropout(const Tensor& input, double p, const random::PhiloxSeed& seed,
                    const Tensor& out);
void philox_randint(const Tensor& out, std::int64_t low, std::uint64_t range,
                    const random::PhiloxSeed& seed);
void philox_bernoulli(const Tensor& probabilities, const random::PhiloxSeed& seed,
                      const Tensor& out);
void philox_randperm(const Tensor& out, const random::PhiloxSeed& seed);

}  // namespace dl::kernels::cuda
