#include "nn/module/module.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "core/device/cuda/cuda.h"
#include "core/tensor/factories.h"
#include "nn/layers/linear.h"
#include "nn/layers/shape/shape.h"
#include "nn/module/sequential.h"
#include "tests/nn/support.h"

namespace dl::nn {
namespace {

using testing::ElementsAre;

// The class of the same name in make_arrays.py.
class Block : public Module {
 public:
  std::string extra_repr() const override { return "width=3\nsteps=2"; }

  Tensor& steps = register_buffer("steps", zeros({2}));
  Linear& fc = register_module("fc", Linear(4, 3, {.bias = false}));
  Tensor& scale = register_parameter("scale", ones({3}));
  Sequential& inner = register_module("inner", Sequential{Linear(3, 3), Identity()});
  Tensor& scratch = register_buffer("scratch", zeros({1}), {.persistent = false});
  Linear& tied = register_module("tied", Linear(4, 3, {.bias = false}));
  Block() { tied.weight = fc.weight; }
};

template <typename Named>
std::string names_of(const std::vector<Named>& list) {
  std::string text;
  for (std::size_t i = 0; i < list.size(); ++i) text += (i == 0 ? "" : "\n") + list[i].name;
  return text;
}

const parity::Arrays& arrays() {
  static const parity::Arrays kArrays("modules");
  return kArrays;
}

TEST(Module, ListsNamesInPyTorchsOrder) {
  Block block;
  EXPECT_EQ(names_of(block.state_dict()), text_of(arrays(), "block.keys"));
  EXPECT_EQ(names_of(block.named_parameters()), text_of(arrays(), "block.parameters"));
  EXPECT_EQ(names_of(block.named_buffers()), text_of(arrays(), "block.buffers"));
  EXPECT_EQ(names_of(block.named_modules()), text_of(arrays(), "block.modules"));
}

TEST(Module, PrintsAsPyTorchDoes) {
  std::ostringstream out;
  out << Block();
  EXPECT_EQ(out.str(), text_of(arrays(), "block.text"));
}

TEST(Module, CountsASharedParameterOnce) {
  Block block;
  EXPECT_EQ(block.count_parameters(), 3 + 12 + 9 + 3);
  EXPECT_EQ(block.parameters().size(), 4u);
  EXPECT_EQ(block.named_parameters(false).size(), 1u);
  EXPECT_EQ(block.named_buffers(false).size(), 2u);
  EXPECT_EQ(block.buffers().size(), 2u);
  EXPECT_EQ(block.named_children().size(), 3u);
}

TEST(Module, ModulesAndChildrenAreThoseWithNames) {
  Block block;
  const auto expect_same = [](const std::vector<Module*>& got,
                              const std::vector<NamedModule>& named) {
    std::vector<Module*> wanted;
    for (const NamedModule& each : named) wanted.push_back(each.module);
    EXPECT_EQ(got, wanted);
  };
  expect_same(block.modules(), block.named_modules());
  expect_same(block.children(), block.named_children());
  EXPECT_EQ(block.modules()[0], &block);
  EXPECT_EQ(block.children().size(), 3u);
}

TEST(Module, ParametersAskForGradientsAndBuffersDoNot) {
  Block block;
  for (const Tensor& p : block.parameters()) EXPECT_TRUE(p.requires_grad());
  for (const Tensor& b : block.buffers()) EXPECT_FALSE(b.requires_grad());
  for (const NamedTensor& entry : block.state_dict()) EXPECT_FALSE(entry.tensor.requires_grad());
  block.requires_grad_(false);
  EXPECT_FALSE(block.scale.requires_grad());
}

TEST(Module, ReferencesStayValidWhenItIsMoved) {
  Block block;
  Tensor* const place = &block.scale;
  const Block moved = std::move(block);
  EXPECT_EQ(&moved.scale, place);
  EXPECT_TRUE(moved.named_parameters()[0].tensor.is_same(moved.scale));
  Sequential outer{Block()};
  EXPECT_TRUE(outer.get_parameter("0.fc.weight").is_same(outer.at<Block>(0).fc.weight));
}

TEST(Module, FindsByPath) {
  Block block;
  EXPECT_EQ(&block.get_submodule(""), &block);
  EXPECT_EQ(&block.get_submodule("inner.0"), &block.inner[0]);
  EXPECT_EQ(&block.get_parameter("inner.0.weight"), &block.inner.at<Linear>(0).weight);
  EXPECT_ERROR(block.get_submodule("inner.2"), kNotFound,
               "get_submodule(\"inner.2\"): Sequential has no module \"2\"; it has \"0\", \"1\"");
  EXPECT_ERROR(block.get_submodule("inner.1.x"), kNotFound,
               "get_submodule(\"inner.1.x\"): Identity has no module \"x\"; it has none");
  EXPECT_ERROR(
      block.get_parameter("inner.0.w"), kNotFound,
      "get_parameter(\"inner.0.w\"): Linear has no parameter \"w\"; it has \"weight\", \"bias\"");
  EXPECT_ERROR(block.get_parameter("fc.bias"), kNotFound,
               "get_parameter(\"fc.bias\"): Linear has no parameter \"bias\"; it has \"weight\"");
}

TEST(Module, MovesToADeviceByItsName) {
  Block block;
  const Tensor before = block.scale;
  block.to("cpu");
  EXPECT_TRUE(block.scale.is_same(before));
  EXPECT_TRUE(before.to("cpu").is_same(before));
  EXPECT_THROW(block.to("gpu"), Error);
  EXPECT_THROW(before.to("gpu"), Error);
  if (!cuda::is_available()) {
    EXPECT_THROW(block.to("cuda:0"), Error);
    EXPECT_TRUE(block.scale.is_same(before));
    return;
  }
  EXPECT_EQ(before.to("cuda:0").device().str(), "cuda:0");
  EXPECT_EQ(block.to("cuda:0").parameters()[0].device().str(), "cuda:0");
}

TEST(Module, RefusesBadNames) {
  Identity module;
  module.register_buffer("a", zeros({1}));
  EXPECT_ERROR(module.register_buffer("", zeros({1})), kInvalidArgument,
               "Identity: the name of a buffer is empty");
  EXPECT_ERROR(module.register_module("b.c", Identity()), kInvalidArgument,
               "Identity: the name of module \"b.c\" contains a dot, which separates modules");
  EXPECT_ERROR(module.register_parameter("a", zeros({1})), kInvalidArgument,
               "Identity: parameter \"a\": the name is already registered");
}

TEST(Module, ReplacesAModule) {
  Block block;
  Linear& fc = block.fc;
  Linear& now = block.replace_module("fc", Linear(4, 2));
  EXPECT_EQ(&now, &fc);  // so that forward() of the class uses the new one
  EXPECT_EQ(fc(ones({1, 4})).sizes(), Shape({1, 2}));
  EXPECT_EQ(names_of(block.named_children()), "fc\ninner\ntied");
  EXPECT_EQ(names_of(fc.named_parameters()), "weight\nbias");
  EXPECT_TRUE(block.get_parameter("fc.weight").is_same(fc.weight));

  Module& first = *block.inner.named_children()[0].module;
  block.replace_module("inner.0", Sequential{Linear(3, 5), Linear(5, 3)});
  EXPECT_EQ(block.inner(ones({1, 3})).sizes(), Shape({1, 3}));
  EXPECT_EQ(names_of(block.inner.named_children()), "0\n1");
  EXPECT_ERROR(first(ones({1, 3})), kInvalidArgument,
               "Linear: a call: replace_module() put another module in this one's place; use what "
               "it returned, or what named_modules() lists");
  Block moved = std::move(block);
  EXPECT_EQ(&moved.fc, &fc);
  EXPECT_ERROR(first(ones({1, 3})), kInvalidArgument,
               "Linear: a call: replace_module() put another module in this one's place; use what "
               "it returned, or what named_modules() lists");
}

TEST(Module, ReplacesOnlyWhatIsThere) {
  Block block;
  EXPECT_ERROR(block.replace_module("head", Identity()), kNotFound,
               "replace_module(\"head\"): Block has no module \"head\"; it has \"fc\", \"inner\", "
               "\"tied\"");
  EXPECT_ERROR(block.replace_module("inner.7", Identity()), kNotFound,
               "replace_module(\"inner.7\"): Sequential has no module \"7\"; it has \"0\", \"1\"");
  EXPECT_ERROR(block.register_module("fc", Identity()), kInvalidArgument,
               "Block: module \"fc\": the name is already registered; replace_module() replaces a "
               "module");
}

TEST(Module, RefusesParametersWithoutGradients) {
  Identity module;
  EXPECT_ERROR(module.register_parameter("n", zeros({1}, {.dtype = DType::kI64})), kDType,
               "Identity: parameter \"n\" is int64, wanted a floating dtype; register_buffer() "
               "takes others");
}

TEST(Module, TrainsAndEvaluatesWithAllInside) {
  Block block;
  EXPECT_TRUE(block.inner[0].is_training());
  block.eval();
  EXPECT_FALSE(block.is_training());
  EXPECT_FALSE(block.inner[1].is_training());
  EXPECT_TRUE(block.train().is_training());
  EXPECT_TRUE(block.inner[1].is_training());
}

TEST(Module, AppliesToInnerModulesFirst) {
  Block block;
  std::vector<std::string> order;
  block.apply([&](Module& m) { order.push_back(m.type_name()); });
  EXPECT_THAT(order, ElementsAre("Linear", "Linear", "Identity", "Sequential", "Linear", "Block"));
}

TEST(Module, RefusesToApplyNoFunction) {
  Linear linear(2, 2);
  EXPECT_ERROR(linear.apply(nullptr), kInvalidArgument, "Linear: apply: there is no function");
}

TEST(Module, ZeroGradForgetsOrZeroes) {
  Linear fc(2, 1);
  fc.weight.set_grad(ones({1, 2}));
  fc.zero_grad(false);
  EXPECT_EQ(values<float>(fc.weight.grad()), (std::vector<float>{0, 0}));
  fc.zero_grad();
  EXPECT_FALSE(fc.weight.grad().defined());
}

TEST(Module, ConvertsFloatingTensorsAndKeepsSharing) {
  Block block;
  Tensor& count = block.inner.register_buffer("count", zeros({1}, {.dtype = DType::kI64}));
  const auto before = values<double>(block.fc.weight);
  block.fc.weight.set_grad(ones({3, 4}));
  block.to(DType::kF64);
  EXPECT_EQ(block.fc.weight.dtype(), DType::kF64);
  EXPECT_EQ(block.steps.dtype(), DType::kF64);
  EXPECT_EQ(count.dtype(), DType::kI64);
  EXPECT_TRUE(block.fc.weight.is_leaf());
  EXPECT_TRUE(block.fc.weight.requires_grad());
  EXPECT_EQ(block.fc.weight.grad().dtype(), DType::kF64);
  EXPECT_TRUE(block.tied.weight.is_same(block.fc.weight));
  EXPECT_EQ(values<double>(block.fc.weight), before);
  EXPECT_ERROR(block.to(DType::kI64), kDType, "Block: to(int64): wanted a floating dtype");
}

TEST(Module, ConvertsAFrozenParameterThatHoldsAGradient) {
  Linear fc(2, 1);
  fc.weight.set_grad(ones({1, 2}));
  fc.requires_grad_(false);
  fc.to(DType::kF64);
  EXPECT_FALSE(fc.weight.requires_grad());
  EXPECT_FALSE(fc.bias.requires_grad());
  EXPECT_EQ(fc.bias.dtype(), DType::kF64);
  EXPECT_EQ(values<double>(fc.weight.grad()), (std::vector<double>{1, 1}));
}

TEST(Module, WithoutForwardSaysSo) {
  Block block;
  EXPECT_ERROR(block(zeros({1})), kNotImplemented, "Block: forward() of one tensor is not defined");
}

}  // namespace
}  // namespace dl::nn
