// The multilayer perceptron of the appendix: 50 inputs, layers of 30 and 20, 3 classes.
#pragma once

#include "nn/module/sequential.h"

namespace dl::nn::models {

// Input [N, 50] -> logits [N, 3]; 2,213 parameters.
Sequential mlp();

}  // namespace dl::nn::models
