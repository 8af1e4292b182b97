// Where ctest says that the programs of this build are.
#pragma once

#include <cstdlib>
#include <stdexcept>
#include <string>

namespace dl::tests {

// The path of a program of build/<preset>/bin. Throws where the test was not started by ctest.
inline std::string program(const std::string& name) {
  const char* const folder = std::getenv("DLRUN_TEST_BIN");
  if (folder == nullptr) throw std::runtime_error("DLRUN_TEST_BIN is not set; run this with ctest");
  return std::string(folder) + "/" + name;
}

}  // namespace dl::tests
