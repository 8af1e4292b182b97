// Finds the program that the ranks run, before a process is started for it.
#pragma once

#include <string>

namespace dl::launcher {

inline constexpr int kExitUsage = 2;
inline constexpr int kExitTimeout = 124;
inline constexpr int kExitNotExecutable = 126;
inline constexpr int kExitNotFound = 127;

struct Program {
  std::string path;   // what execve() takes
  int exit_code = 0;  // kExitNotExecutable or kExitNotFound if it cannot be run
  std::string error;  // one sentence, if it cannot be run
  // Whether dlrun may look into it: a file system that hangs would hold dlrun before it can say so.
  // Files on disks of this machine are taken to answer; others are tried in a child, for a second.
  bool can_be_read = false;
};

// Looks along PATH as a shell does, unless the name has a slash. `script`: the file that the
// program, an interpreter, reads; it must be there, too. Empty: none. For a process without
// threads.
Program find_program(const std::string& name, const std::string& script = "");

}  // namespace dl::launcher
