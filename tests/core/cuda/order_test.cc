// Sorting and cumulative sums on a GPU against the CPU.
#include "core/ops/order/order.h"

#include "core/ops/dispatch/kernel_names.h"
#include "core/ops/elementwise/numeric.h"
#include "core/ops/logic/logic.h"
#include "core/ops/logic/search.h"
#include "core/ops/reduce/reduce.h"
#include "core/tensor/factories.h"
#include "tests/core/cuda/on_device.h"

namespace dl::testing {
namespace {

class CudaOrder : public OnDevice {};

constexpr DType kOrdered[] = {DType::kF32, DType::kF64, DType::kF16, DType::kBF16,
                              DType::kI8,  DType::kU8,  DType::kI16, DType::kU16,
                              DType::kI32, DType::kU32, DType::kI64, DType::kU64};
const std::vector<Shape> kLines = {{1}, {7}, {5, 33}, {3, 4, 300}, {2, 1025}, {1, 70001}};

// Few different values, so that many are equal; both zeros, infinities and NaN.
Tensor few_values(const Shape& shape, DType dtype) {
  Tensor x = mul(numbers(shape), 3).to(DType::kI32).to(dtype).contiguous().view({-1});
  if (is_floating(dtype)) {
    const float odd[] = {-0.0F, INFINITY, -INFINITY, NAN, 0.0F};
    for (std::int64_t i = 0; i < std::min<std::int64_t>(5, x.numel()); ++i) {
      x.narrow(0, i * (x.numel() / 5), 1).fill_(static_cast<double>(odd[i]));
    }
  }
  return x.view(shape);
}

void expect_same_pair(const std::pair<Tensor, Tensor>& got, const std::pair<Tensor, Tensor>& wanted,
                      const std::string& what) {
  expect_same(got.first, wanted.first, what + ", values");
  expect_same(got.second, wanted.second, what + ", indices");
}

TEST_F(CudaOrder, SortsAsTheCPUDoes) {
  for (const DType dtype : kOrdered) {
    for (const Shape& shape : kLines) {
      const Tensor x = few_values(shape, dtype);
      const std::string name = shape.str() + " in " + std::string(name_of(dtype));
      for (const bool descending : {false, true}) {
        for (std::int64_t dim = 0; dim < x.dim(); ++dim) {
          expect_same_pair(sort(x.to(kGPU), dim, {.descending = descending}),
                           sort(x, dim, {.descending = descending}), name);
        }
        expect_same_pair(topk(x.to(kGPU), 1, -1, {.largest = descending}),
                         topk(x, 1, -1, {.largest = descending}), name);
      }
      if (x.dim() < 2) continue;
      expect_same_pair(sort(x.to(kGPU).transpose(0, 1), 0), sort(x.transpose(0, 1), 0),
                       name + ", transposed");
      expect_same_pair(topk(x.to(kGPU), x.size(0), 0), topk(x, x.size(0), 0), name + ", all");
    }
  }
}

TEST_F(CudaOrder, MediansAreTheCPUs) {
  for (const DType dtype : kOrdered) {
    for (const Shape& shape : kLines) {
      const Tensor x = few_values(shape, dtype);
      const std::string name = shape.str() + " in " + std::string(name_of(dtype));
      // The median may be any of the elements that equal it, so its index is not compared.
      expect_same(median(x.to(kGPU), -1).first, median(x, -1).first, name);
      expect_same(nanmedian(x.to(kGPU), 0).first, nanmedian(x, 0).first, name + ", nanmedian");
    }
  }
}

TEST_F(CudaOrder, Gradients) {
  for (const std::int64_t dim : {0, 1}) {
    compare("sort", [=](const Inputs& in) { return sort(in[0], dim, {.descending = true}).first; },
            {numbers({7, 300})});
    compare("topk", [=](const Inputs& in) { return topk(in[0], 3, dim).first; },
            {numbers({7, 300})});
    compare(
        "cumsum", [=](const Inputs& in) { return cumsum(in[0], dim); }, {numbers({7, 300})}, 300);
    compare(
        "cumprod", [=](const Inputs& in) { return cumprod(in[0], dim); },
        {mul(positive({7, 30}), 0.9)}, 300);
  }
  compare(
      "cumsum of a line", [](const Inputs& in) { return cumsum(in[0], 0); }, {numbers({70001})},
      70001);
}

TEST_F(CudaOrder, CumulativeSumsOfIntegersAreExact) {
  for (const DType dtype : {DType::kI8, DType::kU8, DType::kI32, DType::kI64, DType::kBool}) {
    for (const Shape& shape : kLines) {
      const Tensor x = few_values(shape, dtype);
      const std::string name = shape.str() + " in " + std::string(name_of(dtype));
      for (std::int64_t dim = 0; dim < x.dim(); ++dim) {
        expect_same(cumsum(x.to(kGPU), dim), cumsum(x, dim), name);
        expect_same(cumprod(x.to(kGPU), dim), cumprod(x, dim), name);
      }
    }
  }
}

TEST_F(CudaOrder, DistinctSlicesAreTheCPUs) {
  const UniqueOptions all{.return_inverse = true, .return_counts = true};
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kI64, DType::kU8, DType::kBool}) {
    for (const Shape& shape :
         {Shape{40, 2}, Shape{40, 3, 1}, Shape{300, 1}, Shape{7, 5}, Shape{6, 0}, Shape{}}) {
      const Tensor x = abs(few_values(shape, DType::kI32)).to(dtype);
      for (std::int64_t dim = 0; dim < std::max<std::int64_t>(1, x.dim()); ++dim) {
        const std::string name = shape.str() + " in " + std::string(name_of(dtype));
        const UniqueResult got = unique(x.to(kGPU), dim, all);
        const UniqueResult wanted = unique(x, dim, all);
        expect_same(got.values, wanted.values, name);
        expect_same(got.inverse, wanted.inverse, name + ", inverse");
        expect_same(got.counts, wanted.counts, name + ", counts");
      }
    }
  }
  const Tensor odd = tensor({{1.0F, NAN, 2.0F},
                             {1.0F, NAN, 1.0F},
                             {0.0F, 3.0F, 0.0F},
                             {-0.0F, 3.0F, 0.0F},
                             {1.0F, NAN, 2.0F}});
  const UniqueResult got = unique(odd.to(kGPU), 0, all);
  const UniqueResult wanted = unique(odd, 0, all);
  expect_same(got.values, wanted.values, "with NaN");
  expect_same(got.inverse, wanted.inverse, "with NaN, inverse");
}

