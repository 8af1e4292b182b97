// Finds the program that the ranks run, before a process is started for it, and says why the kernel
// did not execute it.
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
// an interpreter, reads, which must exist too; empty: none. `directory`: the one in which it will
// run, for relative paths; empty: this process's. Must be called before any thread exists.
Program find_program(const std::string& name, const std::string& script = "",
                     const std::string& directory = "");

// If the kernel did not execute a file (ENOEXEC), it is a script without a `#!` line, which a shell
// runs, or a program that this machine cannot run, which no shell should get.

// True if the file is text without a `#!` line. False if it cannot be read.
bool is_shell_text(const std::string& path);

// A clause: "it is an ELF program for aarch64, and this machine is x86_64".
std::string why_not_executed(const std::string& path);
// A clause about a file that was there, and for which exec returned ENOENT.
std::string why_no_interpreter(const std::string& path);

}  // namespace dl::launcher
