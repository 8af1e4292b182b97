#include "core/random/tensor_random.h"

#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/random/distributions.h"
#include "core/tape/recorder.h"

namespace dl {
namespace {

template <typename T>
std::span<T> elements(const Tensor& tensor) {
  return {tensor.data<T>(), static_cast<std::size_t>(tensor.numel())};
}

TensorOptions like(const Tensor& tensor) {
  return {.dtype = tensor.dtype(), .device = tensor.device()};
}

// fill(span) fills a floating tensor.
template <typename Fill>
void fill_floating(const Tensor& tensor, const char* op, const Fill& fill) {
  const Tensor memory = detail::draw_memory(tensor);
  visit_floating(tensor.dtype(), op, [&]<typename T>() { fill(elements<T>(memory)); });
  if (!memory.is_same(tensor)) Tensor(tensor).copy_(memory);
}

void fill_uniform(const Tensor& tensor, Generator& generator) {
  fill_floating(tensor, "rand", [&](auto out) { random::fill_uniform(out, 0.0, 1.0, generator); });
}

void fill_normal(const Tensor& tensor, Generator& generator) {
  const bool blocks = detail::draws_blocks(tensor);
  fill_floating(tensor, "randn", [&](auto out) {
    if (blocks) {
      random::fill_normal(out, 0.0, 1.0, generator);
    } else {
      random::fill_normal_pairs(out, 0.0, 1.0, generator);
    }
  });
}

// fill(tensor, generator), on new memory.
template <typename Fill>
Tensor filled(const Shape& shape, TensorOptions options, Generator& generator, std::string_view op,
              const Fill& fill) {
  const bool requires_grad = std::exchange(options.requires_grad, false);
  Tensor result = detail::make_empty(op, shape, options);
  fill(result, generator);
  if (requires_grad) result.requires_grad_();
  return result;
}

// f(row, its weights) for each row of contiguous float32 or float64 weights on the CPU.
template <typename F>
void for_each_row(const Tensor& weights, const F& f) {
  visit_floating(weights.dtype(), "multinomial", [&]<typename T>() {
    if constexpr (!kIsReduced<T>) {
      const std::span<const T> all = elements<T>(weights);
      const auto width = static_cast<std::size_t>(weights.size(-1));
      const std::size_t rows = weights.dim() == 2 ? static_cast<std::size_t>(weights.size(0)) : 1;
      for (std::size_t row = 0; row < rows; ++row) f(row, all.subspan(row * width, width));
    }
  });
}

}  // namespace

Tensor detail::draw_memory(const Tensor& tensor) {
  const TensorImpl& impl = *tensor.impl();
  // A deferred tensor stays deferred: the numbers are copied into it.
  if (impl.contiguous && impl.is_materialized()) return tensor;
  const Strides order = dense_strides(impl.shape, {&impl.strides, 1});
  if (impl.is_materialized() && are_same_addresses(impl.shape, order, impl.strides)) return tensor;
  return as_strided(empty(impl.shape, like(tensor)), impl.shape, order, 0);
}

bool detail::draws_blocks(const Tensor& tensor) {
  return tensor.is_contiguous();
}

Tensor rand(const Shape& shape, TensorOptions options, Generator& generator) {
  if (options.device.type != DeviceType::kCPU) {
    return detail::philox_rand(shape, options, generator);
  }
  return filled(shape, options, generator, "rand", fill_uniform);
}

Tensor rand_like(const Tensor& tensor, Generator& generator) {
  if (tensor.device().type != DeviceType::kCPU)
    return rand(tensor.sizes(), like(tensor), generator);
  Tensor result = empty_like(tensor);
  fill_uniform(result, generator);
  return result;
}

Tensor randn(const Shape& shape, TensorOptions options, Generator& generator) {
  if (options.device.type != DeviceType::kCPU) {
    return detail::philox_randn(shape, options, generator);
  }
  return filled(shape, options, generator, "randn", fill_normal);
}

Tensor randn_like(const Tensor& tensor, Generator& generator) {
  if (tensor.device().type != DeviceType::kCPU) {
    return randn(tensor.sizes(), like(tensor), generator);
  }
  Tensor result = empty_like(tensor);
  fill_normal(result, generator);
  return result;
}

Tensor randint(std::int64_t low, std::int64_t high, const Shape& shape, TensorOptions options,
               Generator& generator) {
  options.dtype = options.dtype.value_or(DType::kI64);
  const bool here = options.device.type == DeviceType::kCPU;
  Tensor result = detail::make_empty("randint", shape, options);
  const auto fill = [&]<typename T>() {
    const std::span<T> out = here ? elements<T>(result) : std::span<T>();  // empty: checks only
    random::fill_randint(out, low, high, generator);
  };
  switch (result.dtype()) {
    case DType::kI64:
      fill.template operator()<std::int64_t>();
      break;
    case DType::kI32:
      fill.template operator()<std::int32_t>();
      break;
    case DType::kU8:
      fill.template operator()<std::uint8_t>();
      break;
    case DType::kF32:
      fill.template operator()<float>();
      break;
    case DType::kF64:
      fill.template operator()<double>();
      break;
    default:
      refuse_dtype("randint", result.dtype(), "int64, int32, uint8, float32 or float64");
  }
  if (!here) detail::philox_fill_randint(result, low, high, generator);
  return result;
}

Tensor randint(std::int64_t high, const Shape& shape, TensorOptions options, Generator& generator) {
  return randint(0, high, shape, options, generator);
}

Tensor randperm(std::int64_t n, Generator& generator) {
  return randperm(n, TensorOptions(), generator);
}

Tensor randperm(std::int64_t n, const TensorOptions& options, Generator& generator) {
  DL_CHECK(n >= 0, kInvalidArgument, "randperm: got n = {}, wanted at least 0", n);
  const DType dtype = options.dtype.value_or(DType::kI64);
  if (dtype != DType::kI64) refuse_dtype("randperm", dtype, "int64");
  if (options.device.type != DeviceType::kCPU) {
    return detail::philox_randperm(n, options.device, generator);
  }
  Tensor result = empty({n}, {.dtype = DType::kI64});
  random::fill_randperm(elements<std::int64_t>(result), generator);
  return result;
}

namespace {

template <typename T>
void draw_flags(const Tensor& p, Generator* generator, const Tensor& result) {
  random::fill_bernoulli(elements<T>(result), std::span<const T>(elements<T>(p)), *generator);
}

}  // namespace

Tensor bernoulli(const Tensor& probabilities, Generator& generator) {
  if (probabilities.device().type != DeviceType::kCPU) {
    return detail::philox_bernoulli(probabilities, generator);
  }
  const Tensor p = probabilities.contiguous();
  Tensor result = empty(p.sizes(), like(p));
  const auto fill = [&]<typename T>() {
    tape::run("bernoulli", 1, &draw_flags<T>, p, &generator, result);
  };
  switch (p.dtype()) {
    case DType::kF32:
      fill.template operator()<float>();
      break;
    case DType::kF64:
      fill.template operator()<double>();
      break;
    default:
      refuse_dtype("bernoulli", p.dtype(), "float32 or float64");
  }
  return result;
}

void detail::check_multinomial(const Tensor& weights, std::int64_t count, bool replacement) {
  for_each_row(weights, [&](std::size_t, const auto& of_row) {
    random::check_multinomial(of_row, count, replacement);
  });
}

Tensor multinomial(const Tensor& weights, std::int64_t count, MultinomialOptions options,
                   Generator& generator) {
  constexpr const char* kName = "multinomial";
  DL_CHECK(weights.defined(), kInvalidArgument, "{}: the weights are an undefined tensor", kName);
  if (!is_floating(weights.dtype())) refuse_dtype(kName, weights.dtype(), "a floating dtype");
  DL_CHECK(weights.dim() == 1 || weights.dim() == 2, kShape,
           "{}: the weights have shape {}, wanted [n] or [rows, n]", kName, weights.sizes().str());
  DL_CHECK(count > 0, kInvalidArgument, "{}: {} numbers were asked for, wanted at least 1", kName,
           count);
  const std::int64_t width = weights.size(-1);
  DL_CHECK(options.replacement || count <= width, kInvalidArgument,
           "{}: cannot draw {} numbers without replacement from {} weights", kName, count, width);
  // float16 and bfloat16 weights are converted to float32.
  const DType dtype = weights.dtype() == DType::kF64 ? DType::kF64 : DType::kF32;
  const Tensor from = weights.detach().to(dtype).contiguous();
  if (weights.is_cuda()) return detail::philox_multinomial(from, count, options, generator);
  detail::check_multinomial(from, count, options.replacement);
  Shape shape = weights.sizes();
  shape[shape.size() - 1] = count;
  const Tensor result = empty(shape, {.dtype = DType::kI64});
  const auto drawn = static_cast<std::size_t>(count);
  for_each_row(from, [&](std::size_t row, const auto& of_row) {
    random::fill_multinomial(elements<std::int64_t>(result).subspan(row * drawn, drawn), of_row,
                             options.replacement, generator);
  });
  return result;
}

}  // namespace dl
