#include "nn/module/init.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/autograd/grad_mode.h"
#include "core/base/error.h"
#include "core/random/distributions.h"
#include "core/random/tensor_random.h"

namespace dl::nn::init {
namespace {

thread_local bool is_off = false;

// Calls fill(span) on `memory`, which has the tensor's shape, and copies it into the tensor.
template <typename Fill>
Tensor& fill_through(Tensor& tensor, const Tensor& memory, std::string_view op, const Fill& fill) {
  if (is_off) return tensor;
  const auto count = static_cast<std::size_t>(memory.numel());
  visit_floating(tensor.dtype(), op,
                 [&]<typename T>() { fill(std::span(memory.data<T>(), count)); });
  if (memory.is_same(tensor)) {
    tensor.bump_version();
  } else {
    tensor.copy_(memory);
  }
  return tensor;
}

void check_filled(const Tensor& tensor, std::string_view op) {
  DL_CHECK(tensor.defined(), kInvalidArgument, "{}: the tensor is undefined", op);
}

// Calls fill(span) on the tensor's elements in memory order, in which PyTorch draws them.
template <typename Fill>
Tensor& fill_random(Tensor& tensor, std::string_view op, const Fill& fill) {
  check_filled(tensor, op);
  const NoGradGuard no_grad;
  return fill_through(tensor, dl::detail::draw_memory(tensor), op, fill);
}

// Numbers of N(mean, std^2) as Tensor.normal_ draws them: in blocks for row-major tensors.
template <typename T>
void draw_normal(std::span<T> out, double mean, double std, bool blocks, Generator& generator) {
  if (blocks) return random::fill_normal(out, mean, std, generator);
  random::fill_normal_pairs(out, mean, std, generator);
}

std::string shape_text(const Tensor& tensor) {
  return tensor.defined() ? tensor.sizes().str() : "none";
}

// Draws all numbers, and draws again until every element has had one inside the bounds. The first
// time it draws in the tensor's layout, later in that of a dense tensor.
struct ByBlocks {
  bool first = true;
  bool others = true;
};
template <typename T>
void draw_until_inside(std::span<T> out, double mean, double std, double low, double high,
                       ByBlocks blocks, Generator& generator) {
  using Math = OpMath<T>;
  const Math least{T(static_cast<Math>(low))};
  const Math most{T(static_cast<Math>(high))};
  const auto is_outside = [&](T x) { return Math{x} < least || Math{x} > most; };
  draw_normal(out, mean, std, blocks.first, generator);
  std::vector<T> others(out.size());
  while (std::ranges::any_of(out, is_outside)) {
    draw_normal(std::span(others), mean, std, blocks.others, generator);
    for (std::size_t i = 0; i < out.size(); ++i) {
      if (is_outside(out[i])) out[i] = others[i];
    }
  }
}

// Rejection sampling: draws uniformly between the bounds, and accepts a number with probability
// density / largest density.
template <typename T>
void draw_below_density(std::span<T> out, double mean, double std, double low, double high,
                        Generator& generator) {
  const double mode = std::max(low, std::min(mean, high));
  const double from_mean = (mode - mean) / std;
  using Math = OpMath<T>;
  const auto log_peak = static_cast<Math>(-0.5 * from_mean * from_mean);
  // PyTorch computes with tensors of this dtype, so each intermediate result is rounded.
  const auto rounded = [](Math x) { return Math{T(x)}; };
  std::vector<T> candidates(out.size());
  std::vector<T> levels(out.size());
  std::vector<bool> pending(out.size(), true);
  while (std::ranges::find(pending, true) != pending.end()) {
    random::fill_uniform(std::span(candidates), low, high, generator);
    random::fill_uniform(std::span(levels), 0, 1, generator);
    for (std::size_t i = 0; i < out.size(); ++i) {
      if (!pending[i]) continue;
      out[i] = candidates[i];
      const Math from = rounded(Math{candidates[i]} - static_cast<Math>(mean));
      const Math distance = rounded(from / static_cast<Math>(std));
      const Math square = rounded(rounded(distance * distance) * Math(-0.5));
      pending[i] = rounded(std::log(Math{levels[i]})) > rounded(square - log_peak);
    }
  }
}

// Makes the rows of a row-major matrix orthonormal, or its columns if they are fewer, and
// multiplies by gain. Uses the Gram-Schmidt process twice, in float64: the Q of a QR decomposition
// whose R has a positive diagonal.
template <typename T>
void make_orthogonal(std::span<T> matrix, std::size_t rows, double gain) {
  const std::size_t columns = matrix.size() / rows;
  const std::size_t vectors = std::min(rows, columns);
  const std::size_t length = std::max(rows, columns);
  const auto at = [&](std::size_t v, std::size_t i) -> T& {
    return matrix[rows < columns ? v * columns + i : i * columns + v];
  };
  std::vector<double> q(vectors * length);
  for (std::size_t v = 0; v < vectors; ++v) {
    double* const x = q.data() + v * length;
    for (std::size_t i = 0; i < length; ++i) x[i] = static_cast<double>(at(v, i));
    for (std::size_t before = 0; before < 2 * v; ++before) {
      const double* const y = q.data() + before % v * length;
      const double share = std::inner_product(x, x + length, y, 0.0);
      for (std::size_t i = 0; i < length; ++i) x[i] -= share * y[i];
    }
    const double size = std::sqrt(std::inner_product(x, x + length, x, 0.0));
    for (std::size_t i = 0; i < length; ++i) x[i] /= size;
    for (std::size_t i = 0; i < length; ++i) at(v, i) = static_cast<T>(x[i] * gain);
  }
}

double kaiming_std(const Tensor& weight, const KaimingOptions& options) {
  const Fans fans = fans_of(weight);
  const double fan = static_cast<double>(options.mode == FanMode::kFanIn ? fans.in : fans.out);
  return calculate_gain(options.nonlinearity, options.a) / std::sqrt(fan);
}

double xavier_std(const Tensor& weight, const XavierOptions& options) {
  const Fans fans = fans_of(weight);
  return options.gain * std::sqrt(2.0 / static_cast<double>(fans.in + fans.out));
}

}  // namespace

NoInitGuard::NoInitGuard() noexcept : was_off_(std::exchange(is_off, true)) {}

NoInitGuard::~NoInitGuard() {
  is_off = was_off_;
}

Fans fans_of(const Tensor& weight) {
  DL_CHECK(weight.defined() && weight.dim() >= 2, kShape,
           "nn::init: fan in and fan out need a weight of at least 2 dimensions, got {}",
           weight.defined() ? weight.sizes().str() : "an undefined tensor");
  std::int64_t field = 1;
  for (std::int64_t d = 2; d < weight.dim(); ++d) field *= weight.size(d);
  return {.in = weight.size(1) * field, .out = weight.size(0) * field};
}

Tensor& uniform_(Tensor& tensor, double low, double high, Generator& generator) {
  check_filled(tensor, "uniform_");
  if (is_off) return tensor;
  const NoGradGuard no_grad;
  return tensor.uniform_(low, high, generator);
}

Tensor& normal_(Tensor& tensor, double mean, double std, Generator& generator) {
  check_filled(tensor, "normal_");
  if (is_off) return tensor;
  const NoGradGuard no_grad;
  return tensor.normal_(mean, std, generator);
}

Tensor& constant_(Tensor& tensor, double value) {
  if (is_off) return tensor;
  NoGradGuard no_grad;
  return tensor.fill_(value);
}

Tensor& zeros_(Tensor& tensor) {
  return constant_(tensor, 0);
}

Tensor& ones_(Tensor& tensor) {
  return constant_(tensor, 1);
}

Tensor& xavier_uniform_(Tensor& weight, XavierOptions options, Generator& generator) {
  const double bound = std::numbers::sqrt3 * xavier_std(weight, options);
  return uniform_(weight, -bound, bound, generator);
}

Tensor& xavier_normal_(Tensor& weight, XavierOptions options, Generator& generator) {
  return normal_(weight, 0, xavier_std(weight, options), generator);
}

Tensor& kaiming_uniform_(Tensor& weight, KaimingOptions options, Generator& generator) {
  if (weight.defined() && weight.numel() == 0) return weight;
  // The order of these operations determines the bound's last bit, and so the weights' bits.
  const double bound = std::numbers::sqrt3 * kaiming_std(weight, options);
  return uniform_(weight, -bound, bound, generator);
}

Tensor& kaiming_normal_(Tensor& weight, KaimingOptions options, Generator& generator) {
  if (weight.defined() && weight.numel() == 0) return weight;
  return normal_(weight, 0, kaiming_std(weight, options), generator);
}

double calculate_gain(Nonlinearity nonlinearity, double negative_slope) {
  switch (nonlinearity) {
    case Nonlinearity::kTanh:
      return 5.0 / 3;
    case Nonlinearity::kRelu:
      return std::sqrt(2.0);
    case Nonlinearity::kLeakyRelu:
      return std::sqrt(2.0 / (1 + negative_slope * negative_slope));
    case Nonlinearity::kSelu:
      return 3.0 / 4;
    default:
      return 1;
  }
}

Tensor& trunc_normal_(Tensor& tensor, double mean, double std, double low, double high,
                      Generator& generator) {
  DL_CHECK(low < high && std > 0, kInvalidArgument,
           "trunc_normal_: std is {} and the bounds are {} and {}, wanted std above 0 and the "
           "smaller bound first",
           std, low, high);
  const auto share_below = [&](double x) {
    return (1 + std::erf((x - mean) / std / std::numbers::sqrt2)) / 2;
  };
  const bool is_wide = share_below(high) - share_below(low) > 0.3;
  check_filled(tensor, "trunc_normal_");
  const ByBlocks blocks{.first = dl::detail::draws_blocks(tensor),
                        .others = dl::detail::draws_blocks(dl::detail::draw_memory(tensor))};
  return fill_random(tensor, "trunc_normal_", [&](auto out) {
    if (is_wide) {
      draw_until_inside(out, mean, std, low, high, blocks, generator);
    } else {
      draw_below_density(out, mean, std, low, high, generator);
    }
  });
}

Tensor& eye_(Tensor& tensor) {
  DL_CHECK(tensor.defined() && tensor.dim() == 2, kShape,
           "eye_: the tensor has shape {}, wanted [rows, columns]", shape_text(tensor));
  if (is_off) return tensor;
  const NoGradGuard no_grad;
  zeros_(tensor);
  for (std::int64_t i = 0; i < std::min(tensor.size(0), tensor.size(1)); ++i) {
    tensor.detach().select(0, i).select(0, i).fill_(1);
  }
  return tensor;
}

Tensor& dirac_(Tensor& tensor, std::int64_t groups) {
  DL_CHECK(tensor.defined() && tensor.dim() >= 3 && tensor.dim() <= 5, kShape,
           "dirac_: the tensor has shape {}, wanted [out, in, kernel...] of 3 to 5 dimensions",
           shape_text(tensor));
  DL_CHECK(groups > 0 && tensor.size(0) % groups == 0, kInvalidArgument,
           "dirac_: the tensor has {} output channels, wanted a multiple of groups = {}",
           tensor.size(0), groups);
  if (is_off) return tensor;
  const NoGradGuard no_grad;
  zeros_(tensor);
  const std::int64_t of_group = tensor.size(0) / groups;
  for (std::int64_t channel = 0; channel < tensor.size(0); ++channel) {
    if (channel % of_group >= tensor.size(1)) continue;
    Tensor place = tensor.detach().select(0, channel).select(0, channel % of_group);
    while (place.dim() > 0) place = place.select(0, place.size(0) / 2);
    place.fill_(1);
  }
  return tensor;
}

Tensor& orthogonal_(Tensor& tensor, double gain, Generator& generator) {
  DL_CHECK(tensor.defined() && tensor.dim() >= 2, kShape,
           "orthogonal_: the tensor has shape {}, wanted at least two dimensions",
           shape_text(tensor));
  if (tensor.numel() == 0) return tensor;
  const auto rows = static_cast<std::size_t>(tensor.size(0));
  const NoGradGuard no_grad;
  // PyTorch draws a row-major matrix and copies it into the tensor.
  const Tensor memory =
      tensor.is_contiguous() ? tensor : empty_like(tensor, MemoryFormat::kContiguous);
  return fill_through(tensor, memory, "orthogonal_", [&]<typename T>(std::span<T> out) {
    if constexpr (kIsReduced<T>) {
      refuse_dtype("orthogonal_", kDTypeOf<T>, "float32 or float64");
    } else {
      random::fill_normal(out, 0, 1, generator);
      make_orthogonal(out, rows, gain);
    }
  });
}

Tensor& sparse_(Tensor& tensor, double sparsity, double std, Generator& generator) {
  DL_CHECK(tensor.defined() && tensor.dim() == 2, kShape,
           "sparse_: the tensor has shape {}, wanted [rows, columns]", shape_text(tensor));
  DL_CHECK(sparsity >= 0 && sparsity <= 1, kInvalidArgument,
           "sparse_: sparsity is {}, wanted a share, 0 to 1", sparsity);
  const auto rows = static_cast<std::size_t>(tensor.size(0));
  const auto columns = static_cast<std::size_t>(tensor.size(1));
  const auto zeros = static_cast<std::size_t>(std::ceil(sparsity * static_cast<double>(rows)));
  const NoGradGuard no_grad;
  const Tensor memory = dl::detail::draw_memory(tensor);
  const auto row_step = static_cast<std::size_t>(memory.stride(0));
  const auto column_step = static_cast<std::size_t>(memory.stride(1));
  const bool blocks = dl::detail::draws_blocks(tensor);
  return fill_through(tensor, memory, "sparse_", [&](auto out) {
    draw_normal(out, 0, std, blocks, generator);
    std::vector<std::int64_t> order(rows);
    for (std::size_t c = 0; c < columns; ++c) {
      random::fill_randperm(order, default_generator());
      for (std::size_t i = 0; i < zeros; ++i) {
        auto& element = out[static_cast<std::size_t>(order[i]) * row_step + c * column_step];
        element = std::remove_reference_t<decltype(element)>(0.0F);
      }
    }
  });
}

void reset_weight_and_bias(Tensor& weight, Tensor& bias) {
  if (weight.numel() > 0) kaiming_uniform_(weight, {.a = std::sqrt(5.0)});
  if (!bias.defined() || bias.numel() == 0) return;
  const auto fan = static_cast<double>(fans_of(weight).in);
  const double bound = fan > 0 ? 1 / std::sqrt(fan) : 0;
  uniform_(bias, -bound, bound);
}

}  // namespace dl::nn::init
