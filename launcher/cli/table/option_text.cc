#include "launcher/cli/table/option_text.h"

#include <fmt/format.h>

#include <vector>

#include "launcher/cli/subcommand/subcommand.h"
#include "launcher/cli/table/option_table.h"
#include "launcher/cli/table/readers.h"

namespace dl::launcher {
namespace {

constexpr std::string_view kHelpHead =
    "Starts a program as the ranks of one job, watches over them, and ends them together.\n"
    "Each rank finds torchrun's environment variables: RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, "
    "...\n"
    "A program that ends with .py runs with $PYTHON_EXEC, else with the python3 in PATH.\n"
    "Usage: dlrun [options] [--] program [arguments...]\n"
    "       dlrun [options] -n N program [arguments...] : -n N program [arguments...] ...\n";

constexpr std::string_view kHelpFoot =
    "Exit code: that of the rank that caused the failure, 128+N for signal N; 2 bad usage; 75 all\n"
    "ranks have saved on request (--preempt); 124 a deadline passed; 126 the program cannot be\n"
    "executed; 127 it was not found.\n"
    "\n"
    "A job that hangs: `kill -USR1` dlrun, and it says who is waited for; so does `dlrun autopsy "
    "DIR`\n"
    "of a --log-dir after a failure.\n"
    "\n"
    "  dlrun --nproc-per-node 2 train.py --epochs 3\n"
    "  dlrun --nproc-per-node auto -m package.train\n"
    "  dlrun -n 4 ./train\n"
    "  dlrun --nnodes 2 --rdzv-endpoint node0:29400 ./train     (the same on both nodes)\n";

constexpr Group kShownGroups[] = {Group::kInformation, Group::kStarted, Group::kWhere, Group::kMeet,
                                  Group::kShown,       Group::kEnds,    Group::kTaken};

// "-n", "--np": the letter first. A single-dash word that is no letter is left out.
std::vector<std::string> spellings_of(const OptionRow& row) {
  std::vector<std::string> spellings;
  if (row.letter != 0) spellings.push_back(fmt::format("-{}", row.letter));
  spellings.emplace_back(row.name);
  for (const std::string& other : read::split(row.also, ' ')) {
    if (other.starts_with("--") && other.size() > 3) spellings.push_back(other);
  }
  return spellings;
}

// "-t, --tee 0-3|RANK:0-3,..."
std::string usage_of(const OptionRow& row) {
  std::string usage;
  for (const std::string& spelling : spellings_of(row)) {
    usage += (usage.empty() ? "" : ", ") + spelling;
  }
  if (!row.value.empty()) usage += fmt::format(" {}", row.value);
  return usage;
}

std::string_view about(const OptionRow& row) {
  return row.about.empty() ? row.help : row.about;
}

// Blanks at the end of a default can be seen, and the role `default` is a name.
std::string default_of(const OptionRow& row) {
  const bool is_plain =
      row.fallback.find(' ') == std::string_view::npos && row.fallback != "default";
  return is_plain ? std::string(row.fallback) : fmt::format("'{}'", row.fallback);
}

// " (default: `10`)"
std::string default_clause(const OptionRow& row) {
  return row.fallback.empty() ? "" : fmt::format(" (default: `{}`)", default_of(row));
}

// The sections of the manual that say what these places of the documentation say.
struct ManualSection {
  std::string_view target;
  std::string_view section;
};
constexpr ManualSection kManualSections[] = {{"#signals-to-dlrun", "SIGNALS"},
                                             {"#log-files", "FILES"},
                                             {"../guides/restarts.md", "RESTARTS"}};

// The place in which a reader of the manual finds the target of a link: "SIGNALS", "guides/mpi.md".
std::string place_in_manual(std::string_view target) {
  for (const ManualSection& one : kManualSections) {
    if (one.target == target) return std::string(one.section);
  }
  if (target.starts_with('#')) return "reference/dlrun.md";
  target = target.substr(0, target.find('#'));
  if (target.starts_with("../")) target.remove_prefix(3);
  return std::string(target);
}

// roff takes a dash for a hyphen, a backslash for itself, and a line that begins with a dot or a
// quote for a command.
std::string roff_of(std::string_view text) {
  std::string roff;
  bool bold = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '`') {
      bold = !bold;
      roff += bold ? "\\fB" : "\\fR";
    } else if (c == '-') {
      roff += "\\-";
    } else if (c == '\\') {
      roff += "\\e";
    } else if (c == '[' && text.find("](", i) != std::string_view::npos && !bold) {
      // A link that is all of a parenthesis has a place in its stead, any other one its text.
      const std::size_t middle = text.find("](", i);
      const std::size_t end = text.find(')', middle);
      const bool is_note = roff.ends_with('(') && text.substr(end + 1).starts_with(')');
      roff += is_note ? "see " + roff_of(place_in_manual(text.substr(middle + 2, end - middle - 2)))
                      : roff_of(text.substr(i + 1, middle - i - 1));
      i = end;
    } else {
      roff += c;
    }
  }
  return roff.starts_with('.') || roff.starts_with('\'') ? "\\&" + roff : roff;
}

