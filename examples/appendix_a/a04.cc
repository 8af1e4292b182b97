// Listing A.4 and the rest of section A.5: the network is printed, counted and called.
#include "examples/appendix_a/a04.h"

#include <dlrun.h>
#include <fmt/core.h>

#include <iostream>

#include "examples/appendix_a/listings.h"

namespace dl::examples::appendix_a {

void network() {
  {
    const NeuralNetwork model(50, 3);
    std::cout << model << "\n";
    std::int64_t num_params = 0;
    for (const Tensor& p : model.parameters()) {
      if (p.requires_grad()) num_params += p.numel();
    }
    fmt::print("Total number of trainable model parameters: {}\n", num_params);
  }

  manual_seed(123);
  NeuralNetwork model(50, 3);
  std::cout << model.get_parameter("layers.0.weight") << "\n";
  std::cout << model.get_parameter("layers.0.weight").sizes() << "\n";

  manual_seed(123);
  const Tensor X = rand({1, 50});
  std::cout << model(X) << "\n";
  {
    const NoGradGuard no_grad;
    std::cout << model(X) << "\n";
    std::cout << softmax(model(X), 1) << "\n";
  }
}

}  // namespace dl::examples::appendix_a
