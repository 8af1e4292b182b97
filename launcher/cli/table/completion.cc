#include "launcher/cli/table/option_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "core/base/error.h"
#include "launcher/cli/subcommand/subcommand.h"
#include "launcher/cli/table/option_table.h"
#include "launcher/cli/table/readers.h"

namespace dl::launcher {
namespace {

enum class Completes : std::uint8_t { kNothing, kWords, kFiles, kFolders };

// `value`: as --help shows it.
std::string words_of(std::string_view value) {
  return fmt::format("{}", fmt::join(read::words_among(value), " "));
}
std::string words_of(const OptionRow& row) {
  return words_of(row.value);
}

Completes completes(std::string_view value) {
  if (value == "FILE") return Completes::kFiles;
  if (value.starts_with("DIR")) return Completes::kFolders;
  return words_of(value).empty() ? Completes::kNothing : Completes::kWords;
}
Completes completes(const OptionRow& row) {
  return completes(row.value);
}

std::vector<std::string> spellings_of_completion(const OptionRow& row) {
  std::vector<std::string> spellings = {std::string(row.name)};
  if (row.letter != 0) spellings.push_back(fmt::format("-{}", row.letter));
  for (const std::string& other : read::split(row.also, ' ')) {
    if (!other.empty()) spellings.push_back(other);
  }
  return spellings;
}

constexpr SubcommandOption kHelp = {.name = "--help", .letter = 'h', .help = "print this and exit"};

std::vector<SubcommandOption> options_of(const Subcommand& subcommand) {
  std::vector<SubcommandOption> options(subcommand.options.begin(), subcommand.options.end());
  options.push_back(kHelp);
  return options;
}

std::vector<std::string> spellings_of_completion(const SubcommandOption& option) {
  std::vector<std::string> spellings = {std::string(option.name)};
  if (option.letter != 0) spellings.push_back(fmt::format("-{}", option.letter));
  return spellings;
}

std::string names_of_subcommands() {
  std::string names;
  for (const Subcommand& one : subcommand_table()) {
    names += fmt::format("{}{}", names.empty() ? "" : " ", one.name);
  }
  return names;
}

// "$(compgen -f -- "$cur")"; empty: nothing to offer.
std::string compgen_of(std::string_view value) {
  switch (completes(value)) {
    case Completes::kNothing:
      return "";
    case Completes::kWords:
      return fmt::format("compgen -W '{}' -- \"$cur\"", words_of(value));
    case Completes::kFiles:
      return "compgen -f -- \"$cur\"";
    case Completes::kFolders:
      return "compgen -d -- \"$cur\"";
  }
  return "";
}

// A case of each subcommand, which returns from the function.
std::string subcommands_for_bash() {
  std::string cases;
  for (const Subcommand& subcommand : subcommand_table()) {
    std::string names, values;
    for (const SubcommandOption& option : options_of(subcommand)) {
      names += fmt::format("{}{}", names.empty() ? "" : " ", option.name);
      if (option.is_flag()) continue;
      const std::string patterns =
          fmt::format("{}", fmt::join(spellings_of_completion(option), "|"));
      values += fmt::format("      {}) COMPREPLY=($({})); return ;;\n", patterns,
                            compgen_of(option.value));
    }
    if (!values.empty()) values = fmt::format("      case $before in\n{}      esac\n", values);
    cases += fmt::format(
        "    {})\n{}      if [[ $cur == -* ]]; then COMPREPLY=($(compgen -W '{}' -- \"$cur\")); "
        "else COMPREPLY=($({})); fi\n      return ;;\n",
        subcommand.name, values, names, compgen_of(subcommand.operands));
  }
  return cases;
}

// Options complete up to the program, then the program's own words.
std::string for_bash() {
  std::string names, with_value, cases;
  for (const OptionRow& row : option_table()) {
    if (row.group == Group::kRefused) continue;
    std::string patterns;
    for (const std::string& spelling : spellings_of_completion(row)) {
      patterns += (patterns.empty() ? "" : "|") + spelling;
      if (spelling == row.name) names += (names.empty() ? "" : " ") + spelling;
    }
    if (row.is_flag()) continue;
    with_value += (with_value.empty() ? "" : "|") + patterns;
    cases += fmt::format("    {}) COMPREPLY=($({})); return ;;\n", patterns, compgen_of(row.value));
  }
  return fmt::format(
      R"SH(# bash completion for dlrun: eval "$(dlrun --print-completion bash)"
_dlrun() {{
  local cur=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}} i=1
  COMPREPLY=()
  if ((COMP_CWORD > 1)); then
    case ${{COMP_WORDS[1]}} in
{subcommands}    esac
  fi
  while ((i < COMP_CWORD)); do
    case ${{COMP_WORDS[i]}} in
    {with_value}) ((i += 2)); [[ ${{COMP_WORDS[i-1]}} == = ]] && ((i += 1)) ;;
    --) ((i += 1)); break ;;
    -*) ((i += 1)) ;;
    *) break ;;
    esac
  done
  if ((i < COMP_CWORD)); then
    if declare -F _command_offset > /dev/null; then _command_offset $i; else COMPREPLY=($(compgen -f -- "$cur")); fi
    return
  fi
  if [[ $before == = ]]; then
    before=${{COMP_WORDS[COMP_CWORD-2]}}
  elif [[ $cur == = ]]; then
    before=${{COMP_WORDS[COMP_CWORD-1]}} cur=
  fi
  case $before in
{cases}  esac
  if [[ $cur == -* ]]; then
    COMPREPLY=($(compgen -W '{names}' -- "$cur"))
  elif ((COMP_CWORD == 1)); then
    COMPREPLY=($(compgen -W '{first_words}' -- "$cur") $(compgen -c -f -- "$cur"))
  else
    COMPREPLY=($(compgen -c -f -- "$cur"))
  fi
}}
complete -o filenames -F _dlrun dlrun
)SH",
      fmt::arg("with_value", with_value), fmt::arg("cases", cases), fmt::arg("names", names),
      fmt::arg("subcommands", subcommands_for_bash()),
      fmt::arg("first_words", names_of_subcommands()));
}

