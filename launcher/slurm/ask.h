// Runs one of the cluster's own programs (squeue, scontrol, munge), found along PATH, and waits for
// its end. To be called before any thread exists, or at the very end.
#pragma once

#include <string>
#include <vector>

namespace dl::launcher {

struct Answer {
  int status = 0;    // as waitpid() gives it
  std::string text;  // stdout and stderr
};

// `input`: the program's standard input, at most 4 KiB. Throws Error{kNotFound, kTimeout, kIo} with
// a sentence.
Answer ask_program(std::vector<std::string> line, const std::string& input = "");

}  // namespace dl::launcher
