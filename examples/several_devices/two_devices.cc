// A model whose two layers are on two devices: its forward pass moves the tensor between them.
#include <dlrun.h>
#include <fmt/core.h>

#include <iostream>

#include "examples/several_devices/devices.h"
#include "examples/several_devices/listings.h"
#include "examples/several_devices/pipeline.h"

namespace dl::examples::several_devices {

void two_devices() {
  manual_seed(0);
  nn::Linear first(10, 10);
  nn::Linear second(10, 10);
  TwoStages model(first, device_number(0), second, device_number(1));
  const Tensor input = randn({32, 10});
  const Tensor target = randn({32, 10}).to(model.output_device());
  optim::SGD optimizer(model.parameters(), {.lr = 0.001});

  const Tensor output = model(input);
  const Tensor loss = nn::MSELoss()(output, target);
  optimizer.zero_grad();
  loss.backward();
  optimizer.step();
  fmt::print("stages on {} and {}\n", first.weight.device().str(), second.weight.device().str());
  std::cout << "output " << output.sizes() << "\n";
  fmt::print("loss {:.6f}, then {:.6f}\n", loss.item<double>(),
             nn::MSELoss()(model(input), target).item<double>());
}

}  // namespace dl::examples::several_devices