std::string quoted_for_zsh(std::string_view text) {
  std::string quoted;
  for (const char c : text) {
    if (c == '[' || c == ']' || c == ':') quoted += '\\';
    quoted += c == '\'' ? std::string("'\\''") : c == '`' ? std::string("") : std::string(1, c);
  }
  return quoted;
}

std::string zsh_action_of(std::string_view value) {
  const Completes what = completes(value);
  return what == Completes::kWords     ? fmt::format("({})", words_of(value))
         : what == Completes::kFiles   ? "_files"
         : what == Completes::kFolders ? "_files -/"
                                       : "";
}

// An option of _arguments. A value follows in the next word, or behind `=` of a long name.
std::string zsh_spec_of(std::string_view spelling, std::string_view value, std::string_view help,
                        bool repeats) {
  const bool takes_equals = !value.empty() && spelling.starts_with("--");
  return fmt::format(
      " \\\n    '{}{}{}[{}]{}'", repeats ? "*" : "", spelling, takes_equals ? "=" : "",
      quoted_for_zsh(help),
      value.empty() ? "" : fmt::format(":{}:{}", quoted_for_zsh(value), zsh_action_of(value)));
}

std::string subcommands_for_zsh() {
  std::string cases;
  for (const Subcommand& subcommand : subcommand_table()) {
    std::string specs;
    for (const SubcommandOption& option : options_of(subcommand)) {
      for (const std::string& spelling : spellings_of_completion(option)) {
        specs += zsh_spec_of(spelling, option.value, option.help, /*repeats=*/false);
      }
    }
    if (!subcommand.operands.empty()) {
      specs += fmt::format(" \\\n    '*:{}:{}'", subcommand.operands,
                           zsh_action_of(subcommand.operands));
    }
    cases += fmt::format("    {}) shift words; (( CURRENT-- )); _arguments -S -s :{}; return ;;\n",
                         subcommand.name, specs);
  }
  return cases;
}

std::string for_zsh() {
  std::string specs, names;
  for (const Subcommand& one : subcommand_table()) {
    names += fmt::format(" '{}:{}'", one.name, quoted_for_zsh(one.help));
  }
  for (const OptionRow& row : option_table()) {
    if (row.group == Group::kRefused) continue;
    for (const std::string& spelling : spellings_of_completion(row)) {
      specs += zsh_spec_of(spelling, row.value, row.help, row.repeats);
    }
  }
  return fmt::format(
      "#compdef dlrun\n"
      "# zsh completion for dlrun: dlrun --print-completion zsh > ~/.zsh/completions/_dlrun\n"
      "_dlrun() {{\n"
      "  if (( CURRENT > 2 )); then\n"
      "    case $words[2] in\n"
      "{}"
      "    esac\n"
      "  else\n"
      "    local -a subcommands=({})\n"
      "    _describe -t subcommands subcommand subcommands\n"
      "  fi\n"
      "  _arguments -S -s :{} \\\n"
      "    '*::program: _normal'\n"
      "}}\n"
      "if [ \"$funcstack[1]\" = _dlrun ]; then _dlrun \"$@\"; else compdef _dlrun dlrun; fi\n",
      subcommands_for_zsh(), names, specs);
}

// One line: tcsh joins the lines of what `eval` gets. The first rule that fits counts.
std::string for_tcsh() {
  std::string names, values, attached, flags;
  for (const OptionRow& row : option_table()) {
    if (row.group == Group::kRefused) continue;
    if (row.name.starts_with("--")) {
      names += fmt::format("{}{}", names.empty() ? "" : " ", row.name.substr(2));
    }
    const Completes what = completes(row);
    const std::string list = what == Completes::kWords     ? fmt::format("({})", words_of(row))
                             : what == Completes::kFiles   ? "f"
                             : what == Completes::kFolders ? "d"
                                                           : "n";
    for (const std::string& spelling : spellings_of_completion(row)) {
      if (row.is_flag()) {
        flags += fmt::format(" 'n/{}/c/'", spelling);
        continue;
      }
      values += fmt::format(" 'n/{}/{}/'", spelling, list);
      if (spelling.starts_with("--")) attached += fmt::format(" 'c/{}=/{}/'", spelling, list);
    }
  }
  // The words before the last one are not known here, so a program named as a subcommand has its
  // options, too.
  std::string subcommands;
  for (const Subcommand& subcommand : subcommand_table()) {
    std::string own;
    for (const SubcommandOption& option : options_of(subcommand)) {
      own += fmt::format("{}{}", own.empty() ? "" : " ", option.name);
    }
    subcommands += fmt::format(" 'n/{}/({})/'", subcommand.name, own);
  }
  return fmt::format("complete dlrun{}{}{} 'c/--/({})/'{} 'n/--/c/' 'p/1/c/' 'p/*/f/'\n",
                     subcommands, values, attached, names, flags);
}

