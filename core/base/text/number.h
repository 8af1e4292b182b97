// Parses numbers that arrive as text: options, environment variables, files. Writes counts.
//
// The whole text must be a decimal, finite number: "", " 5", "5x", "0x5", "nan" and "1e999" are
// refused.
//
// Thread-safety: everything here may be used from any thread.
#pragma once

#include <charconv>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

namespace dl {

// Nullopt if `text` is not a number or does not fit into a T.
template <typename T>
  requires std::integral<T> || std::floating_point<T>
std::optional<T> read_number(std::string_view text) noexcept {
  T value{};
  const char* const first = text.data();
  const char* const last = first + text.size();
  const auto [end, error] = std::from_chars(first, last, value);
  if (error != std::errc() || end != last) return std::nullopt;
  if constexpr (std::floating_point<T>) {
    if (!std::isfinite(value)) return std::nullopt;
  }
  return value;
}

// "1 rank", "2 ranks"
std::string counted(std::uint64_t n, std::string_view what);

// A validator for a program's option (CLI::Validator). Returns "" if `text` is right, else an error
// such as "'5x' is no whole number from 0 to 10". whole_number() also rewrites `text` without
// leading zeros, because CLI11 would read "010" as an octal number.
using NumberCheck = std::function<std::string(std::string& text)>;

NumberCheck whole_number(std::int64_t least, std::uint64_t most);
NumberCheck real_number(double least, double most);

}  // namespace dl
