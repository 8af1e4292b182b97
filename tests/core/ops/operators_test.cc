// Operators, methods, creation and indices: their forms, dtypes, and the text of what they refuse.
#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/elementwise/numeric.h"
#include "core/ops/index/indexing.h"
#include "core/ops/linear/product.h"
#include "core/ops/shape/shape.h"
#include "core/random/tensor_random.h"
#include "core/tensor/factories.h"
#include "tests/core/support.h"

namespace dl {
namespace {

using Numbers = std::vector<double>;
using indexing::None;
using indexing::Slice;

TEST(Operators, CompareWithNumbersOnEitherSide) {
  const Tensor x = tensor({1, 2, 3});
  const Tensor y = tensor({3.0, 2.0, 1.0});
  const std::vector<std::pair<Tensor, Numbers>> cases{
      {x == y, {0, 1, 0}}, {x != y, {1, 0, 1}},  {x < y, {1, 0, 0}},   {x <= y, {1, 1, 0}},
      {x > y, {0, 0, 1}},  {x >= y, {0, 1, 1}},  {x == 2, {0, 1, 0}},  {2 == x, {0, 1, 0}},
      {x != 2, {1, 0, 1}}, {x < 2.5, {1, 1, 0}}, {2.5 < x, {0, 0, 1}}, {x >= 2, {0, 1, 1}},
      {2 >= x, {1, 1, 0}}, {x > 1, {0, 1, 1}},   {1 <= x, {1, 1, 1}},  {3 > x, {1, 1, 0}}};
  for (const auto& [got, wanted] : cases) {
    EXPECT_EQ(got.dtype(), DType::kBool);
    EXPECT_EQ(values<double>(got), wanted);
  }
  EXPECT_TRUE(x.is_same(Tensor(x)));
  EXPECT_TRUE(x.equal(x.clone()));
  EXPECT_FALSE(x.equal(tensor({1, 2})));
  EXPECT_FALSE(full({2}, std::numeric_limits<double>::quiet_NaN()).equal(full({2}, 1.0)));
  EXPECT_TRUE(y.allclose(y + 1e-6));
  EXPECT_FALSE(y.allclose(y + 1e-3));
  EXPECT_TRUE(allclose(y, y + 0.5, {.rtol = 0, .atol = 0.6}));
  const Tensor nan = full({1}, std::numeric_limits<double>::quiet_NaN());
  EXPECT_FALSE(allclose(nan, nan));
  EXPECT_TRUE(allclose(nan, nan, {.equal_nan = true}));
  EXPECT_ERROR(equal(x, y), kDType,
               "equal: one tensor is int64, the other float32; convert one of them with to()");
}

TEST(Operators, AssignInPlace) {
  Tensor x = tensor({1.0, 2.0, 3.0});
  const Tensor same = x;
  x += 1;
  x *= tensor({2.0, 3.0, 4.0});
  x -= 0.5;
  x -= x.narrow(0, 0, 1);
  x /= 2;
  EXPECT_EQ(values<double>(x), (Numbers{0, 2.5, 6}));
  EXPECT_TRUE(x.is_same(same));
  Tensor matrix = zeros(2, 3);
  matrix[0] = tensor({1, 2, 3});
  matrix[1][2] = 7;
  matrix.t()[0] += 10;
  EXPECT_EQ(values<double>(matrix), (Numbers{11, 2, 3, 10, 0, 7}));
  Tensor other = matrix;
  other = zeros(1);  // a name is given to another tensor
  EXPECT_EQ(matrix.numel(), 6);
  EXPECT_ERROR(tensor({1, 2}) += 0.5, kDType,
               "add_: a result of dtype float32 cannot be written into a tensor of int64");
}

TEST(Operators, OfBitsTakeEveryIntegerAndBool) {
  for (const DType dtype : {DType::kI8, DType::kU8, DType::kI16, DType::kU16, DType::kI32,
                            DType::kU32, DType::kI64, DType::kU64}) {
    const Tensor a = tensor({12, 5, 255}, {.dtype = DType::kI64}).to(dtype);
    const Tensor b = tensor({10, 6, 1}, {.dtype = dtype});
    EXPECT_EQ((a & b).dtype(), dtype);
    EXPECT_EQ(values<std::int64_t>((a & b).to(DType::kI64)), (std::vector<std::int64_t>{8, 4, 1}));
    EXPECT_TRUE((a | b).equal((a + b) - (a & b))) << name_of(dtype);
    EXPECT_TRUE((a ^ b).equal((a | b) - (a & b))) << name_of(dtype);
    EXPECT_TRUE((~a).equal((a + 1) * -1)) << name_of(dtype);
    EXPECT_TRUE((a & 6).equal(a & full({}, 6, {.dtype = dtype}))) << name_of(dtype);
  }
  EXPECT_TRUE((~tensor({true, false})).equal(tensor({false, true})));
  EXPECT_ERROR(ones({2}) & ones({2}), kDType,
               "bitwise_and: float32 is not supported; wanted an integer dtype or bool");
  EXPECT_ERROR(~ones({2}), kDType,
               "bitwise_not: float32 is not supported; wanted an integer dtype or bool");
}

TEST(Operators, DivideIntegersOfEveryDtype) {
  for (const DType dtype : {DType::kI8, DType::kI16, DType::kI32, DType::kI64}) {
    const Tensor a = tensor({7, -7, 7, -7}, {.dtype = dtype});
    const Tensor b = tensor({3, 3, -3, -3}, {.dtype = dtype});
    EXPECT_EQ(values<double>(floor_divide(a, b)), (Numbers{2, -3, -3, 2})) << name_of(dtype);
    EXPECT_EQ(values<double>(a % b), (Numbers{1, 2, -2, -1})) << name_of(dtype);
    EXPECT_EQ(values<double>(fmod(a, b)), (Numbers{1, -1, 1, -1})) << name_of(dtype);
    EXPECT_EQ((a % b).dtype(), dtype);
  }
  const Tensor least = tensor({std::numeric_limits<std::int64_t>::min()});
  EXPECT_TRUE(floor_divide(least, -1).equal(least));  // wraps around
  EXPECT_EQ((least % -1).item<std::int64_t>(), 0);
  const Tensor large = full({1}, std::uint64_t{1} << 63, {.dtype = DType::kU64});
  EXPECT_EQ(floor_divide(large, 3).item<std::uint64_t>(), (std::uint64_t{1} << 63) / 3);
  EXPECT_EQ(pow(tensor({2, 3}), 62)[0].item<std::int64_t>(), std::int64_t{1} << 62);
  EXPECT_EQ(tensor({4}).pow(0.5).item<float>(), 2.F);
  EXPECT_EQ(tensor({4}, {.dtype = DType::kI64}).fmod(2.5).dtype(), DType::kF32);
  for (const char* const op : {"fmod", "remainder", "floor_divide"}) {
    const std::string name = op;
    const auto divide = [&](const Tensor& a, const Tensor& b) {
      return name == "fmod"        ? fmod(a, b)
             : name == "remainder" ? remainder(a, b)
                                   : floor_divide(a, b);
    };
    EXPECT_ERROR(divide(tensor({1, 2}), tensor({1, 0})), kInvalidArgument,
                 name +
                     ": the divisor is 0 somewhere, by which integers cannot be divided; convert "
                     "one operand to a floating dtype");
  }
  EXPECT_ERROR(pow(tensor({2}), -1), kInvalidArgument,
               "pow: the exponent of integers is -1, wanted at least 0; convert the base to a "
               "floating dtype");
}

TEST(Numeric, ChoosesInEveryDtype) {
  const Tensor mask = tensor({{true, false, true}, {false, false, true}});
  for (const DType dtype : {DType::kF16, DType::kBF16, DType::kF32, DType::kF64, DType::kU8,
                            DType::kI64, DType::kU64, DType::kBool}) {
    const Tensor a = tensor({1, 0, 1}, {.dtype = dtype});
    const Tensor b = tensor({{0}, {1}}, {.dtype = dtype});
    const Tensor got = where(mask, a, b);
    EXPECT_EQ(got.dtype(), dtype);
    EXPECT_EQ(values<double>(got), (Numbers{1, 0, 1, 1, 1, 1})) << name_of(dtype);
    Tensor filled = where(mask, a, b);
    filled.masked_fill_(mask.narrow(0, 0, 1), 0);
    EXPECT_EQ(values<double>(filled), (Numbers{0, 0, 0, 0, 1, 0})) << name_of(dtype);
  }
  EXPECT_EQ(where(mask, 1, 2.5).dtype(), DType::kF32);
  EXPECT_EQ(values<double>(where(mask, 1, 2.5).narrow(0, 0, 1)), (Numbers{1, 2.5, 1}));
  EXPECT_EQ(values<double>(tensor({1.0, 9.0}).clamp(5, 2)), (Numbers{2, 2}));
  EXPECT_TRUE(tensor({1.0}).clamp(std::numeric_limits<double>::quiet_NaN()).isnan().item<bool>());
  Tensor x = tensor({-1.0, 0.5, 3.0});
  EXPECT_EQ(values<double>(x.clamp_(0, 1)), (Numbers{0, 0.5, 1}));
  EXPECT_ERROR(where(tensor({1}), x, x), kDType, "where: the condition is int64, wanted bool");
  EXPECT_ERROR(x.clamp({}), kInvalidArgument, "clamp: neither min nor max is given");
  EXPECT_ERROR(tensor({1}).clamp_(0.5), kDType,
               "clamp_: a result of dtype float32 cannot be written into a tensor of int64");
  EXPECT_ERROR(x.masked_fill_(mask, 1), kShape,
               "masked_fill_: a mask of shape [2, 3] does not fit onto a tensor of shape [3]");
  EXPECT_ERROR(x.masked_fill(tensor({true}), x), kShape,
               "masked_fill: the value has shape [3], wanted no dimension; use where() for others");
}

template <typename... Sizes>
concept IsSizesOfView = requires(Tensor x, Sizes... sizes) { x.view(sizes...); };
template <typename... Sizes>
concept IsSizesOfRandn = requires(Sizes... sizes) { randn(sizes...); };

TEST(Views, TakeSizesAndDimensionsOneByOne) {
  const Tensor x = arange(6);
  EXPECT_EQ(x.view(2, 3).sizes(), (Shape{2, 3}));
  EXPECT_EQ(x.view(-1).sizes(), (Shape{6}));
  EXPECT_EQ(x.view(x.size(0), std::size_t{1}).sizes(), (Shape{6, 1}));
  EXPECT_EQ(x.reshape(2, -1).sizes(), (Shape{2, 3}));
  const Tensor matrix = x.view(2, 3);
  EXPECT_EQ(matrix.permute(1, 0).sizes(), (Shape{3, 2}));
  EXPECT_EQ(ones(3).expand(2, 3).sizes(), (Shape{2, 3}));
  EXPECT_EQ(ones(3, 1).expand(-1, 4).sizes(), (Shape{3, 4}));
  EXPECT_EQ(values<double>(tensor({1, 2}).repeat(2, 1)), (Numbers{1, 2, 1, 2}));
  EXPECT_EQ(tensor({1, 2}).tile(2).sizes(), (Shape{4}));
  EXPECT_EQ(values<double>(matrix.flip(0, 1)), (Numbers{5, 4, 3, 2, 1, 0}));
  EXPECT_EQ(values<double>(matrix.roll(1, 0)), (Numbers{3, 4, 5, 0, 1, 2}));
  EXPECT_EQ(values<double>(matrix.roll(-1)), (Numbers{1, 2, 3, 4, 5, 0}));
  EXPECT_EQ(values<double>(roll(matrix, {1, 1}, {0, 1})), (Numbers{5, 3, 4, 2, 0, 1}));
  // What is no size does not compile.
  static_assert(IsSizesOfView<int, std::int64_t> && IsSizesOfRandn<int, unsigned>);
  static_assert(!IsSizesOfView<double> && !IsSizesOfView<int, float> && !IsSizesOfView<bool> &&
                !IsSizesOfView<>);
  static_assert(!IsSizesOfRandn<double, int> && !IsSizesOfRandn<bool>);
}

TEST(Creation, NamesTheFunctionThatRefusesAShape) {
  const auto refused = [](const auto& call, const std::string& op) {
    EXPECT_ERROR(call(), kShape, op + ": a size of the shape [-1, 2] is negative");
  };
  refused([] { return zeros({-1, 2}); }, "zeros");
  refused([] { return ones(-1, 2); }, "ones");
  refused([] { return full({-1, 2}, 3); }, "full");
  refused([] { return empty({-1, 2}); }, "empty");
  refused([] { return rand({-1, 2}); }, "rand");
  refused([] { return randn(-1, 2); }, "randn");
  refused([] { return randint(0, 5, {-1, 2}); }, "randint");
}

TEST(Creation, TakesSizesOneByOneAndMixedNumbers) {
  EXPECT_EQ(zeros(2, 3).sizes(), (Shape{2, 3}));
  EXPECT_EQ(ones(4).sizes(), (Shape{4}));
  EXPECT_EQ(empty(2, 0, 1).sizes(), (Shape{2, 0, 1}));
  EXPECT_EQ(rand(2, 3).sizes(), (Shape{2, 3}));
  EXPECT_EQ(randn(5).sizes(), (Shape{5}));
  EXPECT_EQ(tensor({1, 2.5}).dtype(), DType::kF32);
  EXPECT_EQ(values<double>(tensor({1, 2.5, true})), (Numbers{1, 2.5, 1}));
  EXPECT_EQ(tensor({2, true}).dtype(), DType::kI64);
  EXPECT_EQ(tensor({{1, 2.5}, {3, 4}}).sizes(), (Shape{2, 2}));
  EXPECT_EQ(tensor({1, 2}).dtype(), DType::kI64);
  EXPECT_EQ(tensor({1, 2.5}, {.dtype = DType::kF64}).dtype(), DType::kF64);
  EXPECT_EQ(values<double>(full_like(tensor({1, 2}), 7)), (Numbers{7, 7}));
  EXPECT_EQ(values<double>(eye(2)), (Numbers{1, 0, 0, 1}));
  EXPECT_EQ(linspace(0, 1, 1).item<float>(), 0.F);
  EXPECT_EQ(linspace(0, 1, 0).numel(), 0);
  EXPECT_ERROR(linspace(0, 1, -1), kInvalidArgument, "linspace: -1 steps, wanted at least 0");
  EXPECT_ERROR(tensor({{1, 2.5}, {3}}), kShape, "tensor: a row has 1 values, the first has 2");
}

TEST(Indexing, AssignsInPlaceWithTheChecksOfOperationsInPlace) {
  Tensor whole = arange(3);
  const std::string lost = "a result of dtype float32 cannot be written into a tensor of int64";
  EXPECT_ERROR(whole.index({whole > 0}) *= 0.5, kDType, "mul_: " + lost);
  EXPECT_ERROR(whole.index({tensor({0, 1})}) += 1.5, kDType, "add_: " + lost);
  EXPECT_ERROR(whole.index({Slice(0, 2)}) += 0.5, kDType, "add_: " + lost);
  EXPECT_EQ(values<double>(whole), (Numbers{0, 1, 2}));
  Tensor half = zeros({3}, {.dtype = DType::kF16});
  const std::string does_not_fit =
      "index_put_: 1000000 does not fit into float16, wanted -65504 to 65504; choose a dtype that "
      "holds it";
  EXPECT_ERROR(half.index({tensor({0})}) = 1e6, kInvalidArgument, does_not_fit);
  EXPECT_ERROR(half.index_put_({half == 0}, 1e6), kInvalidArgument, does_not_fit);
  const Tensor w = tensor({2.0, 3.0}).requires_grad_();
  Tensor x = ones(3) * 2;
  x.index({Slice(0, 2)}) *= w;
  x.index({tensor({0, 2})}) /= w;
  x.sum().backward();  // of 2 w0 / w0 + 2 w1 + 2 / w1
  EXPECT_EQ(values<double>(x.detach()), (Numbers{2, 6, 2.0F / 3.0F}));
  EXPECT_NEAR(w.grad().at<float>({0}), 0, 1e-6);
  EXPECT_NEAR(w.grad().at<float>({1}), 2 - 2.0 / 9, 1e-6);
  x = zeros(2);
  x[1] = tensor({7.0});
  EXPECT_EQ(values<double>(x), (Numbers{0, 7}));
}

TEST(Indexing, SumsOfHalvesAreRoundedOnce) {
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    const std::int64_t count = 1000;
    const Tensor index = zeros({count}, {.dtype = DType::kI64});
    const Tensor one = ones({count}, {.dtype = dtype});
    Tensor sum = zeros({1}, {.dtype = dtype});
    sum.scatter_add_(0, index, one);
    EXPECT_EQ(sum.item<float>(), 1000);
    EXPECT_EQ(scatter_reduce(sum, 0, index, one, "sum").item<float>(), 2000);
    const Tensor leaf = ones({1}, {.dtype = dtype}).requires_grad_();
    leaf.gather(0, index).sum().backward();
    EXPECT_EQ(leaf.grad().item<float>(), 1000);
  }
}

TEST(Indexing, TakesWhatPyTorchTakes) {
  const Tensor x = tensor({{1}, {2}});
  EXPECT_EQ(values<double>(x.masked_fill(tensor({true, false}), 9)), (Numbers{9, 1, 9, 2}));
  EXPECT_EQ(values<double>(arange(3).narrow(0, -2, 2)), (Numbers{1, 2}));
  EXPECT_ERROR(arange(3).narrow(0, -4, 1), kIndex,
               "narrow: 1 elements from -4 on are out of range for dimension 0 of [3]");
  EXPECT_EQ(arange(3).chunk(INT64_MAX).size(), 3U);
}

TEST(Indexing, WritesThroughEveryKindOfIndex) {
  Tensor x = zeros(3, 4);
  x.index({0}) = 1.0;
  x.index({1, Slice(None, None, 2)}) = tensor({2.0, 3.0});
  x.index({tensor({2, 2}), tensor({0, -1})}) = tensor({4, 5});  // converted
  x.index({x == 0}) = -1;
  EXPECT_EQ(values<double>(x), (Numbers{1, 1, 1, 1, 2, -1, 3, -1, 4, -1, -1, 5}));
  x.index({x < 0}) += 0.5;
  x.index({0, Slice(2)}) *= 3;
  EXPECT_EQ(values<double>(x), (Numbers{1, 1, 3, 3, 2, -0.5, 3, -0.5, 4, -0.5, -0.5, 5}));
  Tensor column = x.index({Slice(), 0});  // a view with a name: assigning to the name is no write
  column = zeros(1);
  EXPECT_EQ(x[0][0].item<float>(), 1.F);
  auto chosen = x.index({tensor({0})});
  chosen = zeros(1);
  chosen += 1;
  EXPECT_EQ(x[0][0].item<float>(), 1.F);
  Tensor rows = zeros(2, 2);
  rows.index({tensor({1, 0})}) = arange(4).view({1, 1, 2, 2});
  EXPECT_EQ(values<double>(rows), (Numbers{2, 3, 0, 1}));
  EXPECT_ERROR(rows.index_put_({tensor({1, 0})}, zeros({1, 1, 2, 2})), kShape,
               "index_put_: a value of shape [1, 1, 2, 2] does not fit into [2, 2]");
  const TensorIndex places[] = {tensor({1, 1, 1})};
  Tensor sums = zeros({2}, {.dtype = DType::kI32});
  index_put_(sums, places, tensor({1, 2, 3}), {.accumulate = true});
  EXPECT_EQ(values<double>(sums), (Numbers{0, 6}));
  Tensor turned = arange(4);  // reads what is there before it writes
  turned.index({tensor({0, 1, 2, 3})}) = turned.flip({0});
  EXPECT_EQ(values<double>(turned), (Numbers{3, 2, 1, 0}));
  EXPECT_EQ(x.index({zeros({0}, {.dtype = DType::kI64})}).sizes(), (Shape{0, 4}));
  EXPECT_EQ(x.index({x > 100}).numel(), 0);
}

TEST(Indexing, TakesEveryIntegerDtypeButUint8AsAnIndex) {
  for (const DType dtype :
       {DType::kI8, DType::kI16, DType::kI32, DType::kI64, DType::kU16, DType::kU32, DType::kU64}) {
    Tensor x = tensor({5, 6, 7});
    const Tensor places = tensor({2, 0}).to(dtype);
    EXPECT_EQ(values<double>(x.index({places})), (Numbers{7, 5})) << name_of(dtype);
    x.index({places}) = 1;
    EXPECT_EQ(values<double>(x), (Numbers{1, 6, 1})) << name_of(dtype);
    EXPECT_EQ(x.index({places[0]}).item<std::int64_t>(), 1) << name_of(dtype);
  }
}

TEST(Indexing, EveryDtypeIsReadWrittenAndAdded) {
  for (std::size_t i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    const Tensor x = tensor({{1, 0}, {0, 1}}).to(dtype);
    const Tensor index = tensor({{1, 0}, {0, 0}});
    EXPECT_EQ(values<double>(gather(x, 1, index)), (Numbers{0, 1, 0, 0})) << name_of(dtype);
    const Tensor none = zeros({2, 2}, {.dtype = dtype});
    EXPECT_EQ(values<double>(scatter(none, 1, index, x)), (Numbers{0, 1, 1, 0})) << name_of(dtype);
    const Tensor ones_there = scatter_add(none, 0, index, ones({2, 2}, {.dtype = dtype}));
    const double both = dtype == DType::kBool ? 1 : 2;
    EXPECT_EQ(values<double>(ones_there), (Numbers{1, both, 1, 0})) << name_of(dtype);
    EXPECT_EQ(values<double>(x.index({tensor({true, false})})), (Numbers{1, 0})) << name_of(dtype);
  }
}

// More elements than one thread takes; the dimension that is not indexed is divided.
TEST(Indexing, LargeOnesAgreeWithLoops) {
  const std::int64_t rows = 70;
  const std::int64_t columns = 900;
  const Tensor x = arange(rows * columns).view({rows, columns}).to(DType::kF64);
  const Tensor index = (arange(rows * columns).view({rows, columns}) * 7919) % rows;
  const Tensor got = gather(x, 0, index);
  const Tensor sums = scatter_add(zeros_like(x), 0, index, x);
  Tensor wanted = zeros_like(x);
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < columns; ++j) {
      const std::int64_t from = index.at<std::int64_t>({i, j});
      ASSERT_EQ(got.at<double>({i, j}), x.at<double>({from, j}));
      wanted.at<double>({from, j}) += x.at<double>({i, j});
    }
  }
  EXPECT_TRUE(sums.equal(wanted));
}

