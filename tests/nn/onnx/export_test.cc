#include "nn/onnx/export.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <numeric>

#include "core/autograd/grad_mode.h"
#include "core/base/error.h"
#include "core/base/version.h"
#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/elementwise/numeric.h"
#include "core/ops/order/order.h"
#include "core/ops/pool/resample.h"
#include "core/ops/reduce/reduce.h"
#include "core/ops/shape/shape.h"
#include "core/ops/softmax/softmax.h"
#include "core/random/tensor_random.h"
#include "nn/functional/functional.h"
#include "nn/layers/activation/activation.h"
#include "nn/layers/activation/dropout.h"
#include "nn/layers/attention.h"
#include "nn/models/book.h"
#include "nn/module/sequential.h"
#include "nn/onnx/graph/wire.h"
#include "nn/onnx/memory/region.h"
#include "tests/nn/onnx/model_reader.h"
#include "tests/nn/onnx/random_network.h"
#include "tests/nn/onnx/small_network.h"
#include "tests/support/file_size_limit.h"
#include "tests/support/temp_dir.h"

namespace dl::onnx {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsSupersetOf;
using testing::Not;

// A module that is a function of its input.
class Function final : public nn::Module {
 public:
  using Act = std::function<Tensor(const Tensor&)>;
  explicit Function(Act act) : act_(std::move(act)) {}
  Tensor forward(const Tensor& input) override { return act_(input); }

