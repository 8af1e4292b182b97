// Random numbers on plain memory, as in core/kernels/cpu/random/philox.h.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "core/kernels/cuda/runtime/fault.h"
#include "core/random/philox.h"
#include "core/tensor/dtype.h"

namespace dl::kernels::cuda {

void philox_uniform_launch(DType dtype, void* out, std::int64_t count, double low, double high,
                           const random::PhiloxSeed& seed, cudaStream_t stream);
void philox_normal_launch(DType dtype, void* out, std::int64_t count, double mean, double std,
                          const random::PhiloxSeed& seed, cudaStream_t stream);
void philox_dropout_launch(DType dtype, const void* in, void* out, std::int64_t count, double p,
                           const random::PhiloxSeed& seed, cudaStream_t stream);
// int64, int32, uint8, f32 or f64.
void philox_randint_launch(DType dtype, void* out, std::int64_t count, std::int64_t low,
                           std::uint64_t range, const random::PhiloxSeed& seed,
                           cudaStream_t stream);
// f32 or f64.
void philox_bernoulli_launch(DType dtype, const void* probabilities, void* out, std::int64_t count,
                             const random::PhiloxSeed& seed, dl::cuda::FaultPlace fault,
                             cudaStream_t stream);

// A random key for each of the numbers 0, 1, ..., which a sort by all bits of the keys permutes.
void permutation_keys_launch(std::uint64_t* keys, std::int64_t* numbers, std::int64_t count,
                             const random::PhiloxSeed& seed, cudaStream_t stream);

}  // namespace dl::kernels::cuda
