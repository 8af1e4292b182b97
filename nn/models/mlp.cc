#include "nn/models/mlp.h"

#include "nn/layers/activation/activation.h"
#include "nn/layers/linear.h"

namespace dl::nn::models {

Sequential mlp() {
  return {Linear(50, 30), ReLU(), Linear(30, 20), ReLU(), Linear(20, 3)};
}

}  // namespace dl::nn::models
