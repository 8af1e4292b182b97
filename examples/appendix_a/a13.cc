// Listings A.12 and A.13: the same training on several ranks.
#include <dlrun.h>
#include <fmt/core.h>

#include "examples/appendix_a/a04.h"
#include "examples/appendix_a/a05.h"
#include "examples/appendix_a/a06.h"
#include "examples/appendix_a/a10.h"
#include "examples/appendix_a/a12.h"
#include "examples/appendix_a/listings.h"
#include "examples/support/python_float.h"

namespace dl::examples::appendix_a {
namespace {

// The rank's own GPU, if there are GPUs.
Device device_of(int rank) {
  if (!cuda::is_available()) return {};
  cuda::set_device(rank);
  return {DeviceType::kCUDA, static_cast<std::int16_t>(rank)};
}

void ddp_main(int rank, int num_epochs) {
  namespace F = nn::functional;
  init_process_group();
  const Device device = device_of(rank);
  const std::string who = fmt::format("[{}{}]", cuda::is_available() ? "GPU" : "CPU", rank);

  const SmallData data = make_small_data();
  const ToyDataset train_ds(data.X_train, data.y_train);
  data::DistributedSampler sampler(train_ds.size(), {.num_replicas = world_size(), .rank = rank});
  const data::DataLoader train_loader(
      train_ds, sampler,
      {.batch_size = 2, .drop_last = true, .pin_memory = device.type == DeviceType::kCUDA});
  const data::DataLoader test_loader(ToyDataset(data.X_test, data.y_test), {.batch_size = 2});

  manual_seed(123);  // the parent's seed does not reach the ranks, which are processes of their own
  NeuralNetwork network(2, 2);
  network.to(device);
  nn::parallel::DistributedDataParallel model(network, default_group());
  optim::SGD optimizer(model.parameters(), {.lr = 0.5});
  for (int epoch = 0; epoch < num_epochs; ++epoch) {
    sampler.set_epoch(epoch);
    network.train();
    for (const auto& [x, y] : train_loader) {
      const Tensor loss = F::cross_entropy(model(x.to(device)), y.to(device));
      optimizer.zero_grad();
      loss.backward();  // averages the gradients over the ranks
      optimizer.step();
      fmt::print("{} Epoch: {:03}/{:03} | Batchsize {:03} | Train/Val Loss: {:.2f}\n", who,
                 epoch + 1, num_epochs, y.size(0), loss.item<double>());
    }
  }
  fmt::print("{} Training accuracy {}\n", who,
             python_float(compute_accuracy(network, train_loader, device)));
  fmt::print("{} Test accuracy {}\n", who,
             python_float(compute_accuracy(network, test_loader, device)));
  destroy_process_group();
}

}  // namespace

void headers_of_ranks() {
  fmt::print("A.12 is the list of headers of A.13: examples/appendix_a/a12.h\n");
}

void training_on_ranks() {
  const int gpus = cuda::device_count();
  if (!is_spawned()) {  // code before spawn() runs in the ranks, too
    fmt::print("dlrun version: {}\n", kVersion);
    fmt::print("CUDA available: {}\n", cuda::is_available() ? "True" : "False");
    fmt::print("Number of GPUs available: {}\n", gpus);
    std::fflush(stdout);
  }
  constexpr int kNumEpochs = 3;
  spawn([](int rank) { ddp_main(rank, kNumEpochs); }, gpus > 0 ? gpus : 2);
}

}  // namespace dl::examples::appendix_a
