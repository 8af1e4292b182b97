#include "nn/utils/clip_grad.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "core/autograd/graph/leaf.h"
#include "core/base/error.h"
#include "core/base/first_error.h"
#include "core/device/parallel.h"
#include "core/random/generator.h"
#include "core/random/tensor_random.h"
#include "core/tensor/factories.h"
#include "tests/nn/support.h"

namespace dl::nn::utils {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

const parity::Arrays& clips() {
  static const parity::Arrays kArrays("clip");
  return kArrays;
}

Tensor clip_array(const std::string& name) {
  return tensor_of(clips(), name);
}

// A parameter with each gradient, and between them one without.
std::vector<Tensor> parameters(DType dtype = DType::kF32) {
  std::vector<Tensor> result;
  for (const char* const name : {"gradients.0", "", "gradients.1"}) {
    const bool has_gradient = *name != '\0';
    const Tensor gradient = has_gradient ? clip_array(name).to(dtype) : Tensor();
    const Tensor parameter = zeros(has_gradient ? gradient.sizes() : Shape({4}), {.dtype = dtype});
    result.push_back(parameter.clone().requires_grad_());
    result.back().set_grad(gradient);
  }
  return result;
}

void expect_clipped(const Tensor& got, const std::string& name) {
  const std::vector<float> wanted = clips().get<float>(name);
  const std::vector<float> numbers = values<float>(got.to(DType::kF32));
  ASSERT_EQ(numbers.size(), wanted.size()) << name;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_NEAR(numbers[i], wanted[i], 2e-6 * std::max(1.0F, std::abs(wanted[i]))) << name;
  }
}

TEST(ClipGradNorm, ClipsAsPyTorchDoes) {
  for (const auto& [norm_type, text] :
       {std::pair{1.0, "1"}, {2.0, "2"}, {3.5, "3.5"}, {kInfinity, "inf"}}) {
    for (const auto& [max_norm, max_text] : {std::pair{0.5, "0.5"}, {100.0, "100"}}) {
      for (const DType dtype : {DType::kF32, DType::kF64}) {
        const std::string name = std::string("norm_") + text + "_" + max_text;
        const std::vector<Tensor> params = parameters(dtype);
        const Tensor norm = clip_grad_norm_(params, max_norm, {.norm_type = norm_type});
        EXPECT_EQ(norm.dim(), 0);
        expect_clipped(norm, name + ".norm");
        expect_clipped(params[0].grad(), name + ".0");
        EXPECT_FALSE(params[1].grad().defined());
        expect_clipped(params[2].grad(), name + ".1");
      }
    }
  }
}

TEST(ClipGradNorm, OfGradientsThatAreNotFiniteIsNaNOrAnError) {
  const std::vector<Tensor> params = parameters();
  params[0].grad().fill_(kInfinity);
  EXPECT_ERROR(clip_grad_norm_(params, 1, {.error_if_nonfinite = true}), kInvalidArgument,
               "clip_grad_norm_: the norm of all gradients is inf, so that they cannot be clipped");
  EXPECT_EQ(clip_grad_norm_(params, 1).item<double>(), kInfinity);
  EXPECT_TRUE(std::isnan(values<float>(params[0].grad())[0]));
  EXPECT_EQ(values<float>(params[2].grad())[0], 0);
}

TEST(ClipGradNorm, OfNothingIsZero) {
  EXPECT_EQ(clip_grad_norm_({}, 1).item<double>(), 0);
  const Tensor none = zeros({0}).requires_grad_();
  none.set_grad(zeros({0}));
  EXPECT_EQ(clip_grad_norm_({none}, 1).item<double>(), 0);
  const Tensor none_of_f64 = zeros({0}, {.dtype = DType::kF64}).requires_grad_();
  none_of_f64.set_grad(zeros({0}, {.dtype = DType::kF64}));
  EXPECT_EQ(clip_grad_norm_({none_of_f64}, 1).dtype(), DType::kF64);
  EXPECT_EQ(clip_grad_norm_({none, none_of_f64}, 1).dtype(), DType::kF64);
  EXPECT_EQ(clip_grad_norm_({none}, 1, {.norm_type = kInfinity}).item<double>(), 0);
}

