// Mixed precision: float16 with a GradScaler on a GPU, bfloat16 on the CPU. bfloat16 has float32's
// range and needs no scaling, but the scaler works there, too.
#include <dlrun.h>
#include <fmt/core.h>

#include <iostream>

#include "examples/several_devices/devices.h"
#include "examples/several_devices/listings.h"

namespace dl::examples::several_devices {

void mixed_precision() {
  manual_seed(0);
  const Device device = device_number(0);
  nn::Linear model(10, 10);
  model.to(device);
  const Tensor input = randn({32, 10}).to(device);
  const Tensor target = randn({32, 10}).to(device);
  optim::SGD optimizer(model.parameters(), {.lr = 0.001});
  amp::GradScaler scaler;

  optimizer.zero_grad();
  Tensor output, loss;
  {
    const autocast mixed(device.type);
    output = model(input);
    loss = nn::MSELoss()(output, target);
  }
  scaler.scale(loss).backward();
  scaler.step(optimizer);
  scaler.update();
  std::cout << "output " << output.dtype() << " " << output.sizes() << ", loss " << loss.dtype()
            << ", weight " << model.weight.dtype() << "\n";
  fmt::print("scale {} x{} x{} {}\n", scaler.get_scale(), scaler.get_growth_factor(),
             scaler.get_backoff_factor(), scaler.get_growth_interval());
  fmt::print("loss {:.4f}\n", loss.item<double>());
}

}  // namespace dl::examples::several_devices
