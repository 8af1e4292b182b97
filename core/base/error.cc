#include "core/base/error.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <mutex>

#include "core/base/limits.h"
#include "core/base/printable.h"

namespace dl {
namespace {

std::terminate_handler previous_handler = nullptr;

[[noreturn]] void end_with_text() {
  if (const std::exception_ptr current = std::current_exception()) {
    try {
      std::rethrow_exception(current);
    } catch (const Error& error) {
      std::fflush(stdout);
      std::string line = fmt::format("error: {}\n", error.what());
      // One write, so that the line is not torn between ranks that fail together.
      [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line.data(), line.size());
      ::_exit(1);
    } catch (...) {
      // Not ours: the program's own handler shows it.
    }
  }
  previous_handler();
  std::abort();
}

void install_terminate_handler() noexcept {
  static std::once_flag once;
  std::call_once(once, [] {
    previous_handler = std::get_terminate();
    if (previous_handler == __gnu_cxx::__verbose_terminate_handler) {
      std::set_terminate(end_with_text);
    }
  });
}

}  // namespace

std::string_view name_of(ErrorKind kind) noexcept {
  switch (kind) {
    case ErrorKind::kInvalidArgument:
      return "invalid argument";
    case ErrorKind::kShape:
      return "shape";
    case ErrorKind::kDType:
      return "dtype";
    case ErrorKind::kIndex:
      return "index";
    case ErrorKind::kNotFound:
      return "not found";
    case ErrorKind::kIo:
      return "input/output";
    case ErrorKind::kParse:
      return "parse";
    case ErrorKind::kTimeout:
      return "timeout";
    case ErrorKind::kConnection:
      return "connection";
    case ErrorKind::kAuthentication:
      return "authentication";
    case ErrorKind::kMismatch:
      return "mismatch";
    case ErrorKind::kPeerFailed:
      return "peer failed";
    case ErrorKind::kAborted:
      return "aborted";
    case ErrorKind::kNotImplemented:
      return "not implemented";
    case ErrorKind::kInternal:
      return "internal";
  }
  return "unknown";
}

Error::Error(ErrorKind kind, const std::string& text)
    : std::runtime_error(printable(text)), kind_(kind) {
  install_terminate_handler();
}

void throw_errno(int error, std::string_view what) {
  throw Error(error == ENOENT ? ErrorKind::kNotFound : ErrorKind::kIo,
              fmt::format("{}: {}", what, system_error_text(error)));
}

}  // namespace dl
