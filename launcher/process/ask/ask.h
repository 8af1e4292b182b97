// Runs a short program of this host and takes its answer: its end and what it wrote. To be called
// before any thread exists, or at the very end.
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace dl::launcher {

// The words as execve() takes a line or an environment, as long as `words` does not change.
std::vector<char*> pointers_to(std::vector<std::string>& words);

struct Answer {
  int status = 0;    // as waitpid() gives it
  std::string text;  // stdout and stderr
};

struct AskOptions {
  std::string path = {};                      // of the program; empty: line[0], found along PATH
  std::string input = {};                     // its standard input, at most 4 KiB
  std::vector<std::string> environment = {};  // empty: this process's
  std::chrono::seconds patience{20};
};

// `line`: the program's words. Waits for its end; when `patience` has passed, kills it. Throws
// Error{kNotFound, kTimeout, kIo} with a clause: "squeue could not be run: ...".
Answer ask(std::vector<std::string> line, const AskOptions& options);

}  // namespace dl::launcher
