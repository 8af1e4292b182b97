#include "core/base/system/process/process_stat.h"

#include <unistd.h>

#include <cstdio>
#include <fstream>

namespace dl {

ProcessStat read_stat(const std::string& folder) {
  std::ifstream file(folder + "/stat");
  std::string line;
  std::getline(file, line);
  // "pid (name) state ppid pgrp session tty tpgid flags ..."; the name may hold anything,
  // parentheses included, and the kernel escapes its ends of lines.
  const std::size_t open = line.find('(');
  const std::size_t close = line.rfind(')');
  ProcessStat read;
  unsigned long user = 0, kernel = 0;  // ticks
  if (close == std::string::npos ||
      std::sscanf(line.c_str() + close + 1,
                  " %c %d %*d %*d %*d %*d %u %*u %*u %*u %*u %lu %lu "
                  "%*d %*d %*d %*d %*d %*d %llu",
                  &read.state, &read.parent, &read.flags, &user, &kernel, &read.start_ticks) != 6) {
    return {};
  }
  read.name = line.substr(open + 1, close - open - 1);
  read.cpu_s = static_cast<double>(user + kernel) / static_cast<double>(::sysconf(_SC_CLK_TCK));
  return read;
}

std::string wait_channel(const std::string& folder) {
  std::ifstream file(folder + "/wchan");
  std::string channel;
  std::getline(file, channel);
  return channel == "0" ? std::string() : channel;
}

}  // namespace dl
