// The table of options as text: for --help, for the manual page and for the reference.
#pragma once

#include <string>

namespace dl::launcher {

std::string options_as_help();
// The rows as entries of the manual's OPTIONS section.
std::string options_as_roff();
// A table in Markdown for each group.
std::string options_as_markdown();

}  // namespace dl::launcher
