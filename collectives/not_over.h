// NotOver: the Error of Work::synchronize() after a passed timeout, with its parts as values, so
// that a group that contains another one need not parse its text.
//
// Any thread.
#pragma once

#include <chrono>
#include <string>
#include <utility>

#include "collectives/descriptor.h"
#include "core/base/error.h"

namespace dl::collectives {

class NotOver final : public Error {
 public:
  // `missing`: "waiting for rank 2 (...), which has not called it".
  NotOver(const Descriptor& operation, std::chrono::nanoseconds limit, std::string missing)
      : Error(ErrorKind::kTimeout, fmt::format("{}: not over after {} s, {}; it goes on",
                                               text(operation), seconds_text(limit), missing)),
        operation_(text(operation)),
        missing_(std::move(missing)) {}
  const std::string& operation() const noexcept { return operation_; }
  const std::string& missing() const noexcept { return missing_; }

 private:
  std::string operation_;
  std::string missing_;
};

}  // namespace dl::collectives
