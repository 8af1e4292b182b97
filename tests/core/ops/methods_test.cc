// Methods of core/tensor/methods.def that users look for: each is the function of its name.
#include <gtest/gtest.h>

#include "core/ops/elementwise/activation.h"
#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/elementwise/numeric.h"
#include "core/ops/linear/product.h"
#include "core/ops/logic/logic.h"
#include "core/ops/shape/shape.h"
#include "core/ops/softmax/softmax.h"
#include "core/tensor/factories.h"
#include "tests/core/support.h"

namespace dl {
namespace {

TEST(Methods, OfSoftmaxAreItsFunctions) {
  const Tensor x = tensor({{1., 2., 4.}, {0., 0., 8.}});
  EXPECT_TRUE(equal(x.softmax(-1), softmax(x, -1)));
  EXPECT_TRUE(equal(x.softmax(0), softmax(x, 0)));
  EXPECT_TRUE(equal(x.log_softmax(1), log_softmax(x, 1)));
  const Tensor w = x.clone().requires_grad_();
  w.log_softmax(-1).select(1, 2).sum().backward();
  expect_near(w.grad() + softmax(x, -1), {0, 0, 1, 0, 0, 1}, 1e-6);
  EXPECT_ERROR(
      Tensor().softmax(0), kInvalidArgument,
      "softmax: the tensor is undefined (default constructed, or moved from); assign a value "
      "first, or ask defined()");
}

TEST(Methods, OfProductsAndActivationsAreTheirFunctions) {
  const Tensor x = tensor({{1., -2.}, {-0.25, 4.}});
  const Tensor y = tensor({{3., 1.}, {0., 2.}});
  EXPECT_TRUE(equal(x.addmm(x, y, {.beta = 2}), addmm(x, x, y, {.beta = 2})));
  EXPECT_TRUE(equal(x.prelu(tensor({0.5})), prelu(x, tensor({0.5}))));
  EXPECT_TRUE(equal(x.hardshrink(), hardshrink(x)));
  EXPECT_TRUE(equal(x.hardshrink(3), hardshrink(x, 3)));
}

TEST(Methods, InPlaceWriteWhatTheirFunctionsGive) {
  const Tensor x = tensor({{1., -2., 3.}, {-0.25, 4., 5.}, {6., 7., 8.}});
  EXPECT_TRUE(equal(x.clone().clamp_min_(0), clamp_min(x, 0)));
  EXPECT_TRUE(equal(x.clone().clamp_max_(2), clamp_max(x, 2)));
  EXPECT_TRUE(equal(x.clone().tril_(), tril(x)));
  EXPECT_TRUE(equal(x.clone().triu_(1), triu(x, 1)));
  const Tensor w = x.clone().requires_grad_();
  (w * 1).triu_().sum().backward();
  EXPECT_EQ(values<int>(w.grad()), (std::vector<int>{1, 1, 1, 0, 1, 1, 0, 0, 1}));
}

TEST(Methods, NewTensorsHaveTheDTypeOfTheirModel) {
  const Tensor x = ones({2, 2}, {.dtype = DType::kF64}).requires_grad_();
  for (const Tensor& made : {x.new_zeros({3}), x.new_ones(3), x.new_empty(3), x.new_full({3}, 2),
                             x.new_tensor({1, 2, 3}), x.new_tensor(arange(3))}) {
    EXPECT_EQ(made.dtype(), DType::kF64);
    EXPECT_EQ(made.sizes(), (Shape{3}));
    EXPECT_FALSE(made.requires_grad());
  }
  EXPECT_EQ(values<int>(x.new_zeros(1, 2)), (std::vector<int>{0, 0}));
  EXPECT_EQ(values<int>(x.new_ones({2}, {.dtype = DType::kI32})), (std::vector<int>{1, 1}));
  EXPECT_EQ(x.new_full({}, 7, {.dtype = DType::kI64}).item<int>(), 7);
  EXPECT_EQ(x.new_tensor(2.5).item<double>(), 2.5);
  EXPECT_EQ(values<int>(x.new_tensor({{1, 2}, {3, 4}})), (std::vector<int>{1, 2, 3, 4}));
  EXPECT_TRUE(x.new_zeros({1}, {.requires_grad = true}).requires_grad());
  const Tensor source = arange(3).to(DType::kF64);
  const Tensor copy = x.new_tensor(source, {.requires_grad = true});
  EXPECT_TRUE(copy.is_leaf() && copy.requires_grad());
  EXPECT_NE(copy.storage(), source.storage());
  EXPECT_ERROR(
      Tensor().new_zeros({1}), kInvalidArgument,
      "new_zeros: the tensor is undefined (default constructed, or moved from); assign a value "
      "first, or ask defined()");
}

}  // namespace
}  // namespace dl
