// What tests on a GPU share: they skip themselves where there is none, and hold an operation's
// result and gradients on the device against the CPU's.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "core/device/cuda/cuda.h"
#include "core/device/cuda/module.h"
#include "core/ops/arithmetic.h"
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

// How far a result may be from the f64 reference, as a share of the largest element: some units in
// the last place of the dtype, more where many terms are added.
inline double tolerance(DType dtype, double terms = 1) {
  const double unit = dtype == DType::kF16    ? 0x1p-10
                      : dtype == DType::kBF16 ? 0x1p-7
                      : dtype == DType::kF32  ? 0x1p-22
                                              : 0x1p-48;
  return unit * (4 + std::sqrt(terms));
}

inline void expect_close(const Tensor& got, const Tensor& wanted, double tolerated,
                         const std::string& what) {
  ASSERT_EQ(got.sizes(), wanted.sizes()) << what;
  const auto a = values<double>(got.to(Device{}));
  const auto b = values<double>(wanted);
  double size = 1;
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
      const auto x = convert<double>(a.data<T>()[i]);
      const auto y = convert<double>(b.data<T>()[i]);
      ASSERT_TRUE(x == y || (std::isnan(x) && std::isnan(y)))
          << what << " [" << i << "]: " << x << ", wanted " << y;
    }
  });
}

inline constexpr DType kFloats[] = {DType::kF32, DType::kF16, DType::kBF16, DType::kF64};

// f(inputs) and the gradients of sum(f * direction) on the device in each floating dtype, against
// f64 on the CPU with the same (rounded) inputs.
inline void compare(const std::string& what, const Function& f, const Inputs& inputs,
                    double terms = 1,
                    std::vector<DType> dtypes = {std::begin(kFloats), std::end(kFloats)}) {
  for (const DType dtype : dtypes) {
    const std::string name = what + " in " + std::string(name_of(dtype));
    Inputs here;
    Inputs there;
    for (const Tensor& input : inputs) {
      const bool floating = is_floating(input.dtype());
      const Tensor rounded = floating ? input.detach().to(dtype) : input.detach();
      here.push_back(floating ? rounded.to(DType::kF64).requires_grad_() : rounded);
      there.push_back(rounded.to(kGPU));
      if (floating) there.back().requires_grad_();
    }
    const Tensor wanted = f(here);
    const Tensor got = f(there);
    ASSERT_EQ(got.device(), kGPU) << name;
    expect_close(got.detach(), wanted.detach(), tolerance(dtype, terms), name);
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
      expect_close(there[i].grad(), here[i].grad(), 2 * tolerance(dtype, terms),
                   name + ": gradient " + std::to_string(i));
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
