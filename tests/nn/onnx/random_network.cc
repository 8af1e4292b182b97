#include "tests/nn/onnx/random_network.h"

#include <fmt/core.h>

#include <utility>

#include "core/autograd/grad_mode.h"
#include "core/ops/elementwise/activation.h"
#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/elementwise/numeric.h"
#include "core/ops/index/index.h"
#include "core/ops/index/indexing.h"
#include "core/ops/linear/product.h"
#include "core/ops/logic/logic.h"
#include "core/ops/order/order.h"
#include "core/ops/reduce/reduce.h"
#include "core/ops/shape/shape.h"
#include "core/ops/softmax/softmax.h"
#include "core/random/generator.h"
#include "core/random/tensor_random.h"
#include "core/tensor/factories.h"
#include "nn/functional/functional.h"
#include "nn/layers/activation/dropout.h"
#include "nn/layers/attention.h"
#include "nn/layers/conv/conv.h"
#include "nn/layers/conv/conv_variants.h"
#include "nn/layers/linear.h"
#include "nn/layers/norm.h"
#include "nn/layers/pool/pool.h"
#include "nn/layers/pool/resample.h"

namespace dl::onnx {
namespace {

namespace F = nn::functional;

Tensor numbers(const Shape& shape) {
  return rand(shape) - 0.5;
}

}  // namespace

RandomNetwork::RandomNetwork(std::uint32_t seed) : seed_(seed) {
  const NoGradGuard no_grad;
  manual_seed(seed);
  forward(numbers({2, 3, 12, 10}));
  // Running statistics and weights of norms that are not 0 and 1.
  for (const nn::NamedTensor& each : named_buffers()) {
    if (each.tensor.dim() == 1) Tensor(each.tensor).copy_(rand(each.tensor.sizes()) + 0.5);
  }
  for (const nn::NamedTensor& each : named_parameters()) {
    if (each.tensor.dim() == 1) Tensor(each.tensor).copy_(rand(each.tensor.sizes()) + 0.25);
  }
}

template <typename Make>
nn::Module& RandomNetwork::layer(const Make& make) {
  if (next_ == layers_.size()) {
    layers_.push_back(&register_module(fmt::format("layer{}", next_), make()));
  }
  return *layers_[next_++];
}

Tensor RandomNetwork::forward(const Tensor& input) {
  random_.seed(seed_);
  next_ = 0;
  Tensor x = input;
  std::vector<Tensor> before;
  const unsigned blocks = 4 + draw(5);
  for (unsigned i = 0; i < blocks; ++i) {
    before.push_back(x);
    x = block(x);
    // Sometimes an earlier tensor of this shape comes in again.
    const Tensor& other = before[draw(static_cast<unsigned>(before.size()))];
    if (other.sizes() == x.sizes() && draw(2) == 0) x = x + other;
  }
  if (draw(2) == 0) {
    x = x.mean({2, 3});
  } else {
    x = x.flatten(1).tanh();
  }
  const std::int64_t features = x.size(1);
  return layer([&] { return nn::Linear(features, 7); })(x);
}

Tensor RandomNetwork::block(const Tensor& x) {
  switch (draw(8)) {
    case 0:
      return activated(x);
    case 1:
      return arithmetic(x);
    case 2:
      return arrangement(x);
    case 3:
      return selection(x);
    case 4:
      return reduction(x);
    case 5:
      return attention(x);
    default:
      return layers(x);
  }
}

Tensor RandomNetwork::layers(const Tensor& x) {
  const std::int64_t channels = x.size(1);
  const bool is_small = x.size(2) < 5 || x.size(3) < 5;
  switch (draw(12)) {
    case 0:
    case 1: {
      const std::int64_t groups = channels % 2 == 0 && draw(2) == 0 ? 2 : 1;
      const std::int64_t out = 2 * (2 + draw(3));
      const std::int64_t stride = is_small ? 1 : 1 + draw(2);
      const std::int64_t dilation = is_small ? 1 : 1 + draw(2);
      const bool bias = draw(2) == 0;
      return layer([&] {
        return nn::Conv2d(channels, out, {3, 1},
                          {.stride = {stride, 1},
                           .padding = {1, 0},
                           .dilation = {dilation, 1},
                           .groups = groups,
                           .bias = bias});
      })(x);
    }
    case 2:
      return layer(
          [&] { return nn::Conv2d(channels, channels, 3, {.padding = 1, .groups = channels}); })(x);
    case 3:
      return layer([&] { return nn::BatchNorm2d(channels); })(x).relu();
    case 4: {
      const std::int64_t groups = channels % 2 == 0 ? 2 : 1;
      return layer([&] { return nn::GroupNorm(groups, channels); })(x);
    }
    case 5: {
      const Shape last{x.size(3)};
      return layer([&] { return nn::LayerNorm(last); })(x);
    }
    case 6:
      return layer(
          [&] { return nn::ConvTranspose2d(channels, 4, 2, {.stride = is_small ? 2 : 1}); })(x);
    case 7: {
      const bool ceils = draw(2) == 0;
      return is_small ? x.relu()
                      : F::max_pool2d(x, 3, {.stride = 2, .padding = 1, .ceil_mode = ceils});
    }
    case 8: {
      const bool counts = draw(2) == 0;
      const bool ceils = draw(2) == 0;
      return layer([&] {
        return nn::AvgPool2d(
            3, {.stride = 2, .padding = 1, .ceil_mode = ceils, .count_include_pad = counts});
      })(x);
    }
    case 9: {
      const bool corners = draw(2) == 0;
      if (x.size(2) > 20 || draw(2) == 0)
        return layer([&] { return nn::AdaptiveAvgPool2d({3, 5}); })(x);
      return layer([&] {
        return nn::Upsample(
            {.scale_factor = 2, .mode = UpsampleMode::kBilinear, .align_corners = corners});
      })(x);
    }
    case 10: {
      if (x.size(2) > 20) return x.silu();
      return layer([&] { return nn::Upsample({.scale_factor = 2}); })(x);
    }
    default: {
      const Shape last{x.size(3)};
      return layer([&] { return nn::RMSNorm(last); })(x);
    }
  }
}

Tensor RandomNetwork::activated(const Tensor& x) {
  switch (draw(24)) {
    case 0:
      return x.silu();
    case 1:
      return F::gelu(x);
    case 2:
      return F::gelu(x, {.approximate = "tanh"});
    case 3:
      return x.hardswish();
    case 4:
      return x.hardsigmoid();
    case 5:
      return x.sigmoid();
    case 6:
      return x.tanh();
    case 7:
      return leaky_relu(x, 0.1);
    case 8:
      return elu(x, 1.2);
    case 9:
      return softplus(x, 2, 1);
    case 10:
      return x.mish();
    case 11:
      return x.selu();
    case 12:
      return celu(x, 0.7);
    case 13:
      return x.softsign() + x.relu6();
    case 14:
      return x.logsigmoid();
    case 15:
      return softshrink(x, 0.2) + hardshrink(x, 0.3);
    case 16:
      return hardtanh(x, -0.4, 0.6);
    case 17:
      return threshold(x, 0.1, -0.2);
    case 18:
      return x.tanhshrink();
    case 19:
      return softmax(x, 1);
    case 20:
      return log_softmax(x, -1) * 0.1;
    case 21:
      return (x.abs() + 0.5).log() + x.erf();
    case 22:
      return x.sin() * x.cos();
    default:
      return layer([] { return nn::Dropout(0.5); })(x);
  }
}

Tensor RandomNetwork::arithmetic(const Tensor& x) {
  switch (draw(12)) {
    case 0:
      return (x - 0.25) * 0.5 + 1.5 / (x.abs() + 2.0);
    case 1:
      return x.clamp(-0.5, 0.75);
    case 2:
      return pow(x.abs() + 0.1, 1.5).tanh();
    case 3:
      return where(x > 0.1, x * 2, x - 1);
    case 4:
      return x.masked_fill(x.lt(0.0), 0.125);
    case 5:
      return maximum(x, x.flip({3})) - minimum(x * 0.5, x);
    case 6: {
      Tensor own = x * 0.5;
      own.add_(x.sigmoid());
      own.mul_(0.75);
      return own;
    }
    case 7: {
      Tensor own = x + 1;
      own.narrow(1, 0, 1).mul_(0.5);
      own.select(3, 1).copy_(x.select(3, 0));
      return own.tanh();
    }
    case 8:
      return lerp(x, x.tanh(), 0.25);
    case 9:
      return addcmul(x, x.sigmoid(), x.tanh(), 0.5);
    case 10:
      return logical_and(x > 0.0, x < 0.5).to(DType::kF32) + x;
    default:
      return logaddexp(x, x * 0.5) + x.square().sqrt() * 0.5;
  }
}

Tensor RandomNetwork::arrangement(const Tensor& x) {
  const std::int64_t n = x.size(0);
  const std::int64_t c = x.size(1);
  switch (draw(16)) {
    case 0:
      return x.permute({0, 1, 3, 2}).contiguous() * 0.5;
    case 1:
      return x.transpose(1, 2).relu().transpose(2, 1);
    case 2:
      return cat({x, x.sigmoid()}, 1).narrow(1, 1, c);
    case 3:
      return cat({x.narrow(2, 1, x.size(2) - 1), x.narrow(2, 0, 1)}, 2);
    case 4:
      return stack({x, x.tanh(), x * 0.5}, 1).mean({1});
    case 5: {
      const std::vector<Tensor> parts = stack({x, x.relu()}, 2).unbind(2);
      return parts[0] - parts[1] * 0.25;
    }
    case 6:
      return x.view({n, c, x.size(2) * x.size(3)}).tanh().view(x.sizes());
    case 7:
      return pad(x, {1, 2, 0, 1}, PadMode::kConstant, 0.5);
    case 8:
      return pad(x, {1, 1, 1, 0}, PadMode::kReflect);
    case 9:
      return pad(x, {2, 0, 0, 2}, PadMode::kReplicate);
    case 10:
      return roll(x, 1, 3) + x.flip({2});
    case 11:
      return x.select(1, 0).unsqueeze(1).expand({-1, c, -1, -1}) + x;
    case 12:
      return x.repeat({1, 2, 1, 1}).narrow(1, c / 2, c);
    case 13: {
      const std::vector<Tensor> parts =
          (c > 1 ? cat({x, x}, 1) : x.repeat({1, 2, 1, 1})).chunk(2, 1);
      return parts[0] * parts[1].sigmoid();
    }
    case 14:
      return x.slice(3, 0, x.size(3), 2);
    default:
      return x.flatten(2).unsqueeze(-1).squeeze(-1).reshape(x.sizes()) - 0.1;
  }
}

Tensor RandomNetwork::selection(const Tensor& x) {
  const std::int64_t c = x.size(1);
  switch (draw(8)) {
    case 0:
      return index_select(x, 1, tensor({c - 1, std::int64_t{0}, c / 2}));
    case 1: {
      const Tensor places = x.narrow(3, 0, 3).argmax(3, {.keepdim = true});
      return gather(x, 3, places).expand(x.sizes()) * 0.5 + x;
    }
    case 2: {
      const auto [values, places] = x.topk(3, 3);
      return values.tanh();
    }
    case 3:
      return x.sort(2).first * 0.5;
    case 4:
      return x.index({"...", tensor({std::int64_t{1}, std::int64_t{0}, std::int64_t{-1}})});
    case 5:
      return triu(x) + tril(x, -1) * 0.5;
    case 6:
      return x.cumsum(3) * 0.1;
    default:
      return x.max(2, {.keepdim = true}).first + x * 0.5;
  }
}

Tensor RandomNetwork::attention(const Tensor& x) {
  const std::int64_t n = x.size(0);
  const std::int64_t c = x.size(1);
  const Tensor rows = x.flatten(2).transpose(1, 2).contiguous();  // [N, positions, C]
  switch (draw(4)) {
    case 0: {
      const std::int64_t heads = c % 2 == 0 ? 2 : 1;
      const Tensor parts = layer([&] { return nn::Linear(c, 3 * c); })(rows)
                               .view({n, rows.size(1), 3, heads, c / heads})
                               .permute({2, 0, 3, 1, 4});
      const bool causal = draw(2) == 0;
      const Tensor y =
          F::scaled_dot_product_attention(parts[0], parts[1], parts[2], {.is_causal = causal});
      return y.transpose(1, 2).reshape(rows.sizes()).transpose(1, 2).reshape(x.sizes());
    }
    case 1: {
      const Tensor shares = softmax(matmul(rows, rows.transpose(1, 2)) * 0.1, -1);
      return matmul(shares, rows).transpose(1, 2).reshape(x.sizes());
    }
    case 2: {
      const Tensor y = layer([&] { return nn::Linear(c, c); })(rows).relu();
      return y.transpose(1, 2).reshape(x.sizes()) + x;
    }
    default:
      return matmul(x, x.transpose(2, 3)) * 0.1;
  }
}

Tensor RandomNetwork::reduction(const Tensor& x) {
  switch (draw(10)) {
    case 0:
      return x * x.mean({2, 3}, {.keepdim = true}).sigmoid();
    case 1:
      return x - x.amax({1}, {.keepdim = true}) * 0.5;
    case 2:
      return (x - x.mean({3}, {.keepdim = true})) / (x.std({3}, {.keepdim = true}) + 0.5);
    case 3:
      return x * x.var({1, 2, 3}, {.correction = 0, .keepdim = true});
    case 4:
      return x + x.logsumexp({2}, {.keepdim = true}) * 0.1;
    case 5:
      return F::normalize(x);
    case 6:
      return x / (x.norm(1, {1}, {.keepdim = true}) + 1.0);
    case 7:
      return x * (x.gt(0.0).to(DType::kI64).sum({2, 3}, {.keepdim = true}).to(DType::kF32) * 0.01);
    case 8:
      return x + x.amin({2, 3}, {.keepdim = true}).unsqueeze(0).squeeze(0) * 0.25;
    default:
      return x * 0.5 + x.sum({3}, {.keepdim = true}) * 0.1;
  }
}

}  // namespace dl::onnx
