// Fills memory with random numbers, bit for bit as PyTorch does on the CPU for the same seed and
// the same sequence of calls.
//
// Each function names the PyTorch calls that give the same numbers. `out` is the memory of a
// contiguous tensor. Thread-safety: a call holds the generator's lock from its first number to its
// last. An empty span draws nothing.
//
// bernoulli_(p) with one p for all elements, and so dropout, equals PyTorch's only on some
// machines: on Intel CPUs PyTorch's MKL builds draw it from a generator of MKL. On other CPUs, and
// for a tensor of probabilities, PyTorch draws as here.
#pragma once

#include <cstdint>
#include <span>

#include "core/random/generator.h"
#include "core/tensor/half.h"

namespace dl::random {

// U[low, high): Tensor.uniform_, torch.rand. 24 random bits for a float, 53 for a double. Half
// types get rounded floats; a number that rounds to `high` becomes `low`.
// Throws kInvalidArgument unless low <= high and high - low is finite.
void fill_uniform(std::span<float> out, double low, double high, Generator& generator);
void fill_uniform(std::span<double> out, double low, double high, Generator& generator);
void fill_uniform(std::span<Half> out, double low, double high, Generator& generator);
void fill_uniform(std::span<BFloat16> out, double low, double high, Generator& generator);

// N(mean, std^2): Tensor.normal_, torch.randn. From 16 elements on by Box-Muller in blocks of 16,
// below that in pairs whose second half is kept for the next call. A tensor of a half type gets the
// rounded numbers of a float tensor. One case differs from PyTorch's draws: if such a tensor has
// more than 16 elements and their number is not a multiple of 16, PyTorch does not draw the last 16
// again. Throws kInvalidArgument unless std >= 0.
void fill_normal(std::span<float> out, double mean, double std, Generator& generator);
void fill_normal(std::span<double> out, double mean, double std, Generator& generator);
void fill_normal(std::span<Half> out, double mean, double std, Generator& generator);
void fill_normal(std::span<BFloat16> out, double mean, double std, Generator& generator);

// Draws in pairs at every size, as PyTorch does for tensors that are not row-major.
void fill_normal_pairs(std::span<float> out, double mean, double std, Generator& generator);
void fill_normal_pairs(std::span<double> out, double mean, double std, Generator& generator);
void fill_normal_pairs(std::span<Half> out, double mean, double std, Generator& generator);
void fill_normal_pairs(std::span<BFloat16> out, double mean, double std, Generator& generator);

// 1 with probability p, else 0: Tensor.bernoulli_(p). T: float, double, bool, uint8_t, int64_t.
// Throws kInvalidArgument unless p is in [0, 1].
template <typename T>
void fill_bernoulli(std::span<T> out, double p, Generator& generator);
// One probability for each element: torch.bernoulli(p). T: float, double. `out` may be `p`.
// Throws kInvalidArgument naming the first element outside [0, 1], before anything is drawn.
template <typename T>
void fill_bernoulli(std::span<T> out, std::span<const T> p, Generator& generator);

// The exponential distribution with rate `lambda`: Tensor.exponential_(lambda), as PyTorch's own
// kernel draws it. PyTorch's wheels use MKL instead. T: float, double, Half, BFloat16. Throws
// kInvalidArgument unless lambda is finite and above 0.
template <typename T>
void fill_exponential(std::span<T> out, double lambda, Generator& generator);

// Integers of [low, high): torch.randint, Tensor.random_(low, high). T: int64_t, int32_t, uint8_t,
// float, double. Throws kInvalidArgument unless low < high and T holds both ends.
template <typename T>
void fill_randint(std::span<T> out, std::int64_t low, std::int64_t high, Generator& generator);

// Integers of [0, 2^63): Tensor.random_() of an int64 tensor, with which PyTorch's RandomSampler
// makes its seed.
void fill_random(std::span<std::int64_t> out, Generator& generator);

// Indices of `weights` (float or double) with probabilities proportional to them:
// torch.multinomial. With replacement, two or more indices equal PyTorch's. One index, or indices
// without replacement, equal those of PyTorch's own exponential_() kernel, but its wheels use MKL
// instead. Throws kInvalidArgument unless weights are finite, at least 0, not all 0 and, without
// replacement, enough of them are above 0.
template <typename T>
void fill_multinomial(std::span<std::int64_t> out, std::span<const T> weights, bool replacement,
                      Generator& generator);
// Throws what fill_multinomial() would for `count` indices.
template <typename T>
void check_multinomial(std::span<const T> weights, std::int64_t count, bool replacement);

// A permutation of 0 ... out.size() - 1: torch.randperm.
void fill_randperm(std::span<std::int64_t> out, Generator& generator);

}  // namespace dl::random
