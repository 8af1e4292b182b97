#include "launcher/cli/python.h"

#include "core/base/env.h"
#include "core/base/error.h"

namespace dl::launcher {

ProgramLine program_line(std::vector<std::string> words, const PythonChoice& choice) {
  DL_CHECK(!choice.module || choice.run_path || !choice.no_python, kInvalidArgument,
           "--module runs `{}` with Python, and --no-python runs it without; leave one of them out",
           words.front());
  DL_CHECK(!choice.module || !choice.run_path, kInvalidArgument,
           "`{}` is a module for --module and a file for --run-path; leave one of them out",
           words.front());
  const bool is_script =
      choice.run_path || (!choice.module && !choice.no_python && words.front().ends_with(".py"));
  ProgramLine line;
  if (is_script) line.script = words.front();
  if (is_script || choice.module) {
    std::vector<std::string> python = {env::get(env::Var::kPythonExec).value_or("python3"), "-u"};
    if (choice.module) python.emplace_back("-m");
    words.insert(words.begin(), python.begin(), python.end());
  }
  line.words = std::move(words);
  return line;
}

}  // namespace dl::launcher
