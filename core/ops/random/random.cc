#include <cstdint>
#include <exception>
#include <limits>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "core/autograd/grad_mode.h"
#include "core/device/cuda/cuda.h"
#include "core/device/cuda/graph.h"
#include "core/memory/cuda/caching_allocator.h"
#include "core/ops/common.h"
#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/elementwise/numeric.h"
#include "core/ops/logic/logic.h"
#include "core/ops/logic/search.h"
#include "core/ops/order/order.h"
#include "core/ops/reduce/reduce.h"
#include "core/random/distributions.h"
#include "core/random/tensor_random.h"

namespace dl {
namespace {

// The number of stream words for that many elements.
std::uint64_t words_of(std::int64_t elements, DType dtype) {
  return static_cast<std::uint64_t>(elements) * (dtype == DType::kF64 ? 2 : 1);
}

std::uint64_t two_words_of(std::int64_t elements) {
  return 2 * static_cast<std::uint64_t>(elements);
}

// What a graph draws from one generator. A launch takes as many words from it as the captured code.
class CapturedDraws final : public cuda::GraphPart {
 public:
  CapturedDraws(Generator& generator, Device device)
      : generator_(generator), launched_(memory_on(device)) {}

  random::PhiloxSeed reserve(std::uint64_t words, Device device) {
    DL_CHECK(device == launched_.device(), kInvalidArgument,
             "a captured step draws random numbers on {} and on {}; use one generator for each",
             launched_.device().str(), device.str());
    const auto* const launched = static_cast<const std::uint64_t*>(launched_.data_ptr());
    const std::uint64_t offset = words_;
    words_ += (words + 3) / 4 * 4;
    return {.offset = offset, .launched = launched};
  }
  void before_launch(const Stream& stream) override {
    const cuda::StreamGuard on_stream(stream);
    const random::PhiloxSeed at = generator_.philox(words_);
    if (std::exchange(seed_, at.seed) != at.seed) write(0, at.seed);
    write(1, at.offset);
  }
  void after_launch(const Stream&, const std::exception_ptr&) noexcept override {}

 private:
  // The graph reads it in each launch, so other graphs must not write over it.
  static Tensor memory_on(Device device) {
    const cuda::OutlivingMemory outliving;
    return empty({2}, {.dtype = DType::kI64, .device = device});
  }
  void write(std::int64_t place, std::uint64_t value) {
    as_strided(launched_, {}, {}, place).fill_(static_cast<std::int64_t>(value));
  }

