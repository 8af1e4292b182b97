// Numbers as Python's print() shows them.
#pragma once

#include <fmt/core.h>

#include <string>

namespace dl::examples {

// The shortest text that reads as the number, "1.0" for a whole number. Differs from Python from
// 1e16 on, which Python writes with an exponent.
inline std::string python_float(double value) {
  std::string text = fmt::format("{}", value);
  if (text.find_first_not_of("-0123456789") == std::string::npos) text += ".0";
  return text;
}

}  // namespace dl::examples
