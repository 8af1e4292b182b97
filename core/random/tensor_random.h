// Random tensors, with the names and the numbers of torch's functions: rand, randn, randint,
// randperm, bernoulli, multinomial.
//
// Each draws from default_generator() unless it is given another; manual_seed() seeds that. On
// CUDA devices all of them draw from the generator's Philox stream: the same numbers for a seed on
// every GPU and in every run, but neither those of the CPU nor PyTorch's. Thread-safety: that of
// Generator.
#pragma once

#include <cstdint>

#include "core/random/generator.h"
#include "core/tensor/factories.h"

namespace dl {

// U[0, 1). A floating dtype, float32 by default; throws kDType for others.
Tensor rand(const Shape& shape, TensorOptions options = {},
            Generator& generator = default_generator());
Tensor rand(SizeNumber auto size, SizeNumber auto... rest) {
  return rand(detail::listed(size, rest...));
}
Tensor rand_like(const Tensor& like, Generator& generator = default_generator());
// N(0, 1). A floating dtype, float32 by default; throws kDType for others.
Tensor randn(const Shape& shape, TensorOptions options = {},
             Generator& generator = default_generator());
Tensor randn(SizeNumber auto size, SizeNumber auto... rest) {
  return randn(detail::listed(size, rest...));
}
Tensor randn_like(const Tensor& like, Generator& generator = default_generator());
// Integers of [low, high), int64 by default; also int32, uint8, float32 and float64.
Tensor randint(std::int64_t low, std::int64_t high, const Shape& shape, TensorOptions options = {},
               Generator& generator = default_generator());
// Integers of [0, high): randint(10, {2, 3}).
Tensor randint(std::int64_t high, const Shape& shape, TensorOptions options = {},
               Generator& generator = default_generator());
// A permutation of 0 ... n - 1, int64; `options` say the device. Throws kDType for another dtype.
Tensor randperm(std::int64_t n, Generator& generator = default_generator());
Tensor randperm(std::int64_t n, const TensorOptions& options,
                Generator& generator = default_generator());
// 1 with the probability that stands at the same place of `probabilities` (float32 or float64),
// else 0. Throws kInvalidArgument naming the first that is none; of a tensor on a GPU the next wait
// throws it.
Tensor bernoulli(const Tensor& probabilities, Generator& generator = default_generator());

// `count` indices of each row of weights, an index with its weight's share of the row's sum: int64
// [count] or [rows, count].
//   weights  [n] or [rows, n] floating; finite, at least 0, not all 0
// With replacement, and more than one number a row, the numbers are PyTorch's. One number, and
// numbers without replacement, follow PyTorch's own kernel for exponential_(), in whose place its
// wheels use MKL's. Throws kInvalidArgument, also for fewer weights above 0 than numbers without
// replacement. On the CPU only.
Tensor multinomial(const Tensor& weights, std::int64_t count, MultinomialOptions options = {},
                   Generator& generator = default_generator());

namespace detail {
// Memory for the random numbers of a tensor: a tensor of its shape and dtype without gaps, whose
// elements lie in the order in which PyTorch draws them, that of the tensor's memory. The tensor
// itself if it lies so; else the numbers have to be copied into it.
Tensor draw_memory(const Tensor& tensor);
// Whether PyTorch draws normal numbers of this tensor in blocks of 16 (fill_normal), not in pairs.
bool draws_blocks(const Tensor& tensor);

// core/ops: from the Philox stream, on any device.
Tensor philox_rand(const Shape& shape, TensorOptions options, Generator& generator);
Tensor philox_randn(const Shape& shape, TensorOptions options, Generator& generator);
// What randint() has checked.
void philox_fill_randint(const Tensor& out, std::int64_t low, std::int64_t high,
                         Generator& generator);
Tensor philox_randperm(std::int64_t n, Device device, Generator& generator);
Tensor philox_bernoulli(const Tensor& probabilities, Generator& generator);
}  // namespace detail

}  // namespace dl
