// Products and convolutions of bfloat16 tensors against float64, with whatever instructions this
// CPU has for them: each result is the exact sum, rounded once.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "core/device/cpu_bfloat16.h"
#include "core/device/parallel.h"
#include "core/ops/conv/conv.h"
#include "core/ops/linear/linear.h"
#include "core/ops/shape/shape.h"
#include "tests/core/ops/random_tensor.h"
#include "tests/core/support.h"

namespace dl {
namespace {

// Random values that bfloat16 holds, as `dtype`.
Tensor rounded(const Shape& shape, std::uint64_t seed, DType dtype) {
  return random_tensor(shape, DType::kF32, seed).to(DType::kBF16).to(dtype);
}

// Half a unit in the last place of bfloat16, beside the rounding of float32 sums.
void expect_rounded_once(const Tensor& got, const Tensor& exact, const std::string& what) {
  ASSERT_EQ(got.dtype(), DType::kBF16) << what;
  ASSERT_EQ(got.sizes(), exact.sizes()) << what;
  const auto a = values<double>(got);
  const auto b = values<double>(exact);
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!std::isfinite(b[i])) {
      ASSERT_TRUE(std::isnan(b[i]) ? std::isnan(a[i]) : a[i] == b[i])
          << what << " at " << i << ": " << a[i] << ", wanted " << b[i];
      continue;
    }
    ASSERT_NEAR(a[i], b[i], 0x1p-8 * std::abs(b[i]) + 1e-4) << what << " at " << i;
  }
}

using Function = std::function<Tensor(const std::vector<Tensor>&)>;

// The result, and the gradients of all inputs.
std::vector<Tensor> run(const Function& function, const std::vector<Tensor>& inputs) {
  std::vector<Tensor> leaves;
  for (const Tensor& input : inputs) leaves.push_back(input.detach().requires_grad_());
  const Tensor y = function(leaves);
  y.backward(rounded(y.sizes(), 99, y.dtype()));
  std::vector<Tensor> results{y.detach()};
  for (const Tensor& leaf : leaves) results.push_back(leaf.grad());
  return results;
}

void expect_near_f64(const Function& function, const std::vector<Tensor>& inputs,
                     const std::string& what) {
  std::vector<Tensor> exact_inputs;
  for (const Tensor& input : inputs) exact_inputs.push_back(input.to(DType::kF64));
  const std::vector<Tensor> got = run(function, inputs);
  const std::vector<Tensor> exact = run(function, exact_inputs);
  for (std::size_t i = 0; i < got.size(); ++i) {
    const std::string which = i == 0 ? "result" : "gradient " + std::to_string(i);
    expect_rounded_once(got[i], exact[i], what + ", " + which);
  }
}

Tensor product(const std::vector<Tensor>& of) {
  return matmul(of[0], of[1]);
}

TEST(BFloat16, ProductsAreRoundedOnce) {
  constexpr std::array<std::array<std::int64_t, 3>, 8> kSizes = {{{1, 1, 1},
                                                                  {2, 3, 5},
                                                                  {17, 33, 65},
                                                                  {1, 64, 40},
                                                                  {64, 1, 7},
                                                                  {70, 65, 1},
                                                                  {48, 96, 128},
                                                                  {130, 37, 259}}};
  for (const auto& [m, n, k] : kSizes) {
    const std::string size = std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k);
    const Tensor a = rounded({m, k}, 1, DType::kBF16);
    const Tensor b = rounded({k, n}, 2, DType::kBF16);
    expect_near_f64(product, {a, b}, size);
    expect_near_f64([](const auto& of) { return matmul(of[0].t(), of[1].t()); },
                    {rounded({k, m}, 3, DType::kBF16), rounded({n, k}, 4, DType::kBF16)},
                    size + ", transposed");
    // A part of wider rows.
    expect_near_f64([&](const auto& of) { return matmul(of[0].slice(1, 2, k + 2), of[1]); },
                    {rounded({m, k + 5}, 5, DType::kBF16), b}, size + ", rows with gaps");
  }
}

