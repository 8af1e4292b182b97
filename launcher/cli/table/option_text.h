// The table of options as text: for --help, the manual page, the reference and shells.
#pragma once

#include <string>
#include <string_view>

namespace dl::launcher {

// For --help: a line for each row, in groups.
std::string options_as_help();
// The rows as entries of the manual's OPTIONS section.
std::string options_as_roff();
// The subcommands as the manual's SUBCOMMANDS section.
std::string subcommands_as_roff();
// A table in Markdown for each group.
std::string options_as_markdown();

// --print-completion: the script with which "bash" or "zsh" completes dlrun's command line. Throws
// kInvalidArgument for another shell.
std::string completion_for(std::string_view shell);

}  // namespace dl::launcher
