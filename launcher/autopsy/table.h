// Text in columns, for a person.
#pragma once

#include <fmt/core.h>
#include <algorithm>
#include <array>
#include <string>
#include <vector>

namespace dl::launcher::autopsy {

using Row = std::array<std::string, 6>;

inline std::vector<std::string> table(const std::vector<Row>& rows) {
  std::array<std::size_t, std::tuple_size_v<Row>> widths{};
  for (const Row& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::vector<std::string> lines;
  for (const Row& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      line += fmt::format("{:<{}}  ", row[i], widths[i]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    lines.push_back(std::move(line));
  }
  return lines;
}

}  // namespace dl::launcher::autopsy
