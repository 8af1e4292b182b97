// Checks of numbers that a user gives as options. A check such as `if (value < 0) throw` accepts
// NaN, because every comparison with NaN is false. So floating options are checked by these
// functions, or by a range that NaN fails: `value >= 0 && value <= 1`.
#pragma once

#include <cmath>
#include <string_view>

#include "core/base/error.h"

namespace dl {

// Throws kInvalidArgument: "CyclicLR: gamma is nan, wanted a finite number".
inline void require_finite(std::string_view owner, std::string_view option, double value) {
  DL_CHECK(std::isfinite(value), kInvalidArgument, "{}: {} is {}, wanted a finite number", owner,
           option, value);
}

// Throws kInvalidArgument for NaN, infinities and numbers below 0.
inline void require_not_negative(std::string_view owner, std::string_view option, double value) {
  DL_CHECK(value >= 0, kInvalidArgument, "{}: {} is {}, wanted at least 0", owner, option, value);
  require_finite(owner, option, value);
}

}  // namespace dl
