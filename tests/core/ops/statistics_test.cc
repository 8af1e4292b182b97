// Reductions and norms that subtract a mean stay accurate in float32: if squares overflow or
// underflow, and if the mean is much larger than the distances from it.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/norm/norm.h"
#include "core/ops/norm/sync_batch_norm.h"
#include "core/ops/reduce/reduce.h"
#include "core/ops/shape/shape.h"
#include "core/tensor/factories.h"
#include "tests/core/ops/random_tensor.h"
#include "tests/core/support.h"

namespace dl {
namespace {

// A scale and a mean of float32 inputs.
struct Range {
  const char* name;
  double scale;
  double mean;
};
const std::vector<Range>& ranges() {
  static const std::vector<Range> all{
      {"ordinary", 1, 0},     {"large", 1e20, 0}, {"largest", 1e34, 0},         {"small", 1e-25, 0},
      {"smallest", 1e-36, 0}, {"off", 1, 1e6},    {"large and off", 1e22, 1e26}};
  return all;
}

Tensor in_range(const Shape& shape, const Range& range) {
  const Tensor x = random_tensor(shape, DType::kF64) * range.scale + range.mean;
  return x.to(DType::kF32);
}

// Compares f of float32 with f of the same numbers in float64, and the gradients of its inputs.
// Errors count in parts of the largest result and gradient.
void expect_like_float64(const std::vector<Tensor>& inputs,
                         const std::function<Tensor(const std::vector<Tensor>&)>& f, double share) {
  std::vector<Tensor> narrow;
  std::vector<Tensor> wide;
  for (const Tensor& each : inputs) {
    narrow.push_back(each.detach().requires_grad_());
    wide.push_back(each.to(DType::kF64).requires_grad_());
  }
  const auto compare = [&](const Tensor& got, const Tensor& wanted, const std::string& what) {
    const double largest = wanted.abs().max().item<double>();
    ASSERT_TRUE(std::isfinite(largest)) << what;
    ASSERT_GT(largest, 0) << what;
    const double error = (got.to(DType::kF64) - wanted).abs().max().item<double>();
    EXPECT_LE(error, share * largest) << what;
  };
  const Tensor result = f(narrow);
  const Tensor wanted = f(wide);
  compare(result.detach(), wanted.detach(), "result");
  const Tensor grad = random_tensor(result.sizes(), DType::kF64, 2);
  result.backward(grad.to(DType::kF32));
  wanted.backward(grad.to(DType::kF32).to(DType::kF64));
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    compare(narrow[i].grad(), wide[i].grad(), "gradient " + std::to_string(i));
  }
}

TEST(Statistics, OfFloat32AreThoseOfFloat64) {
  for (const Range& range : ranges()) {
    SCOPED_TRACE(range.name);
    for (const Shape& shape : {Shape{6, 700}, Shape{700, 6}, Shape{40, 5, 60}, Shape{3, 9}}) {
      const Tensor x = in_range(shape, range);
      for (const Dims& dims : {Dims{}, Dims{0}, Dims{1}, Dims{-1}}) {
        SCOPED_TRACE(shape.str() + " over " + dims.str());
        expect_like_float64(
            {x}, [&](const std::vector<Tensor>& in) { return dl::std(in[0], dims); }, 3e-6);
        if (range.scale > 1e17 || range.scale < 1e-17) continue;  // no float32 holds the variance
        expect_like_float64(
            {x}, [&](const std::vector<Tensor>& in) { return var(in[0], dims); }, 3e-6);
      }
    }
  }
}

TEST(Statistics, OfFewRowsThatNeedFloat64AreComputedInIt) {
  Tensor x = random_tensor({40, 300}, DType::kF32);
  x[3].mul_(1e30);
  x[7].fill_(0.1);
  x[9].mul_(1e-30);
  x[11][5].fill_(std::numeric_limits<double>::infinity());
  x[13].add_(1e7);
  for (const bool by_rows : {true, false}) {
    const Tensor in = by_rows ? x : x.t().contiguous().t();
    const Tensor got = dl::std(in, 1);
    const Tensor wanted = dl::std(in.to(DType::kF64), 1);
    for (std::int64_t r = 0; r < 40; ++r) {
      SCOPED_TRACE(r);
      const auto number = wanted[r].item<double>();
      if (r == 11) {
        EXPECT_TRUE(std::isnan(got[r].item<double>()));
      } else {
        EXPECT_NEAR(got[r].item<double>(), number, 2e-6 * number);
      }
    }
    EXPECT_EQ(got[7].item<double>(), 0);
  }
}

// The first elements tell nothing of the others, or the others nothing of one.
TEST(Statistics, DoNotDependOnWhereElementsStand) {
  const std::int64_t n = 5000;
  for (const std::int64_t outlier : {0, 17, 2500, 4999}) {
    Tensor x = random_tensor({n}, DType::kF32);
    x[outlier].fill_(1e6);
    const double wanted = var(x.to(DType::kF64)).item<double>();
    EXPECT_NEAR(var(x).item<double>(), wanted, 1e-6 * wanted) << outlier;
  }
  Tensor x = random_tensor({n}, DType::kF32);
  x.narrow(0, 50, n - 50).add_(1e5);
  const double wanted = var(x.to(DType::kF64)).item<double>();
  EXPECT_NEAR(var(x).item<double>(), wanted, 1e-6 * wanted);
}

TEST(Statistics, OfHalfWidthsAreThoseOfFloat64) {
  for (const DType dtype : {DType::kF16, DType::kBF16}) {
    const Tensor x = (random_tensor({20, 130}, DType::kF64) * 30 + 500).to(dtype);
    const Tensor wanted = dl::std(x.to(DType::kF64), 1).to(dtype);
    EXPECT_EQ(values<double>(dl::std(x, 1)), values<double>(wanted));
  }
}

TEST(Statistics, OfNothingAndOfOneNumberAreUndefined) {
  EXPECT_TRUE(std::isnan(var(zeros({0})).item<double>()));
  EXPECT_TRUE(std::isnan(var(full({1}, 1e30)).item<double>()));
  EXPECT_EQ(var(full({1}, 1e30), {}, {.correction = 0}).item<double>(), 0);
  EXPECT_EQ(values<double>(var(full({3, 1}, 3e38), 1, {.correction = 0})),
            std::vector<double>(3, 0.0));
}

struct NormCase {
  const char* name;
  Shape shape;
  bool channels_last;
  std::function<Tensor(const Tensor&, const Tensor&, const Tensor&, double)> norm;
};
const std::vector<NormCase>& norms() {
  struct Alone final : BatchRanks {
    Tensor gather(const Tensor& mine) override { return mine.unsqueeze(0); }
    void add_up(const Tensor&) override {}
  };
  const auto batch = [](const Tensor& x, const Tensor& w, const Tensor& b, double eps) {
    return batch_norm(x, {}, {}, w, b, {.training = true, .eps = eps});
  };
  const auto synced = [](const Tensor& x, const Tensor& w, const Tensor& b, double eps) {
    return sync_batch_norm(x, {}, {}, w, b, make_ref<Alone>(), {.training = true, .eps = eps});
  };
  static const std::vector<NormCase> all{
      {"layer_norm",
       {7, 96},
       false,
       [](const Tensor& x, const Tensor& w, const Tensor& b, double eps) {
         return layer_norm(x, {96}, w, b, eps);
       }},
      {"group_norm",
       {3, 96, 5, 5},
       false,
       [](const Tensor& x, const Tensor& w, const Tensor& b, double eps) {
         return group_norm(x, 8, w, b, eps);
       }},
      {"rms_norm",
       {7, 96},
       false,
       [](const Tensor& x, const Tensor& w, const Tensor& b, double eps) {
         return rms_norm(x, {96}, w, eps) + b;
       }},
      {"batch_norm", {5, 96, 6, 6}, false, batch},
      {"batch_norm, channels-last", {5, 96, 6, 6}, true, batch},
      {"sync_batch_norm", {5, 96, 6, 6}, false, synced},
      {"sync_batch_norm, channels-last", {5, 96, 6, 6}, true, synced}};
  return all;
}

TEST(Statistics, OfNormsAreThoseOfFloat64) {
  for (const NormCase& each : norms()) {
    for (const Range& range : ranges()) {
      if (range.scale == 1e-36) continue;  // 1 / deviation is more than float32 holds
      SCOPED_TRACE(std::string(each.name) + ", " + range.name);
      Tensor x = in_range(each.shape, range);
      if (each.channels_last) x = x.contiguous(MemoryFormat::kChannelsLast);
      const double eps = 1e-5 * range.scale * range.scale;
      expect_like_float64(
          {x, random_tensor({96}, DType::kF32, 3), random_tensor({96}, DType::kF32, 4)},
          [&](const std::vector<Tensor>& in) { return each.norm(in[0], in[1], in[2], eps); }, 1e-5);
    }
  }
}

TEST(Statistics, OfABatchThatOverflowsMoveTheRunningOnes) {
  const Tensor x = random_tensor({4, 2, 5}, DType::kF32) * 1e18;
  const Tensor mean = zeros({2});
  const Tensor variance = zeros({2});
  batch_norm(x, mean, variance, {}, {}, {.training = true, .momentum = 1});
  const Tensor wanted = var(x.to(DType::kF64), {0, 2});
  expect_near(variance.to(DType::kF64) / 1e36, values<double>(wanted / 1e36), 1e-6);
}

}  // namespace
}  // namespace dl
