// The loops of "PyTorch 1, data parallel", completed: the text lacks the calls of zero_grad() and
// backward() and does not define its data. Here the data are those of PyTorch's polynomial
// tutorial.
#pragma once

#include "core/tensor/tensor.h"
#include "nn/module/module.h"

namespace dl::examples::training_loops {

// 2000 points of a sine: xx [2000, 3] holds the first three powers of x in [-pi, pi], y is [2000].
struct Sine {
  Tensor xx;
  Tensor y;
};
Sine make_sine();

constexpr int kIterations = 2000;
// Prints the loss of every hundredth iteration: 99, 199, ...
void print_loss(int iteration, const Tensor& loss);
// Prints "Result: y = a + b x + c x^2 + d x^3" with the parameters of the model's module "0".
void print_polynomial(nn::Module& model);

void network();      // the text's model, without training
void manual_loop();  // updates by hand under no_grad
void rmsprop_loop();

}  // namespace dl::examples::training_loops
