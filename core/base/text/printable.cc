#include "core/base/text/printable.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>

#include "core/base/text/utf8.h"

namespace dl {
namespace {

// Appends `text`. Control characters outside `allowed`, format characters and malformed UTF-8
// appear as byte codes.
void append_shown(std::string& result, std::string_view text, std::string_view allowed) {
  result.reserve(result.size() + text.size());
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = utf8_length(text, i);
    const std::string_view bytes = text.substr(i, std::max<std::size_t>(length, 1));
    const bool is_shown = length > 0 && !is_control(bytes) && !is_format(bytes);
    if (is_shown || (length == 1 && allowed.find(bytes) != std::string_view::npos)) {
      result += bytes;
    } else {
      for (const char c : bytes) {
        fmt::format_to(std::back_inserter(result), "\\x{:02x}", static_cast<unsigned char>(c));
      }
    }
    i += bytes.size();
  }
}

}  // namespace

std::string printable(std::string_view text) {
  std::string result;
  append_shown(result, text, "\n\t");
  return result;
}

std::string quoted_name(std::string_view name) {
  std::string result = "\"";
  append_shown(result, name, "");
  return result + '"';
}

}  // namespace dl
