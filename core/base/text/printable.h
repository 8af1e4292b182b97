// Text for a person to read: C++ names as in the source, and text from outside.
//
// Makes text from outside (names in files, a peer's name) safe to print: a NUL would end the text
// for some readers, an escape sequence would control the terminal, and characters that turn the
// order of the text or that show nothing would make one name look like another.
//
// Error, log and dlrun's own messages call printable(). For a name in quotes call quoted_name(), so
// that it cannot begin a new line either.
//
// Thread-safety: everything here may be used from any thread.
#pragma once

#include <string>
#include <string_view>
#include <typeinfo>

namespace dl {

// `text` with each control character except tab and newline, each format character (is_format()),
// and each byte of malformed UTF-8, replaced by its code: "\x1b", "\xc2\x9b" (the control sequence
// of 8 bits), "\xe2\x80\xae" (U+202E), "\xff".
std::string printable(std::string_view text);

// "\"0.weight\"": in quotes, with tab and newline replaced by their codes, too.
std::string quoted_name(std::string_view name);

// "my::scale(int)" for a mangled symbol or type; returns `symbol` itself if it is not mangled.
std::string demangled(const char* symbol);

// "Scale" for my::(anonymous namespace)::Scale; template arguments are kept as they are.
std::string class_name(const std::type_info& type);

}  // namespace dl
