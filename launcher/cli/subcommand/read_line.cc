#include <fmt/core.h>

#include <algorithm>
#include <cstdio>

#include "core/base/error.h"
#include "core/base/system/output.h"
#include "core/base/text/printable.h"
#include "launcher/cli/subcommand/subcommand.h"
#include "launcher/process/start/program.h"

namespace dl::launcher {
namespace {

std::string usage_of(const SubcommandOption& option) {
  std::string text = option.letter == 0 ? "" : fmt::format("-{}, ", option.letter);
  text += option.name;
  if (!option.is_flag()) text += fmt::format(" {}", option.value);
  return text;
}

// A word split at its `=`.
struct TypedWord {
  std::string name;
  std::optional<std::string> value;
};

TypedWord split_typed_word(const std::string& word) {
  const std::size_t equals = word.find('=');
  if (!word.starts_with("--") || equals == std::string::npos) return {word, std::nullopt};
  return {word.substr(0, equals), word.substr(equals + 1)};
}

const SubcommandOption* find_option(const Subcommand& subcommand, const std::string& name) {
  const auto found = std::ranges::find_if(subcommand.options, [&](const SubcommandOption& option) {
    return option.name == name || (option.letter != 0 && name == fmt::format("-{}", option.letter));
  });
  return found == subcommand.options.end() ? nullptr : &*found;
}

[[noreturn]] void refuse(const Subcommand& subcommand, const std::string& word) {
  throw_error(ErrorKind::kInvalidArgument,
              "{0} does not know `{1}`; `dlrun {0} --help` lists its options", subcommand.name,
              word);
}

bool asks_for_help(const std::vector<std::string>& arguments) {
  const auto end = std::ranges::find(arguments, "--");
  return std::any_of(arguments.begin(), end,
                     [](const std::string& word) { return word == "-h" || word == "--help"; });
}

void say(const Error& error) {
  write_error(fmt::format("dlrun: {}\n", printable(error.what())));
}

}  // namespace

bool SubcommandLine::has(std::string_view name) const {
  return value_of(name).has_value();
}

std::optional<std::string> SubcommandLine::value_of(std::string_view name) const {
  std::optional<std::string> last;
  for (const auto& [given, value] : options) {
    if (given == name) last = value;
  }
  return last;
}

std::string help_of(const Subcommand& subcommand) {
  constexpr std::string_view kHelpUsage = "-h, --help";
  std::string text = fmt::format("Usage: dlrun {} {}\n\n{}\n", subcommand.name, subcommand.usage,
                                 subcommand.about);
  std::size_t width = kHelpUsage.size();
  for (const SubcommandOption& option : subcommand.options) {
    width = std::max(width, usage_of(option).size());
  }
  for (const SubcommandOption& option : subcommand.options) {
    text += fmt::format("  {:<{}}  {}\n", usage_of(option), width, option.help);
  }
  text += fmt::format("  {:<{}}  print this and exit\n", kHelpUsage, width);
  return text + fmt::format("\nExit code: {}.\nA program of this name: dlrun -- {}\n",
                            subcommand.exit_codes, subcommand.name);
}

SubcommandLine read_line(const Subcommand& subcommand, const std::vector<std::string>& arguments) {
  SubcommandLine line;
  bool only_operands = false;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (!only_operands && argument == "--") {
      only_operands = true;
      continue;
    }
    if (only_operands || argument.size() < 2 || argument[0] != '-') {
      if (subcommand.operands.empty()) refuse(subcommand, argument);
      line.operands.push_back(argument);
      continue;
    }
    TypedWord word = split_typed_word(argument);
    const SubcommandOption* const option = find_option(subcommand, word.name);
    if (option == nullptr) refuse(subcommand, argument);
    DL_CHECK(!option->is_flag() || !word.value, kInvalidArgument, "{}: {} takes no value",
             subcommand.name, option->name);
    if (!option->is_flag() && !word.value && i + 1 < arguments.size()) word.value = arguments[++i];
    DL_CHECK(option->is_flag() || (word.value && !word.value->empty()), kInvalidArgument,
             "{}: {} wants a value: {}", subcommand.name, option->name, option->value);
    line.options.emplace_back(option->name, word.value.value_or(""));
  }
  return line;
}

int run_subcommand(const Subcommand& subcommand, const std::vector<std::string>& arguments) {
  if (asks_for_help(arguments)) {
    fmt::print("{}", help_of(subcommand));
    return 0;
  }
  try {
    return subcommand.run(read_line(subcommand, arguments));
  } catch (const Error& error) {
    say(error);
    return error.kind() == ErrorKind::kInvalidArgument ? kExitUsage : 1;
  }
}

}  // namespace dl::launcher
