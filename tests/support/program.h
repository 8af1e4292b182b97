// The programs of this build, at the path that ctest sets.
#pragma once

#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

namespace dl::tests {

// The path of a program of build/<preset>/bin. Throws if the test was not started by ctest.
inline std::string program(const std::string& name) {
  const char* const folder = std::getenv("DLRUN_TEST_BIN");
  if (folder == nullptr) throw std::runtime_error("DLRUN_TEST_BIN is not set; run this with ctest");
  return std::string(folder) + "/" + name;
}

// dlrun with these arguments.
inline std::vector<std::string> dlrun(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), program("dlrun"));
  return arguments;
}

}  // namespace dl::tests
