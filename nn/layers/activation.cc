#include "nn/layers/activation.h"

#include "nn/functional/functional.h"

namespace dl::nn {

Tensor ReLU::forward(const Tensor& input) {
  return functional::relu(input, {.inplace = options.inplace});
}

}  // namespace dl::nn
