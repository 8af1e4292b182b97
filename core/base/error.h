// Error, the project's only exception type, and the checks that throw it.
//
// An Error carries a kind, which a program can act on, and a text, which a person can act on: it
// names the operation, the argument, what came, what was wanted and what to do. An uncaught Error
// ends the program with its text on stderr and exit code 1, not with abort(): the first Error that
// is made installs a terminate handler for that, unless the program has one of its own.
//
// Thread-safety: everything here may be used from any thread.
#pragma once

#include <fmt/core.h>

#include <concepts>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace dl {

enum class ErrorKind : std::uint8_t {
  kInvalidArgument,  // a value that is never allowed
  kShape,            // shapes that do not match each other or the operation
  kDType,            // a dtype that the operation does not support
  kIndex,            // an index out of range
  kNotFound,         // a file, key or name that does not exist
  kIo,               // the operating system returned an error
  kParse,            // malformed input from outside
  kTimeout,          // a deadline passed
  kConnection,       // a connection could not be made, or was lost
  kAuthentication,   // a peer could not prove that it belongs to the job
  kMismatch,         // ranks disagree on what they are doing
  kPeerFailed,       // another rank failed; this one is not the cause
  kAborted,          // the group or the service was ended
  kNotImplemented,   // a known feature that dlrun does not have
  kInternal,         // a bug in dlrun
};

// The name in texts and in JSON: "invalid argument", "shape", ...
std::string_view name_of(ErrorKind kind) noexcept;

class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& text);
  ErrorKind kind() const noexcept { return kind_; }

 private:
  ErrorKind kind_;
};

namespace detail {
// Drops the sign of a NaN, which has no meaning: "nan", not "-nan".
template <typename T>
decltype(auto) shown(const T& value) {
  if constexpr (std::floating_point<T>) {
    return value == value ? value : std::numeric_limits<T>::quiet_NaN();
  } else {
    return (value);  // a reference
  }
}
}  // namespace detail

template <typename... Args>
[[noreturn]] void throw_error(ErrorKind kind, fmt::format_string<Args...> text, Args&&... args) {
  if constexpr ((... || std::floating_point<std::remove_cvref_t<Args>>)) {
    const auto format = [&](const auto&... each) {
      return fmt::vformat(text, fmt::make_format_args(each...));
    };
    throw Error(kind, format(detail::shown(args)...));
  } else {
    throw Error(kind, fmt::format(text, std::forward<Args>(args)...));
  }
}

// Throws kIo (kNotFound for ENOENT): "open /a/b: No such file or directory". `error` is an errno
// value.
[[noreturn]] void throw_errno(int error, std::string_view what);

}  // namespace dl

// DL_CHECK(n > 0, kInvalidArgument, "batch size is {}, wanted at least 1", n);
// The arguments of the text are evaluated only if the condition is false.
#define DL_CHECK(condition, kind, ...)                       \
  do {                                                       \
    if (!(condition)) [[unlikely]] {                         \
      ::dl::throw_error(::dl::ErrorKind::kind, __VA_ARGS__); \
    }                                                        \
  } while (false)
