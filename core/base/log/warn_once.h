// warn_once(): a log line (log.h) that this process writes only once, for what a program may do in
// every step. It is not in dl::log, because operations have their own log().
#pragma once

#include <fmt/core.h>

#include <string>
#include <string_view>
#include <utility>

namespace dl {

namespace detail {
void write_once(std::string_view line) noexcept;
bool warns() noexcept;
void forget_written_lines() noexcept;  // for tests
}  // namespace detail

// Writes each different line once, and at most 1000 lines; any thread may call.
template <typename... Args>
void warn_once(fmt::format_string<Args...> text, Args&&... args) {
  if (detail::warns()) detail::write_once(fmt::format(text, std::forward<Args>(args)...));
}

}  // namespace dl
