#include <gtest/gtest.h>

#include "core/ops/common.h"
#include "core/ops/elementwise/arithmetic.h"
#include "tests/core/ops/gradcheck_cases.h"
#include "tests/core/support.h"

#define DL_TEST_kGradcheck(kernel) \
  TEST(Gradcheck, kernel) {        \
    testing::gradcheck_##kernel(); \
  }
#define DL_TEST_kNoGradient(kernel)

namespace dl {

#define DL_OP(enumerator, kernel, name, on_cpu, on_cuda, gradcheck, outputs, flops) \
  DL_TEST_##gradcheck(kernel)
#define DL_COMPOSED(name)        \
  TEST(Gradcheck, name) {        \
    testing::gradcheck_##name(); \
  }
#include "core/ops/op_list.def"
#undef DL_OP
#define DL_BINARY(enumerator, name, Formula, text, takes, gives, on_cpu, on_cuda, cuda, gradcheck) \
  DL_TEST_##gradcheck(name)
#include "core/elementwise/list.def"

namespace {

struct WrongBackward final : Node {
  std::string_view name() const noexcept override { return "wrong"; }
  void backward(BackwardContext& context) override {
    Tensor grad = context.grad_output().clone();
    grad.at<double>({1}) *= 1.001;
    context.give(0, grad);
  }
};

TEST(GradcheckItself, NamesTheInputAndTheElementThatAreWrong) {
  const Tensor x = testing::numbers({3});
  const auto wrong = [](const std::vector<Tensor>& in) {
    Tensor y = in[0].detach().clone();
    record<WrongBackward>(y, in[0]);
    return y;
  };
  try {
    gradcheck("wrong", wrong, {x});
    FAIL() << "a wrong gradient passed";
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()).find("gradcheck of wrong: input 0, element [1]: "), 0u)
        << error.what();
  }
}

}  // namespace
}  // namespace dl
