#include "launcher/process_stat.h"

#include <cstdio>
#include <fstream>

namespace dl::launcher {

ProcessStat read_stat(const std::string& folder) {
  std::ifstream file(folder + "/stat");
  std::string line;
  std::getline(file, line);
  // "pid (name) state ppid pgrp session tty tpgid flags ..."; the name may hold anything,
  // parentheses included, and the kernel escapes its ends of lines.
  const std::size_t close = line.rfind(')');
  ProcessStat read;
  if (close == std::string::npos ||
      std::sscanf(line.c_str() + close + 1, " %c %d %*d %*d %*d %*d %u", &read.state, &read.parent,
                  &read.flags) != 3) {
    return {};
  }
  return read;
}

}  // namespace dl::launcher