TEST(BFloat16, BatchesOfProductsAreRoundedOnce) {
  const Tensor a = rounded({3, 2, 9, 17}, 1, DType::kBF16);
  expect_near_f64(product, {a, rounded({3, 2, 17, 12}, 2, DType::kBF16)}, "one by one");
  // The gradients of these are sums of products, so only the results are rounded once.
  for (const Shape& shape : {Shape{17, 12}, Shape{2, 17, 12}}) {
    const Tensor b = rounded(shape, 3, DType::kBF16);
    expect_rounded_once(matmul(a, b), matmul(a.to(DType::kF64), b.to(DType::kF64)), "broadcast");
  }
  // Heads of attention: parts of the rows of one tensor.
  expect_near_f64(
      [](const auto& of) {
        const Tensor heads = of[0].view({2, 10, 3, 3, 8}).permute({2, 0, 3, 1, 4});
        const Tensor scores = matmul(heads.select(0, 0), heads.select(0, 1).transpose(-2, -1));
        return scores;
      },
      {rounded({2, 10, 72}, 5, DType::kBF16)}, "attention");
}

TEST(BFloat16, LinearLayersAreRoundedOnce) {
  for (const std::int64_t rows : {1, 30}) {
    const std::vector<Tensor> inputs = {rounded({rows, 50}, 1, DType::kBF16),
                                        rounded({20, 50}, 2, DType::kBF16),
                                        rounded({20}, 3, DType::kBF16)};
    for (const auto activation : {kernels::Activation::kNone, kernels::Activation::kRelu}) {
      expect_near_f64(
          [&](const auto& of) { return linear(of[0], of[1], of[2], {.activation = activation}); },
          inputs, "linear");
    }
  }
}

TEST(BFloat16, SumsAreFloat32) {
  // A sum in bfloat16 would stay at 256.
  const Tensor many = ones({3, 4000}, {.dtype = DType::kBF16});
  EXPECT_EQ(values<float>(matmul(many, many.t()).to(DType::kF32)), std::vector<float>(9, 4000.0F));
  const Tensor image = ones({1, 400, 4, 4}, {.dtype = DType::kBF16});
  const Tensor y = conv2d(image, ones({1, 400, 3, 3}, {.dtype = DType::kBF16}));
  EXPECT_EQ(values<float>(y.to(DType::kF32)), std::vector<float>(4, 3600.0F));
}

TEST(BFloat16, GradientsAreAddedInMemoryThatIsThere) {
  const Tensor weight = rounded({20, 50}, 2, DType::kBF16).requires_grad_();
  for (int i = 0; i < 2; ++i) {
    linear(ones({8, 50}, {.dtype = DType::kBF16}), weight)
        .backward(ones({8, 20}, {.dtype = DType::kBF16}));
  }
  EXPECT_EQ(values<float>(weight.grad().to(DType::kF32)), std::vector<float>(1000, 16.0F));
}

struct Convolved {
  const char* name;
  Shape x, weight;
  Conv2dArgs args;
};

