// Runs a program of the build as a user would, and keeps what it said.
#pragma once

#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>

namespace dl::dist {

struct Ran {
  int code = -1;     // exit code; 124 where `timeout` ended it
  std::string text;  // stdout and stderr
};

// A program of build/<preset>/bin.
inline std::string program(const std::string& name) {
  const char* const bin = std::getenv("DLRUN_TEST_BIN");
  if (bin == nullptr) throw std::runtime_error("DLRUN_TEST_BIN is not set; run this with ctest");
  return std::string(bin) + "/" + name;
}

inline Ran shell(const std::string& command, int limit_s = 120) {
  const std::string line = "timeout " + std::to_string(limit_s) + " " + command + " 2>&1";
  std::FILE* const pipe = ::popen(line.c_str(), "r");
  if (pipe == nullptr) throw std::runtime_error("popen");
  Ran ran;
  char piece[4096];
  while (const std::size_t n = std::fread(piece, 1, sizeof(piece), pipe)) ran.text.append(piece, n);
  const int status = ::pclose(pipe);
  ran.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return ran;
}

}  // namespace dl::dist