TEST(Indexing, SaysWhatDoesNotFit) {
  const Tensor x = zeros(3, 4);
  const auto refused = [](const std::function<void()>& f) -> std::string {
    try {
      f();
    } catch (const Error& error) {
      return error.what();
    }
    return "nothing";
  };
  const std::vector<std::pair<std::function<void()>, std::string>> cases{
      {[&] { gather(x, 1, tensor({{4}})); },
       "gather: index 4 is out of range for dimension 1 of size 4"},
      {[&] { gather(x, 0, tensor({{-1}})); },
       "gather: index -1 is out of range for dimension 0 of size 3"},
      {[&] { gather(x, 0, tensor({1})); }, "gather: the index has shape [1], the input [3, 4]"},
      {[&] { gather(x, 0, zeros(3, 5).to(DType::kI64)); },
       "gather: the index of shape [3, 5] is larger than the input of shape [3, 4] in dimension 1"},
      {[&] { gather(x, 0, x); }, "gather: the index is float32, wanted int64"},
      {[&] { scatter(x, 0, tensor({{3}}), 1); },
       "scatter: index 3 is out of range for dimension 0 of size 3"},
      {[&] { x.clone().scatter_(0, tensor({{3}}), 1); },
       "scatter_: index 3 is out of range for dimension 0 of size 3"},
      {[&] { scatter(x, 0, tensor({{3}}), ones(1, 1)); },
       "scatter: index 3 is out of range for dimension 0 of size 3"},
      {[&] { scatter_add(x, 0, tensor({{1}}), tensor({{1}})); },
       "scatter_add: the source is int64, the input float32"},
      {[&] { x.clone().scatter_add_(0, tensor({{1}}), tensor({{1}})); },
       "scatter_add_: the source is int64, the input float32"},
      {[&] { index_add(x, 0, tensor({3}), zeros(1, 4)); },
       "index_add: index 3 is out of range for dimension 0 of size 3"},
      {[&] { x.clone().index_add_(0, tensor({3}), zeros(1, 4)); },
       "index_add_: index 3 is out of range for dimension 0 of size 3"},
      {[&] { index_add(x, 0, tensor({1}), zeros(2, 4)); },
       "index_add: the source has shape [2, 4], wanted [1, 4]"},
      {[&] { masked_fill(x, x, 1); }, "masked_fill: the mask is float32, wanted bool"},
      {[&] { x.clone().masked_fill_(x, 1); }, "masked_fill_: the mask is float32, wanted bool"},
      {[&] { x.index({3}); }, "index: index 3 is out of range for dimension 0 of size 3"},
      {[&] { x.index({Slice(), tensor({-5})}); },
       "index: index -5 is out of range for dimension 1 of size 4"},
      {[&] { x.index({0, 0, 0}); },
       "index: 3 dimensions are indexed, the tensor of shape [3, 4] has 2"},
      {[&] { x.index({"...", "..."}); }, "index: 2 Ellipsis were given, wanted at most one"},
      {[&] { x.index({"all"}); }, "index: \"all\" is no index; the text that is one is \"...\""},
      {[&] { x.index({Slice(None, None, -1)}); },
       "index: a slice has the step -1, wanted at least 1"},
      {[&] { x.index({x}); },
       "index: float32 is not supported; wanted bool or an integer dtype other than uint8 as an "
       "index"},
      {[&] { x.index({tensor({1}).to(DType::kU8)}); },
       "index: uint8 is not supported; wanted bool or an integer dtype other than uint8 as an "
       "index"},
      {[&] { x.index({zeros(2, 4) == 0}); },
       "index: a mask of shape [2, 4] does not fit to dimension 0 of [3, 4]"},
      {[&] { x.clone().index({0}) = zeros(3); }, "broadcast"},  // names both shapes
      {[&] { zeros(2).requires_grad_().index({0}) = 1; }, "index_put_: a leaf"},
      {[&] { masked_select(x, tensor({1})); }, "masked_select: the mask is int64, wanted bool"},
      {[&] { one_hot(tensor({0, 5}), 3); },
       "one_hot: class 5 is among the classes, wanted 0 to 2, since num_classes is 3"},
      {[&] { one_hot(tensor({0, -2, 5}), 3); },
       "one_hot: class -2 is among the classes, wanted 0 to 2, since num_classes is 3"},
      {[&] { split(x, {1, 1}); },
       "split: the sizes [1, 1] are 2 in sum, dimension 0 of [3, 4] has 3"},
      {[&] { chunk(x, 0); }, "chunk: 0 chunks, wanted at least 1"},
      {[&] { repeat(x, {2}); }, "repeat: [2] names 1 dimensions, the input of shape [3, 4] has 2"},
      {[&] { flip(x, {0, -2}); }, "flip: [0, -2] names dimension 0 twice"},
      {[&] { tril(tensor({1})); }, "tril: the input has shape [1], wanted at least two dimensions"},
      {[&] { pad(x, {4, 0}, PadMode::kReflect); },
       "pad: 4 and 0 elements around dimension 1 of [3, 4], wanted at most 3"},
      {[&] { mm(x, x[0]); },
       "mm: the operands have shapes [3, 4] and [4], wanted 2 and 2 dimensions"},
      {[&] { bmm(zeros(2, 3, 4), zeros(3, 4, 5)); }, "bmm: 2 matrices times 3; matmul broadcasts"},
      {[&] { matmul(tensor({{true}}), tensor({{true}})); },
       "matmul: bool is not supported; wanted a number"}};
  for (const auto& [f, wanted] : cases) {
    const std::string text = refused(f);
    if (wanted == "broadcast" || wanted == "index_put_: a leaf") {
      EXPECT_NE(text, "nothing") << wanted;
      continue;
    }
    EXPECT_EQ(text, wanted);
  }
}

