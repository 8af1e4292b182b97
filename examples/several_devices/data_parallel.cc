// DistributedDataParallel on two ranks that the program spawns.
#include <dlrun.h>
#include <fmt/core.h>

#include "examples/several_devices/devices.h"
#include "examples/several_devices/listings.h"

namespace dl::examples::several_devices {
namespace {

void train_rank(int rank) {
  init_process_group();
  const Device device = device_number(rank);
  if (device.type == DeviceType::kCUDA) cuda::set_device(device.index);
  manual_seed(0);  // only rank 0's model counts: DistributedDataParallel copies it to all ranks
  nn::Linear model(10, 10);
  model.to(device);
  nn::parallel::DistributedDataParallel ddp(model, default_group());
  optim::SGD optimizer(ddp.parameters(), {.lr = 0.001});

  manual_seed(static_cast<std::uint64_t>(rank) + 1);  // each rank draws other data
  const Tensor input = randn({32, 10}).to(device);
  const Tensor target = randn({32, 10}).to(device);
  const Tensor loss = nn::MSELoss()(ddp(input), target);
  optimizer.zero_grad();
  loss.backward();
  optimizer.step();
  fmt::print("rank {} of {}: loss {:.6f}, sum of the weights {:.6f}\n", rank, world_size(),
             loss.item<double>(), model.weight.sum().item<double>());
  destroy_process_group();
}

}  // namespace

void data_parallel() {
  spawn(train_rank, 2);
}

}  // namespace dl::examples::several_devices
