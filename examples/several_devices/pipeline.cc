#include "examples/several_devices/pipeline.h"

#include <dlrun.h>
#include <fmt/core.h>

#include <iostream>

#include "examples/several_devices/devices.h"
#include "examples/several_devices/listings.h"

namespace dl::examples::several_devices {

TwoStages::TwoStages(nn::Module& first, Device first_device, nn::Module& second,
                     Device second_device)
    : first_(first), second_(second), first_device_(first_device), second_device_(second_device) {
  first_.to(first_device_);
  second_.to(second_device_);
}

Tensor TwoStages::operator()(const Tensor& input) {
  return second_(first_(input.to(first_device_)).to(second_device_));
}

Tensor TwoStages::in_chunks(const Tensor& input, std::int64_t chunks) {
  // All first stages are launched before the first second stage.
  std::vector<Tensor> between;
  for (const Tensor& chunk : input.chunk(chunks)) {
    between.push_back(first_(chunk.to(first_device_)).to(second_device_));
  }
  std::vector<Tensor> outputs;
  for (const Tensor& chunk : between) outputs.push_back(second_(chunk));
  return cat(outputs);
}

std::vector<Tensor> TwoStages::parameters() const {
  std::vector<Tensor> all = first_.parameters();
  for (const Tensor& parameter : second_.parameters()) all.push_back(parameter);
  return all;
}

void pipeline() {
  manual_seed(0);
  nn::Linear first(10, 10);
  nn::Linear second(10, 10);
  TwoStages model(first, device_number(0), second, device_number(1));
  const Tensor input = randn({32, 10});
  const Tensor target = randn({32, 10}).to(model.output_device());
  optim::SGD optimizer(model.parameters(), {.lr = 0.001});

  const Tensor output = model.in_chunks(input, 2);
  const Tensor loss = nn::MSELoss()(output, target);
  optimizer.zero_grad();
  loss.backward();
  optimizer.step();
  std::cout << "output " << output.sizes() << " on " << output.device().str() << "\n";
  fmt::print("loss {:.6f}, then {:.6f}\n", loss.item<double>(),
             nn::MSELoss()(model(input), target).item<double>());
}

}  // namespace dl::examples::several_devices
