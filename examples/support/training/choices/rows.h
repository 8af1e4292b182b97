// Finds a row of a table by its name, and lists the names.
#pragma once

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"

namespace dl::examples {

template <typename Row>
std::vector<std::string> names_of(std::span<const Row> rows) {
  std::vector<std::string> names;
  for (const Row& row : rows) names.emplace_back(row.name);
  return names;
}

// Throws kInvalidArgument with the names that there are; `option` is the one that asked.
template <typename Row>
const Row& find_row(std::span<const Row> rows, std::string_view option, std::string_view name) {
  const auto row = std::ranges::find(rows, name, &Row::name);
  if (row != rows.end()) return *row;
  std::string known;
  for (const Row& one : rows) known += (known.empty() ? "" : ", ") + std::string(one.name);
  throw_error(ErrorKind::kInvalidArgument, "{} is {}, wanted one of {}", option, name, known);
}

}  // namespace dl::examples