// The index of a recorded operation may be written into later: the operation keeps its own.
TEST(Indexing, GradientsKnowTheIndexAsItWas) {
  const Tensor x = ones({3}).requires_grad_();
  Tensor index = tensor({0, 0, 2});
  const Tensor y = x.index({index});
  Tensor z = x * 1.0;
  z.index({index}) = y * 2;
  index.fill_(1);
  (y + z).backward(ones({3}));
  EXPECT_EQ(values<double>(x.grad()), (Numbers{6, 1, 3}));
}

// clang warns, here as an error, if a list of one is taken for a number.
TEST(Lists, OfOneAreNoNumbers) {
  const Tensor x = arange(6).view({2, 3});
  EXPECT_ERROR(x.split({1}), kShape,
               "split: the sizes [1] are 1 in sum, dimension 0 of [2, 3] has 2");
  EXPECT_EQ(split(x, {3}, 1).size(), 1U);
  EXPECT_EQ(x.split(1).size(), 2U);
  EXPECT_TRUE(x.roll({1}).equal(x.roll(1)));
  EXPECT_TRUE(roll(x, {1}, {1}).equal(roll(x, 1, 1)));
  EXPECT_TRUE(x.movedim({0}, {1}).equal(x.movedim(0, 1)));
  EXPECT_TRUE(movedim(x, {0}, {-1}).equal(x.t()));
  EXPECT_TRUE(x.flip({1}).equal(x.flip(1)));
  EXPECT_TRUE(x.sum({1}).equal(x.sum(1)));
  EXPECT_TRUE(x.amax({-1}, {.keepdim = true}).equal(x.amax(-1, {.keepdim = true})));
  EXPECT_EQ(x.to(DType::kF32).mean({0}).sizes(), (Shape{3}));
  EXPECT_EQ(x.to(DType::kF32).var({0}).sizes(), (Shape{3}));
  EXPECT_EQ(x.to(DType::kF32).norm(2, {0}).sizes(), (Shape{3}));
  EXPECT_EQ(x.view({6}).sizes(), (Shape{6}));
  EXPECT_EQ(x.reshape({-1}).sizes(), (Shape{6}));
  EXPECT_EQ(x[0].permute({0}).sizes(), (Shape{3}));
  EXPECT_EQ(x[0].expand({3}).sizes(), (Shape{3}));
  EXPECT_EQ(x[0].repeat({2}).sizes(), (Shape{6}));
  EXPECT_EQ(x[0].tile({2}).sizes(), (Shape{6}));
  EXPECT_EQ(zeros({2}).sizes(), (Shape{2}));
  EXPECT_EQ(ones({2}).sizes(), (Shape{2}));
  EXPECT_EQ(empty({2}).sizes(), (Shape{2}));
}

