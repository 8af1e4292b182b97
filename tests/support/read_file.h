// What a file holds.
#pragma once

#include <fstream>
#include <iterator>
#include <string>

namespace dl::tests {

// Empty if there is no such file.
inline std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace dl::tests
