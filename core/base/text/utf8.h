// Checks for well-formed UTF-8 and for characters that are safe on a terminal.
//
// Thread-safety: everything here may be used from any thread.
#pragma once

#include <cstddef>
#include <string_view>

namespace dl {

// Bytes of the character that starts at `i`; 0 if it is malformed (an overlong form, a surrogate,
// beyond U+10FFFF, cut off).
std::size_t utf8_length(std::string_view text, std::size_t i) noexcept;
// Whether one well-formed character is a control character: C0, DEL or C1 (U+0080 to U+009F, which
// terminals obey as they obey escape sequences).
bool is_control(std::string_view character) noexcept;
// Whether one well-formed character shows nothing, or changes how others are shown: it turns their
// order (U+202E), or hides a difference between two names (U+200B). All of Unicode's category Cf,
// line and paragraph separators; not U+200C and U+200D, which words of some scripts need.
bool is_format(std::string_view character) noexcept;

// Well-formed UTF-8 without NUL.
bool is_utf8(std::string_view text) noexcept;
// Well-formed UTF-8 without control characters: safe to print in a log line.
bool is_printable_utf8(std::string_view text) noexcept;

}  // namespace dl
