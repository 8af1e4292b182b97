// Small files of /proc and /sys, whose size is not known before they are read.
//
// One read() without the buffers of a stream: the kernel makes the text at the first read, so a
// second one might see another state.
//
// Thread-safety: everything here may be used from any thread.
#pragma once

#include <optional>
#include <string>

namespace dl {

// The first 8 KiB of the file. nullopt: it cannot be read.
std::optional<std::string> small_file(const std::string& path);

// Its first line, without the end of the line. nullopt: it cannot be read, or is empty.
std::optional<std::string> first_line(const std::string& path);

}  // namespace dl
