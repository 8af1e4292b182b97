#include "nn/layers/shape.h"

#include <fmt/format.h>

namespace dl::nn {

Tensor Flatten::forward(const Tensor& input) {
  check_not_moved("a call");
  return input.flatten(options.start_dim, options.end_dim);
}

std::string Flatten::extra_repr() const {
  return fmt::format("start_dim={}, end_dim={}", options.start_dim, options.end_dim);
}

}  // namespace dl::nn
