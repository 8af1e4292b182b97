#include <dlrun.h>
#include <fmt/core.h>

#include <numbers>

#include "examples/training_loops/listings.h"

namespace dl::examples::training_loops {

Sine make_sine() {
  const Tensor x = linspace(-std::numbers::pi, std::numbers::pi, 2000);
  return {.xx = x.unsqueeze(-1).pow(tensor({1, 2, 3})), .y = sin(x)};
}

void print_loss(int iteration, const Tensor& loss) {
  if (iteration % 100 == 99) fmt::print("{} {:.4f}\n", iteration, loss.item<double>());
}

void print_polynomial(nn::Module& model) {
  const Tensor weight = model.get_parameter("0.weight").detach();
  const Tensor bias = model.get_parameter("0.bias").detach();
  fmt::print("Result: y = {:.4f} + {:.4f} x + {:.4f} x^2 + {:.4f} x^3\n", bias.item<double>(),
             weight[0][0].item<double>(), weight[0][1].item<double>(), weight[0][2].item<double>());
}

}  // namespace dl::examples::training_loops
