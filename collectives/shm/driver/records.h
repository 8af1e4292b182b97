// Records: the flight recorder's log of a group, if its process has a recorder, and its clock.
//
// Owned by the Core. Any thread, as recorder.h says.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "collectives/record/recorder.h"
#include "collectives/shm/driver/operation.h"

namespace dl::collectives::shm {

class Records {
 public:
  // `recorder`: null: nothing is recorded.
  Records(const std::shared_ptr<record::Recorder>& recorder,
          const record::Recorder::GroupOptions& group) {
    if (!recorder) return;
    log_ = recorder->add_group(group);
    for (const Path path : {Path::kInline, Path::kExchange, Path::kChunks, Path::kDirect}) {
      paths_[static_cast<std::size_t>(path)] = recorder->algorithm(name_of(path));
    }
  }

  record::GroupRecorder& log() noexcept { return log_; }
  const record::TickTime& clock() const noexcept { return clock_; }
  // The recorder's number for the path of an operation that begins.
  std::uint8_t first_path(const Operation& op) const noexcept {
    // On symmetric memory the ranks still have to agree on the path.
    return op.memory ? std::uint8_t{0} : path(op);
  }
  std::uint8_t path(const Operation& op) const noexcept {
    return paths_[static_cast<std::size_t>(op.transfer.plan.path)];
  }

 private:
  record::GroupRecorder log_;
  const record::TickTime clock_{};
  std::array<std::uint8_t, kPathCount> paths_{};
};

}  // namespace dl::collectives::shm
