#include "core/base/text/utf8.h"

#include <algorithm>
#include <cstdint>

namespace dl {
namespace {

std::uint8_t byte_at(std::string_view text, std::size_t i) noexcept {
  return static_cast<std::uint8_t>(text[i]);
}

}  // namespace

// Unicode 15, table 3-7.
std::size_t utf8_length(std::string_view text, std::size_t i) noexcept {
  const std::uint8_t lead = byte_at(text, i);
  if (lead < 0x80) return 1;
  if (lead < 0xC2 || lead > 0xF4) return 0;
  const std::size_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  if (text.size() - i < length) return 0;
  for (std::size_t k = 1; k < length; ++k) {
    if ((byte_at(text, i + k) & 0xC0) != 0x80) return 0;
  }
  const std::uint8_t second = byte_at(text, i + 1);
  if ((lead == 0xE0 && second < 0xA0) || (lead == 0xED && second > 0x9F) ||
      (lead == 0xF0 && second < 0x90) || (lead == 0xF4 && second > 0x8F)) {
    return 0;
  }
  return length;
}

bool is_control(std::string_view character) noexcept {
  const std::uint8_t lead = byte_at(character, 0);
  return lead < 0x20 || lead == 0x7F || (lead == 0xC2 && byte_at(character, 1) < 0xA0);
}

bool is_format(std::string_view character) noexcept {
  struct Range {
    std::uint32_t first, last;
  };
  // Unicode 15, UnicodeData.txt.
  constexpr Range kFormat[] = {
      {0x00AD, 0x00AD},   {0x0600, 0x0605},   {0x061C, 0x061C},   {0x06DD, 0x06DD},
      {0x070F, 0x070F},   {0x0890, 0x0891},   {0x08E2, 0x08E2},   {0x180E, 0x180E},
      {0x200B, 0x200B},   {0x200E, 0x200F},   {0x2028, 0x202E},   {0x2060, 0x206F},
      {0xFEFF, 0xFEFF},   {0xFFF9, 0xFFFB},   {0x110BD, 0x110BD}, {0x110CD, 0x110CD},
      {0x13430, 0x1343F}, {0x1BCA0, 0x1BCA3}, {0x1D173, 0x1D17A}, {0xE0000, 0xE0FFF}};
  if (character.size() < 2) return false;
  constexpr std::uint32_t kOfLead[] = {0, 0, 0x1F, 0x0F, 0x07};
  std::uint32_t code = byte_at(character, 0) & kOfLead[character.size()];
  for (std::size_t i = 1; i < character.size(); ++i) {
    code = code << 6 | (byte_at(character, i) & 0x3Fu);
  }
  return std::ranges::any_of(
      kFormat, [code](const Range& range) { return range.first <= code && code <= range.last; });
}

bool is_utf8(std::string_view text) noexcept {
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = text[i] == '\0' ? 0 : utf8_length(text, i);
    if (length == 0) return false;
    i += length;
  }
  return true;
}

bool is_printable_utf8(std::string_view text) noexcept {
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = utf8_length(text, i);
    if (length == 0 || is_control(text.substr(i, length))) return false;
    i += length;
  }
  return true;
}

}  // namespace dl
