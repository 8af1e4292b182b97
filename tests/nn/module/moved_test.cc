// Modules that another one was made of, by moving.
#include <gmock/gmock.h>

#include <functional>
#include <sstream>
#include <type_traits>
#include <utility>

#include "core/ops/elementwise/arithmetic.h"
#include "core/tensor/factories.h"
#include "nn/layers/activation/activation.h"
#include "nn/layers/activation/dropout.h"
#include "nn/layers/conv/conv.h"
#include "nn/layers/linear.h"
#include "nn/layers/pool/pool.h"
#include "nn/layers/shape/shape.h"
#include "nn/module/sequential.h"
#include "nn/optim/algorithms/algorithms.h"

namespace dl::nn {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;
using ::testing::ThrowsMessage;

struct Scale : Module {
  Tensor forward(const Tensor& input) override { return mul(input, factor); }
  Tensor& factor = register_parameter("factor", full({1}, 3.0, {.dtype = DType::kF32}));
};

auto throws_moved(const std::string& type, const std::string& use) {
  return ThrowsMessage<Error>(
      StartsWith(type + ": " + use +
                 ": the module was moved from, and holds nothing any more; use the one that was "
                 "made of it"));
}

TEST(MovedModule, RefusesEveryMember) {
  Linear moved(2, 3);
  {
    const Linear gone = std::move(moved);  // whose tensors moved's references name
  }
  const std::pair<const char*, std::function<void()>> members[] = {
      {"a call", [&] { moved(ones({1, 2})); }},
      {"a call", [&] { moved.forward(ones({1, 2})); }},
      {"a call", [&] { moved.forward_fused(ones({1, 2}), {.after = Activation::kRelu}); }},
      {"reset_parameters", [&] { moved.reset_parameters(); }},
      {"extra_repr", [&] { moved.extra_repr(); }},
      {"a registration", [&] { moved.register_module("more", ReLU()); }},
      {"a registration", [&] { moved.register_parameter("more", ones({1})); }},
      {"a registration", [&] { moved.register_buffer("more", ones({1})); }},
      {"named_parameters", [&] { moved.named_parameters(); }},
      {"named_parameters", [&] { moved.named_parameters(false); }},
      {"named_buffers", [&] { moved.named_buffers(); }},
      {"parameters", [&] { moved.parameters(); }},
      {"buffers", [&] { moved.buffers(); }},
      {"named_modules", [&] { moved.named_modules(); }},
      {"named_children", [&] { moved.named_children(); }},
      {"modules", [&] { moved.modules(); }},
      {"children", [&] { moved.children(); }},
      {"get_submodule", [&] { moved.get_submodule(""); }},
      {"get_parameter", [&] { moved.get_parameter("weight"); }},
      {"count_parameters", [&] { moved.count_parameters(); }},
      {"state_dict", [&] { moved.state_dict(); }},
      {"load_state_dict", [&] { moved.load_state_dict(StateDict{}); }},
      {"is_training", [&] { moved.is_training(); }},
      {"train", [&] { moved.train(); }},
      {"train", [&] { moved.eval(); }},
      {"zero_grad", [&] { moved.zero_grad(); }},
      {"requires_grad_", [&] { moved.requires_grad_(); }},
      {"apply", [&] { moved.apply([](Module&) {}); }},
      {"to", [&] { moved.to(DType::kF64); }},
      {"to", [&] { moved.to(Device{}); }},
      {"str", [&] { moved.str(); }},
      {"str", [&] { std::ostringstream() << static_cast<Module&>(moved); }},
  };
  for (const auto& [use, call] : members) {
    EXPECT_THAT(call, throws_moved("Linear", use)) << use;
  }
  EXPECT_EQ(moved.type_name(), "Linear");
}

template <typename M>
void expect_refused_call(M module, const char* type, const Tensor& input) {
  const M here = std::move(module);
  Module& moved = module;
  EXPECT_THAT([&] { moved(input); }, throws_moved(type, "a call"));
  EXPECT_THAT([&] { moved.forward(input); }, throws_moved(type, "a call"));
}

TEST(MovedModule, OfEveryLayerRefusesACall) {
  const Tensor image = ones({1, 2, 4, 4});
  expect_refused_call(Linear(4, 4), "Linear", image);
  expect_refused_call(Conv2d(2, 2, 3), "Conv2d", image);
  expect_refused_call(MaxPool2d(2), "MaxPool2d", image);
  expect_refused_call(ReLU(), "ReLU", image);
  expect_refused_call(GELU(), "GELU", image);
  expect_refused_call(Dropout(0.5), "Dropout", image);
  expect_refused_call(Flatten(), "Flatten", image);
  expect_refused_call(Identity(), "Identity", image);
  expect_refused_call(Sequential{{ReLU(), Flatten()}}, "Sequential", image);
}

TEST(MovedModule, OfAClassOfTheUserRefusesACall) {
  Scale moved;
  Scale here = std::move(moved);
  EXPECT_THAT([&] { moved(ones({1})); }, throws_moved("Scale", "a call"));
  EXPECT_EQ(here(ones({1})).item<float>(), 3.F);
}

TEST(MovedModule, InsideASequentialIsFound) {
  Sequential model;
  model.add(Linear(2, 2));
  model.add(Scale());
  Scale out = std::move(model.at<Scale>(1));
  EXPECT_THAT([&] { model(ones({1, 2})); }, throws_moved("Scale", "a call"));
  EXPECT_THAT([&] { model.parameters(); }, throws_moved("Scale", "named_parameters"));
  EXPECT_THAT([&] { model.add(std::move(model.at<Scale>(1))); },
              throws_moved("Scale", "a registration in another module"));
  const Sequential gone = std::move(model);
  EXPECT_THAT([&] { static_cast<void>(model.size()); }, throws_moved("Sequential", "size"));
  EXPECT_THAT([&] { static_cast<void>(model[0]); }, throws_moved("Sequential", "operator[]"));
}

TEST(MovedModule, AnOptimizerIsNotMadeOfIt) {
  Linear moved(2, 2);
  const Linear here = std::move(moved);
  EXPECT_THAT([&] { const optim::SGD opt(moved.parameters()); },
              throws_moved("Linear", "parameters"));
  EXPECT_EQ(here.parameters().size(), 2U);
}

// What cannot be moved has no moved-from state.
static_assert(!std::is_move_constructible_v<optim::SGD>);
static_assert(!std::is_move_constructible_v<optim::Adam>);
static_assert(!std::is_move_assignable_v<Linear>);

}  // namespace
}  // namespace dl::nn