// An item of a list in lines of at most 118 characters. Code between backquotes stays on one line.
std::string markdown_item(std::string_view text) {
  constexpr std::size_t kItemWidth = 118;
  std::string item = "-";
  std::size_t column = item.size();
  std::string word;
  bool is_code = false;
  const auto end_word = [&] {
    if (column + 1 + word.size() > kItemWidth) {
      item += "\n ";
      column = 1;
    }
    item += " " + word;
    column += 1 + word.size();
    word.clear();
  };
  for (const char c : text) {
    if (c == '`') is_code = !is_code;
    if (c == ' ' && !is_code) {
      end_word();
    } else {
      word += c;
    }
  }
  end_word();
  return item + "\n";
}

}  // namespace

std::string options_as_help() {
  constexpr std::size_t kColumn = 32;
  std::string text(kHelpHead);
  for (const Group group : kShownGroups) {
    text += fmt::format("\n{}:\n", title_of(group));
    for (const OptionRow& row : option_table()) {
      if (row.group != group) continue;
      std::string line = "  " + usage_of(row);
      if (line.size() >= kColumn) {
        text += line + "\n";
        line.clear();
      }
      text += fmt::format("{:<{}}{}{}\n", line, kColumn, row.help,
                          row.fallback.empty() ? "" : fmt::format(" ({})", default_of(row)));
    }
  }
  text +=
      "\nSubcommands, which must be the first word (a program of such a name: dlrun -- NAME):\n";
  for (const Subcommand& subcommand : subcommand_table()) {
    text +=
        fmt::format("{:<{}}{}\n", fmt::format("  {}", subcommand.name), kColumn, subcommand.help);
  }
  return text + "\n" + std::string(kHelpFoot);
}

std::string options_as_roff() {
  std::string text;
  for (const Group group : kShownGroups) {
    if (group != Group::kInformation) text += fmt::format(".SS {}\n", title_of(group));
    for (const OptionRow& row : option_table()) {
      if (row.group != group) continue;
      text += ".TP\n\\fB";
      bool is_first = true;
      for (const std::string& spelling : spellings_of(row)) {
        text += (is_first ? "" : "\\fR, \\fB") + roff_of(spelling);
        is_first = false;
      }
      text += "\\fR";
      if (!row.value.empty()) text += fmt::format(" \\fI{}\\fR", roff_of(row.value));
      text += fmt::format("{}\n{}.\n", roff_of(default_clause(row)), roff_of(about(row)));
    }
  }
  return text;
}

std::string subcommands_as_roff() {
  std::string text = "A subcommand must be the first word. After an option it is a program.\n";
  for (const Subcommand& subcommand : subcommand_table()) {
    text += fmt::format(".SS dlrun {} {}\n", subcommand.name, roff_of(subcommand.usage));
    std::string about = roff_of(subcommand.about);
    text += about;
    for (const SubcommandOption& option : subcommand.options) {
      text += fmt::format(".TP\n\\fB{}{}\\fR",
                          option.letter == 0 ? "" : fmt::format("\\-{}\\fR, \\fB", option.letter),
                          roff_of(option.name));
      if (!option.is_flag()) text += fmt::format(" \\fI{}\\fR", roff_of(option.value));
      text += fmt::format("\n{}.\n", roff_of(option.help));
    }
    text += fmt::format(".PP\nExits with {}.\n", roff_of(subcommand.exit_codes));
  }
  return text;
}

std::string options_as_markdown() {
  std::string text;
  for (const Group group : kShownGroups) {
    text += fmt::format("{}### {}\n\n", text.empty() ? "" : "\n",
                        group == Group::kInformation ? "Information" : title_of(group));
    for (const OptionRow& row : option_table()) {
      if (row.group != group) continue;
      text +=
          markdown_item(fmt::format("`{}`{}: {}", usage_of(row), default_clause(row), about(row)));
    }
  }
  return text;
}

}  // namespace dl::launcher
