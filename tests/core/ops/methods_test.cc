// Methods of core/tensor/methods.def that users look for: each is the function of its name.
#include <gtest/gtest.h>

#include <functional>

#include "core/ops/aliases.h"
#include "core/ops/elementwise/activation.h"
#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/elementwise/numeric.h"
#include "core/ops/index/index.h"
#include "core/ops/index/indexing.h"
#include "core/ops/linalg/linalg.h"
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

// Every row of core/tensor/aliases.def that has no arguments of its own.
TEST(Methods, OtherNamesAreTheirFunctions) {
  const Tensor x = tensor({{0.25, -0.5}, {-0.75, 0.125}}, {.dtype = DType::kF64});
  const Tensor above = x + 1.5;
  const Tensor y = tensor({{0.25, 1.5}, {-1.0, 0.125}}, {.dtype = DType::kF64});
  const auto expect_same = [](const Tensor& got, const Tensor& wanted, const char* name) {
    EXPECT_TRUE(got.isclose(wanted.to(got.dtype())).logical_or(got.isnan()).all().item<bool>())
        << name;
    EXPECT_EQ(got.isnan().sum().item<int>(), wanted.isnan().sum().item<int>()) << name;
    EXPECT_EQ(got.dtype(), wanted.dtype()) << name;
  };
#define DL_ALIAS_UNARY(alias, name)                       \
  for (const Tensor& of : {x, above}) {                   \
    expect_same(alias(of), name(of), #alias);             \
    expect_same(of.alias(), name(of), #alias);            \
    expect_same(of.clone().alias##_(), name(of), #alias); \
  }
#define DL_ALIAS_OF_TENSORS(alias, name)        \
  expect_same(alias(x, y), name(x, y), #alias); \
  expect_same(x.alias(y), name(x, y), #alias);  \
  expect_same(x.clone().alias##_(y), name(x, y).to(x.dtype()), #alias);
#define DL_ALIAS_OF_TWO(alias, name)                  \
  DL_ALIAS_OF_TENSORS(alias, name)                    \
  expect_same(alias(x, -0.5), name(x, -0.5), #alias); \
  expect_same(x.alias(-0.5), name(x, -0.5), #alias);
#define DL_ALIAS_OF_LIST(alias, name) expect_same(alias({x, y}, 1), name({x, y}, 1), #alias);
#include "core/tensor/aliases.def"
}

TEST(Methods, OtherNamesTakeTheArgumentsOfTheirFunctions) {
  const Tensor x = tensor({{1., -2.}, {-0.25, 4.}});
  EXPECT_TRUE(equal(x.clip(-1, 2), x.clamp(-1, 2)));
  EXPECT_TRUE(equal(clip(x, {}, 2), x.clamp({}, 2)));
  EXPECT_TRUE(equal(x.clip(x - 1, x), x));
  EXPECT_TRUE(equal(x.clone().clip_(0), x.clamp(0)));
  EXPECT_TRUE(equal(x.moveaxis(0, 1), x.t()));
  EXPECT_TRUE(equal(swapdims(x, 0, 1), x.t()));
  EXPECT_TRUE(equal((x > 0).argwhere(), (x > 0).nonzero()));
  EXPECT_TRUE(equal(x[0].ger(x[1]), x[0].outer(x[1])));
  EXPECT_EQ(vdot(x[0], x[1]).item<float>(), -8.25F);
  EXPECT_NEAR(x.det().item<double>(), 3.5, 1e-6);
  EXPECT_TRUE(allclose(x.inverse(), linalg::inv(x)));
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

TEST(Methods, ErrorsOfProductsNameWhatIsWrong) {
  const Tensor a = ones({2, 3});
  const Tensor b = ones({3, 4});
  EXPECT_ERROR(einsum("ij,jk", a), kInvalidArgument, "einsum: \"ij,jk\" names 2 operands, got 1");
  EXPECT_ERROR(einsum("i1->i", a), kInvalidArgument,
               "einsum: '1' in \"i1->i\" is no letter; wanted letters and one \"...\" an operand, "
               "as in \"bij,bjk->bik\"");
  EXPECT_ERROR(einsum("ijk,jk", a, b), kShape,
               "einsum: operand 0 has shape [2, 3], the equation names 3 dimensions of it");
  EXPECT_ERROR(
      einsum("...ijk->i", a), kShape,
      "einsum: operand 0 has shape [2, 3], the equation names at least 3 dimensions of it");
  EXPECT_ERROR(einsum("ij->il", a), kInvalidArgument,
               "einsum: the result of \"ij->il\" has 'l', but no operand has it");
  EXPECT_ERROR(einsum("ij->ii", a), kInvalidArgument,
               "einsum: the result of \"ij->ii\" has 'i' twice");
  EXPECT_ERROR(einsum("ii", a), kShape, "einsum: operand 0 has 'i' twice, with the sizes 2 and 3");
  EXPECT_ERROR(einsum("ij,ik", a, b), kShape,
               "einsum: a dimension of operand 1 has size 3, an operand before has 2");
  EXPECT_ERROR(tensordot(a, b), kShape,
               "tensordot: dimension 0 of shape [2, 3] goes with dimension 0 of shape [3, 4]");
  EXPECT_ERROR(tensordot(a, b, 3), kInvalidArgument,
               "tensordot: dims is 3, the operands have 2 and 2 dimensions");
  EXPECT_ERROR(tensordot(a, b, {1, -1}, {0, 1}), kInvalidArgument,
               "tensordot: [1, -1] names dimension 1 twice");
  EXPECT_ERROR(addbmm(a, ones({2, 2, 2}), ones({2, 3, 3})), kShape,
               "addbmm: shapes [2, 2, 2] and [2, 3, 3] do not fit: 2 columns, but 3 rows");
  EXPECT_ERROR(baddbmm(ones({9}), ones({2, 2, 3}), ones({2, 3, 3})), kShape,
               "baddbmm: the shapes [9] and [2, 2, 3] cannot be broadcast together: 3 against 9 in "
               "dimension 2");
}

TEST(Methods, QuantileRefusesWhatIsNoShare) {
  const Tensor x = ones({3});
  EXPECT_ERROR(x.quantile(1.5), kInvalidArgument, "quantile: q is 1.5, wanted a share from 0 to 1");
  EXPECT_ERROR(x.nanquantile(tensor({0.5, -1.0})), kInvalidArgument,
               "nanquantile: q has a number outside of 0 to 1, wanted shares");
  EXPECT_ERROR(x.quantile(0.5, 0, {.interpolation = "cubic"}), kInvalidArgument,
               "quantile: interpolation is \"cubic\", wanted \"linear\", \"lower\", \"higher\", "
               "\"midpoint\" or \"nearest\"");
  const Tensor large = zeros({1}).expand({(std::int64_t{1} << 24U) + 1});
  EXPECT_ERROR(large.quantile(0.5), kInvalidArgument,
               "quantile: 16777217 elements in float32, wanted at most 16777216; convert the input "
               "and q to float64");
  EXPECT_ERROR(zeros({0}).quantile(0.5), kShape, "quantile: the input of shape [0] has no element");
  EXPECT_ERROR(arange(3).quantile(0.5), kDType,
               "quantile: int64 is not supported; wanted float32 or float64");
}

}  // namespace
}  // namespace dl
