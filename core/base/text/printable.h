// Texts from outside (names in files, what a peer calls itself) as they may be shown: a NUL would
// end the text for some readers, and an escape sequence would rule the terminal.
//
// Error, log and dlrun's own sentences pass their texts through printable(). A name that stands in
// quotes takes quoted_name(), so that it cannot begin a line of its own either.
//
// Thread-safety: everything here may be used from any thread.
#pragma once

#include <string>
#include <string_view>

namespace dl {

// `text` with every control character but tab and end of line, and every byte that is no UTF-8, as
// its code: "\x1b", "\xc2\x9b" (the control sequence of 8 bits), "\xff".
std::string printable(std::string_view text);

// "\"0.weight\"": in quotes, and tab and end of line as their codes, too.
std::string quoted_name(std::string_view name);

}  // namespace dl
