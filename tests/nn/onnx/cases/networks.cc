// All networks of nn/models.
#include <fmt/core.h>

#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/elementwise/numeric.h"
#include "core/ops/reduce/reduce.h"
#include "core/random/tensor_random.h"
#include "nn/models/book.h"
#include "nn/models/densenet.h"
#include "nn/models/efficientnet.h"
#include "nn/models/mobilenet.h"
#include "nn/models/resnet.h"
#include "nn/models/sequence/gpt2.h"
#include "nn/models/sequence/lstm_language_model.h"
#include "nn/models/sequence/vision_transformer.h"
#include "nn/models/vgg.h"
#include "tests/nn/onnx/cases/cases.h"
#include "tests/nn/onnx/small_network.h"

namespace dl::onnx {
namespace {

Tensor batch_of(std::int64_t size, const Shape& image) {
  Shape shape = image;
  shape.insert(0, size);
  return randn(shape);
}

// Running statistics are those of such inputs, and weights that begin with 0 are drawn.
void settle(nn::Module& model, const Shape& image) {
  for (const nn::NamedTensor& each : model.named_parameters()) {
    if (each.tensor.abs().sum().item<double>() != 0) continue;
    Tensor(each.tensor).copy_(randn(each.tensor.sizes()) * 0.1);
  }
  if (model.buffers().empty()) return;
  model.train();
  for (int i = 0; i < 20; ++i) model(batch_of(4, image));
}

// With a dynamic batch, and weights beside the file.
template <typename Model>
Case image_case(Model made, const Shape& image) {
  const auto model = std::make_shared<Model>(std::move(made));
  settle(*model, image);
  return {.model = model,
          .forward = [=](std::span<const Tensor> in) { return std::vector{(*model)(in[0])}; },
          .inputs = batches_of([&](std::int64_t size) { return batch_of(size, image); }),
          .options = {.dynamic_axes = {{"input", {{0, "batch"}}}}, .external_data = true}};
}

// Words [N, L] below `count`.
Tensor words(std::int64_t batch, std::int64_t length, std::int64_t count) {
  return (rand({batch, length}) * static_cast<double>(count)).to(DType::kI64);
}

// The logits of prompts; batch and length are dynamic.
Case gpt2_case() {
  const auto model = std::make_shared<nn::models::GPT2LMHeadModel>(nn::models::GPT2Options{
      .vocab_size = 211, .n_positions = 64, .n_embd = 48, .n_layer = 3, .n_head = 4});
  std::vector<std::vector<Tensor>> inputs;
  for (const auto& [batch, length] : {std::pair{2, 7}, {1, 1}, {3, 20}, {1, 64}, {5, 2}}) {
    inputs.push_back({words(batch, length, 211)});
  }
  return {.model = model,
          .forward = [=](std::span<const Tensor> in) { return std::vector{(*model)(in[0])}; },
          .inputs = inputs,
          .options = {.dynamic_axes = {{"input", {{0, "batch"}, {1, "sequence"}}}}}};
}

// With the state as inputs and outputs; the batch is dynamic, the length is not.
Case lstm_case() {
  const auto model = std::make_shared<nn::models::LSTMLanguageModel>(
      nn::models::LSTMLanguageModelOptions{.ntoken = 97, .ninp = 20, .nhid = 24});
  std::vector<std::vector<Tensor>> inputs;
  for (const std::int64_t batch : {2, 1, 5}) {
    inputs.push_back({words(6, batch, 97), randn({2, batch, 24}), randn({2, batch, 24})});
  }
  const std::map<std::int64_t, std::string> axes{{1, "batch"}};
  return {.model = model,
          .forward =
              [=](std::span<const Tensor> in) {
                const auto [logits, state] = (*model)(in[0], {in[1], in[2]});
                return std::vector<Tensor>{logits, state.h, state.c};
              },
          .inputs = inputs,
          .options = {.input_names = {"words", "h", "c"},
                      .dynamic_axes = {{"words", axes}, {"h", axes}, {"c", axes}}}};
}

}  // namespace

void write_networks(Writer& to) {
  namespace models = nn::models;
  const Shape image{3, 64, 64};
  const Shape large{3, 224, 224};
  to.add("small", [] {
    const auto model = std::make_shared<SmallNetwork>();
    return Case{.model = model,
                .forward = [=](std::span<const Tensor> in) { return std::vector{(*model)(in[0])}; },
                .inputs = batches_of([](std::int64_t size) { return randn({size, 1, 6, 6}); })};
  });
  to.add("book", [] { return image_case(models::book_cnn(), {1, 28, 28}); });
  to.add("mlp", [] { return image_case(models::mlp(), {50}); });
  to.add("densenet121", [&] { return image_case(models::DenseNet(), image); });
  to.add("efficientnet_b0", [&] { return image_case(models::EfficientNet(), image); });
  to.add("resnet18", [&] { return image_case(models::ResNet(), image); });
  to.add("resnet50", [&] { return image_case(models::ResNet({.depth = 50}), image); });
  to.add("resnet18_cifar", [] {
    return image_case(models::ResNet({.num_classes = 10, .small_images = true}), {3, 32, 32});
  });
  to.add("vgg16", [&] { return image_case(models::VGG(), large); });
  to.add("vgg11_bn",
         [&] { return image_case(models::VGG({.depth = 11, .batch_norm = true}), image); });
  to.add("mobilenet_v2", [&] { return image_case(models::MobileNetV2(), image); });
  to.add("mobilenet_v3_large", [&] { return image_case(models::MobileNetV3(), image); });
  to.add("mobilenet_v3_small",
         [&] { return image_case(models::MobileNetV3({.small = true}), large); });
  to.add("vit_b_16", [&] { return image_case(models::VisionTransformer(), large); });
  to.add("gpt2", gpt2_case);
  to.add("lstm_language_model", lstm_case);
}

}  // namespace dl::onnx
