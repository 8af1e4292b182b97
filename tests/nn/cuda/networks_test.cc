// Networks of the literature on a GPU against the CPU: in each precision, eager and captured. Under
// dlrun, the ranks train them together.
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "collectives/init/init.h"
#include "core/autocast/autocast.h"
#include "core/device/math_flags.h"
#include "core/ops/elementwise/activation.h"
#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/logic/logic.h"
#include "core/ops/reduce/reduce.h"
#include "core/tensor/factories.h"
#include "nn/amp/grad_scaler.h"
#include "nn/compile/compile.h"
#include "nn/functional/functional.h"
#include "nn/layers/activation/dropout.h"
#include "nn/layers/attention.h"
#include "nn/layers/norm.h"
#include "nn/models/book.h"
#include "nn/models/densenet.h"
#include "nn/models/efficientnet.h"
#include "nn/models/resnet.h"
#include "nn/optim/algorithms/algorithms.h"
#include "nn/parallel/distributed.h"
#include "nn/utils/clip_grad.h"
#include "tests/core/cuda/on_device.h"

namespace dl::testing {
namespace {

struct Precision {
  const char* name;
  bool tf32;
  std::optional<DType> low;  // autocast's dtype
  double tolerated;          // of a loss, against float32 on the CPU
};
constexpr Precision kF32{"f32", false, {}, 2e-3};
constexpr Precision kTF32{"TF32", true, {}, 2e-2};
constexpr Precision kF16{"f16", false, DType::kF16, 3e-2};
constexpr Precision kBF16{"bf16", false, DType::kBF16, 2e-1};

// A block of a language model: causal attention, layer norm and GELU, over [N, steps, width].
class Block final : public nn::Module {
 public:
  Block()
      : norm1_(register_module("norm1", nn::LayerNorm({kWidth}))),
        attention_(
            register_module("attention", nn::MultiheadAttention(kWidth, 2, {.batch_first = true}))),
        norm2_(register_module("norm2", nn::LayerNorm({kWidth}))),
        up_(register_module("up", nn::Linear(kWidth, 4 * kWidth))),
        down_(register_module("down", nn::Linear(4 * kWidth, kWidth))),
        head_(register_module("head", nn::Linear(kWidth, 10))) {}

  static constexpr std::int64_t kWidth = 16;

  Tensor forward(const Tensor& input) override {
    const Tensor n = norm1_(input);
    const Tensor step = arange(input.size(1), {.device = input.device()});
    const Tensor later = lt(step.unsqueeze(1), step);  // which a step does not attend to
    const auto [attended, shares] =
        attention_(n, n, n, {.attn_mask = later, .need_weights = false});
    const Tensor x = input + attended;
    return head_(mean(x + down_(gelu(up_(norm2_(x)))), {1}));
  }

