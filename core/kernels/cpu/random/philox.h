// Random numbers by counter (core/random/philox.h): what CUDA draws, drawn on the CPU. The same
// seed gives the same uniform numbers and the same dropout on both, bit by bit, and normal numbers
// up to the rounding of logarithm, sine and cosine. All tensors are contiguous and floating; f16
// and bf16 are drawn in f32 and rounded.
#pragma once

#include <cstdint>

#include "core/tensor/tensor.h"

namespace dl::random {
struct PhiloxSeed;
}

namespace dl::kernels::cpu {

// Uniform in [low, high).
void philox_uniform(const Tensor& out, double low, double high, const random::PhiloxSeed& seed);
// N(mean, std^2).
void philox_normal(const Tensor& out, double mean, double std, const random::PhiloxSeed& seed);
// out = input / (1 - p) with probability 1 - p, else 0; p < 1. With the same seed it maps the
// gradient of the output to that of the input. Elements take words as f32 does, whatever the dtype.
void philox_dropout(const Tensor& input, double p, const random::PhiloxSeed& seed,
                    const Tensor& out);

// The three below take two words an element, whatever the dtype, and their tensors are of other
// dtypes too.
//
// Integers of [low, low + range); out is int64, int32, uint8, f32 or f64 and holds them.
void philox_randint(const Tensor& out, std::int64_t low, std::uint64_t range,
                    const random::PhiloxSeed& seed);
// out = 1 with the probability at the same place, else 0; f32 or f64. Throws kInvalidArgument
// naming the first invalid probability; a device that computes later reports it when a thread waits
// for it.
void philox_bernoulli(const Tensor& probabilities, const random::PhiloxSeed& seed,
                      const Tensor& out);
// The order in which 0 ... out.numel() - 1 lie when each is given 64 random bits and they are
// sorted by these, equal ones by themselves; int64.
void philox_randperm(const Tensor& out, const random::PhiloxSeed& seed);

}  // namespace dl::kernels::cpu
