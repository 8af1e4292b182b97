#include "launcher/cli/line_prefix.h"

#include <cctype>
#include <optional>

namespace dl::launcher {
namespace {

std::optional<std::string> macro_value(std::string_view name, const PrefixFacts& facts) {
  if (name == "role_name") return std::string(facts.role_name);
  if (name == "rank") return std::to_string(facts.rank);
  if (name == "local_rank") return std::to_string(facts.local_rank);
  if (name == "hostname") return std::string(facts.hostname);
  return std::nullopt;
}

// The name that `text` begins with.
std::string_view leading_name(std::string_view text) {
  std::size_t size = 0;
  while (size < text.size()) {
    const auto c = static_cast<unsigned char>(text[size]);
    if (c != '_' && std::isalpha(c) == 0 && (size == 0 || std::isdigit(c) == 0)) break;
    ++size;
  }
  return text.substr(0, size);
}

}  // namespace

std::string line_prefix_of(std::string_view pattern, const PrefixFacts& facts) {
  std::string text;
  while (!pattern.empty()) {
    const std::size_t dollar = pattern.find('$');
    text.append(pattern.substr(0, dollar));
    if (dollar == std::string_view::npos) break;
    pattern.remove_prefix(dollar);
    if (pattern.starts_with("$$")) {
      text += '$';
      pattern.remove_prefix(2);
      continue;
    }
    const bool braced = pattern.starts_with("${");
    const std::string_view name = leading_name(pattern.substr(braced ? 2 : 1));
    const std::size_t end = (braced ? 2 : 1) + name.size();
    const bool closed = !braced || (end < pattern.size() && pattern[end] == '}');
    const std::optional<std::string> value =
        name.empty() || !closed ? std::nullopt : macro_value(name, facts);
    const std::size_t size = value ? end + (braced ? 1 : 0) : 1;
    text.append(value ? std::string_view(*value) : pattern.substr(0, size));
    pattern.remove_prefix(size);
  }
  return text;
}

}  // namespace dl::launcher
