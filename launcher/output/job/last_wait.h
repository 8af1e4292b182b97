// LastWait: how long dlrun's end waits for readers and for a disk. Readers have no limit until
// set_reader_deadline() sets one; a disk has one since it last took bytes.
//
// One thread; DiskThread must outlive it.
#pragma once

#include <algorithm>
#include <chrono>
#include <optional>

#include "launcher/output/logs/disk_thread.h"

namespace dl::launcher {

class LastWait {
 public:
  using Clock = std::chrono::steady_clock;

  explicit LastWait(const DiskThread& disk) : disk_(disk) {}

  void begin() { began_ = Clock::now(); }
  // Sets the deadline for the readers. If it has passed by the time of begin(), they get a second.
  void set_reader_deadline(Clock::time_point deadline) {
    deadline_ = deadline_ ? std::min(*deadline_, deadline) : deadline;
  }
  bool has_begun() const { return began_.has_value(); }

  bool gives_up_readers() const {
    return deadline_ &&
           Clock::now() >= std::max(*deadline_, began_.value_or(Clock::time_point()) + kLeast);
  }
  bool gives_up_disk() const {
    const std::optional<Clock::time_point> since = disk_.waits_since();
    const bool is_short = gives_up_readers();
    return since && Clock::now() - *since >= (is_short ? Clock::duration(kLeast) : kDiskPatience);
  }

 private:
  static constexpr std::chrono::seconds kLeast{1};
  static constexpr std::chrono::seconds kDiskPatience{10};

  const DiskThread& disk_;
  std::optional<Clock::time_point> deadline_;
  std::optional<Clock::time_point> began_;
};

}  // namespace dl::launcher
