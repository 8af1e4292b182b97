#include "nn/models/efficientnet.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "core/autograd/grad_mode.h"
#include "core/base/error.h"
#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/pool/resample.h"
#include "core/random/tensor_random.h"
#include "core/tensor/factories.h"
#include "nn/layers/activation/activation.h"
#include "nn/layers/activation/dropout.h"
#include "nn/layers/linear.h"
#include "nn/layers/norm.h"
#include "nn/models/blocks/blocks.h"
#include "nn/module/init.h"

namespace dl::nn::models {
namespace {

// The scaling of a size relative to B0.
struct Scaling {
  double width;  // factor of the channels
  double depth;  // factor of the blocks of a stage
  double dropout;
  BatchNormOptions norm{};
};
constexpr double kOfB0 = 1;
const Scaling& scaling(int size) {
  static const BatchNormOptions large{.eps = 0.001, .momentum = 0.01};
  static const Scaling all[] = {
      {kOfB0, kOfB0, 0.2}, {kOfB0, 1.1, 0.2},      {1.1, 1.2, 0.3},        {1.2, 1.4, 0.3},
      {1.4, 1.8, 0.4},     {1.6, 2.2, 0.4, large}, {1.8, 2.6, 0.5, large}, {2.0, 3.1, 0.5, large}};
  DL_CHECK(size >= 0 && size < std::ssize(all), kInvalidArgument,
           "EfficientNet: the size is {}, wanted 0 to 7", size);
  return all[size];
}

// A row of table 1 of the paper.
struct Stage {
  std::int64_t expand;
  std::int64_t kernel;
  std::int64_t stride;  // of the first block
  std::int64_t in;
  std::int64_t out;
  std::int64_t blocks;
};
constexpr Stage kStages[] = {{1, 3, 1, 32, 16, 1},  {6, 3, 2, 16, 24, 2},  {6, 5, 2, 24, 40, 2},
                             {6, 3, 2, 40, 80, 3},  {6, 5, 1, 80, 112, 3}, {6, 5, 2, 112, 192, 4},
                             {6, 3, 1, 192, 320, 1}};

std::int64_t channels(std::int64_t of_b0, double factor) {
  return round_channels(static_cast<double>(of_b0) * factor);
}

Sequential conv_norm_silu(const ConvNorm& c, const BatchNormOptions& norm) {
  return conv_norm(c, norm, SiLU());
}

// An inverted bottleneck (Sandler et al. 2018): expands the channels, convolves each by itself,
// weights them, and projects them to fewer.
class MBConv : public Module {
 public:
  MBConv(const Stage& stage, double drop, const BatchNormOptions& norm)
      : block_(register_module("block", Sequential())),
        drop_(drop),
        is_residual_(stage.stride == 1 && stage.in == stage.out) {
    const std::int64_t expanded = channels(stage.in, static_cast<double>(stage.expand));
    if (expanded != stage.in) block_.add(conv_norm_silu({.in = stage.in, .out = expanded}, norm));
    block_.add(conv_norm_silu({.in = expanded,
                               .out = expanded,
                               .kernel = stage.kernel,
                               .stride = stage.stride,
                               .groups = expanded},
                              norm));
    block_.add(
        SqueezeExcitation(expanded, std::max<std::int64_t>(1, stage.in / 4), SiLU(), Sigmoid()));
    block_.add(conv_norm({.in = expanded, .out = stage.out}, norm));
  }
  Tensor forward(const Tensor& input) override {
    const Tensor result = block_(input);
    return is_residual_ ? dropped(result) + input : result;
  }

 private:
  // While training, zeroes whole images with probability drop_ and scales the others up.
  Tensor dropped(const Tensor& x) const {
    if (!is_training() || drop_ == 0) return x;
    const double kept = 1 - drop_;
    const Tensor mask = bernoulli(full({x.size(0), 1, 1, 1}, kept, {.device = x.device()}));
    return x * (kept > 0 ? mask / kept : mask).to(x.dtype());
  }

  Sequential& block_;
  double drop_;
  bool is_residual_;
};

Sequential features(const EfficientNetOptions& o) {
  const Scaling& scale = scaling(o.size);
  DL_CHECK(o.num_classes > 0, kInvalidArgument,
           "EfficientNet: num_classes is {}, wanted at least 1", o.num_classes);
  DL_CHECK(o.stochastic_depth_prob >= 0 && o.stochastic_depth_prob <= 1, kInvalidArgument,
           "EfficientNet: stochastic_depth_prob is {}, wanted 0 to 1", o.stochastic_depth_prob);
  const auto blocks_of = [&](const Stage& stage) {
    return static_cast<std::int64_t>(std::ceil(static_cast<double>(stage.blocks) * scale.depth));
  };
  std::int64_t all_blocks = 0;
  for (const Stage& stage : kStages) all_blocks += blocks_of(stage);
  Sequential result;
  result.add(conv_norm_silu(
      {.in = 3, .out = channels(kStages[0].in, scale.width), .kernel = 3, .stride = 2},
      scale.norm));
  std::int64_t number = 0;
  std::int64_t last = 0;
  for (Stage stage : kStages) {
    const std::int64_t blocks = blocks_of(stage);
    stage.in = channels(stage.in, scale.width);
    stage.out = last = channels(stage.out, scale.width);
    Sequential layers;
    for (std::int64_t i = 0; i < blocks; ++i, ++number) {
      layers.add(MBConv(
          stage,
          o.stochastic_depth_prob * static_cast<double>(number) / static_cast<double>(all_blocks),
          scale.norm));
      stage.in = stage.out;
      stage.stride = 1;
    }
    result.add(std::move(layers));
  }
  result.add(conv_norm_silu({.in = last, .out = 4 * last}, scale.norm));
  return result;
}

Sequential classifier(const EfficientNetOptions& o) {
  const Scaling& scale = scaling(o.size);
  const std::int64_t width = 4 * channels(std::rbegin(kStages)->out, scale.width);
  return {Dropout(scale.dropout), Linear(width, o.num_classes)};
}

}  // namespace

EfficientNet::EfficientNet(EfficientNetOptions options)
    : features_(register_module("features", features(options))),
      classifier_(register_module("classifier", classifier(options))) {
  const NoGradGuard no_grad;
  for (NamedTensor& parameter : named_parameters()) {
    Tensor& tensor = parameter.tensor;
    if (tensor.dim() == 4) {
      init::kaiming_normal_(tensor, {.mode = init::FanMode::kFanOut});
    } else if (tensor.dim() == 2) {
      const double bound = 1 / std::sqrt(static_cast<double>(options.num_classes));
      init::uniform_(tensor, -bound, bound);
    } else if (parameter.name.ends_with("bias")) {
      init::zeros_(tensor);
    }
  }
}

Tensor EfficientNet::forward(const Tensor& input) {
  return classifier_(adaptive_avg_pool2d(features_(input), {1, 1}).flatten(1));
}

}  // namespace dl::nn::models
