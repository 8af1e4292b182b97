// Networks, dynamic axes and dtypes as graphs of ONNX.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>

#include "core/base/error.h"
#include "core/ops/elementwise/activation.h"
#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/elementwise/numeric.h"
#include "core/ops/index/index.h"
#include "core/ops/index/indexing.h"
#include "core/ops/reduce/reduce.h"
#include "core/ops/shape/shape.h"
#include "core/random/tensor_random.h"
#include "core/tensor/factories.h"
#include "nn/layers/rnn/rnn.h"
#include "nn/layers/transformer/transformer.h"
#include "nn/models/mobilenet.h"
#include "nn/models/sequence/gpt2.h"
#include "nn/models/sequence/lstm_language_model.h"
#include "nn/models/sequence/vision_transformer.h"
#include "nn/onnx/export.h"
#include "nn/onnx/graph/graph.h"
#include "nn/onnx/graph/ramp.h"
#include "tests/nn/onnx/model_reader.h"
#include "tests/support/temp_dir.h"

namespace dl::onnx {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::IsSupersetOf;
using Axes = std::map<std::int64_t, std::string>;

class Nothing final : public nn::Module {};

// The file of a function of several inputs, all of which have these dynamic axes.
ReadModel exported(nn::Module& module, const std::vector<Tensor>& inputs, const Forward& forward,
                   const Axes& axes = {}) {
  const tests::TempDir dir;
  ExportOptions options;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    options.input_names.push_back("x" + std::to_string(i));
    if (!axes.empty()) options.dynamic_axes[options.input_names.back()] = axes;
  }
  export_model(module, inputs, forward, dir.path() + "/f.onnx", options);
  ReadModel model(dir.path() + "/f.onnx");
  model.expect_sound();
  return model;
}

std::vector<std::string> nodes_of(const std::function<Tensor(const Tensor&)>& act,
                                  const Tensor& input, const Axes& axes = {}) {
  Nothing nothing;
  const Forward forward = [&](std::span<const Tensor> in) { return std::vector{act(in[0])}; };
  return exported(nothing, {input}, forward, axes).described();
}

TEST(OnnxNetworks, Gpt2HasADynamicBatchAndLength) {
  nn::models::GPT2LMHeadModel gpt(
      {.vocab_size = 31, .n_positions = 16, .n_embd = 8, .n_layer = 2, .n_head = 2});
  const Forward forward = [&](std::span<const Tensor> in) { return std::vector{gpt(in[0])}; };
  const ReadModel model = exported(gpt, {zeros({2, 5}, {.dtype = DType::kI64})}, forward,
                                   {{0, "batch"}, {1, "sequence"}});
  EXPECT_EQ(model.shape(12, 0), "batch sequence 31");
  EXPECT_THAT(model.ops(), Contains("Range"));
  EXPECT_EQ(std::ranges::count(model.constants(), "transformer.wte.weight"), 1);
}

TEST(OnnxNetworks, RecurrentLayersHaveADynamicBatch) {
  const nn::RNNOptions options{.num_layers = 2, .bidirectional = true};
  const auto shapes = [&]<typename Layer>(Layer layer) {
    const Forward forward = [&](std::span<const Tensor> in) {
      const auto [output, state] = layer(in[0]);
      if constexpr (std::is_same_v<Layer, nn::LSTM>)
        return std::vector{output, state.h, state.c};
      else
        return std::vector{output, state};
    };
    const ReadModel model = exported(layer, {zeros({3, 2, 4})}, forward, {{1, "batch"}});
    return model.shape(12, 0) + ", " + model.shape(12, 1);
  };
  EXPECT_EQ(shapes(nn::RNN(4, 5, options)), "3 batch 10, 4 batch 5");
  EXPECT_EQ(shapes(nn::LSTM(4, 5, options)), "3 batch 10, 4 batch 5");
  EXPECT_EQ(shapes(nn::GRU(4, 5, options)), "3 batch 10, 4 batch 5");
}