TEST_F(CudaOrder, MultinomialDrawsByWeight) {
  const Tensor weights = tensor({{0.0F, 1.0F, 0.0F, 3.0F}, {2.0F, 0.0F, 2.0F, 0.0F}});
  constexpr std::int64_t kDraws = 20000;
  for (const DType dtype : kFloats) {
    const Tensor there = weights.to(dtype).to(kGPU);
    Generator generator(3);
    const Tensor drawn = multinomial(there, kDraws, {.replacement = true}, generator);
    ASSERT_EQ(drawn.sizes(), (Shape{2, kDraws}));
    const Tensor flags = eq(drawn.cpu().unsqueeze(2), arange(4)).to(DType::kF32);
    const Tensor wanted = weights / sum(weights, {1}, {.keepdim = true});
    const Tensor apart = abs(mean(flags, {1}) - wanted);
    // Five deviations of a share of a half; nothing without a weight is drawn.
    EXPECT_LT(apart.amax().item<double>(), 5 * 0.5 / std::sqrt(double{kDraws}));
    expect_same(eq(mean(flags, {1}), 0), eq(weights, 0), "draws of weight 0");
    Generator again(3);
    expect_same(multinomial(there, kDraws, {.replacement = true}, again), drawn.cpu(), "again");
    const Tensor both = multinomial(there, 2, {}, generator);
    expect_same(sort(both, 1).first, tensor({{1, 3}, {0, 2}}).to(DType::kI64), "all there are");
  }
  // One draw of each of many rows goes another way.
  Generator generator(4);
  const Tensor rows = weights[0].expand({kDraws, 4}).contiguous().to(kGPU);
  const Tensor ones = eq(multinomial(rows, 1, {}, generator).cpu(), 1).to(DType::kF32);
  EXPECT_NEAR(mean(ones).item<double>(), 0.25, 5 * 0.5 / std::sqrt(double{kDraws}));
}

TEST_F(CudaOrder, MultinomialRefusesWhatTheCPURefuses) {
  EXPECT_ERROR(multinomial(tensor({1.0F, -2.0F}).to(kGPU), 1), kInvalidArgument,
               "multinomial: weight 1 is -2, wanted a finite number of at least 0");
  EXPECT_ERROR(multinomial(tensor({1.0F, INFINITY}).to(kGPU), 1), kInvalidArgument,
               "multinomial: weight 1 is inf, wanted a finite number of at least 0");
  EXPECT_ERROR(multinomial(zeros({3}).to(kGPU), 1), kInvalidArgument,
               "multinomial: none of the 3 weights is more than 0");
  EXPECT_ERROR(multinomial(tensor({1.0F, 0.0F}).to(kGPU), 2), kInvalidArgument,
               "multinomial: cannot draw 2 numbers without replacement where 1 weights are more "
               "than 0");
}

}  // namespace
}  // namespace dl::testing
