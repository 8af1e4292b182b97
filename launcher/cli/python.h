// The words that are executed for a program: Python programs get an interpreter, as with torchrun.
#pragma once

#include <string>
#include <vector>

namespace dl::launcher {

struct PythonChoice {
  bool module = false;
  bool no_python = false;
  bool run_path = false;
};

struct ProgramLine {
  std::vector<std::string> words;
  std::string script;  // the file that the interpreter reads; empty: none
};

// `words`: the program and its arguments as typed. A module, a name that ends with .py and any
// program with `run_path` run as `PYTHON -u ...`; PYTHON is $PYTHON_EXEC, or python3 if that is
// unset. Throws kInvalidArgument for a module with `no_python` or `run_path`.
ProgramLine program_line(std::vector<std::string> words, const PythonChoice& choice);

}  // namespace dl::launcher
