// Is this text well-formed UTF-8? Names that come over a wire end up in logs, JSON and file names.
#pragma once

#include <string_view>

namespace dl::rendezvous {

// Well-formed UTF-8 (no overlong forms, no surrogates, at most U+10FFFF) without NUL.
bool is_utf8(std::string_view text) noexcept;
// The same, and no other control character either: safe to print in a log line.
bool is_printable_utf8(std::string_view text) noexcept;

}  // namespace dl::rendezvous
