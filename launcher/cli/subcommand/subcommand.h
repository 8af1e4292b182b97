// Subcommands: `dlrun topo`. One table has them all: main.cc, --help, the manual, the reference and
// shell completion come from it.
//
// A subcommand counts only as the first word. After an option it is a program: `dlrun -n 2 ps`,
// `dlrun -- ps`.
//
// A new subcommand is a row here and a function. option_text_test compares the manual and the
// reference with the table; with DLRUN_TEST_REWRITE=1 in its environment it writes them.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dl::launcher {

struct SubcommandOption {
  std::string_view name;        // "--json"
  char letter = 0;              // 0: none
  std::string_view value = {};  // as --help shows it: "FILE", "text|json"; empty: a flag
  std::string_view help;        // one line

  bool is_flag() const { return value.empty(); }
};

// The words behind a subcommand.
struct SubcommandLine {
  std::vector<std::pair<std::string_view, std::string>> options;  // by name, in their order
  std::vector<std::string> operands;

  bool has(std::string_view name) const;
  // The last one counts; nullopt: not given.
  std::optional<std::string> value_of(std::string_view name) const;
};

struct Subcommand {
  std::string_view name;                      // "topo"
  std::string_view usage;                     // the words behind the name: "[--json] DIR..."
  std::string_view help;                      // one line
  std::string_view about;                     // lines of at most 100 characters
  std::string_view operands;                  // "DIR"; empty: it takes none
  std::span<const SubcommandOption> options;  // --help is not among them
  std::string_view exit_codes;                // "0; 1 the host could not be read; 2 bad usage"
  // Returns dlrun's exit code. Throws Error: kInvalidArgument for bad usage.
  int (*run)(const SubcommandLine& line);
};

std::span<const Subcommand> subcommand_table();
// nullptr: `word` is no subcommand.
const Subcommand* find_subcommand(std::string_view word);

// What `dlrun NAME --help` prints.
std::string help_of(const Subcommand& subcommand);

// `arguments`: the words behind the subcommand; `--` ends the options. Throws kInvalidArgument.
SubcommandLine read_line(const Subcommand& subcommand, const std::vector<std::string>& arguments);

// Reads the line, prints the help or runs the subcommand, and says an Error on standard error.
// Returns dlrun's exit code.
int run_subcommand(const Subcommand& subcommand, const std::vector<std::string>& arguments);

}  // namespace dl::launcher
