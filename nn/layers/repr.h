// Module arguments in Python's notation.
#pragma once

#include <fmt/format.h>

#include <string>

#include "core/base/error.h"
#include "core/tensor/layout/shape.h"

namespace dl::nn {

// 1.0, not 1.
inline std::string python_float(double value) {
  std::string number = fmt::format("{}", dl::detail::shown(value));
  if (number.find_first_of(".en") == number.npos) number += ".0";
  return number;
}

inline const char* python_bool(bool value) {
  return value ? "True" : "False";
}

// (2, 3); (2,)
inline std::string python_tuple(const Shape& sizes) {
  return fmt::format("({}{})", fmt::join(sizes.begin(), sizes.end(), ", "),
                     sizes.size() == 1 ? "," : "");
}

}  // namespace dl::nn
