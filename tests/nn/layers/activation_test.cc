// The layers of nn/functional/activations.def, one row each.
#include "nn/layers/activation/activation.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>

#include "core/tensor/factories.h"
#include "tests/core/support.h"

namespace dl::nn {
namespace {

struct Case {
  std::string name;
  kernels::UnaryFn fn;
  std::function<std::unique_ptr<Module>(bool inplace)> make;
  Tensor (*function)(const Tensor&);
  bool has_inplace;
};

std::vector<Case> cases() {
  return {
#define DL_ACTIVATION(Layer, function, enumerator)                                          \
  Case{#Layer, kernels::UnaryFn::enumerator,                                                \
       [](bool inplace) {                                                                   \
         return std::make_unique<Layer>(functional::ActivationOptions{.inplace = inplace}); \
       },                                                                                   \
       &dl::function, true},
#include "nn/functional/activations.def"
#define DL_PLAIN_ACTIVATION(Layer, function) \
  Case{#Layer, {}, [](bool) { return std::make_unique<Layer>(); }, &dl::function, false},
#include "nn/functional/activations.def"
  };
}

TEST(Activations, ComputeTheFunctionOfTheirRow) {
  for (const Case& each : cases()) {
    const Tensor x = tensor({-2.5F, -0.5F, 0.25F, 4.0F});
    const auto wanted = values<float>(each.function(x));
    const auto layer = each.make(false);
    EXPECT_EQ(values<float>((*layer)(x)), wanted) << each.name;
    EXPECT_EQ(layer->str(), each.name + "()");
    if (!each.has_inplace) continue;
    EXPECT_EQ(values<float>(unary(each.fn, x)), wanted) << each.name << " names another row";
    const Tensor y = x.clone();
    const auto in_place = each.make(true);
    EXPECT_TRUE((*in_place)(y).is_same(y)) << each.name;
    EXPECT_EQ(values<float>(y), wanted) << each.name;
    EXPECT_EQ(in_place->str(), each.name + "(inplace=True)");
  }
}

TEST(Activations, RefuseACallAfterTheyWereMoved) {
#define DL_ACTIVATION(...) DL_ACTIVATION_CASE(__VA_ARGS__)
#define DL_PLAIN_ACTIVATION(...) DL_ACTIVATION_CASE(__VA_ARGS__)
#define DL_ACTIVATION_CASE(Layer, ...)                                   \
  {                                                                      \
    Layer gone;                                                          \
    const Layer here(std::move(gone));                                   \
    EXPECT_THROW(gone.forward(ones({2})), Error) << #Layer; /* NOLINT */ \
  }
#include "nn/functional/activations.def"
#undef DL_ACTIVATION_CASE
}

}  // namespace
}  // namespace dl::nn
