// The text's model: three linear layers. They are called linear_relu_stack, but the text has no
// ReLU.
#include <dlrun.h>
#include <fmt/core.h>

#include <iostream>

#include "examples/training_loops/listings.h"

namespace dl::examples::training_loops {
namespace {

class NeuralNetwork : public nn::Module {
 public:
  Tensor forward(const Tensor& x) override { return linear_relu_stack(flatten(x)); }

 private:
  nn::Flatten& flatten = register_module("flatten", nn::Flatten());
  nn::Sequential& linear_relu_stack = register_module(
      "linear_relu_stack",
      nn::Sequential{nn::Linear(28 * 28, 512), nn::Linear(512, 512), nn::Linear(512, 10)});
};

}  // namespace

void network() {
  NeuralNetwork model;
  std::cout << model << "\n";
  fmt::print("{} parameters\n", model.count_parameters());
  std::cout << model(rand({64, 28, 28})).sizes() << "\n";
}

}  // namespace dl::examples::training_loops
