// What tests of core/ share.
#pragma once

#include <gtest/gtest.h>

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
      result.push_back(convert<T>(flat.data<E>()[i]));
    }
  });
  return result;
}

}  // namespace dl
