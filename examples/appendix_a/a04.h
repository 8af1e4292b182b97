// Listing A.4: a multilayer perceptron with two hidden layers.
#pragma once

#include <cstdint>

#include "nn/layers/activation/activation.h"
#include "nn/layers/linear.h"
#include "nn/module/module.h"
#include "nn/module/sequential.h"

namespace dl::examples::appendix_a {

class NeuralNetwork : public nn::Module {
 public:
  NeuralNetwork(std::int64_t num_inputs, std::int64_t num_outputs)
      : layers(register_module("layers", nn::Sequential{
                                             // first hidden layer
                                             nn::Linear(num_inputs, 30),
                                             nn::ReLU(),
                                             // second hidden layer
                                             nn::Linear(30, 20),
                                             nn::ReLU(),
                                             // output layer
                                             nn::Linear(20, num_outputs),
                                         })) {}

  Tensor forward(const Tensor& x) override { return layers(x); }  // logits

  nn::Sequential& layers;
};

}  // namespace dl::examples::appendix_a
