#include "nn/layers/shape/shape.h"

#include "core/ops/shape/shape.h"
#include "nn/layers/repr.h"

namespace dl::nn {

Tensor Flatten::forward(const Tensor& input) {
  check_not_moved("a call");
  return input.flatten(options.start_dim, options.end_dim);
}

std::string Flatten::extra_repr() const {
  return fmt::format("start_dim={}, end_dim={}", options.start_dim, options.end_dim);
}

Tensor Unflatten::forward(const Tensor& input) {
  check_not_moved("a call");
  DL_CHECK(input.defined(), kInvalidArgument, "Unflatten: the input is undefined");
  const std::size_t at = wrap_dim(dim, input.sizes().size(), "Unflatten");
  const Shape sizes = infer_shape(unflattened_size, input.sizes()[at], "Unflatten");
  DL_CHECK(!sizes.empty() && element_count(sizes, "Unflatten") == input.sizes()[at], kShape,
           "Unflatten: dimension {} of the input {} cannot become {}", dim, input.sizes().str(),
           unflattened_size.str());
  Shape shape;
  for (std::size_t d = 0; d < input.sizes().size(); ++d) {
    if (d != at) {
      shape.push_back(input.sizes()[d]);
    } else {
      for (const std::int64_t size : sizes) shape.push_back(size);
    }
  }
  return input.reshape(shape);
}

std::string Unflatten::extra_repr() const {
  return fmt::format("dim={}, unflattened_size={}", dim, python_tuple(unflattened_size));
}

Tensor PixelShuffle::forward(const Tensor& input) {
  check_not_moved("a call");
  return pixel_shuffle(input, upscale_factor);
}

std::string PixelShuffle::extra_repr() const {
  return fmt::format("upscale_factor={}", upscale_factor);
}

Tensor PixelUnshuffle::forward(const Tensor& input) {
  check_not_moved("a call");
  return pixel_unshuffle(input, downscale_factor);
}

std::string PixelUnshuffle::extra_repr() const {
  return fmt::format("downscale_factor={}", downscale_factor);
}

Tensor ChannelShuffle::forward(const Tensor& input) {
  check_not_moved("a call");
  return channel_shuffle(input, groups);
}

std::string ChannelShuffle::extra_repr() const {
  return fmt::format("groups={}", groups);
}

}  // namespace dl::nn
