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
