// Helpers of tests on a GPU: they skip the test if there is none, and compare an operation's result
// and gradients on the device with the CPU's.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "core/device/cuda/cuda.h"
#include "core/device/cuda/module/module.h"
#include "core/ops/elementwise/arithmetic.h"
#include "core/random/generator.h"
#include "core/random/tensor_random.h"
#include "tests/core/support.h"

namespace dl::testing {

inline const Device kGPU{DeviceType::kCUDA, 0};

class OnDevice : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!cuda::is_available()) {
      GTEST_SKIP() << "no CUDA device: " << cuda::unavailable_reason();
    }
  }
};

using Inputs = std::vector<Tensor>;
using Function = std::function<Tensor(const Inputs&)>;

// How far a result may be from the f64 reference of the same rounded inputs, relative to the
// largest element (or to 1, if that is larger).
//
// A value that is rounded to a dtype is off by u = 2^-11 of itself in f16, 2^-8 in bf16, 2^-24 in
// f32. Between its inputs and its result an operation rounds a few times, each time at most to the
// size of the largest element: 8 u for the short dtypes. In f32 and f64 the functions of libraries
// are off by up to 4 units in the last place, and the reference itself by some in f64: 32 u.
// A sum of k terms of random signs is of the size of sqrt(k) terms. Adding them rounds k times to
// at most that size; the errors have random signs too and come to sqrt(k) u of it. Short dtypes are
// summed in f32, so that u is 2^-24 there. A factor of 8 stands for the distance between
// the typical and the worst of some thousand elements, and for a largest element that is small.
struct Rounding {
  double times = 1;          // as many roundings of a short dtype
  bool behind_relu = false;  // what a ReLU sees was rounded to a short dtype before
};
// For normalisation: each output and each gradient is a difference of numbers of this size.
inline constexpr Rounding kOfNorm{.times = 3};
inline double tolerance(DType dtype, double terms = 1, Rounding rounding = {}) {
  const bool is_short = dtype == DType::kF16 || dtype == DType::kBF16;
  const double u = dtype == DType::kF16    ? 0x1p-11
                   : dtype == DType::kBF16 ? 0x1p-8
                   : dtype == DType::kF32  ? 0x1p-24
                                           : 0x1p-53;
  const double of_sums = 8 * std::sqrt(terms) * (is_short ? 0x1p-24 : u);
  const double all = (is_short ? 8 * rounding.times : 32) * u + of_sums;
  return dtype == DType::kF64 ? 2 * all : all;  // the reference rounds as much
}
// Of gradients, which round once more. Behind a ReLU of rounded values a share of 0.8 u of them has
// the wrong sign, so that as many terms of a gradient's sum are left out or too many: sqrt(1.6 u)
// of the sum's typical size, and three times that at worst.
inline double gradient_tolerance(DType dtype, double terms, Rounding rounding) {
  const bool is_short = dtype == DType::kF16 || dtype == DType::kBF16;
  const double u = dtype == DType::kF16 ? 0x1p-11 : 0x1p-8;
  return 2 * tolerance(dtype, terms, rounding) +
         (is_short && rounding.behind_relu ? 4 * std::sqrt(u) : 0);
}

// `least`: of what size the largest element counts at least.
inline void expect_close(const Tensor& got, const Tensor& wanted, double tolerated,
                         const std::string& what, double least = 1) {
  ASSERT_EQ(got.sizes(), wanted.sizes()) << what;
  const auto a = values<double>(got.to(Device{}));
  const auto b = values<double>(wanted);
  double size = least;
  for (const double v : b) {
    if (std::isfinite(v)) size = std::max(size, std::abs(v));
  }
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(b[i]) || std::isinf(b[i])) {
      ASSERT_EQ(std::isnan(a[i]), std::isnan(b[i])) << what << " [" << i << "]";
      if (std::isinf(b[i])) {
        ASSERT_EQ(a[i], b[i]) << what << " [" << i << "]";
      }
      continue;
    }
    ASSERT_NEAR(a[i], b[i], tolerated * size) << what << " [" << i << "]";
  }
}

// Exactly the same elements of the same dtype.
inline void expect_same(const Tensor& got, const Tensor& wanted, const std::string& what) {
  ASSERT_EQ(got.dtype(), wanted.dtype()) << what;
  ASSERT_EQ(got.sizes(), wanted.sizes()) << what;
  const Tensor here = got.to(Device{});
  visit_all(wanted.dtype(), [&]<typename T>() {
    const Tensor a = here.contiguous();
    const Tensor b = wanted.contiguous();
    for (std::int64_t i = 0; i < a.numel(); ++i) {
      const auto x = detail::convert<double>(a.data<T>()[i]);
      const auto y = detail::convert<double>(b.data<T>()[i]);
      ASSERT_TRUE(x == y || (std::isnan(x) && std::isnan(y)))
          << what << " [" << i << "]: " << x << ", wanted " << y;
    }
  });
}

inline constexpr DType kFloats[] = {DType::kF32, DType::kF16, DType::kBF16, DType::kF64};
inline const std::vector<DType> kAllFloats(std::begin(kFloats), std::end(kFloats));

// f(inputs) and the gradients of sum(f * direction) on the device in each floating dtype, against
// f64 on the CPU with the same (rounded) inputs.
inline void compare(const std::string& what, const Function& f, const Inputs& inputs,
                    double terms = 1, const std::vector<DType>& dtypes = kAllFloats,
                    Rounding rounding = {}) {
  for (const DType dtype : dtypes) {
    const std::string name = what + " in " + std::string(name_of(dtype));
    Inputs here;
    Inputs there;
    for (const Tensor& input : inputs) {
      const bool floating = is_floating(input.dtype());
      const Tensor rounded = floating ? input.detach().to(dtype) : input.detach();
      here.push_back(floating ? rounded.to(DType::kF64).detach().requires_grad_() : rounded);
      there.push_back(rounded.to(kGPU));
      if (floating) there.back().requires_grad_();
    }
    const Tensor wanted = f(here);
    const Tensor got = f(there);
    ASSERT_EQ(got.device(), kGPU) << name;
    expect_close(got.detach(), wanted.detach(), tolerance(dtype, terms, rounding), name);
    if (!is_floating(wanted.dtype()) || !wanted.requires_grad()) continue;
    ASSERT_TRUE(got.requires_grad()) << name;
    Generator generator(99);
    const Tensor direction = randn(wanted.sizes(), {}, generator).to(got.dtype());
    wanted.backward(direction.to(DType::kF64));
    got.backward(direction.to(kGPU));
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (!here[i].requires_grad() || !here[i].grad().defined()) continue;
      ASSERT_TRUE(there[i].grad().defined()) << name << ": gradient " << i;
      ASSERT_EQ(there[i].grad().dtype(), dtype) << name;
      expect_close(there[i].grad(), here[i].grad(), gradient_tolerance(dtype, terms, rounding),
                   name + ": gradient " + std::to_string(i), 0);
    }
  }
}

// Normal numbers, the same in every run.
inline Tensor numbers(const Shape& shape, std::uint64_t seed = 1) {
  Generator generator(seed);
  return randn(shape, {}, generator);
}
// In [0.5, 2).
inline Tensor positive(const Shape& shape, std::uint64_t seed = 1) {
  Generator generator(seed);
  return add(mul(rand(shape, {}, generator), 1.5), 0.5);
}

}  // namespace dl::testing
