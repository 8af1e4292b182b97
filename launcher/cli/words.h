// From the words of a line to options under their full names, and the program behind them.
//
// An option may be written with dashes or underscores, abbreviated as long as it is clear which one
// is meant, by its letter (-t 3, -t3, -mt3) or by another launcher's name for it (-np).
#pragma once

#include <string>
#include <vector>

#include "launcher/cli/option_table.h"

namespace dl::launcher {

struct SpelledOut {
  std::vector<Typed> options;        // in the order of the line
  std::vector<std::string> program;  // with its arguments; empty: none was given
};

// Stops at the program, behind `--`, and at an option that only prints something (--help). Throws
// kInvalidArgument for an option that is not there, that dlrun refuses by name, that is not clear,
// or whose value is missing or empty.
SpelledOut spell_out(const std::vector<std::string>& words);

}  // namespace dl::launcher
