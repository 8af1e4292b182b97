// Log lines of libraries and services: one line a call, one write a line, on stderr.
//
//   [dlrun 12:04:31.203 W rank 3] tcp: dropped a connection from 10.0.0.9:51034: wrong job key
//
// The level comes from DLRUN_LOG (trace, debug, info, warning, error, off; default warning). Any
// thread may log.
#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace dl::log {

enum class Level : std::uint8_t { kTrace, kDebug, kInfo, kWarning, kError, kOff };

bool enabled(Level level) noexcept;
void set_level(Level level) noexcept;
// Sets how each line names this process, e.g. "rank 3" or "agent node1".
void set_who(std::string_view who);
void write(Level level, std::string_view line) noexcept;

// A module contains its own copy of the log. It calls this once, first, with the log of its
// program: a process has one level and one name.
struct Log {
  bool (*enabled)(Level level) noexcept = &log::enabled;
  void (*write)(Level level, std::string_view line) noexcept = &log::write;
};
void forward_to(const Log& program) noexcept;

template <typename... Args>
void line(Level level, fmt::format_string<Args...> text, Args&&... args) {
  if (enabled(level)) write(level, fmt::format(text, std::forward<Args>(args)...));
}
template <typename... Args>
void debug(fmt::format_string<Args...> text, Args&&... args) {
  line(Level::kDebug, text, std::forward<Args>(args)...);
}
template <typename... Args>
void info(fmt::format_string<Args...> text, Args&&... args) {
  line(Level::kInfo, text, std::forward<Args>(args)...);
}
template <typename... Args>
void warning(fmt::format_string<Args...> text, Args&&... args) {
  line(Level::kWarning, text, std::forward<Args>(args)...);
}
template <typename... Args>
void error(fmt::format_string<Args...> text, Args&&... args) {
  line(Level::kError, text, std::forward<Args>(args)...);
}

}  // namespace dl::log
