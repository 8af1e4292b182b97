#include "core/base/error.h"

#include <cerrno>
#include <cstring>

#include "core/base/system/machine/limits.h"
#include "core/base/system/process/terminate.h"
#include "core/base/text/printable.h"

namespace dl {
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
  end_with_text_when_uncaught();
}

void throw_errno(int error, std::string_view what) {
  throw Error(error == ENOENT ? ErrorKind::kNotFound : ErrorKind::kIo,
              fmt::format("{}: {}", what, system_error_text(error)));
}

}  // namespace dl
