// Reductions, softmax, gathering and joining against naive references.
#include "core/ops/reduce/reduce.h"
#include "core/base/sanitizers.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/device/parallel.h"
#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/index/index.h"
#include "core/ops/softmax/softmax.h"
#include "core/tensor/factories.h"
#include "tests/core/support.h"

namespace dl {
namespace {

using Numbers = std::vector<double>;

Tensor eighths(const Shape& shape, DType dtype = DType::kF32) {
  const std::int64_t count = element_count(shape, "test");
  std::vector<double> numbers;
  for (std::int64_t i = 0; i < count; ++i) {
    numbers.push_back(static_cast<double>((i * 37 + 11) % 64) / 8.0 - 3.0);
  }
  return tensor(numbers, {.dtype = dtype}).view(shape);
}

// Sum over one dimension of a tensor, by definition.
Numbers naive_sum(const Tensor& x, std::int64_t dim) {
  const Tensor last = x.transpose(dim, -1);
  Shape kept = last.sizes();
  kept[kept.size() - 1] = 1;
  const Numbers numbers = values<double>(last);
  const auto size = static_cast<std::size_t>(x.size(dim));
  Numbers sums(size == 0 ? static_cast<std::size_t>(element_count(kept, "test"))
                         : numbers.size() / size);
  for (std::size_t i = 0; i < numbers.size(); ++i) sums[i / size] += numbers[i];
  // Back into the order of x with `dim` reduced.
  return values<double>(tensor(sums, {.dtype = DType::kF64}).view(kept).transpose(dim, -1));
}

TEST(Sum, OverEachDimensionOfOddShapes) {
  for (const Shape& shape : {Shape{5}, Shape{3, 7}, Shape{2, 130, 3}, Shape{2, 3, 4, 5},
                             Shape{70, 1, 9}, Shape{0, 3}, Shape{3, 0}, Shape{1, 1}}) {
    const Tensor x = eighths(shape);
    for (std::int64_t dim = 0; dim < x.dim(); ++dim) {
      SCOPED_TRACE(shape.str() + " over " + std::to_string(dim));
      expect_near(sum(x, {dim}), naive_sum(x, dim), 1e-6);
      expect_near(sum(x.transpose(0, -1), {dim}), naive_sum(x.transpose(0, -1), dim), 1e-6);
    }
  }
  const Tensor wide = eighths({2, 3, 8, 5});
  expect_near(sum(wide.contiguous(MemoryFormat::kChannelsLast), {0, 2, 3}),
              values<double>(sum(wide, {0, 2, 3})), 1e-6);
  expect_near(sum(wide.slice(3, 0, 5, 2), {1}), naive_sum(wide.slice(3, 0, 5, 2), 1), 1e-6);
  expect_near(sum(eighths({1}).expand({4}).view({2, 2})), {4 * eighths({1}).item<double>()}, 0);
}

TEST(Mean, DividesOnce) {
  for (const std::int64_t n : {3, 49, 98, 103}) {  // n (1 / n) is less than 1 for some
    const Tensor x = ones({n}, {.dtype = DType::kF64, .requires_grad = true});
    const Tensor y = mean(x);
    EXPECT_EQ(y.item<double>(), 1.0) << n;
    (y * 3.0).backward();
    EXPECT_EQ(x.grad().at<double>({0}), 3.0 / static_cast<double>(n));
  }
}

// As many elements as f16 cannot count.
TEST(Mean, OfManyHalvesHasAGradient) {
  const Tensor x = ones({70'000}, {.dtype = DType::kF16, .requires_grad = true});
  (mean(x) * 7.0).backward();
  EXPECT_NEAR(x.grad().to(DType::kF32).at<float>({5}), 1e-4, 1e-7);
}

TEST(Sum, AllDtypes) {
  for (const DType dtype : {DType::kF16, DType::kBF16, DType::kF32, DType::kF64}) {
    const Tensor x = tensor({1, 2, 3, 4, 5, 6}, {.dtype = dtype}).view({2, 3});
    EXPECT_EQ(sum(x).dtype(), dtype);
    expect_near(sum(x, {0}), {5, 7, 9}, 0);
    expect_near(mean(x, {1}), {2, 5}, 0);
  }
  for (const DType dtype : {DType::kI8, DType::kU8, DType::kI16, DType::kU16, DType::kI32,
                            DType::kU32, DType::kI64, DType::kU64}) {
    const Tensor x = full({300}, 7, {.dtype = dtype});
    EXPECT_EQ(sum(x).dtype(), DType::kI64);
    EXPECT_EQ(sum(x).item<int>(), 2100);
  }
  EXPECT_EQ(sum(tensor({true, false, true})).item<int>(), 2);
}

TEST(Sum, IsPreciseAndTheSameForAnyNumberOfThreads) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "ThreadSanitizer does not see how libgomp's threads wait for each other";
#endif
  const int threads = num_threads();
  const Tensor x = full({1'000'003}, 0.1f);
  set_num_threads(1);
  const float one = sum(x).item<float>();
  const Tensor columns = sum(x.slice(0, 0, 1'000'000).view({1000, 1000}), {0});
  set_num_threads(3);
  EXPECT_EQ(sum(x).item<float>(), one);
  EXPECT_EQ(values<float>(sum(x.slice(0, 0, 1'000'000).view({1000, 1000}), {0})),
            values<float>(columns));
  set_num_threads(threads);
  // Terms of a block are added in float32, as many at a time as the processor's vectors hold.
  EXPECT_NEAR(one, 1'000'003 * static_cast<double>(0.1f), 0.05);
}

TEST(Mean, OfNothingIsNaN) {
  EXPECT_TRUE(std::isnan(mean(zeros({0})).item<float>()));
  EXPECT_EQ(sum(zeros({0})).item<float>(), 0);
}

TEST(Reduce, ErrorsSayWhatIsWrong) {
  EXPECT_ERROR(sum(ones({2, 3}), {2}), kIndex,
               "sum: dimension 2 is out of range for a tensor of 2 dimensions; wanted -2 to 1");
  EXPECT_ERROR(sum(ones({2, 3}), {0, -2}), kInvalidArgument, "sum: dimension 0 is named twice");
  EXPECT_ERROR(mean(tensor({1, 2})), kDType,
               "mean: int64 is not supported; wanted a floating dtype");
  EXPECT_ERROR(sum(Tensor()), kInvalidArgument, "sum: the input is an undefined tensor");
  EXPECT_ERROR(max(ones({2, 0}), 1), kShape,
               "max: dimension 1 of [2, 0] is empty and has no largest element");
}

TEST(Max, FindsTheFirstOfEqualsAndNaN) {
  const double nan = std::nan("");
  const Tensor x = tensor({{1.0, 5.0, 5.0}, {2.0, nan, 9.0}});
  const auto [best, where] = max(x, 1);
  EXPECT_EQ(best.at<float>({0}), 5);
  EXPECT_TRUE(std::isnan(best.at<float>({1})));
  EXPECT_EQ(values<int>(where), (std::vector<int>{1, 1}));
  EXPECT_EQ(values<int>(argmax(x, 0, {.keepdim = true})), (std::vector<int>{1, 1, 1}));
  EXPECT_EQ(argmax(x.slice(0, 0, 1)).item<int>(), 1);
  EXPECT_EQ(max(tensor(3.0), 0).first.item<float>(), 3);
  for (const DType dtype : {DType::kF16, DType::kBF16, DType::kF64, DType::kI8, DType::kU8,
                            DType::kI16, DType::kU16, DType::kI32, DType::kU32, DType::kI64}) {
    const Tensor y = tensor({{3, 1, 7}, {9, 2, 4}}, {.dtype = dtype});
    EXPECT_EQ(values<int>(max(y, 1).first), (std::vector<int>{7, 9}));
    EXPECT_EQ(values<int>(argmax(y.t(), 0)), (std::vector<int>{2, 0}));
  }
  EXPECT_ERROR(max(tensor({1}, {.dtype = DType::kU64})), kDType,
               "max: uint64 is not supported; wanted a smaller or signed integer");
}

TEST(Max, OfAllSharesItsGradientAmongEqualElements) {
  const double nan = std::nan("");
  const Tensor x = tensor({{3.0, 1.0}, {3.0, 2.0}}).t().requires_grad_();
  const Tensor y = max(x);
  EXPECT_EQ(y.item<float>(), 3);
  (y * 4.0).backward();
  EXPECT_EQ(values<double>(x.grad()), (Numbers{2, 2, 0, 0}));
  const Tensor z = tensor({nan, 1.0}, {.requires_grad = true});
  max(z).backward();
  EXPECT_EQ(values<double>(z.grad()), (Numbers{1, 0}));
  const Tensor nans = tensor({nan, 1.0, nan}, {.requires_grad = true});
  max(nans).backward();
  EXPECT_EQ(values<double>(nans.grad()), (Numbers{0.5, 0, 0.5}));
  // The others get zero, whatever comes in.
  const double inf = std::numeric_limits<double>::infinity();
  const Tensor w = tensor({1.0, 2.0, 2.0}, {.requires_grad = true});
  max(w).backward(tensor(inf));
  EXPECT_EQ(values<double>(w.grad()), (Numbers{0, inf, inf}));
  const Tensor first = tensor({3.0, 3.0}, {.requires_grad = true});
  max(first, 0).first.backward();
  EXPECT_EQ(values<double>(first.grad()), (Numbers{1, 0}));
}

TEST(Softmax, SumsToOneAndItsLogarithmAgrees) {
  for (const DType dtype : {DType::kF16, DType::kBF16, DType::kF32, DType::kF64}) {
    const double tolerance = dtype == DType::kF32 ? 1e-6 : dtype == DType::kF64 ? 1e-14 : 0.02;
    const Tensor x = eighths({3, 5, 4}, dtype);
    for (const std::int64_t dim : {0, 1, 2}) {
      const Tensor y = softmax(x, dim).to(DType::kF64);
      const Tensor total = sum(y, {dim});
      expect_near(total, Numbers(static_cast<std::size_t>(total.numel()), 1.0), tolerance);
      Numbers logs;
      for (const double p : values<double>(y)) logs.push_back(std::log(p));
      expect_near(log_softmax(x, dim), logs, 4 * tolerance);
    }
    expect_near(softmax(x.transpose(0, 2), 1), values<double>(softmax(x, 1).transpose(0, 2)),
                tolerance);
  }
  expect_near(softmax(tensor({1000.0, 1000.0}), 0), {0.5, 0.5}, 1e-6);
  expect_near(log_softmax(tensor({1e7, 1e7}), 0), {std::log(0.5), std::log(0.5)}, 1e-6);
  EXPECT_EQ(softmax(zeros({0, 3}), 1).numel(), 0);
  EXPECT_EQ(softmax(tensor(4.0), 0).item<float>(), 1);
  EXPECT_ERROR(softmax(ones({2}), 1), kIndex,
               "softmax: dimension 1 is out of range for a tensor of 1 dimensions; wanted -1 to 0");
}

TEST(Softmax, OfEmptyRowsIsZeroIfAsked) {
  constexpr double kLow = -std::numeric_limits<double>::infinity();
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  const Tensor x = tensor({kLow, kLow, 0.0, 0.0, kNan, 0.0}).view({3, 2});
  const Numbers rows = values<double>(detail::safe_softmax(x, 1));
  EXPECT_EQ(Numbers(rows.begin(), rows.begin() + 4), (Numbers{0, 0, 0.5, 0.5}));
  EXPECT_TRUE(std::isnan(rows[4]) && std::isnan(rows[5]));
  const Numbers columns = values<double>(detail::safe_softmax(x.transpose(0, 1), 0));
  EXPECT_EQ(Numbers(columns.begin(), columns.begin() + 2), (Numbers{0, 0.5}));
  // The stride of a dimension of size 1 is arbitrary.
  const Tensor odd = as_strided(tensor({kLow, 1.0, kLow, 2.0}), {2, 1, 2}, {2, 0, 1}, 0);
  EXPECT_EQ(values<double>(detail::safe_softmax(odd, 1)), (Numbers{0, 1, 0, 1}));
}

TEST(IndexSelect, GathersAlongEachDimension) {
  const Tensor x = arange(24).view({2, 3, 4});
  EXPECT_EQ(values<int>(index_select(x, 1, tensor({2, 0}))),
            values<int>(cat({x.narrow(1, 2, 1), x.narrow(1, 0, 1)}, 1)));
  EXPECT_EQ(values<int>(index_select(x.transpose(0, 2), 0, tensor({3}))),
            values<int>(x.transpose(0, 2).narrow(0, 3, 1)));
  for (const DType dtype : {DType::kU8, DType::kBF16, DType::kF64, DType::kBool}) {
    EXPECT_EQ(values<int>(index_select(tensor({0, 1, 1}, {.dtype = dtype}), 0, tensor({1, 0}))),
              (std::vector<int>{1, 0}));
  }
  EXPECT_EQ(index_select(x, 0, zeros({0}, {.dtype = DType::kI64})).sizes(), (Shape{0, 3, 4}));
  const Tensor one = index_select(x, 1, tensor({0, 2}).select(0, 1));  // an index of no dimension
  EXPECT_EQ(one.sizes(), (Shape{2, 1, 4}));
  EXPECT_EQ(values<int>(one), values<int>(index_select(x, 1, tensor({2}))));
  EXPECT_ERROR(index_select(x, 1, tensor({0, 3})), kIndex,
               "index_select: index 3 at position 1 is out of range for dimension 1 of [2, 3, 4]");
  EXPECT_ERROR(index_select(x, 1, tensor({1.0})), kInvalidArgument,
               "index_select: the index is float32 of shape [1], wanted int64 of at most one "
               "dimension");
  EXPECT_ERROR(index_select(x, 1, zeros({1, 1}, {.dtype = DType::kI64})), kInvalidArgument,
               "index_select: the index is int64 of shape [1, 1], wanted int64 of at most one "
               "dimension");
}

TEST(Cat, JoinsAndPromotes) {
  const Tensor a = arange(4).view({2, 2});
  const Tensor b = full({1, 2}, 9.5);
  const Tensor c = cat({a, b}, 0);
  EXPECT_EQ(c.dtype(), DType::kF32);
  EXPECT_EQ(values<double>(c), (Numbers{0, 1, 2, 3, 9.5, 9.5}));
  EXPECT_EQ(values<double>(cat({a, a.t()}, -1)), (Numbers{0, 1, 0, 2, 2, 3, 1, 3}));
  EXPECT_EQ(values<double>(stack({a, a + 10}, 2)), (Numbers{0, 10, 1, 11, 2, 12, 3, 13}));
  EXPECT_ERROR(
      cat({a, ones({1, 3})}, 0), kShape,
      "cat: tensor 1 of shape [1, 3] does not fit to the first, [2, 2], along dimension 0");
  EXPECT_ERROR(cat(std::vector<Tensor>{}), kInvalidArgument,
               "cat: the list of tensors is empty, wanted at least one");
  EXPECT_ERROR(cat({}), kInvalidArgument, "cat: the list of tensors is empty, wanted at least one");
  EXPECT_ERROR(stack({}), kInvalidArgument,
               "stack: the list of tensors is empty, wanted at least one");
  EXPECT_ERROR(cat({Tensor(), a}), kInvalidArgument,
               "cat: a tensor of the list is an undefined tensor");
  EXPECT_ERROR(stack({a, b}), kShape, "stack: tensor 1 has the shape [1, 2], the first [2, 2]");
}

// PyTorch's rule of old: torch.cat([torch.zeros(0), a], 1).
TEST(Cat, SkipsTensorsOfShapeZero) {
  const Tensor a = ones({2, 3}, {.requires_grad = true});
  const Tensor nothing = zeros({0}, {.requires_grad = true});
  for (const std::int64_t dim : {0, 1, -2}) {
    EXPECT_EQ(cat({nothing, a}, dim).sizes(), (Shape{2, 3}));
    EXPECT_EQ(cat({a, nothing, a}, dim).numel(), 12);
  }
  sum(cat({a, nothing, a * 2}, 1)).backward();
  EXPECT_EQ(values<double>(a.grad()), (Numbers{3, 3, 3, 3, 3, 3}));
  EXPECT_EQ(nothing.grad().sizes(), (Shape{0}));
  EXPECT_EQ(cat({zeros({0}, {.dtype = DType::kF64}), a}).dtype(), DType::kF64);
  EXPECT_EQ(cat({nothing, nothing}, 1).sizes(), (Shape{0}));
  EXPECT_ERROR(cat({nothing, a}, 2), kIndex,
               "cat: dimension 2 is out of range for a tensor of 2 dimensions; wanted -2 to 1");
  EXPECT_ERROR(
      cat({zeros({0, 2}), a}), kShape,
      "cat: tensor 1 of shape [2, 3] does not fit to the first, [0, 2], along dimension 0");
  EXPECT_ERROR(cat({nothing, a, ones({1})}), kShape,
               "cat: tensor 2 of shape [1] does not fit to the first, [2, 3], along dimension 0");
}

}  // namespace
}  // namespace dl
