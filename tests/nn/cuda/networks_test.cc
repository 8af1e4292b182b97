// Networks of the literature on a GPU against the CPU.
#include <functional>
#include <memory>
#include <vector>

#include "core/device/math_flags.h"
#include "nn/functional/functional.h"
#include "nn/layers/activation/dropout.h"
#include "nn/models/densenet.h"
#include "nn/models/efficientnet.h"
#include "nn/models/resnet.h"
#include "nn/optim/algorithms/algorithms.h"
#include "tests/core/cuda/on_device.h"

namespace dl::testing {
namespace {

// f32 as f32, for these comparisons.
class CudaNetworks : public OnDevice {
 protected:
  void SetUp() override {
    OnDevice::SetUp();
    backends::cudnn::allow_tf32 = false;
  }
  void TearDown() override { backends::cudnn::allow_tf32 = true; }
};

struct Network {
  const char* name;
  std::function<std::unique_ptr<nn::Module>()> make;
};

// Small ones, without random depth: devices draw other numbers.
const std::vector<Network>& networks() {
  static const std::vector<Network> all = {
      {"DenseNet",
       [] {
         return std::make_unique<nn::models::DenseNet>(
             nn::models::DenseNetOptions{.growth_rate = 8,
                                         .block_config = {2, 2, 2, 2},
                                         .num_init_features = 16,
                                         .num_classes = 10});
       }},
      {"EfficientNet",
       [] {
         return std::make_unique<nn::models::EfficientNet>(
             nn::models::EfficientNetOptions{.stochastic_depth_prob = 0, .num_classes = 10});
       }},
      {"ResNet",
       [] {
         return std::make_unique<nn::models::ResNet>(nn::models::ResNetOptions{.num_classes = 10});
       }},
  };
  return all;
}

std::vector<double> losses(const Network& network, Device device) {
  manual_seed(3);
  const std::unique_ptr<nn::Module> model = network.make();
  for (const auto& [name, module] : model->named_modules()) {
    if (auto* const dropout = dynamic_cast<nn::Dropout*>(module)) dropout->eval();
  }
  const Tensor x = numbers({4, 3, 33, 33}).to(device);
  const Tensor y = tensor({3, 1, 4, 1}).to(device);
  model->to(device);
  optim::SGD sgd(model->parameters(), {.lr = 0.01, .momentum = 0.9});
  std::vector<double> result;
  for (int step = 0; step < 3; ++step) {
    sgd.zero_grad();
    const Tensor loss = nn::functional::cross_entropy(model->forward(x), y);
    loss.backward();
    sgd.step();
    result.push_back(loss.item<double>());
  }
  model->eval();
  result.push_back(nn::functional::cross_entropy(model->forward(x), y).item<double>());
  return result;
}

TEST_F(CudaNetworks, LearnAsOnTheCPU) {
  for (const Network& network : networks()) {
    const std::vector<double> wanted = losses(network, Device{});
    const std::vector<double> got = losses(network, kGPU);
    EXPECT_LT(wanted[2], wanted[0]) << network.name;
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      EXPECT_NEAR(got[i], wanted[i], 2e-3 * (1 + wanted[i])) << network.name << ", " << i;
    }
  }
}

}  // namespace
}  // namespace dl::testing
