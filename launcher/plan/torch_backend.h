// --torch-backend dlrun: an unchanged program for Gloo gets dlrun's collectives, because `import
// torch` calls the installed Python package dlrun (entry point of the group `torch.backends`),
// which finds DLRUN_TORCH_BACKEND set.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "launcher/cli/options.h"
#include "launcher/process/start/program.h"

namespace dl::launcher {

// Throws Error{kInvalidArgument} with one sentence if the option is given and would have no effect:
// the program is not Python's, or the Python that runs it has no PyTorch that looks for such an
// entry point, or no package dlrun with one. Asks that Python, which takes some 50 ms, and does not
// import PyTorch. To be called before any thread exists.
void check_torch_backend(const JobOptions& job, const App& app, const Program& program);

// The words that begin the line of the Python that runs a program: the first word, or what the `#!`
// line of its file names. Empty: no Python runs it. `program`: the first word's program.
std::vector<std::string> python_of(const std::vector<std::string>& words, const Program& program);

// What a Python says of its packages.
struct TorchPackages {
  std::string torch;       // the version; empty: not installed
  std::string dlrun;       // the same
  bool registers = false;  // the package dlrun has the entry point
};
// Why the option would have no effect, a clause; empty: it has one. `python`: names the Python.
std::string why_no_torch_backend(const TorchPackages& packages, std::string_view python);

}  // namespace dl::launcher