// Views with gaps, images in channels-last memory, narrow dtypes, and more elements than a thread
// takes.
std::vector<Tensor> mixed_parameters() {
  Generator generator(3);
  const auto numbers = [&](const Shape& shape) { return randn(shape, {}, generator); };
  const Tensor gradients[] = {numbers({70'001}),
                              numbers({6, 5}).t(),
                              numbers({9, 4}).slice(0, 0, 9, 2),
                              numbers({2, 3, 4, 5}).contiguous(MemoryFormat::kChannelsLast),
                              numbers({300}).to(DType::kF16),
                              numbers({300}).to(DType::kBF16),
                              numbers({300}).to(DType::kF64),
                              zeros({0})};
  std::vector<Tensor> result;
  for (const Tensor& gradient : gradients) {
    result.push_back(zeros(gradient.sizes(), {.dtype = gradient.dtype()}).requires_grad_());
    result.back().set_grad(gradient);
  }
  return result;
}

std::vector<double> all_gradients(const std::vector<Tensor>& params) {
  std::vector<double> result;
  for (const Tensor& p : params) {
    for (const double x : values<double>(p.grad().to(DType::kF64))) result.push_back(x);
  }
  return result;
}

TEST(ClipGradNorm, TakesAnyStridesAndDtypes) {
  for (const double p : {1.0, 2.0, 3.0, kInfinity}) {
    const std::vector<Tensor> params = mixed_parameters();
    const std::vector<double> before = all_gradients(params);
    double total = 0;
    for (const double x : before) {
      total = std::isinf(p) ? std::max(total, std::abs(x)) : total + std::pow(std::abs(x), p);
    }
    if (!std::isinf(p)) total = std::pow(total, 1 / p);
    const double limit = total / 3;
    const Tensor norm = clip_grad_norm_(params, limit, {.norm_type = p});
    EXPECT_EQ(norm.dtype(), DType::kF64);
    EXPECT_NEAR(norm.item<double>(), total, 1e-6 * total);
    const std::vector<double> after = all_gradients(params);
    for (std::size_t i = 0; i < before.size(); ++i) {
      ASSERT_NEAR(after[i], before[i] / 3, 0x1p-8 * std::abs(before[i])) << p << ": " << i;
    }
  }
}

TEST(ClipGradNorm, IsTheSameForAnyNumberOfThreads) {
  const int before = num_threads();
  std::vector<double> norms;
  for (const int threads : {1, 2, 3}) {
    set_num_threads(threads);
    norms.push_back(clip_grad_norm_(mixed_parameters(), 1).item<double>());
  }
  set_num_threads(before);
  EXPECT_EQ(norms, std::vector<double>(3, norms[0]));
}

TEST(ClipGradNorm, CountsAParameterOnce) {
  const Tensor p = zeros({2}).requires_grad_();
  p.set_grad(full({2}, 3.0));
  EXPECT_NEAR(clip_grad_norm_({p, p}, 1).item<double>(), std::sqrt(18.0), 1e-6);
  EXPECT_NEAR(values<float>(p.grad())[0], 1 / std::sqrt(2.0), 1e-6);
}

TEST(ClipGradValue, TakesAnyStridesAndDtypes) {
  const std::vector<Tensor> params = mixed_parameters();
  const std::vector<double> before = all_gradients(params);
  clip_grad_value_(params, 0.5);
  const std::vector<double> after = all_gradients(params);
  for (std::size_t i = 0; i < before.size(); ++i) {
    ASSERT_EQ(after[i], std::clamp(before[i], -0.5, 0.5)) << i;
  }
  params[0].grad().fill_(std::nan(""));
  clip_grad_value_(params, 0.5);
  EXPECT_TRUE(std::isnan(values<float>(params[0].grad())[0]));
}

TEST(ClipGradValue, ClipsAsPyTorchDoes) {
  const std::vector<Tensor> params = parameters();
  clip_grad_value_(params, 0.7);
  expect_clipped(params[0].grad(), "value.0");
  expect_clipped(params[2].grad(), "value.1");
}

TEST(ClipGrad, RefusesBadNumbersAndFailedGradients) {
  const std::vector<Tensor> params = parameters();
  EXPECT_ERROR(clip_grad_norm_(params, -1), kInvalidArgument,
               "clip_grad_norm_: max_norm is -1, wanted at least 0");
  EXPECT_ERROR(clip_grad_norm_(params, 1, {.norm_type = 0}), kInvalidArgument,
               "clip_grad_norm_: norm_type is 0, wanted more than 0");
  EXPECT_ERROR(clip_grad_value_(params, std::nan("")), kInvalidArgument,
               "clip_grad_value_: clip_value is nan, wanted at least 0");
  EXPECT_ERROR(clip_grad_norm_({Tensor()}, 1), kInvalidArgument,
               "clip_grad_norm_: parameter 0 is undefined");
}

}  // namespace
}  // namespace dl::nn::utils
