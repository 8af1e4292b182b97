// Converts the words of a line to options under their full names, and the program that follows
// them.
//
// An option may be written with dashes or underscores, abbreviated as long as it is clear which
// option is meant, by its letter (-t 3, -t3, -mt3), or by another launcher's name for it (-np).
#pragma once

#include <string>
#include <vector>

#include "launcher/cli/table/option_table.h"

namespace dl::launcher {

struct SpelledOut {
  std::vector<Typed> options;        // in the order of the line
  std::vector<std::string> program;  // with its arguments; empty: none was given
};

// Stops at the program, after `--`, and at an option that only prints something (--help). Throws
// kInvalidArgument for an option that does not exist, that dlrun refuses by name, that is
// ambiguous, or whose value is missing, empty, or none of the words that the option takes.
SpelledOut spell_out(const std::vector<std::string>& words);

}  // namespace dl::launcher
