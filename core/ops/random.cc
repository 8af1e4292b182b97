#include "core/ops/random.h"

#include <utility>

#include "core/device/cuda/graph.h"
#include "core/ops/common.h"
#include "core/random/tensor_random.h"

namespace dl {
namespace {

// Words of the stream that as many elements take.
std::uint64_t words_of(std::int64_t elements, DType dtype) {
  return static_cast<std::uint64_t>(elements) * (dtype == DType::kF64 ? 2 : 1);
}

std::uint64_t two_words_of(std::int64_t elements) {
  return 2 * static_cast<std::uint64_t>(elements);
}

void check_draws(Device device) {
  if (device.type == DeviceType::kCPU) return;
  cuda::refuse_in_capture(
      "random numbers (dropout too) cannot be captured: every launch would draw the same");
}

// fill(tensor, seed), on uninitialised memory.
template <typename Fill>
Tensor drawn(const Shape& shape, TensorOptions options, Generator& generator, std::string_view op,
             const Fill& fill) {
  check_draws(options.device);
  const bool requires_grad = std::exchange(options.requires_grad, false);
  Tensor result = detail::make_empty(op, shape, options);
  check_floating(result, op);
  fill(result, generator.philox(words_of(result.numel(), result.dtype())));
  if (requires_grad) result.requires_grad_();
  return result;
}

struct PhiloxDropoutBackward final : Node {
  std::string_view name() const noexcept override { return "dropout"; }
  std::string grad_fn_name() const override { return "MulBackward0"; }
  void backward(BackwardContext& context) override {
    const Tensor from = context.grad_output().contiguous();
    const Tensor grad = empty_like(from);
    call<Op::kPhiloxDropout>(grad.device(), from, p, seed, grad);
    context.give(0, grad);
  }
  double p = 0;
  random::PhiloxSeed seed;
};

}  // namespace

namespace detail {

Tensor philox_rand(const Shape& shape, TensorOptions options, Generator& generator) {
  return drawn(shape, options, generator, "rand",
               [](const Tensor& out, const random::PhiloxSeed& seed) {
                 call<Op::kPhiloxUniform>(out.device(), out, 0.0, 1.0, seed);
               });
}

Tensor philox_randn(const Shape& shape, TensorOptions options, Generator& generator) {
  return drawn(shape, options, generator, "randn",
               [](const Tensor& out, const random::PhiloxSeed& seed) {
                 call<Op::kPhiloxNormal>(out.device(), out, 0.0, 1.0, seed);
               });
}

void philox_fill_randint(const Tensor& out, std::int64_t low, std::int64_t high,
                         Generator& generator) {
  check_draws(out.device());
  const std::uint64_t range = static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low);
  call<Op::kPhiloxRandint>(out.device(), out, low, range,
                           generator.philox(two_words_of(out.numel())));
}

Tensor philox_randperm(std::int64_t n, Device device, Generator& generator) {
  check_draws(device);
  Tensor result = empty({n}, {.dtype = DType::kI64, .device = device});
  call<Op::kPhiloxRandperm>(device, result, generator.philox(two_words_of(n)));
  return result;
}

Tensor philox_bernoulli(const Tensor& probabilities, Generator& generator) {
  check_draws(probabilities.device());
  const Tensor p = probabilities.detach().contiguous();
  Tensor result = empty_like(p);
  call<Op::kPhiloxBernoulli>(p.device(), p, generator.philox(two_words_of(p.numel())), result);
  return result;
}

}  // namespace detail

Tensor philox_dropout(const Tensor& input, double p, Generator& generator) {
  check_defined(input, "dropout", "the input");
  check_floating(input, "dropout");
  DL_CHECK(p >= 0 && p < 1, kInvalidArgument, "dropout: p is {}, wanted at least 0 and less than 1",
           p);
  check_draws(input.device());
  const Tensor dense = input.contiguous();
  const random::PhiloxSeed seed = generator.philox(static_cast<std::uint64_t>(dense.numel()));
  Tensor output = empty_like(dense);
  call<Op::kPhiloxDropout>(dense.device(), dense, p, seed, output);
  if (auto* node = record<PhiloxDropoutBackward>(output, dense)) {
    node->p = p;
    node->seed = seed;
  }
  return output;
}

}  // namespace dl