 private:
  nn::LayerNorm& norm1_;
  nn::MultiheadAttention& attention_;
  nn::LayerNorm& norm2_;
  nn::Linear& up_;
  nn::Linear& down_;
  nn::Linear& head_;
};

struct Network {
  const char* name;
  Shape input;
  std::function<std::unique_ptr<nn::Module>()> make;
};

// Without random depth: devices draw other numbers.
const Network kDenseNet{"DenseNet", {4, 3, 33, 33}, [] {
                          return std::make_unique<nn::models::DenseNet>(
                              nn::models::DenseNetOptions{.growth_rate = 8,
                                                          .block_config = {2, 2, 2, 2},
                                                          .num_init_features = 16,
                                                          .num_classes = 10});
                        }};
const Network kEfficientNet{
    "EfficientNet", {4, 3, 33, 33}, [] {
      return std::make_unique<nn::models::EfficientNet>(
          nn::models::EfficientNetOptions{.stochastic_depth_prob = 0, .num_classes = 10});
    }};
const Network kResNet{
    "ResNet", {4, 3, 33, 33}, [] {
      return std::make_unique<nn::models::ResNet>(nn::models::ResNetOptions{.num_classes = 10});
    }};
const Network kBook{"the book's", {4, 1, 12, 12}, [] {
                      return std::make_unique<nn::Sequential>(nn::models::book_cnn({.size = 12}));
                    }};
const Network kBlock{
    "a transformer's block", {4, 6, Block::kWidth}, [] { return std::make_unique<Block>(); }};

// Losses of three steps, and one in evaluation. `captured`: as dl::compile does it.
std::vector<double> losses(const Network& network, Device device, const Precision& precision,
                           bool captured, const Ref<collectives::ProcessGroup>& group) {
  backends::cudnn::allow_tf32 = precision.tf32;
  backends::cuda::matmul::allow_tf32 = precision.tf32;
  manual_seed(3);
  const std::unique_ptr<nn::Module> model = network.make();
  for (const auto& [name, module] : model->named_modules()) {
    if (auto* const dropout = dynamic_cast<nn::Dropout*>(module)) dropout->eval();
  }
  // Each rank has other samples.
  const std::uint64_t seed = group ? 1 + static_cast<std::uint64_t>(group->rank()) : 1;
  const Tensor x = numbers(network.input, seed).to(device);
  const Tensor y = tensor({3, 1, 4, 1}).to(device);
  model->to(device);
  std::optional<nn::parallel::DistributedDataParallel> ddp;
  if (group) ddp.emplace(*model, group);
  optim::SGD sgd(model->parameters(), {.lr = 0.001});
  amp::GradScaler scaler({.init_scale = 8, .enabled = precision.low == DType::kF16});
  const auto loss_of = [&](const Tensor& images, const Tensor& classes) {
    const autocast mixed(device.type, {.dtype = precision.low.value_or(DType::kBF16),
                                       .enabled = precision.low.has_value()});
    return nn::functional::cross_entropy(ddp ? (*ddp)(images) : model->forward(images), classes);
  };
  auto step = compile(
      [&](const Tensor& images, const Tensor& classes) {
        sgd.zero_grad();
        const Tensor loss = loss_of(images, classes);
        scaler.scale(loss).backward();
        scaler.unscale_(sgd);
        nn::utils::clip_grad_norm_(model->parameters(), 5);
        scaler.step(sgd);
        scaler.update();
        return loss;
      },
      {.enabled = captured, .device = device, .whole = true});
  std::vector<double> result;
  for (int i = 0; i < 3; ++i) result.push_back(step(x, y).item<double>());
  EXPECT_EQ(step.summary().replays, captured ? 2 : 0) << network.name;
  model->eval();
  result.push_back(loss_of(x, y).item<double>());
  return result;
}

class CudaNetworks : public OnDevice {
 public:
  static void SetUpTestSuite() {
    if (std::getenv("WORLD_SIZE") == nullptr || !cuda::is_available()) return;
    init_process_group();
    group_ = default_group();
  }
  static void TearDownTestSuite() {
    if (!group_) return;
    group_ = nullptr;
    destroy_process_group();
  }

 protected:
  void SetUp() override {
    OnDevice::SetUp();
    device_ = group_ ? cuda::rank_device() : kGPU;
  }
  // Each precision, eager and captured, against the CPU's losses.
  void expect_learning(const Network& network);
  // Trains the network once, in float32 and captured, because the host device takes many seconds
  // for it. With DLRUN_TEST_LARGE, does what expect_learning() does.
  void expect_large_learning(const Network& network);
  void TearDown() override {
    backends::cudnn::allow_tf32 = true;
    backends::cuda::matmul::allow_tf32 = false;
  }

  static inline Ref<collectives::ProcessGroup> group_;  // null: this process trains alone
  Device device_;
};

void expect_close_losses(const std::vector<double>& got, const std::vector<double>& wanted,
                         const Precision& precision) {
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_NEAR(got[i], wanted[i], precision.tolerated * (1 + wanted[i]))
        << precision.name << ", " << i;
  }
}

void CudaNetworks::expect_learning(const Network& network) {
  const std::vector<double> wanted = losses(network, Device{}, kF32, false, group_);
  // A rank's loss alone is not what ranks train.
  if (!group_) {
    EXPECT_LT(wanted[2], wanted[0]);
  }
  for (const Precision& precision : {kF32, kTF32, kF16, kBF16}) {
    const std::vector<double> got = losses(network, device_, precision, false, group_);
    expect_close_losses(got, wanted, precision);
    EXPECT_EQ(losses(network, device_, precision, true, group_), got)
        << precision.name << ", captured";
  }
}

void CudaNetworks::expect_large_learning(const Network& network) {
  if (std::getenv("DLRUN_TEST_LARGE") != nullptr) return expect_learning(network);
  if (group_) GTEST_SKIP() << "ranks train it with DLRUN_TEST_LARGE=1";
  const std::vector<double> wanted = losses(network, Device{}, kF32, false, group_);
  EXPECT_LT(wanted[2], wanted[0]);
  expect_close_losses(losses(network, device_, kF32, true, group_), wanted, kF32);
}

TEST_F(CudaNetworks, TheBooksLearns) {
  expect_learning(kBook);
}
TEST_F(CudaNetworks, ATransformersBlockLearns) {
  expect_learning(kBlock);
}
TEST_F(CudaNetworks, DenseNetLearns) {
  expect_learning(kDenseNet);
}
TEST_F(CudaNetworks, EfficientNetLearns) {
  expect_large_learning(kEfficientNet);
}
TEST_F(CudaNetworks, ResNetLearns) {
  expect_large_learning(kResNet);
}

}  // namespace
}  // namespace dl::testing