 private:
  Act act_;
};

struct Exported {
  std::string error;
  std::vector<std::string> ops;
  std::string output;                // its shape
  std::vector<std::string> nodes{};  // with their numbers
};

// What becomes of a function of an input, whose first dimension is dynamic or not.
Exported exported(const Function::Act& act, const Tensor& input, bool is_dynamic = false) {
  const tests::TempDir dir;
  Function function(act);
  ExportOptions options;
  if (is_dynamic) options.dynamic_axes = {{"input", {{0, "batch"}}}};
  try {
    export_model(function, input, dir.path() + "/f.onnx", options);
  } catch (const Error& error) {
    EXPECT_TRUE(std::filesystem::is_empty(dir.path())) << "something was written";
    return {.error = error.what(), .ops = {}, .output = {}};
  }
  const ReadModel model(dir.path() + "/f.onnx");
  model.expect_sound();
  return {
      .error = {}, .ops = model.ops(), .output = model.shape(12, 0), .nodes = model.described()};
}

std::string refusal(const Function::Act& act, const Tensor& input, bool is_dynamic = false) {
  return exported(act, input, is_dynamic).error;
}

// With another text in place of the version, so that the committed file fits all.
std::string without_version(std::string bytes) {
  const std::string field = std::string("\x1a") + static_cast<char>(kVersion.size());
  const std::size_t at = bytes.find(field + std::string(kVersion));
  EXPECT_EQ(at, std::string("\x08\x08\x12\x05"
                            "dlrun")
                    .size());
  return bytes.replace(at, field.size() + kVersion.size(), std::string("\x1a\x01*"));
}

TEST(OnnxExport, SmallFileIsTheCommittedOneByteForByte) {
  const tests::TempDir dir;
  export_small_network(dir.path() + "/small.onnx");
  const std::string committed =
      std::string(std::getenv("DLRUN_TEST_SOURCE")) + "/tests/nn/onnx/small.onnx";
  // If it has to change: onnx_cases writes the new one (tests/nn/onnx/compare.py).
  EXPECT_EQ(without_version(content(dir.path() + "/small.onnx")), content(committed));
}

TEST(OnnxExport, NamesAreThoseOfTheStateDictAndTheOptions) {
  const tests::TempDir dir;
  export_small_network(dir.path() + "/small.onnx");
  const ReadModel model(dir.path() + "/small.onnx");
  model.expect_sound();
  EXPECT_THAT(model.inputs(), ElementsAre("image"));
  EXPECT_THAT(model.outputs(), ElementsAre("logits"));
  EXPECT_EQ(model.shape(11, 0), "batch 1 6 6");
  EXPECT_EQ(model.shape(12, 0), "batch 3");
  EXPECT_THAT(model.constants(),
              IsSupersetOf({"conv.weight", "conv.bias", "bn.weight", "bn.bias", "bn.running_mean",
                            "bn.running_var", "fc.weight", "fc.bias"}));
  EXPECT_THAT(model.ops(), ElementsAre("Conv", "BatchNormalization", "Relu", "ReduceMean",
                                       "Reshape", "Reshape", "Concat", "Gemm"));
  EXPECT_THAT(texts(model.bytes(), 14).at(0), HasSubstr("tests/nn/onnx"));
}

TEST(OnnxExport, TrainingNetworkIsExportedInEvalMode) {
  const tests::TempDir dir;
  nn::Sequential network{nn::Linear(4, 3), nn::Dropout(0.5), nn::BatchNorm1d(3)};
  network.get_submodule("1").eval();
  export_model(network, zeros({2, 4}), dir.path() + "/f.onnx");
  EXPECT_THAT(ReadModel(dir.path() + "/f.onnx").ops(), ElementsAre("Gemm", "BatchNormalization"));
  EXPECT_TRUE(network.is_training());
  EXPECT_FALSE(network.get_submodule("1").is_training());
  EXPECT_TRUE(network.get_submodule("2").is_training());
}

TEST(OnnxExport, ViewsBecomeNodes) {
  const Tensor x = zeros({3, 4, 5});
  const auto ops = [&](const Function::Act& act) { return exported(act, x).ops; };
  EXPECT_THAT(ops([](const Tensor& t) { return t.transpose(1, 2).relu(); }),
              ElementsAre("Transpose", "Relu"));
  EXPECT_THAT(ops([](const Tensor& t) { return t.flatten(1).relu(); }),
              ElementsAre("Reshape", "Relu"));
  EXPECT_THAT(ops([](const Tensor& t) { return t.narrow(1, 1, 2).relu(); }),
              ElementsAre("Slice", "Relu"));
  EXPECT_THAT(ops([](const Tensor& t) { return cat({t, t.relu()}, 1); }),
              ElementsAre("Relu", "Concat"));
  EXPECT_THAT(ops([](const Tensor& t) { return pad(t, {1, 2}); }), ElementsAre("Pad"));
  EXPECT_THAT(ops([](const Tensor& t) { return t.select(1, 0).unsqueeze(1).expand({3, 4, 5}); }),
              ElementsAre("Reshape", "Slice", "Reshape", "Expand"));
  EXPECT_THAT(ops([](const Tensor& t) { return t.slice(2, 0, 5, 2); }), ElementsAre("Slice"));
  EXPECT_THAT(ops([](const Tensor& t) { return t.repeat({1, 2, 1}).narrow(1, 1, 4); }),
              testing::Contains("Slice"));
  EXPECT_THAT(ops([](const Tensor& t) { return diagonal(t, 0, 1, 2); }),
              ElementsAre("Reshape", "Slice"));
  EXPECT_THAT(ops([](const Tensor& t) { return t.index({"...", tensor({1, 0})}).relu(); }),
              testing::Contains("Gather"));
}

TEST(OnnxExport, NodesHaveTheNumbersOfTheirWindows) {
  const auto nodes = [](const Function::Act& act, const Shape& shape) {
    return exported(act, zeros(shape)).nodes;
  };
  const auto average = [](const Tensor& t) { return avg_pool2d(t, {.kernel = 2, .stride = 2}); };
  EXPECT_THAT(nodes(average, {1, 2, 4, 6}),
              ElementsAre("AveragePool kernel_shape=2,2 strides=2,2 pads=0,0,0,0 "
                          "count_include_pad=0"));
  // One window along an axis of 3 is not two windows of a smaller stride.
  EXPECT_THAT(nodes(average, {1, 2, 3, 3}),
              ElementsAre("AveragePool kernel_shape=2,2 strides=3,3 pads=0,0,0,0 "
                          "count_include_pad=0"));
  EXPECT_THAT(nodes(average, {1, 2, 3, 4}),
              ElementsAre("AveragePool kernel_shape=2,2 strides=3,2 pads=0,0,0,0 "
                          "count_include_pad=0"));
  EXPECT_THAT(nodes(average, {1, 2, 2, 2}), ElementsAre("GlobalAveragePool"));
  EXPECT_THAT(nodes(
                  [](const Tensor& t) {
                    return nn::functional::max_pool2d(t, 3, {.stride = 2, .padding = 1});
                  },
                  {1, 2, 5, 6}),
              ElementsAre("MaxPool kernel_shape=3,3 strides=2,2 pads=1,1,1,0 dilations=1,1"));
  EXPECT_THAT(nodes([](const Tensor& t) { return t.slice(2, 0, 5, 2); }, {3, 4, 5}),
              ElementsAre("Slice [0] [5] [2] [2]"));
  EXPECT_THAT(nodes([](const Tensor& t) { return t.narrow(1, 1, 2).relu(); }, {3, 4, 5}),
              ElementsAre("Slice [1] [3] [1]", "Relu"));
  EXPECT_THAT(nodes([](const Tensor& t) { return pad(t, {1, 2}); }, {3, 4, 5}),
              ElementsAre("Pad [0,0,1,0,0,2]"));
}

TEST(OnnxExport, NormsAndLogarithmsOfEachElement) {
  const auto ops = [](const Function::Act& act, const Shape& shape) {
    return exported(act, zeros(shape)).ops;
  };
  for (const double p : {1.0, 2.0}) {
    const auto norms = [p](const Tensor& t) { return norm(t, p, {1}, {.keepdim = true}); };
    EXPECT_THAT(ops(norms, {3, 1}), ElementsAre("Abs"));
    EXPECT_THAT(ops(norms, {3, 2}), ElementsAre(p == 1 ? "ReduceL1" : "ReduceL2"));
  }
  // Differences of equal infinities would be NaN.
  EXPECT_THAT(ops([](const Tensor& t) { return logsumexp(t, {1}, {.keepdim = true}); }, {3, 2}),
              ElementsAre("ReduceLogSumExp"));
  EXPECT_THAT(ops([](const Tensor& t) { return logaddexp(t, t.relu()); }, {3, 2}),
              IsSupersetOf({"Equal", "Where", "Sub"}));
}

TEST(OnnxExport, PartsOfATensorAreReplaced) {
  const Exported model = exported(
      [](const Tensor& t) {
        Tensor own = t * 2;
        own.select(1, 1).fill_(3);
        own.narrow(2, 0, 2).add_(1);
        return own;
      },
      zeros({3, 4, 5}), true);
  EXPECT_EQ(model.error, "");
  EXPECT_EQ(model.output, "batch 4 5");
}

TEST(OnnxExport, SizesBecomeNodesThatComputeThem) {
  const Exported views = exported(
      [](const Tensor& t) { return t.view({t.size(0) * 2, 2}).relu().view({t.size(0), 4}); },
      zeros({3, 4}), true);
  EXPECT_THAT(views.ops, ElementsAre("Reshape", "Relu", "Reshape"));
  EXPECT_EQ(views.output, "batch 4");
  const Exported expanded = exported(
      [](const Tensor& t) { return t.mean({0}).unsqueeze(0).expand({2 * t.size(0) + 1, 4}); },
      zeros({3, 4}), true);
  EXPECT_EQ(expanded.error, "");
  EXPECT_THAT(expanded.ops, IsSupersetOf({"Shape", "Mul", "Add", "Concat", "Expand"}));
  EXPECT_EQ(expanded.output, "? 4");
}

TEST(OnnxExport, TwoDynamicAxesAndTwoInputs) {
  const tests::TempDir dir;
  Function none([](const Tensor& t) { return t; });
  const Forward forward = [](std::span<const Tensor> in) {
    return std::vector<Tensor>{cat({in[0], in[1]}, 1), in[0].transpose(0, 1)};
  };
  export_model(
      none, {zeros({2, 3}), zeros({2, 5})}, forward, dir.path() + "/f.onnx",
      {.dynamic_axes = {{"input_1", {{0, "rows"}, {-1, "columns"}}}, {"input_2", {{0, "rows"}}}}});
  const ReadModel model(dir.path() + "/f.onnx");
  model.expect_sound();
  EXPECT_EQ(model.shape(11, 0), "rows columns");
  EXPECT_EQ(model.shape(11, 1), "rows 5");
  EXPECT_EQ(model.shape(12, 0), "rows ?");
  EXPECT_EQ(model.shape(12, 1), "columns rows");
  EXPECT_THAT(model.outputs(), ElementsAre("output_1", "output_2"));
}

TEST(OnnxExport, AttentionHasOneProductForAllBatches) {
  const Exported model = exported(
      [](const Tensor& t) {
        const Tensor heads = t.view({t.size(0), t.size(1), 2, 3}).transpose(1, 2);
        return nn::functional::scaled_dot_product_attention(heads, heads, heads,
                                                            {.is_causal = true});
      },
      randn({2, 4, 6}), true);
  EXPECT_EQ(model.error, "");
  EXPECT_EQ(std::ranges::count(model.ops, "MatMul"), 2);
  EXPECT_EQ(model.output, "batch 2 4 3");
}

TEST(OnnxExport, OperationsThatOnnxLacksAreRefusedByName) {
  const Tensor x = ones({2, 3});
  EXPECT_EQ(refusal([](const Tensor& t) { return atan2(t.relu(), t); }, x),
            "export_model: operation 2 of 2, atan2: opset 17 of ONNX has no operation for 'atan2'");
  EXPECT_THAT(refusal([](const Tensor& t) { return cumprod(t, 1); }, x), HasSubstr("'cumprod'"));
  EXPECT_THAT(refusal([](const Tensor& t) { return median(t, 1).first; }, x),
              HasSubstr("'median'"));
  EXPECT_THAT(refusal([](const Tensor& t) { return nn::functional::dropout(t, 0.5); }, x),
              HasSubstr("'dropout'"));
  EXPECT_THAT(refusal([](const Tensor& t) { return t + t.mean().item<float>(); }, x),
              HasSubstr("a tensor is read on the host (item()"));
  EXPECT_THAT(refusal([](const Tensor& t) { return t + rand({2, 3}); }, x),
              HasSubstr("random numbers"));
}

TEST(OnnxExport, ParametersThatChangeAreRefused) {
  Tensor weight = ones({3});
  EXPECT_THAT(refusal(
                  [&](const Tensor& t) {
                    weight.add_(1);
                    return t * weight;
                  },
                  ones({2, 3})),
              HasSubstr("it changes a parameter, a buffer or another tensor from before the call"));
  EXPECT_THAT(refusal(
                  [](Tensor t) {
                    t.mul_(2);
                    return t;
                  },
                  ones({2, 3})),
              HasSubstr("it changes a parameter"));
}

TEST(OnnxExport, WhatDependsOnADynamicAxisIsRefused) {
  const Tensor x = ones({5, 3});
  EXPECT_THAT(
      refusal([](const Tensor& t) { return t + linspace(0, 1, t.size(0)).unsqueeze(1); }, x, true),
      HasSubstr("has other values for other sizes of a dynamic axis"));
  EXPECT_THAT(
      refusal([](const Tensor& t) { return t * (1.0 / static_cast<double>(t.size(0))); }, x, true),
      HasSubstr("has other values for other sizes of a dynamic axis"));
  const auto loop = [](const Tensor& t) {
    Tensor sum = t[0];
    for (std::int64_t i = 1; i < t.size(0); ++i) sum = (sum + t[i]).tanh();
    return sum;
  };
  EXPECT_THAT(refusal(loop, x, true), HasSubstr("for one size of a dynamic axis than for another"));
  EXPECT_EQ(refusal(loop, x), "");
  EXPECT_THAT(
      refusal(
          [](const Tensor& t) { return expand_as(t[0], empty(Shape{t.size(0) * t.size(0), 3})); },
          x, true),
      HasSubstr("no linear function of the dynamic axes"));
}

TEST(OnnxExport, ASizeThatGrowsByStepsIsNotFixed) {
  // A quarter of the size, rounded up, is the same for 8, 7 and 6.
  const auto divided = [](const Tensor& t) {
    const std::int64_t quarter = (t.size(0) + 3) / 4;
    return t.mean({0}) * (1.0 / static_cast<double>(quarter));
  };
  EXPECT_THAT(refusal(divided, ones({8, 3}), true),
              HasSubstr("has other values for other sizes of a dynamic axis"));
  const auto spread = [](const Tensor& t) { return var(t.slice(0, 0, t.size(0), 4), {0}); };
  EXPECT_THAT(refusal(spread, ones({8, 3}), true), HasSubstr("dynamic ax"));
  // Sizes that the forward does not take are left out.
  const auto limited = [](const Tensor& t) {
    DL_CHECK(t.size(0) <= 8, kShape, "at most 8");
    return t.relu();
  };
  EXPECT_EQ(refusal(limited, ones({8, 3}), true), "");
}

TEST(OnnxExport, ResultsWithoutANodeAreRefused) {
  const auto winners = [](const Tensor& t) {
    Tensor own = empty(Shape{2, 3});
    return own + t;
  };
  EXPECT_THAT(refusal(winners, ones({2, 3})), HasSubstr("it reads"));
}

TEST(OnnxExport, OptionsThatDoNotFitAreRefused) {
  const tests::TempDir dir;
  Function same([](const Tensor& t) { return t.relu(); });
  const auto error = [&](const ExportOptions& options, const Tensor& input) -> std::string {
    try {
      export_model(same, input, dir.path() + "/f.onnx", options);
    } catch (const Error& refused) {
      return refused.what();
    }
    return "";
  };
  const Tensor x = ones({2, 3});
  EXPECT_EQ(error({.opset_version = 18}, x), "export_model: opset_version is 18, wanted 17");
  EXPECT_EQ(error({.input_names = {"a", "b"}}, x),
            "export_model: input_names has 2 names, but there are 1 inputs");
  EXPECT_EQ(error({.output_names = {"a", "b"}}, x),
            "export_model: output_names has 2 names, but there are 1 outputs");
  EXPECT_EQ(error({.dynamic_axes = {{"x", {{0, "batch"}}}}}, x),
            "export_model: dynamic_axes names 'x', which is no input or output");
  EXPECT_THAT(error({.dynamic_axes = {{"input", {{0, "a"}, {1, "a"}}}}}, x),
              HasSubstr("the axis 'a' has the size 3 in input, and 2 in another"));
  EXPECT_THAT(error({.dynamic_axes = {{"input", {{2, "a"}}}}}, x), HasSubstr("export_model"));
  EXPECT_THAT(error({.input_names = {"a"}, .output_names = {"a"}}, x),
              HasSubstr("the name 'a' is there twice"));
  EXPECT_THAT(error({}, Tensor()), HasSubstr("input 1 is undefined"));
  EXPECT_THAT(error({.input_names = {"output"}}, x), HasSubstr("the name 'output' is there twice"));
  same.register_parameter("weight", ones({3}));
  EXPECT_THAT(error({.input_names = {"weight"}}, x), HasSubstr("the name 'weight' is there twice"));
  EXPECT_THAT(error({.output_names = {"weight"}}, x), HasSubstr("or a parameter's or buffer's"));
  EXPECT_TRUE(std::filesystem::is_empty(dir.path()));
}

TEST(OnnxExport, ConstantsGetNamesThatInputsDoNotHave) {
  const tests::TempDir dir;
  Function add([](const Tensor& t) { return t + 2; });
  export_model(add, ones({2, 3}), dir.path() + "/f.onnx",
               {.input_names = {"constant_1"}, .output_names = {"constant_2"}});
  const ReadModel model(dir.path() + "/f.onnx");
  model.expect_sound();
  EXPECT_THAT(model.constants(), ElementsAre("constant_3"));
}

TEST(OnnxExport, WeightsBesideTheModel) {
  const tests::TempDir dir;
  nn::Linear linear(40, 20);
  const std::string path = dir.path() + "/f.onnx";
  export_model(linear, zeros({2, 40}), path, {.external_data = true});
  const ReadModel model(path);
  const std::string_view weight = model.constant("weight");
  EXPECT_THAT(texts(weight, 9), ElementsAre());
  EXPECT_EQ(numbers(weight, 14).at(0), 1);
  EXPECT_THAT(texts(weight, 13).at(0), HasSubstr("f.onnx.data"));
  EXPECT_THAT(texts(model.constant("bias"), 9).at(0).size(), 80U);
  const std::string data = content(path + ".data");
  const Tensor values = linear.state_dict()[0].tensor;
  EXPECT_EQ(data, std::string(static_cast<const char*>(values.data_ptr()), values.nbytes()));
}

TEST(OnnxExport, NothingHalfWrittenIsLeft) {
  const tests::TempDir dir;
  nn::Linear linear(40, 20);
  const auto error = [&](const std::string& path, bool external) -> std::string {
    try {
      export_model(linear, zeros({2, 40}), path, {.external_data = external});
    } catch (const Error& refused) {
      return refused.what();
    }
    return "";
  };
  EXPECT_THAT(error(dir.path() + "/none/f.onnx", false), HasSubstr("No such file or directory"));
  for (const bool external : {false, true}) {
    std::string text;
    {
      const tests::FileSizeLimit full(1000);
      text = error(dir.path() + "/f.onnx", external);
    }
    EXPECT_THAT(text, HasSubstr("File too large"));
    EXPECT_TRUE(std::filesystem::is_empty(dir.path()));
  }
}

TEST(OnnxExport, RandomNetworksAreSoundFiles) {
  const tests::TempDir dir;
  for (std::uint32_t seed = 0; seed < 30; ++seed) {
    SCOPED_TRACE(seed);
    RandomNetwork network(seed);
    const std::string path = dir.path() + "/f.onnx";
    export_model(network, zeros({1, 3, 12, 10}), path,
                 {.dynamic_axes = {{"input", {{0, "batch"}}}}});
    const ReadModel model(path);
    model.expect_sound();
    EXPECT_EQ(model.shape(12, 0), "batch 7");
  }
}

TEST(OnnxMessage, IsThatOfProtocolBuffers) {
  Message inner;
  inner.text(1, "ab");
  Message message;
  message.number(1, 300);
  message.number(2, -1);
  message.real(3, 1.0F);
  const std::byte bytes[] = {std::byte{7}, std::byte{8}};
  inner.borrow(9, bytes);
  message.message(20, inner);
  std::string written;
  message.write([&](std::span<const std::byte> piece) {
    written.append(reinterpret_cast<const char*>(piece.data()), piece.size());
  });
  const std::string minus_one = std::string(9, '\xff') + '\x01';
  EXPECT_EQ(written, std::string("\x08\xac\x02\x10") + minus_one +
                         std::string("\x1d\0\0\x80\x3f\xa2\x01\x08\x0a\x02"
                                     "ab\x4a\x02\x07\x08",
                                     16));
  EXPECT_EQ(message.size(), written.size());
}

TEST(OnnxRegion, BoxesAreTheDigitsOfAddresses) {
  const Region whole{0, {4, 6}, {6, 1}};
  const Region part{8, {2, 3}, {6, 1}};     // [1:3, 2:5]
  const Region turned{1, {2, 3}, {2, 6}};   // columns 1 and 3 of three rows
  const Region windows{0, {4, 3}, {1, 1}};  // overlap
  const Region both[] = {whole, part};
  const auto levels = levels_of(both);
  ASSERT_TRUE(levels);
  EXPECT_THAT(*levels, ElementsAre(6, 1));
  EXPECT_THAT(box_of(part, *levels)->starts, ElementsAre(1, 2));
  EXPECT_THAT(box_of(part, *levels)->counts, ElementsAre(2, 3));
  EXPECT_TRUE(box_of(whole, *levels)->contains(*box_of(part, *levels)));
  EXPECT_FALSE(box_of(part, *levels)->contains(*box_of(whole, *levels)));
  const Region three[] = {whole, turned};
  EXPECT_THAT(*levels_of(three), ElementsAre(6, 2, 1));
  EXPECT_THAT(box_of(turned, *levels_of(three))->counts, ElementsAre(3, 2, 1));
  const Region alone[] = {windows};
  EXPECT_FALSE(box_of(windows, *levels_of(alone)));
  const Region odd[] = {whole, {0, {2}, {4}}};
  EXPECT_FALSE(levels_of(odd));
  EXPECT_TRUE(united({5, {2, 1, 3, 4}, {12, 7, 4, 1}}).same_as({5, {24}, {1}}));
  EXPECT_TRUE(united({0, {2, 4, 3}, {12, 1, 4}}).same_as({0, {2, 4, 3}, {12, 1, 4}}));
}

}  // namespace
}  // namespace dl::onnx
