// Loop 2: an optimizer changes the parameters.
#include <dlrun.h>

#include "examples/training_loops/listings.h"

namespace dl::examples::training_loops {

void rmsprop_loop() {
  const Sine sine = make_sine();
  manual_seed(123);
  nn::Sequential model{nn::Linear(3, 1), nn::Flatten({.start_dim = 0, .end_dim = 1})};
  const nn::MSELoss loss_fn({.reduction = Reduction::kSum});
  optim::RMSprop optimizer(model.parameters(), {.lr = 1e-3});
  for (int t = 0; t < kIterations; ++t) {
    const Tensor loss = loss_fn(model(sine.xx), sine.y);
    print_loss(t, loss);
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
  }
  print_polynomial(model);
}

}  // namespace dl::examples::training_loops
