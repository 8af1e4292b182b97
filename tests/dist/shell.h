// Runs a program of the build as a user would, and keeps what it said.
#pragma once

#include <sys/wait.h>

#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>

#include "tests/support/program.h"

namespace dl::dist {

using tests::program;

struct Ran {
  int code = -1;     // exit code; 124 if `timeout` ended it
  std::string text;  // stdout and stderr
};

inline Ran shell(const std::string& command, int limit_s = 240) {
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
