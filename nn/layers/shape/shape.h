// Modules that only reshape or reorder: Flatten, Unflatten, PixelShuffle, PixelUnshuffle,
// ChannelShuffle, Identity.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "core/tensor/layout/shape.h"
#include "nn/module/module.h"

namespace dl::nn {

struct FlattenOptions {
  std::int64_t start_dim = 1;
  std::int64_t end_dim = -1;
};

// Merges dimensions start_dim to end_dim into one.
class Flatten : public Module {
 public:
  explicit Flatten(FlattenOptions given = {}) : options(given) {}

  Tensor forward(const Tensor& input) override;
  std::string extra_repr() const override;

  FlattenOptions options;
};

// Divides a dimension into several: nn::Unflatten(1, {2, 3}). One of the sizes may be -1.
class Unflatten : public Module {
 public:
  Unflatten(std::int64_t along, Shape sizes) : dim(along), unflattened_size(std::move(sizes)) {}

  Tensor forward(const Tensor& input) override;
  std::string extra_repr() const override;

  std::int64_t dim;
  Shape unflattened_size;
};

// Rearranges [..., C r r, H, W] to [..., C, H r, W r], and the reverse.
class PixelShuffle : public Module {
 public:
  explicit PixelShuffle(std::int64_t factor) : upscale_factor(factor) {}
  Tensor forward(const Tensor& input) override;
  std::string extra_repr() const override;
  std::int64_t upscale_factor;
};
class PixelUnshuffle : public Module {
 public:
  explicit PixelUnshuffle(std::int64_t factor) : downscale_factor(factor) {}
  Tensor forward(const Tensor& input) override;
  std::string extra_repr() const override;
  std::int64_t downscale_factor;
};

// Reorders the channels of [N, C, ...], so that each of the next groups has some of each group.
class ChannelShuffle : public Module {
 public:
  explicit ChannelShuffle(std::int64_t count) : groups(count) {}
  Tensor forward(const Tensor& input) override;
  std::string extra_repr() const override;
  std::int64_t groups;
};

class Identity : public Module {
 public:
  Tensor forward(const Tensor& input) override {
    check_not_moved("a call");
    return input;
  }
};

}  // namespace dl::nn
