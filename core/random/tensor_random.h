// Random tensors, with the names and the numbers of torch's functions: rand, randn, randint,
// randperm, bernoulli, multinomial.
//
// The default generator is default_generator(), which manual_seed() seeds. On CUDA devices all of
// them draw from the generator's Philox stream: a seed gives the same numbers on every GPU and in
// every run, but not those of the CPU or of PyTorch. Thread-safety: that of Generator.
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
// A permutation of 0 ... n - 1, int64, on options.device. Throws kDType for another dtype.
Tensor randperm(std::int64_t n, Generator& generator = default_generator());
Tensor randperm(std::int64_t n, const TensorOptions& options,
                Generator& generator = default_generator());
// Each element is 1 with the probability in the same element of `probabilities` (float32 or
// float64), else 0. Throws kInvalidArgument with the first element outside [0, 1]; for a tensor on
// a GPU, the next wait throws it.
Tensor bernoulli(const Tensor& probabilities, Generator& generator = default_generator());

// `count` indices for each row of weights, with probabilities proportional to the row: int64
// [count] or [rows, count].
//   weights  [n] or [rows, n] floating; finite, at least 0, not all 0
// With replacement, two or more indices a row equal PyTorch's. One index, or indices without
// replacement, equal those of PyTorch's own exponential_() kernel, but its wheels use MKL instead.
// Throws kInvalidArgument for wrong weights, also if fewer than `count` are above 0 without
// replacement; for weights on a GPU the host waits to know.
Tensor multinomial(const Tensor& weights, std::int64_t count, MultinomialOptions options = {},
                   Generator& generator = default_generator());

namespace detail {
// A dense tensor of the same shape and dtype into which to draw a tensor's random numbers. Its
// elements are in the order of the tensor's memory, in which PyTorch draws. Returns the tensor
// itself if it is dense; else the caller copies the numbers into it.
Tensor draw_memory(const Tensor& tensor);
// True if PyTorch draws this tensor's normal numbers in blocks of 16 (fill_normal), not in pairs.
bool draws_blocks(const Tensor& tensor);

// core/ops: from the Philox stream, on any device.
Tensor philox_rand(const Shape& shape, TensorOptions options, Generator& generator);
Tensor philox_randn(const Shape& shape, TensorOptions options, Generator& generator);
// The arguments are checked by randint().
void philox_fill_randint(const Tensor& out, std::int64_t low, std::int64_t high,
                         Generator& generator);
Tensor philox_randperm(std::int64_t n, Device device, Generator& generator);
Tensor philox_bernoulli(const Tensor& probabilities, Generator& generator);
// Throws what multinomial() throws for contiguous float32 or float64 weights on the CPU.
void check_multinomial(const Tensor& weights, std::int64_t count, bool replacement);
// Draws by float32 or float64 weights. multinomial() has checked the other arguments.
Tensor philox_multinomial(const Tensor& weights, std::int64_t count, MultinomialOptions options,
                          Generator& generator);
// Sets each element to zero with probability p and divides the others by 1 - p.
//   input   floating, any strides
// Returns a row-major tensor of the input's shape and dtype. Takes one word of the stream for each
// element, of any dtype. Backward draws the same numbers again, so no mask is kept. Throws kDType,
// and kInvalidArgument unless p is in [0, 1).
Tensor philox_dropout(const Tensor& input, double p, Generator& generator = default_generator());
// The next `words` words of the generator's stream, for a kernel on `device`.
random::PhiloxSeed reserve_words(Generator& generator, Device device, std::uint64_t words);
}  // namespace detail

}  // namespace dl
