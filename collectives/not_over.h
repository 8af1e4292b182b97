// NotOver: the Error of Work::synchronize() with a timeout that passed, with its parts as values,
// so that a group that stands on another one need not read its text.
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
  // `missing`: for whom it waits: "waiting for rank 2 (...), which has not called it".
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