std::string quoted_for_fish(std::string_view text) {
  std::string quoted;
  for (const char c : text) {
    if (c == '\'' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted;
}

// What follows the name of an option that takes a value.
std::string fish_value_of(std::string_view value) {
  switch (completes(value)) {
    case Completes::kNothing:
      return " -x";
    case Completes::kWords:
      return fmt::format(" -x -a '{}'", words_of(value));
    case Completes::kFiles:
      return " -r -F";
    case Completes::kFolders:
      return " -x -a '(__fish_complete_directories (commandline -ct))'";
  }
  return "";
}

std::string subcommands_for_fish() {
  std::string lines;
  for (const Subcommand& subcommand : subcommand_table()) {
    lines += fmt::format("complete -c dlrun -n __dlrun_at_first_word -a {} -d '{}'\n",
                         subcommand.name, quoted_for_fish(subcommand.help));
    const std::string condition = fmt::format("'__dlrun_in_subcommand {}'", subcommand.name);
    const bool wants_folders = completes(subcommand.operands) == Completes::kFolders;
    lines += fmt::format("complete -c dlrun -n {}{}\n", condition,
                         wants_folders ? fish_value_of(subcommand.operands) : " -f");
    for (const SubcommandOption& option : options_of(subcommand)) {
      lines += fmt::format(
          "complete -c dlrun -n {} -l {}{}{} -d '{}'\n", condition, option.name.substr(2),
          option.letter == 0 ? "" : fmt::format(" -s {}", option.letter),
          option.is_flag() ? "" : fish_value_of(option.value), quoted_for_fish(option.help));
    }
  }
  return lines;
}

std::string for_fish() {
  std::string with_value, options;
  for (const OptionRow& row : option_table()) {
    if (row.group == Group::kRefused) continue;
    std::string spellings;
    for (const std::string& spelling : spellings_of_completion(row)) {
      const char* const kind = spelling.starts_with("--") ? "-l"
                               : spelling.size() == 2     ? "-s"
                                                          : "-o";
      spellings += fmt::format(" {} {}", kind, spelling.substr(spelling.find_first_not_of('-')));
      if (!row.is_flag()) with_value += fmt::format(" {}", spelling);
    }
    const std::string value = row.is_flag() ? "" : fish_value_of(row.value);
    options += fmt::format("complete -c dlrun -n __dlrun_at_options{}{} -d '{}'\n", spellings,
                           value, quoted_for_fish(row.help));
  }
  return fmt::format(
      R"SH(# fish completion for dlrun: dlrun --print-completion fish > ~/.config/fish/completions/dlrun.fish
set -g __dlrun_with_value{with_value}
function __dlrun_at_options -d 'The program has not come yet'
    set -l words (commandline -opc)
    set -e words[1]
    while set -q words[1]
        switch $words[1]
            case '--'
                return 1
            case '-*'
                contains -- $words[1] $__dlrun_with_value; and set -e words[1]
            case '*'
                return 1
        end
        set -e words[1]
    end
    return 0
end
function __dlrun_at_first_word
    test (count (commandline -opc)) -eq 1
end
function __dlrun_in_subcommand -d 'The first word is this subcommand, or one of all'
    set -l words (commandline -opc)
    test (count $words) -ge 2; and contains -- $words[2] $argv
end
function __dlrun_at_program
    not __dlrun_at_options; and not __dlrun_in_subcommand {first_words}
end
# A word of one dash stands before the list, or the function takes the list for its own options.
{options}complete -c dlrun -n __dlrun_at_options -a '(__fish_complete_subcommand -n $__dlrun_with_value)'
{subcommands}complete -c dlrun -n __dlrun_at_program -x -a '(__fish_complete_subcommand -n $__dlrun_with_value)'
)SH",
      fmt::arg("with_value", with_value), fmt::arg("options", options),
      fmt::arg("first_words", names_of_subcommands()),
      fmt::arg("subcommands", subcommands_for_fish()));
}

}  // namespace

std::string completion_for(std::string_view shell) {
  if (shell == "bash") return for_bash();
  if (shell == "zsh") return for_zsh();
  if (shell == "tcsh") return for_tcsh();
  if (shell == "fish") return for_fish();
  throw_error(ErrorKind::kInvalidArgument,
              "--print-completion is `{}`, wanted bash, zsh, tcsh or fish", shell);
}

}  // namespace dl::launcher
