// The one exception type of the project, and the checks that throw it.
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
  kInvalidArgument,  // a value that no correct caller passes
  kShape,            // shapes that do not fit each other or the operation
  kDType,            // a dtype that the operation does not take
  kIndex,            // an index out of its range
  kNotFound,         // a file, key or name that is not there
  kIo,               // the operating system refused
  kParse,            // bytes from outside that are not what they should be
  kTimeout,          // a deadline passed
  kConnection,       // a connection could not be made, or was lost
  kAuthentication,   // a peer could not prove that it belongs to the job
  kMismatch,         // ranks disagree on what they are doing
  kPeerFailed,       // another rank failed; this one is not the cause
  kAborted,          // the group or the service was ended
  kNotImplemented,   // known, and not there
  kInternal,         // a fault of dlrun itself
};

// "invalid argument", "shape", ...: as it stands in texts and in JSON.
std::string_view name_of(ErrorKind kind) noexcept;

class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& text);
  ErrorKind kind() const noexcept { return kind_; }

 private:
  ErrorKind kind_;
};

namespace detail {
// NaN without its sign, which says nothing: "nan", not "-nan".
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
// The text's arguments are evaluated only where the condition is false.
#define DL_CHECK(condition, kind, ...)                       \
  do {                                                       \
    if (!(condition)) [[unlikely]] {                         \
      ::dl::throw_error(::dl::ErrorKind::kind, __VA_ARGS__); \
    }                                                        \
  } while (false)
