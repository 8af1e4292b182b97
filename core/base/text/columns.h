// Text in columns, for a person.
//
// Thread-safety: everything here may be used from any thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace dl {

// Characters, each of which takes one column: continuation bytes of UTF-8 do not count.
inline std::size_t columns_of(std::string_view text) noexcept {
  return static_cast<std::size_t>(std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xc0U) != 0x80U; }));
}

// A line for each row of cells, each cell as wide as the widest of its column. `Row`: a range of
// strings; rows may have different lengths.
template <typename Row>
std::vector<std::string> in_columns(const std::vector<Row>& rows) {
  constexpr std::size_t kGap = 2;
  std::vector<std::size_t> widths;
  for (const Row& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i)
      widths[i] = std::max(widths[i], columns_of(row[i]));
  }
  std::vector<std::string> lines;
  for (const Row& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      line += row[i];
      line.append(widths[i] - columns_of(row[i]) + kGap, ' ');
    }
    line.erase(line.find_last_not_of(' ') + 1);
    lines.push_back(std::move(line));
  }
  return lines;
}

}  // namespace dl
