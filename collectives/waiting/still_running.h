// StillRunning: the Error that Work::synchronize() throws after a timeout. It keeps the operation
// and the missing ranks as values. A group or Work that waits for another one makes the text again,
// with its own operation and timeout.
//
// Any thread.
#pragma once

#include <chrono>
#include <string>
#include <utility>

#include "collectives/call/descriptor.h"
#include "core/base/error.h"

namespace dl::collectives {

class StillRunning final : public Error {
 public:
  // `operation`: text(descriptor). `missing`: "waiting for rank 2 (...), which has not called it";
  // empty if the group cannot tell.
  StillRunning(std::string operation, std::chrono::nanoseconds limit, std::string missing)
      : Error(ErrorKind::kTimeout,
              fmt::format("{}: still running after {} s{}{}; it continues", operation,
                          seconds_text(limit), missing.empty() ? "" : ", ", missing)),
        operation_(std::move(operation)),
        missing_(std::move(missing)) {}
  const std::string& operation() const noexcept { return operation_; }
  const std::string& missing() const noexcept { return missing_; }

 private:
  std::string operation_;
  std::string missing_;
};

}  // namespace dl::collectives
