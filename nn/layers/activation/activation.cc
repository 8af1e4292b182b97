#include "nn/layers/activation/activation.h"

#include <utility>

namespace dl::nn {

#define DL_ACTIVATION(Layer, function, enumerator) \
  Tensor Layer::forward(const Tensor& input) {     \
    check_not_moved("a call");                     \
    return functional::function(input, options);   \
  }
#define DL_PLAIN_ACTIVATION(Layer, function)   \
  Tensor Layer::forward(const Tensor& input) { \
    check_not_moved("a call");                 \
    return functional::function(input);        \
  }
#include "nn/functional/activations.def"

GELU::GELU(functional::GELUOptions given) : options(std::move(given)) {
  functional::gelu_form(options.approximate);
}

Tensor GELU::forward(const Tensor& input) {
  check_not_moved("a call");
  return functional::gelu(input, options);
}

}  // namespace dl::nn
