#include "nn/models/resnet.h"

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "core/autograd/grad_mode.h"
#include "core/base/error.h"
#include "core/ops/elementwise/activation.h"
#include "core/ops/elementwise/arithmetic.h"
#include "nn/layers/activation/activation.h"
#include "nn/layers/conv/conv.h"
#include "nn/layers/linear.h"
#include "nn/layers/norm.h"
#include "nn/layers/pool/pool.h"
#include "nn/layers/pool/resample.h"
#include "nn/layers/shape/shape.h"
#include "nn/module/init.h"
#include "nn/module/sequential.h"

namespace dl::nn::models {
namespace {

struct Layout {
  int depth;
  bool has_bottlenecks;
  std::array<std::int64_t, 4> blocks;  // of each of the four parts
};
constexpr std::array<Layout, 5> kLayouts{{{18, false, {2, 2, 2, 2}},
                                          {34, false, {3, 4, 6, 3}},
                                          {50, true, {3, 4, 6, 3}},
                                          {101, true, {3, 4, 23, 3}},
                                          {152, true, {3, 8, 36, 3}}}};

const Layout& layout_of(int depth) {
  for (const Layout& layout : kLayouts) {
    if (layout.depth == depth) return layout;
  }
  throw_error(ErrorKind::kInvalidArgument, "ResNet: the depth is {}, wanted 18, 34, 50, 101 or 152",
              depth);
}

Conv2d conv3x3(std::int64_t in, std::int64_t out, std::int64_t stride) {
  return Conv2d(in, out, 3, {.stride = stride, .padding = 1, .bias = false});
}
Conv2d conv1x1(std::int64_t in, std::int64_t out, std::int64_t stride = 1) {
  return Conv2d(in, out, 1, {.stride = stride, .bias = false});
}

// Adds its input to what its convolutions make of it.
class Residual : public Module {
 public:
  Tensor forward(const Tensor& input) override {
    std::vector<Module*> chain;
    for (const std::size_t i : path()) chain.push_back(&child(i));
    const bool has_downsample = child_name(child_count() - 1) == "downsample";
    const auto shortcut = [&] { return has_downsample ? child(child_count() - 1)(input) : input; };
    Module& norm = *chain.back();
    if (norm.has_forward_hooks() || !norm.can_fuse({.after = Activation::kRelu})) {
      return relu(forward_chain(chain, input) + shortcut());
    }
    chain.pop_back();
    const Tensor made = forward_chain(chain, input);
    norm.compute_parameters();
    return norm.forward_fused(made, {.after = Activation::kRelu, .residual = shortcut()});
  }

 protected:
  void downsample(std::int64_t in, std::int64_t out, std::int64_t stride) {
    if (stride == 1 && in == out) return;
    register_module("downsample", Sequential{conv1x1(in, out, stride), BatchNorm2d(out)});
  }

 private:
  // The children that the input passes, in order.
  virtual std::span<const std::size_t> path() const = 0;
};

class BasicBlock final : public Residual {
 public:
  static constexpr std::int64_t kExpansion = 1;

  BasicBlock(std::int64_t in, std::int64_t width, std::int64_t stride) {
    register_module("conv1", conv3x3(in, width, stride));
    register_module("bn1", BatchNorm2d(width));
    register_module("relu", ReLU());
    register_module("conv2", conv3x3(width, width, 1));
    register_module("bn2", BatchNorm2d(width));
    downsample(in, width, stride);
  }

 private:
  std::span<const std::size_t> path() const override {
    static constexpr std::array<std::size_t, 5> kPath{0, 1, 2, 3, 4};
    return kPath;
  }
};

class Bottleneck final : public Residual {
 public:
  static constexpr std::int64_t kExpansion = 4;

  Bottleneck(std::int64_t in, std::int64_t width, std::int64_t stride) {
    register_module("conv1", conv1x1(in, width));
    register_module("bn1", BatchNorm2d(width));
    register_module("conv2", conv3x3(width, width, stride));
    register_module("bn2", BatchNorm2d(width));
    register_module("conv3", conv1x1(width, width * kExpansion));
    register_module("bn3", BatchNorm2d(width * kExpansion));
    register_module("relu", ReLU());
    downsample(in, width * kExpansion, stride);
  }

 private:
  std::span<const std::size_t> path() const override {
    static constexpr std::array<std::size_t, 8> kPath{0, 1, 6, 2, 3, 6, 4, 5};
    return kPath;
  }
};

template <typename Block>
Sequential part(std::int64_t& channels, std::int64_t width, std::int64_t blocks,
                std::int64_t stride) {
  Sequential made;
  for (std::int64_t i = 0; i < blocks; ++i) {
    made.add(Block(channels, width, i == 0 ? stride : 1));
    channels = width * Block::kExpansion;
  }
  return made;
}

}  // namespace

ResNet::ResNet(ResNetOptions options) {
  const Layout& layout = layout_of(options.depth);
  DL_CHECK(options.num_classes > 0, kInvalidArgument,
           "ResNet: num_classes is {}, wanted at least 1", options.num_classes);
  std::int64_t channels = 64;
  if (options.small_images) {
    register_module("conv1", conv3x3(3, channels, 1));
  } else {
    register_module("conv1", Conv2d(3, channels, 7, {.stride = 2, .padding = 3, .bias = false}));
  }
  register_module("bn1", BatchNorm2d(channels));
  register_module("relu", ReLU());
  if (options.small_images) {
    register_module("maxpool", Identity());
  } else {
    register_module("maxpool", MaxPool2d(3, {.stride = 2, .padding = 1}));
  }
  std::int64_t width = channels;
  for (std::size_t i = 0; i < layout.blocks.size(); ++i, width *= 2) {
    const std::int64_t stride = i == 0 ? 1 : 2;
    register_module("layer" + std::to_string(i + 1),
                    layout.has_bottlenecks
                        ? part<Bottleneck>(channels, width, layout.blocks[i], stride)
                        : part<BasicBlock>(channels, width, layout.blocks[i], stride));
  }
  register_module("avgpool", AdaptiveAvgPool2d(1));
  register_module("fc", Linear(channels, options.num_classes));
  const NoGradGuard no_grad;
  for (NamedTensor& parameter : named_parameters()) {
    if (parameter.tensor.dim() != 4) continue;
    init::kaiming_normal_(parameter.tensor, {.mode = init::FanMode::kFanOut,
                                             .nonlinearity = init::Nonlinearity::kRelu});
  }
}

Tensor ResNet::forward(const Tensor& input) {
  check_not_moved("a call");
  const std::size_t fc = child_count() - 1;
  std::vector<Module*> chain;
  for (std::size_t i = 0; i < fc; ++i) chain.push_back(&child(i));
  return child(fc)(forward_chain(chain, input).flatten(1));
}

}  // namespace dl::nn::models
