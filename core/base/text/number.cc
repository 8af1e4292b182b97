#include "core/base/text/number.h"

#include <fmt/core.h>

#include <utility>

namespace dl {

NumberCheck whole_number(std::int64_t least, std::uint64_t most) {
  return [least, most](std::string& text) {
    const auto in_range = [&](auto value) {
      if (std::cmp_less(value, least) || std::cmp_greater(value, most)) return false;
      text = std::to_string(value);
      return true;
    };
    const auto negative = read_number<std::int64_t>(text);
    const auto large = read_number<std::uint64_t>(text);
    if ((negative && in_range(*negative)) || (large && in_range(*large))) return std::string();
    return fmt::format("'{}' is no whole number from {} to {}", text, least, most);
  };
}

std::string counted(std::uint64_t n, std::string_view what) {
  return fmt::format("{} {}{}", n, what, n == 1 ? "" : "s");
}

NumberCheck real_number(double least, double most) {
  return [least, most](const std::string& text) {
    const auto value = read_number<double>(text);
    if (value && *value >= least && *value <= most) return std::string();
    return fmt::format("'{}' is no number from {:.15g} to {:.15g}", text, least, most);
  };
}

}  // namespace dl