TEST(Products, OfIntegersAndBatches) {
  for (const DType dtype : {DType::kU8, DType::kI8, DType::kI32, DType::kI64}) {
    const Tensor a = tensor({{100, 2}, {3, 4}}, {.dtype = dtype});
    const Tensor got = a.mm(a);
    EXPECT_EQ(got.dtype(), dtype);
    const Tensor exact = tensor({{10006, 208}, {312, 22}}).to(dtype);
    EXPECT_TRUE(got.equal(exact)) << name_of(dtype);
  }
  // Enough products for several threads, broadcast on both sides, and short dtypes.
  const Tensor a = (arange(6 * 1 * 20 * 9) % 11 - 5).view({6, 1, 20, 9});
  const Tensor b = (arange(5 * 9 * 16) % 7 - 3).view({5, 9, 16});
  const Tensor exact = matmul(a, b);
  EXPECT_EQ(exact.sizes(), (Shape{6, 5, 20, 16}));
  for (const DType dtype : {DType::kF64, DType::kF32, DType::kF16, DType::kBF16}) {
    const Tensor got = matmul(a.to(dtype), b.to(dtype));
    EXPECT_TRUE(got.to(DType::kI64).equal(exact.to(dtype).to(DType::kI64))) << name_of(dtype);
  }
  for (const std::int64_t i : {0, 3, 5}) {
    EXPECT_TRUE(exact[i][4].equal(a[i][0].mm(b[4])));
  }
  EXPECT_EQ(matmul(zeros(0, 3, 4), zeros(4, 2)).sizes(), (Shape{0, 3, 2}));
  EXPECT_EQ(matmul(zeros(2, 3, 0), zeros(2, 0, 4)).sizes(), (Shape{2, 3, 4}));
}

}  // namespace
}  // namespace dl
