// Finds the program that the ranks run, before a process is started for it.
#pragma once

#include <string>

namespace dl::launcher {

inline constexpr int kExitUsage = 2;
inline constexpr int kExitTimeout = 124;
inline constexpr int kExitNotExecutable = 126;
inline constexpr int kExitNotFound = 127;

struct Program {
  std::string path;   // the path for execve()
  int exit_code = 0;  // kExitNotExecutable or kExitNotFound if it cannot be run
  std::string error;  // one sentence, if it cannot be run
  // True if dlrun may read the file: a file system that hangs would block dlrun before it can
  // report that. Disks of this machine count as responsive. Files elsewhere are tried in a child,
  // for a second.
  bool can_be_read = false;
};

// Searches PATH as a shell does, unless the name has a slash. `script`: the file that the program,
// an interpreter, reads, which must exist too; empty: none. Must be called before any thread
// exists.
Program find_program(const std::string& name, const std::string& script = "");

}  // namespace dl::launcher
