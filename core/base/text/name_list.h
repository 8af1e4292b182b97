// Lists of names, as sentences have them. Pure functions; any thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace dl::detail {

// All of `names`: "a, b and c"; and if `more` names are left out, "a, b, c and 3 more".
inline std::string name_list(const std::vector<std::string>& names, std::size_t more) {
  std::string list;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const bool is_last = i + 1 == names.size() && more == 0;
    if (i > 0) list += is_last ? " and " : ", ";
    list += names[i];
  }
  return more == 0 ? list : list + " and " + std::to_string(more) + " more";
}

// The most names of a list that may be long.
inline constexpr std::size_t kMostNames = 8;

// "a", "a and b", "a, b and c"; with more than kMostNames: "a, b, c, d, e, f, g, h and 3 more".
inline std::string name_list(std::vector<std::string> names) {
  const std::size_t shown = std::min(kMostNames, names.size());
  const std::size_t more = names.size() - shown;
  names.resize(shown);
  return name_list(names, more);
}

// The verb after a list of `count` names.
inline std::string_view has_or_have(std::size_t count) noexcept {
  return count == 1 ? "has" : "have";
}

}  // namespace dl::detail