TEST(OnnxNetworks, TransformersHaveDynamicBatchesAndLengths) {
  nn::Transformer model({.d_model = 8,
                         .nhead = 2,
                         .num_encoder_layers = 1,
                         .num_decoder_layers = 1,
                         .dim_feedforward = 8,
                         .batch_first = true});
  const Forward forward = [&](std::span<const Tensor> in) {
    return std::vector{model(in[0], in[1], {.tgt_is_causal = true})};
  };
  EXPECT_EQ(
      exported(model, {zeros({2, 5, 8}), zeros({2, 5, 8})}, forward, {{0, "batch"}, {1, "length"}})
          .shape(12, 0),
      "batch length 8");
}

TEST(OnnxNetworks, ImageNetworksHaveADynamicBatch) {
  nn::models::VisionTransformer vit({.image_size = 8,
                                     .patch_size = 4,
                                     .num_layers = 1,
                                     .num_heads = 2,
                                     .hidden_dim = 8,
                                     .mlp_dim = 8,
                                     .num_classes = 3});
  nn::models::MobileNetV3 mobile({.small = true, .width_mult = 0.1, .num_classes = 3});
  const auto shape = [](nn::Module& model, std::int64_t size) {
    const Forward forward = [&](std::span<const Tensor> in) { return std::vector{model(in[0])}; };
    return exported(model, {zeros({2, 3, size, size})}, forward, {{0, "batch"}}).shape(12, 0);
  };
  EXPECT_EQ(shape(vit, 8), "batch 3");
  EXPECT_EQ(shape(mobile, 32), "batch 3");
}

TEST(OnnxRamp, IsATensorInEvenSteps) {
  const auto steps = [](const Tensor& tensor) {
    const std::optional<Ramp> ramp = ramp_of(tensor);
    std::vector<std::int64_t> numbers;
    if (ramp) {
      numbers = ramp->steps;
      numbers.insert(numbers.begin(), ramp->base);
    }
    return numbers;
  };
  EXPECT_THAT(steps(arange(4)), ElementsAre(0, 1));
  EXPECT_THAT(steps(arange(9, 0, -3)), ElementsAre(9, -3));
  EXPECT_THAT(steps(arange(6, {.dtype = DType::kF32}).view({2, 3})), ElementsAre(0, 3, 1));
  EXPECT_THAT(steps(full({2, 1}, 7)), ElementsAre(7, 0, 0));
  EXPECT_THAT(steps(tensor(5.0)), ElementsAre(5));
  EXPECT_THAT(steps(tensor({0, 1, 3})), ElementsAre());
  EXPECT_THAT(steps(tensor({0.0, 0.5})), ElementsAre());
  EXPECT_THAT(steps(tensor({-0.0, 1.0})), ElementsAre());
  EXPECT_THAT(steps(tensor({1e300, 1e300})), ElementsAre());
  EXPECT_THAT(steps(tensor({INT64_MIN, INT64_MAX})), ElementsAre(INT64_MIN, -1));
  EXPECT_THAT(steps(ones({2}, {.dtype = DType::kBool})), ElementsAre());
}

TEST(OnnxDynamic, PositionsAreComputed) {
  const Axes rows{{0, "rows"}};
  EXPECT_THAT(nodes_of([](const Tensor& t) { return t + arange(t.size(0)).unsqueeze(1); },
                       ones({5, 3}), rows),
              IsSupersetOf({"Range [0] [1]", "Reshape [-1,1]", "Cast to=1", "Add"}));
  EXPECT_THAT(nodes_of([](const Tensor& t) { return t.flip({0}); }, ones({5, 3}), rows),
              IsSupersetOf({"Add [-1]", "Range [0] [1]", "Mul [-1]", "Gather axis=0"}));
  EXPECT_THAT(nodes_of([](const Tensor& t) { return t / static_cast<double>(t.size(0)); },
                       ones({5, 3}), rows),
              IsSupersetOf({"Shape end=1 start=0", "Div"}));
  EXPECT_THAT(nodes_of([](const Tensor& t) { return t.std(); }, ones({5, 3}),
                       {{0, "rows"}, {1, "columns"}}),
              Contains("ReduceProd keepdims=0"));
}

