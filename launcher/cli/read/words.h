// Converts the words of a line to options under their full names, and the program that follows
// them. A lone `:` begins another program with options of its own.
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

// At least one. Options end at the program, after `--`, and at an option that only prints something
// (--help). Behind `--` a `:` is the program's own. Throws kInvalidArgument for an option that does
// not exist, that dlrun refuses by name, that is ambiguous, or whose value is missing, empty, or
// none of the words that the option takes.
std::vector<SpelledOut> spell_out(const std::vector<std::string>& words);
// For words of one program, in which any `:` is the program's own.
SpelledOut spell_out_one(const std::vector<std::string>& words);

}  // namespace dl::launcher
