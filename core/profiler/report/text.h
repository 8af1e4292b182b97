// Texts for reports: strings as in JSON, times and sizes as in PyTorch's tables.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace dl::profiler {

// Returns a JSON string with its quotes. Escapes control characters, and replaces a byte that is
// not valid UTF-8 by U+FFFD.
std::string json_string(std::string_view text);

// "12.500us", "3.250ms", "1.500s".
std::string time_text(double ns);
// "12.34%"; "NaN" if `whole` is 0.
std::string share_text(double part, double whole);
// "512 B", "1.50 KB", "-2.00 MB".
std::string bytes_text(std::int64_t bytes);

// Writes a file. Throws kIo or kNotFound, naming the file, if it cannot write all of it.
void write_file(const std::string& path, std::string_view content);

}  // namespace dl::profiler