TEST(OnnxNodes, ANumberThatIsCopiedIsRepeated) {
  EXPECT_THAT(nodes_of(
                  [](const Tensor& t) {
                    Tensor own = t * 1;
                    own.index({indexing::Slice(), 1}) = 5.0;
                    return own;
                  },
                  ones({2, 5})),
              IsSupersetOf({"Expand [2]", "Concat axis=1"}));
}

TEST(OnnxNodes, ElementsThatAreNoBoxAreReplacedByIndex) {
  EXPECT_THAT(nodes_of(
                  [](const Tensor& t) {
                    Tensor own = t * 1;
                    diagonal(own).fill_(1);
                    return own;
                  },
                  ones({3, 4})),
              Contains("ScatterElements [0,5,10] axis=0"));
  EXPECT_THAT(nodes_of([](const Tensor& t) { return roll(t, 1); }, ones({3, 4})),
              IsSupersetOf({"Concat axis=0", "Reshape [3,4]"}));
}

TEST(OnnxNodes, TensorsWithoutElementsAreConstants) {
  EXPECT_THAT(nodes_of([](const Tensor& t) { return t.relu(); }, ones({0, 3})),
              ElementsAre("ConstantOfShape [0,3]"));
  EXPECT_THAT(
      nodes_of([](const Tensor& t) { return t.narrow(1, 1, 0) * 2; }, ones({2, 3}), {{0, "batch"}}),
      Contains("ConstantOfShape"));
}

TEST(OnnxNodes, IntegersAreDivided) {
  const Tensor x = tensor({7, -7});
  EXPECT_THAT(nodes_of([](const Tensor& t) { return floor_divide(t, 2); }, x),
              ElementsAre("Mod [2]", "Sub", "Div [2]"));
  EXPECT_THAT(nodes_of([](const Tensor& t) { return remainder(t, t); }, x), ElementsAre("Mod"));
  EXPECT_THAT(nodes_of([](const Tensor& t) { return one_hot(t.abs(), 9); }, x),
              Contains("ScatterElements axis=1"));
}

TEST(OnnxTypes, NodesAreComputedInADtypeThatTheyTake) {
  EXPECT_EQ(computed_as("Add", DType::kF16), DType::kF16);
  EXPECT_EQ(computed_as("Add", DType::kBF16), DType::kF32);
  EXPECT_EQ(computed_as("Reshape", DType::kBF16), DType::kBF16);
  EXPECT_EQ(computed_as("Pow", DType::kI16), DType::kI32);
  EXPECT_EQ(computed_as("Pow", DType::kU64), DType::kI64);
  EXPECT_EQ(computed_as("Pow", DType::kI32), DType::kI32);
  EXPECT_EQ(computed_as("TopK", DType::kBool), DType::kI32);
  EXPECT_THAT(nodes_of([](const Tensor& t) { return elu(t).view({6}); },
                       ones({2, 3}, {.dtype = DType::kBF16})),
              ElementsAre("Cast to=1", "Elu", "Cast to=16", "Reshape [6]"));
  EXPECT_THAT(
      nodes_of([](const Tensor& t) { return t.amax({1}); }, ones({2, 3}, {.dtype = DType::kI16})),
      ElementsAre("Cast to=6", "ReduceMax axes=1 keepdims=1", "Cast to=5", "Reshape [2]"));
  EXPECT_THAT(
      nodes_of([](const Tensor& t) { return tril(t); }, ones({2, 3}, {.dtype = DType::kBool})),
      IsSupersetOf({"And", "Not", "Or"}));
  EXPECT_THAT(nodes_of([](const Tensor& t) { return t.relu(); }, tensor({1, -1})),
              ElementsAre("Max [0]"));
  EXPECT_THAT(
      nodes_of([](const Tensor& t) { return celu(t, 0.5); }, ones({2}, {.dtype = DType::kF64})),
      ElementsAre("Div", "Elu", "Mul"));
}

}  // namespace
}  // namespace dl::onnx
