#include "nn/module/module_list.h"

#include <gtest/gtest.h>

#include "core/ops/elementwise/arithmetic.h"
#include "nn/layers/activation/activation.h"
#include "nn/layers/linear.h"
#include "nn/layers/shape/shape.h"
#include "nn/module/init.h"
#include "nn/module/sequential.h"
#include "tests/nn/support.h"

namespace dl::nn {
namespace {

class Stack : public Module {
 public:
  Tensor forward(const Tensor& x) override {
    Tensor y = x;
    for (std::size_t i = 0; i < layers.size(); ++i) y = layers[i](y);
    return heads["a"](y) * scales[1];
  }
  ModuleList& layers = register_module("layers", ModuleList{Linear(2, 3), Linear(3, 2)});
  ModuleDict& heads = register_module("heads", ModuleDict{{"a", Linear(2, 1)}, {"b", ReLU()}});
  ParameterList& scales = register_module("scales", ParameterList{ones({2, 3}), full({1}, 2.0)});
};

TEST(Containers, NameTheirEntriesAsPyTorchDoes) {
  Stack model;
  std::string names;
  for (const NamedTensor& entry : model.state_dict()) names += entry.name + " ";
  EXPECT_EQ(names,
            "layers.0.weight layers.0.bias layers.1.weight layers.1.bias heads.a.weight "
            "heads.a.bias scales.0 scales.1 ");
  const Tensor x = ones({4, 2});
  const Stack moved = std::move(model);
  EXPECT_EQ(const_cast<Stack&>(moved)(x).sizes(), Shape({4, 1}));
}

TEST(Containers, PrintAsPyTorchDoes) {
  EXPECT_EQ((ModuleList{Linear(2, 3), Linear(2, 3), ReLU(), Linear(2, 3)}).str(),
            "ModuleList(\n  (0-1): 2 x Linear(in_features=2, out_features=3, bias=True)\n  (2): "
            "ReLU()\n  (3): Linear(in_features=2, out_features=3, bias=True)\n)");
  EXPECT_EQ((ModuleDict{{"a", Linear(2, 3)}, {"b", ReLU()}}).str(),
            "ModuleDict(\n  (a): Linear(in_features=2, out_features=3, bias=True)\n  (b): "
            "ReLU()\n)");
  EXPECT_EQ((ParameterList{zeros({2, 3})}).str(),
            "ParameterList(  (0): Parameter containing: [torch.float32 of size 2x3])");
  EXPECT_EQ((ParameterList{zeros({2, 3}), zeros({})}).str(),
            "ParameterList(\n    (0): Parameter containing: [torch.float32 of size 2x3]\n    (1): "
            "Parameter containing: [torch.float32 of size ]\n)");
  EXPECT_EQ((Sequential{ReLU(), ReLU()}).str(), "Sequential(\n  (0): ReLU()\n  (1): ReLU()\n)");
}

TEST(Containers, AreIndexedByNumberOrName) {
  ModuleList list{Linear(2, 3)};
  list.add(ReLU());
  EXPECT_EQ(list.at<Linear>(0).out_features, 3);
  EXPECT_ERROR(list[2], kIndex, "ModuleList: there is no module 2 among 2");
  EXPECT_ERROR(list.at<ReLU>(0), kInvalidArgument,
               "ModuleList: module 0 is a Linear, not what was asked for");
  ModuleDict dict{{"fc", Linear(2, 3)}};
  dict.add("act", ReLU());
  EXPECT_EQ(dict.keys(), (std::vector<std::string>{"fc", "act"}));
  EXPECT_TRUE(dict.contains("act"));
  EXPECT_EQ(dict.at<Linear>("fc").in_features, 2);
  EXPECT_ERROR(dict["conv"], kNotFound,
               "ModuleDict: there is no module \"conv\"; it has \"fc\", \"act\"");
  ParameterList parameters{ones({2})};
  EXPECT_TRUE(parameters[0].requires_grad());
  EXPECT_ERROR(parameters[1], kIndex, "ParameterList: there is no parameter 1 among 1");
}

TEST(Containers, AppendUnderTheNextNumber) {
  ModuleList list;
  list.append(Linear(2, 3)).append(ReLU());
  list.push_back(Linear(3, 1));
  list.push_back({"last", ReLU()});
  std::string names;
  for (const auto& [name, child] : list.named_children()) names += name + " ";
  EXPECT_EQ(names, "0 1 2 last ");
  EXPECT_EQ(list.at<Linear>(2).in_features, 3);
  ModuleEntry entry = ReLU();
  const ModuleEntry taken = std::move(entry);
  EXPECT_ERROR(list.append(std::move(entry)), kInvalidArgument,
               "ModuleList: append: the entry holds no module; it was moved from");
  Sequential chain;
  chain.append(Linear(2, 3));
  chain.push_back(ReLU());
  EXPECT_EQ(chain(ones({4, 2})).sizes(), Shape({4, 3}));
  ParameterList parameters;
  parameters.append(ones({2})).append(ones({3}));
  parameters.push_back(ones({4}));
  EXPECT_EQ(parameters[2].sizes(), Shape({4}));
  EXPECT_TRUE(parameters[1].requires_grad());
}

TEST(ForwardHooks, SeeAndChangeInputsAndOutputsUntilRemoved) {
  Linear layer(1, 1, {.bias = false});
  init::constant_(layer.weight, 3);
  std::string seen;
  HookHandle before = layer.register_forward_pre_hook([&](Module&, const Tensor& x) {
    seen += "before ";
    return add(x, 1);
  });
  HookHandle watch = layer.register_forward_hook([&](Module& m, const Tensor& x, const Tensor& y) {
    seen += m.type_name() + " " + std::to_string(x.item<int>()) + " " +
            std::to_string(y.item<int>()) + " ";
    return Tensor();
  });
  HookHandle after =
      layer.register_forward_hook([&](Module&, const Tensor&, const Tensor& y) { return neg(y); });
  EXPECT_EQ(layer(ones({1, 1})).item<int>(), -6);
  EXPECT_EQ(seen, "before Linear 2 6 ");
  before.remove();
  watch.remove();
  EXPECT_EQ(layer(ones({1, 1})).item<int>(), -3);
  after.remove();
  after.remove();
  EXPECT_EQ(layer(ones({1, 1})).item<int>(), 3);
  EXPECT_FALSE(layer.has_forward_hooks());
}

TEST(ForwardHooks, KeepAModuleOutOfAFusedPass) {
  Sequential model{Linear(2, 2), ReLU()};
  int calls = 0;
  for (const std::size_t i : {0u, 1u}) {
    HookHandle handle = model[i].register_forward_hook([&](Module&, const Tensor&, const Tensor&) {
      ++calls;
      return Tensor();
    });
    model(ones({1, 2}));
    EXPECT_EQ(calls, 1);
    calls = 0;
    handle.remove();
  }
  HookHandle outlives;
  {
    Identity module;
    outlives = module.register_forward_hook(
        [](Module&, const Tensor&, const Tensor&) { return Tensor(); });
  }
  outlives.remove();
}

}  // namespace
}  // namespace dl::nn
