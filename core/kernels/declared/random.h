// Philox random numbers (core/random/philox.h). A seed gives the same uniform numbers and dropout
// on all devices, bit for bit, and the same normal numbers up to the rounding of log, sin and cos.
// All tensors are contiguous and floating; f16 and bf16 are drawn in f32 and rounded.
#pragma once

#include <cstdint>

#include "core/kernels/kernel.h"

namespace dl::random {
struct PhiloxSeed;
}

namespace dl::kernels {

// Uniform in [low, high).
DL_KERNEL(void, philox_uniform,
          (const Tensor& out, double low, double high, const random::PhiloxSeed& seed))
// N(mean, std^2).
DL_KERNEL(void, philox_normal,
          (const Tensor& out, double mean, double std, const random::PhiloxSeed& seed))
// out = input / (1 - p) with probability 1 - p, else 0; p < 1. With the same seed it maps the
// gradient of the output to that of the input. Elements of all dtypes use the same words as f32.
DL_KERNEL(void, philox_dropout,
          (const Tensor& input, double p, const random::PhiloxSeed& seed, const Tensor& out))

// The three below use two words for each element of any dtype, and also support integer tensors.
//
// Integers of [low, low + range); out is int64, int32, uint8, f32 or f64, and its dtype can
// represent them.
DL_KERNEL(void, philox_randint,
          (const Tensor& out, std::int64_t low, std::uint64_t range,
           const random::PhiloxSeed& seed))
// out[i] = 1 with probability probabilities[i], else 0; f32 or f64. Throws kInvalidArgument with
// the first invalid probability; an asynchronous device reports it when a thread waits for the
// device.
DL_KERNEL(void, philox_bernoulli,
          (const Tensor& probabilities, const random::PhiloxSeed& seed, const Tensor& out))
// A permutation of 0 ... out.numel() - 1 (int64): each number gets 64 random bits as its key, and
// they are sorted by key, then by number.
DL_KERNEL(void, philox_randperm, (const Tensor& out, const random::PhiloxSeed& seed))

}  // namespace dl::kernels