  Generator& generator_;
  Tensor launched_;  // the seed, and the words drawn before the launch
  std::uint64_t words_ = 0;
  std::optional<std::uint64_t> seed_;  // as launched_ has it
};

// fill(tensor, seed), on uninitialised memory.
template <typename Fill>
Tensor drawn(const Shape& shape, TensorOptions options, Generator& generator, std::string_view op,
             const Fill& fill) {
  const bool requires_grad = std::exchange(options.requires_grad, false);
  Tensor result = detail::make_empty(op, shape, options);
  check_floating(result, op);
  fill(result,
       detail::reserve_words(generator, result.device(), words_of(result.numel(), result.dtype())));
  if (requires_grad) result.requires_grad_();
  return result;
}

struct PhiloxDropoutBackward final : ComposedNode {
  std::string_view name() const noexcept override { return "dropout"; }
  std::string grad_fn_name() const override { return "MulBackward0"; }
  void backward(BackwardContext& context) override {
    const Tensor from = context.grad_output().contiguous();
    const Tensor grad = empty_like(from);
    call<Op::kPhiloxDropout>(grad.device(), from, p, seed, grad);
    // The gradient drops the same elements as the result.
    if (auto* node = record<PhiloxDropoutBackward>(grad, from)) {
      node->p = p;
      node->seed = seed;
    }
    context.give(0, grad);
  }
  double p = 0;
  random::PhiloxSeed seed;
};

// fill(memory): draws into a tensor whose memory order is PyTorch's drawing order, on the tensor's
// device.
template <typename Fill>
Tensor& fill_with_draws(Tensor& self, std::string_view op, const Fill& fill) {
  check_defined(self, op, "the tensor");
  const bool recorded = is_recorded(self);
  check_in_place(self, recorded, op);
  check_not_expanded(self, op);
  const Tensor target = self.detach();
  const Tensor memory = detail::draw_memory(recorded ? empty_like(target) : target);
  fill(memory);
  if (!memory.is_same(target)) return self.copy_(memory);
  self.bump_version();
  return self;
}

template <typename T>
std::span<T> elements(const Tensor& memory) {
  return {memory.data<T>(), static_cast<std::size_t>(memory.numel())};
}

bool is_on_cpu(const Tensor& tensor) {
  return tensor.device().type == DeviceType::kCPU;
}

// Flags of probability p, as PyTorch draws them into memory of any dtype.
void fill_flags(const Tensor& memory, double p, Generator& generator) {
  switch (memory.dtype()) {
    case DType::kF32:
      return random::fill_bernoulli(elements<float>(memory), p, generator);
    case DType::kF64:
      return random::fill_bernoulli(elements<double>(memory), p, generator);
    case DType::kI64:
      return random::fill_bernoulli(elements<std::int64_t>(memory), p, generator);
    case DType::kU8:
      return random::fill_bernoulli(elements<std::uint8_t>(memory), p, generator);
    case DType::kBool:
      return random::fill_bernoulli(elements<bool>(memory), p, generator);
    default: {
      const Tensor flags = as_strided(empty(memory.sizes(), {.dtype = DType::kBool}),
                                      memory.sizes(), memory.strides(), 0);
      fill_flags(flags, p, generator);
      Tensor(memory).copy_(flags);
    }
  }
}

}  // namespace

Tensor& Tensor::uniform_(double low, double high, Generator& generator) {
  return fill_with_draws(*this, "uniform_", [&](const Tensor& memory) {
    visit_floating(memory.dtype(), "uniform_", [&]<typename T>() {
      const bool here = is_on_cpu(memory);
      // If the device draws, an empty span: checks only.
      random::fill_uniform(here ? elements<T>(memory) : std::span<T>(), low, high, generator);
      if (here) return;
      call<Op::kPhiloxUniform>(memory.device(), memory, low, high,
                               detail::reserve_words(generator, memory.device(),
                                                     words_of(memory.numel(), memory.dtype())));
    });
  });
}

Tensor& Tensor::normal_(double mean, double std, Generator& generator) {
  const bool blocks = defined() && detail::draws_blocks(*this);
  return fill_with_draws(*this, "normal_", [&](const Tensor& memory) {
    visit_floating(memory.dtype(), "normal_", [&]<typename T>() {
      const bool here = is_on_cpu(memory);
      const auto out = here ? elements<T>(memory) : std::span<T>();
      if (blocks) {
        random::fill_normal(out, mean, std, generator);
      } else {
        random::fill_normal_pairs(out, mean, std, generator);
      }
      if (here) return;
      call<Op::kPhiloxNormal>(memory.device(), memory, mean, std,
                              detail::reserve_words(generator, memory.device(),
                                                    words_of(memory.numel(), memory.dtype())));
    });
  });
}

Tensor& Tensor::bernoulli_(double p, Generator& generator) {
  return fill_with_draws(*this, "bernoulli_", [&](const Tensor& memory) {
    if (is_on_cpu(memory)) return fill_flags(memory, p, generator);
    random::fill_bernoulli(std::span<bool>(), p, generator);
    const Tensor all = full(memory.sizes(), p, {.device = memory.device()});
    Tensor(memory).copy_(detail::philox_bernoulli(all, generator));
  });
}

Tensor& Tensor::exponential_(double lambda, Generator& generator) {
  return fill_with_draws(*this, "exponential_", [&](const Tensor& memory) {
    visit_floating(memory.dtype(), "exponential_", [&]<typename T>() {
      const bool here = is_on_cpu(memory);
      random::fill_exponential(here ? elements<T>(memory) : std::span<T>(), lambda, generator);
      if (here) return;
      const DType wide = memory.dtype() == DType::kF64 ? DType::kF64 : DType::kF32;
      const Tensor u = detail::philox_rand(memory.sizes(),
                                           {.dtype = wide, .device = memory.device()}, generator);
      Tensor(memory).copy_(u.neg().log1p().div(-lambda));
    });
  });
}

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
  const std::uint64_t range = static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low);
  call<Op::kPhiloxRandint>(
      out.device(), out, low, range,
      detail::reserve_words(generator, out.device(), two_words_of(out.numel())));
}

