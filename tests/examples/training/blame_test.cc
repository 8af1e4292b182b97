#include "examples/support/training/report/blame.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "core/autograd/grad_mode.h"
#include "core/ops/elementwise/arithmetic.h"
#include "core/tensor/factories.h"
#include "nn/layers/activation/activation.h"
#include "nn/layers/linear.h"
#include "nn/module/sequential.h"

namespace dl::examples {
namespace {

constexpr float kHuge = 3e38F;

// Divides by 0 in its own forward(), not in a module inside it.
class Breaks : public nn::Module {
 public:
  Tensor forward(const Tensor& x) override { return inner_(x) / 0.0; }

 private:
  nn::ReLU& inner_ = register_module("inner", nn::ReLU());
};

nn::Sequential network() {
  return {nn::Linear(2, 2), nn::ReLU(), nn::Linear(2, 2)};
}

TEST(Blame, NamesTheFirstModuleThatOverflows) {
  nn::Sequential model = network();
  const NoGradGuard no_grad;
  model.get_parameter("2.weight").fill_(kHuge);
  model.get_parameter("0.weight").fill_(1);
  EXPECT_EQ(blame_for(model, full({1, 2}, 10.0)), "the output of 2 (Linear) is not finite");
  model.get_parameter("0.weight").fill_(kHuge);
  EXPECT_EQ(blame_for(model, full({1, 2}, 10.0)), "the output of 0 (Linear) is not finite");
  EXPECT_FALSE(model.get_submodule("0").has_forward_hooks());
}

TEST(Blame, NamesAModuleWhoseOwnArithmeticOverflows) {
  nn::Sequential model{nn::Linear(2, 2), Breaks()};
  EXPECT_EQ(blame_for(model, ones({1, 2})), "the output of 1 (Breaks) is not finite");
}

TEST(Blame, PrefersParametersAndTheBatch) {
  nn::Sequential model = network();
  EXPECT_EQ(blame_for(model, full({1, 2}, std::numeric_limits<double>::quiet_NaN())),
            "the batch itself has a value that is not finite");
  const NoGradGuard no_grad;
  model.get_parameter("2.bias").fill_(std::numeric_limits<double>::infinity());
  EXPECT_EQ(blame_for(model, ones({1, 2})), "the parameter 2.bias is not finite");
}

TEST(Blame, SaysIfTheModulesAreInnocent) {
  nn::Sequential model = network();
  EXPECT_EQ(blame_for(model, ones({1, 2})), "the outputs of all modules are finite");
}

}  // namespace
}  // namespace dl::examples
