#include "core/base/printable.h"

#include <fmt/core.h>

#include <iterator>

namespace dl {
namespace {

bool is_control(char c) noexcept {
  return (c >= 0 && c < ' ') || c == 0x7f;
}

void append_shown(std::string& result, char c) {
  if (is_control(c)) {
    fmt::format_to(std::back_inserter(result), "\\x{:02x}", static_cast<unsigned>(c));
  } else {
    result += c;
  }
}

}  // namespace

std::string printable(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  for (const char c : text) {
    if (c == '\n' || c == '\t') {
      result += c;
    } else {
      append_shown(result, c);
    }
  }
  return result;
}

std::string quoted_name(std::string_view name) {
  std::string result = "\"";
  for (const char c : name) append_shown(result, c);
  return result + '"';
}

}  // namespace dl
