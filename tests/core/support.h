// What tests of core/ share.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/tensor/tensor.h"

// Expects an Error of one kind with exactly this text.
#define EXPECT_ERROR(statement, error_kind, text)                   \
  try {                                                             \
    static_cast<void>(statement);                                   \
    ADD_FAILURE() << #statement " did not throw";                   \
  } catch (const ::dl::Error& caught_error) {                       \
    EXPECT_EQ(caught_error.kind(), ::dl::ErrorKind::error_kind);    \
    EXPECT_EQ(std::string(caught_error.what()), std::string(text)); \
  }                                                                 \
  static_assert(true)

namespace dl {

// All elements in row-major order, whatever the strides.
template <typename T>
std::vector<T> values(const Tensor& t) {
  std::vector<T> result;
  const Tensor flat = t.contiguous();
  visit_all(flat.dtype(), [&]<typename E>() {
    for (std::int64_t i = 0; i < flat.numel(); ++i) {
      result.push_back(detail::convert<T>(flat.data<E>()[i]));
    }
  });
  return result;
}

// Each element within `tolerance` of `expected`, relative to numbers above 1; NaN and infinities
// are the same.
inline void expect_near(const Tensor& got, const std::vector<double>& expected, double tolerance) {
  const std::vector<double> numbers = values<double>(got);
  ASSERT_EQ(numbers.size(), expected.size());
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (std::isnan(expected[i])) {
      EXPECT_TRUE(std::isnan(numbers[i])) << "element " << i;
    } else if (std::isinf(expected[i])) {
      EXPECT_EQ(numbers[i], expected[i]) << "element " << i;
    } else {
      EXPECT_NEAR(numbers[i], expected[i], tolerance * std::max(1.0, std::abs(expected[i])))
          << "element " << i << " of " << got.sizes().str() << " " << name_of(got.dtype());
    }
  }
}

}  // namespace dl
