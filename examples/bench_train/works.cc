#include "examples/bench_train/works.h"

#include "examples/bench_train/gpt.h"
#include "nn/layers/activation/activation.h"
#include "nn/layers/conv/conv.h"
#include "nn/layers/linear.h"
#include "nn/layers/pool/pool.h"
#include "nn/layers/shape/shape.h"
#include "nn/models/book.h"
#include "nn/models/densenet.h"
#include "nn/models/efficientnet.h"
#include "nn/models/mobilenet.h"
#include "nn/models/resnet.h"
#include "nn/models/sequence/lstm_language_model.h"
#include "nn/models/sequence/vision_transformer.h"
#include "nn/module/sequential.h"

namespace bench_train {
namespace {

// The convolutions of a ResNet-18 for small images, without its normalisation and its shortcuts.
dl::nn::Sequential conv18() {
  using namespace dl::nn;
  Sequential model{Conv2d(3, 64, 3, {.padding = 1}), ReLU()};
  std::int64_t width = 64;
  for (const std::int64_t next : {64, 128, 256, 512}) {
    for (int i = 0; i < 4; ++i) {
      model.add(Conv2d(width, next, 3, {.stride = width == next ? 1 : 2, .padding = 1}));
      model.add(ReLU());
      width = next;
    }
  }
  model.add(MaxPool2d(4));
  model.add(Flatten());
  model.add(Linear(width, 10));
  return model;
}

// The medium network of Zaremba et al. (2014), one layer of logits for all words of a batch.
class Lstm : public dl::nn::Module {
 public:
  static constexpr std::int64_t kWords = 10'000;  // of the Penn Treebank
  Lstm()
      : model_(register_module(
            "model", dl::nn::models::LSTMLanguageModel(
                         {.ntoken = kWords, .ninp = 650, .nhid = 650, .batch_first = true}))) {}
  dl::Tensor forward(const dl::Tensor& words) override { return model_(words).first.flatten(0, 1); }

 private:
  dl::nn::models::LSTMLanguageModel& model_;
};

template <typename Make>
Work work(std::string name, Make make, dl::Shape sample, std::int64_t classes, std::int64_t batch) {
  return {std::move(name),
          [make]() -> std::unique_ptr<dl::nn::Module> {
            return std::make_unique<decltype(make())>(make());
          },
          std::move(sample), classes, batch};
}

std::vector<Work> all_works() {
  using namespace dl::nn::models;
  const GPT::Options gpt;
  std::vector<Work> works{
      work(
          "mlp", [] { return mlp(); }, {50}, 3, 8),
      work(
          "cnn", [] { return book_cnn(); }, {1, 28, 28}, 10, 64),
      work(
          "cnn-cifar", [] { return book_cnn({.channels = 3, .size = 32}); }, {3, 32, 32}, 10, 64),
      work("conv18", conv18, {3, 32, 32}, 10, 256),
      work(
          "resnet18", [] { return ResNet({.num_classes = 10, .small_images = true}); }, {3, 32, 32},
          10, 128),
      work(
          "resnet18-224", [] { return ResNet(); }, {3, 224, 224}, 1000, 16),
      work(
          "resnet50", [] { return ResNet({.depth = 50}); }, {3, 224, 224}, 1000, 16),
      work(
          "mobilenet-v2", [] { return MobileNetV2(); }, {3, 224, 224}, 1000, 16),
      work(
          "vit-b-16", [] { return VisionTransformer(); }, {3, 224, 224}, 1000, 8),
      work(
          "densenet121", [] { return DenseNet({.num_classes = 10}); }, {3, 64, 64}, 10, 32),
      // Without stochastic depth, which would leave out a random part of the work.
      work(
          "efficientnet-b0",
          [] { return EfficientNet({.stochastic_depth_prob = 0, .num_classes = 10}); }, {3, 64, 64},
          10, 32),
      work(
          "gpt", [gpt] { return GPT(gpt); }, {gpt.tokens}, gpt.words, 8),
      work("lstm", [] { return Lstm(); }, {35}, Lstm::kWords, 20)};
  for (Work& each : works) each.has_words = each.name == "gpt" || each.name == "lstm";
  return works;
}

}  // namespace

const std::vector<Work>& works() {
  static const std::vector<Work> all = all_works();
  return all;
}

}  // namespace bench_train
