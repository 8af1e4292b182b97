#include "nn/layers/activation.h"

#include <utility>

#include "nn/functional/functional.h"

namespace dl::nn {

Tensor ReLU::forward(const Tensor& input) {
  check_not_moved("a call");
  return functional::relu(input, {.inplace = options.inplace});
}

GELU::GELU(GELUOptions given) : options(std::move(given)) {
  functional::gelu_form(options.approximate);
}

Tensor GELU::forward(const Tensor& input) {
  check_not_moved("a call");
  return functional::gelu(input, {.approximate = options.approximate});
}

}  // namespace dl::nn