const Convolved kConvolutions[] = {
    {"3x3", {3, 32, 9, 8}, {48, 32, 3, 3}, {.padding = {1, 1}}},
    {"many pixels", {1, 16, 36, 36}, {16, 16, 3, 3}, {.padding = {1, 1}}},
    {"one pixel", {5, 64, 1, 1}, {16, 64, 3, 3}, {.padding = {1, 1}}},
    {"stride", {2, 16, 11, 10}, {24, 16, 3, 3}, {.stride = {2, 2}, .padding = {1, 1}}},
    {"narrow rows", {2, 16, 8, 1}, {8, 16, 3, 3}, {.stride = {2, 2}, .padding = {1, 1}}},
    {"1x1", {2, 40, 7, 7}, {24, 40, 1, 1}, {}},
    {"1x1 with stride", {2, 16, 8, 8}, {32, 16, 1, 1}, {.stride = {2, 2}}},
    {"an image", {2, 3, 20, 18}, {16, 3, 7, 7}, {.stride = {2, 2}, .padding = {3, 3}}},
    {"one channel", {2, 1, 9, 9}, {5, 1, 3, 3}, {.padding = {1, 1}}},
    {"odd channels", {2, 5, 6, 9}, {7, 5, 3, 2}, {.stride = {2, 1}, .padding = {1, 0}}},
    {"dilation", {2, 16, 10, 10}, {8, 16, 3, 3}, {.padding = {2, 2}, .dilation = {2, 2}}},
    {"groups", {2, 32, 6, 6}, {64, 8, 3, 3}, {.padding = {1, 1}, .groups = 4}},
    {"depthwise", {2, 32, 9, 9}, {32, 1, 3, 3}, {.padding = {1, 1}, .groups = 32}},
    {"depthwise 5x5",
     {2, 24, 9, 9},
     {24, 1, 5, 5},
     {.stride = {2, 2}, .padding = {2, 2}, .groups = 24}},
};

TEST(BFloat16, ConvolutionsAreRoundedOnce) {
  for (const Convolved& c : kConvolutions) {
    const Tensor x = rounded(c.x, 1, DType::kBF16);
    const Tensor weight = rounded(c.weight, 2, DType::kBF16);
    const Tensor bias = rounded({c.weight[0]}, 3, DType::kBF16);
    for (const bool relu : {false, true}) {
      Conv2dArgs args = c.args;
      args.relu = relu;
      const Function convolution = [&](const auto& of) {
        return conv2d(of[0], of[1], of.size() > 2 ? of[2] : Tensor(), args);
      };
      expect_near_f64(convolution, {x, weight, bias}, c.name);
      expect_near_f64(convolution, {x, weight}, std::string(c.name) + " without bias");
    }
  }
}

// The padding contributes nothing, not even 0 times infinity, and NaN stays NaN through a ReLU.
TEST(BFloat16, ConvolutionsOfNumbersThatAreNotFinite) {
  for (const Convolved& c : kConvolutions) {
    Conv2dArgs args = c.args;
    args.relu = true;
    const Function convolution = [&](const auto& of) { return conv2d(of[0], of[1], of[2], args); };
    for (const double value :
         {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
      for (const std::size_t operand : {std::size_t{0}, std::size_t{1}}) {
        for (const std::int64_t sixths : {0, 2, 5, 6}) {
          std::vector<Tensor> inputs = {rounded(c.x, 1, DType::kBF16),
                                        rounded(c.weight, 2, DType::kBF16),
                                        rounded({c.weight[0]}, 3, DType::kBF16)};
          const Tensor elements = inputs[operand].view({-1});
          elements.select(0, (elements.numel() - 1) * sixths / 6).fill_(value);
          expect_near_f64(convolution, inputs,
                          std::string(c.name) + " with " + std::to_string(value) + " in operand " +
                              std::to_string(operand) + " at " + std::to_string(sixths) + "/6");
        }
      }
    }
  }
}

TEST(BFloat16, GivesTheSameBitsTwice) {
  const std::vector<Tensor> inputs = {rounded({3, 32, 9, 8}, 1, DType::kBF16),
                                      rounded({48, 32, 3, 3}, 2, DType::kBF16)};
  const Function convolution = [](const auto& of) { return conv2d(of[0], of[1]); };
  const std::vector<Tensor> first = run(convolution, inputs);
  const std::vector<Tensor> second = run(convolution, inputs);
  for (std::size_t i = 0; i < first.size(); ++i) {
    EXPECT_EQ(values<float>(first[i].to(DType::kF32)), values<float>(second[i].to(DType::kF32)));
  }
}

TEST(BFloat16, ParallelInfoSaysWhatComputesIt) {
  const std::string line =
      cpu_has_bfloat16() ? "bfloat16 products : " : "bfloat16 products : as float32";
  EXPECT_NE(parallel_info().find(line), std::string::npos) << parallel_info();
}

}  // namespace
}  // namespace dl
