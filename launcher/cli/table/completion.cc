#include "launcher/cli/table/option_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "core/base/error.h"
#include "launcher/cli/table/option_table.h"
#include "launcher/cli/table/readers.h"

namespace dl::launcher {
namespace {

enum class Completes : std::uint8_t { kNothing, kWords, kFiles, kFolders };

std::string words_of(const OptionRow& row) {
  return fmt::format("{}", fmt::join(read::words_among(row.value), " "));
}

Completes completes(const OptionRow& row) {
  if (row.value == "FILE") return Completes::kFiles;
  if (row.value.starts_with("DIR")) return Completes::kFolders;
  return words_of(row).empty() ? Completes::kNothing : Completes::kWords;
}

std::vector<std::string> spellings_of_completion(const OptionRow& row) {
  std::vector<std::string> spellings = {std::string(row.name)};
  if (row.letter != 0) spellings.push_back(fmt::format("-{}", row.letter));
  for (const std::string& other : read::split(row.also, ' ')) {
    if (!other.empty()) spellings.push_back(other);
  }
  return spellings;
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
    switch (completes(row)) {
      case Completes::kNothing:
        cases += fmt::format("    {}) return ;;\n", patterns);
        break;
      case Completes::kWords:
        cases += fmt::format("    {}) COMPREPLY=($(compgen -W '{}' -- \"$cur\")); return ;;\n",
                             patterns, words_of(row));
        break;
      case Completes::kFiles:
        cases +=
            fmt::format("    {}) COMPREPLY=($(compgen -f -- \"$cur\")); return ;;\n", patterns);
        break;
      case Completes::kFolders:
        cases +=
            fmt::format("    {}) COMPREPLY=($(compgen -d -- \"$cur\")); return ;;\n", patterns);
        break;
    }
  }
  return fmt::format(
      R"SH(# bash completion for dlrun: eval "$(dlrun --print-completion bash)"
_dlrun() {{
  local cur=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}} i=1
  COMPREPLY=()
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
  else
    COMPREPLY=($(compgen -c -f -- "$cur"))
  fi
}}
complete -o filenames -F _dlrun dlrun
)SH",
      fmt::arg("with_value", with_value), fmt::arg("cases", cases), fmt::arg("names", names));
}

std::string quoted_for_zsh(std::string_view text) {
  std::string quoted;
  for (const char c : text) {
    if (c == '[' || c == ']' || c == ':') quoted += '\\';
    quoted += c == '\'' ? std::string("'\\''") : c == '`' ? std::string("") : std::string(1, c);
  }
  return quoted;
}

std::string for_zsh() {
  std::string specs;
  for (const OptionRow& row : option_table()) {
    if (row.group == Group::kRefused) continue;
    std::string value;
    if (!row.is_flag()) {
      const Completes what = completes(row);
      const std::string action = what == Completes::kWords     ? fmt::format("({})", words_of(row))
                                 : what == Completes::kFiles   ? "_files"
                                 : what == Completes::kFolders ? "_files -/"
                                                               : "";
      value = fmt::format(":{}:{}", quoted_for_zsh(row.value), action);
    }
    for (const std::string& spelling : spellings_of_completion(row)) {
      // A value follows in the next word, or behind `=` of a long name.
      const bool takes_equals = !row.is_flag() && spelling.starts_with("--");
      specs += fmt::format(" \\\n    '{}{}{}[{}]{}'", row.repeats ? "*" : "", spelling,
                           takes_equals ? "=" : "", quoted_for_zsh(row.help), value);
    }
  }
  return fmt::format(
      "#compdef dlrun\n"
      "# zsh completion for dlrun: dlrun --print-completion zsh > ~/.zsh/completions/_dlrun\n"
      "_dlrun() {{\n"
      "  _arguments -S -s :{} \\\n"
      "    '*::program: _normal'\n"
      "}}\n"
      "if [ \"$funcstack[1]\" = _dlrun ]; then _dlrun \"$@\"; else compdef _dlrun dlrun; fi\n",
      specs);
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
  return fmt::format("complete dlrun{}{} 'c/--/({})/'{} 'n/--/c/' 'p/1/c/' 'p/*/f/'\n", values,
                     attached, names, flags);
}

std::string quoted_for_fish(std::string_view text) {
  std::string quoted;
  for (const char c : text) {
    if (c == '\'' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted;
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
    std::string value;
    if (!row.is_flag()) {
      const Completes what = completes(row);
      value = what == Completes::kWords   ? fmt::format(" -x -a '{}'", words_of(row))
              : what == Completes::kFiles ? std::string(" -r -F")
              : what == Completes::kFolders
                  ? std::string(" -x -a '(__fish_complete_directories (commandline -ct))'")
                  : std::string(" -x");
    }
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
# A word of one dash stands before the list, or the function takes the list for its own options.
{options}complete -c dlrun -n __dlrun_at_options -a '(__fish_complete_subcommand -n $__dlrun_with_value)'
complete -c dlrun -n 'not __dlrun_at_options' -x -a '(__fish_complete_subcommand -n $__dlrun_with_value)'
)SH",
      fmt::arg("with_value", with_value), fmt::arg("options", options));
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
