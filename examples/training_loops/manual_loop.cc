// Loop 1: each parameter is changed by hand.
#include <dlrun.h>

#include "examples/training_loops/listings.h"

namespace dl::examples::training_loops {

void manual_loop() {
  const Sine sine = make_sine();
  manual_seed(123);
  nn::Sequential model{nn::Linear(3, 1), nn::Flatten({.start_dim = 0, .end_dim = 1})};
  const nn::MSELoss loss_fn({.reduction = Reduction::kSum});
  constexpr double kLearningRate = 1e-6;
  for (int t = 0; t < kIterations; ++t) {
    const Tensor loss = loss_fn(model(sine.xx), sine.y);
    print_loss(t, loss);
    model.zero_grad();
    loss.backward();
    const NoGradGuard no_grad;
    for (Tensor& param : model.parameters()) param -= kLearningRate * param.grad();
  }
  print_polynomial(model);
}

}  // namespace dl::examples::training_loops