Tensor philox_randperm(std::int64_t n, Device device, Generator& generator) {
  Tensor result = empty({n}, {.dtype = DType::kI64, .device = device});
  call<Op::kPhiloxRandperm>(device, result,
                            detail::reserve_words(generator, device, two_words_of(n)));
  return result;
}

Tensor philox_bernoulli(const Tensor& probabilities, Generator& generator) {
  const Tensor p = probabilities.detach().contiguous();
  Tensor result = empty_like(p);
  call<Op::kPhiloxBernoulli>(
      p.device(), p, detail::reserve_words(generator, p.device(), two_words_of(p.numel())), result);
  return result;
}

Tensor philox_multinomial(const Tensor& weights, std::int64_t count, MultinomialOptions options,
                          Generator& generator) {
  const NoGradGuard no_grad;
  const Tensor numbers = all(logical_and(ge(weights, 0), isfinite(weights)), -1);
  const Tensor above_0 = sum(gt(weights, 0), {-1});
  const Tensor usable = logical_and(numbers, ge(above_0, options.replacement ? 1 : count));
  if (!all(usable).item<bool>()) check_multinomial(weights.cpu(), count, options.replacement);
  Shape shape = weights.sizes();
  if (options.replacement && count > 1) {
    const Tensor sums = cumsum(weights.to(DType::kF64), -1);
    shape[shape.size() - 1] = count;
    const Tensor draws =
        philox_rand(shape, {.dtype = DType::kF64, .device = weights.device()}, generator);
    // To the right of equal sums: a draw of 0 takes no weight of 0.
    return searchsorted(sums / sums.narrow(-1, sums.size(-1) - 1, 1), draws, {.right = true});
  }
  // As the CPU: the largest of the weights over exponential numbers, which must not be 0.
  const Tensor draws =
      philox_rand(shape, {.dtype = weights.dtype(), .device = weights.device()}, generator);
  const Tensor exponentials = clamp(draws.neg().log1p().neg(), std::numeric_limits<float>::min());
  return topk(weights / exponentials, count, -1).second;
}

}  // namespace detail

random::PhiloxSeed detail::reserve_words(Generator& generator, Device device, std::uint64_t words) {
  if (device.type == DeviceType::kCPU || !cuda::capturing()) return generator.philox(words);
  return static_cast<CapturedDraws*>(
             cuda::note_captured(&generator,
                                 [&] { return make_ref<CapturedDraws>(generator, device); }))
      ->reserve(words, device);
}

Tensor detail::philox_dropout(const Tensor& input, double p, Generator& generator) {
  check_defined(input, "dropout", "the input");
  check_floating(input, "dropout");
  DL_CHECK(p >= 0 && p < 1, kInvalidArgument, "dropout: p is {}, wanted at least 0 and less than 1",
           p);
  const Tensor dense = input.contiguous();
  const random::PhiloxSeed seed =
      detail::reserve_words(generator, dense.device(), static_cast<std::uint64_t>(dense.numel()));
  Tensor output = empty_like(dense);
  call<Op::kPhiloxDropout>(dense.device(), dense, p, seed, output);
  if (auto* node = record<PhiloxDropoutBackward>(output, dense)) {
    node->p = p;
    node->seed = seed;
  }
  return output;
}

}  // namespace dl
