#include "collectives/hybrid/operation.h"

#include <algorithm>

#include "collectives/call/checks.h"
#include "collectives/hybrid/core.h"
#include "core/base/error.h"

namespace dl::collectives::hybrid {

Operation::Operation(Ref<Core> core, const Call& call, std::chrono::nanoseconds timeout,
                     Route route)
    : core_(std::move(core)),
      descriptor_(call.what),
      deadline_(Deadline::after(timeout)),
      timeout_(timeout),
      owner_(call.options->keep_alive),
      memory_(std::move(route.memory)),
      slices_(std::move(route.slices)),
      works_(slices_.size()) {}

Operation::~Operation() = default;

void Operation::wait(Stream stream) {
  check_waits_on_cpu(descriptor_, "hybrid", stream);
  synchronize(std::nullopt);
}

void Operation::synchronize(std::optional<std::chrono::nanoseconds> limit) {
  core_->wait(*this, limit);
}

bool Operation::are_works_over() const noexcept {
  return std::all_of(works_.begin(), works_.end(), [](const auto& lanes) {
    return std::all_of(lanes.begin(), lanes.end(),
                       [](const Ref<Work>& work) { return !work || work->is_completed(); });
  });
}

LaneCalls Operation::calls() const noexcept {
  LaneCalls calls{};
  for (const Slice& slice : slices_) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      if (slice.calls[lane]) ++calls[lane];
    }
  }
  return calls;
}

bool Operation::is_completed() const noexcept {
  return core_->may_be_over(*this) && are_works_over();
}

std::exception_ptr Operation::error() const noexcept {
  if (!is_completed()) return nullptr;
  return core_->error_of(*this);
}

std::optional<std::chrono::steady_clock::time_point> Operation::completed_at() const noexcept {
  if (!is_completed()) return std::nullopt;
  std::chrono::steady_clock::time_point last = settled_at_;
  for (const auto& lanes : works_) {
    for (const Ref<Work>& work : lanes) {
      if (work) last = std::max(last, work->completed_at().value_or(last));
    }
  }
  return last;
}

}  // namespace dl::collectives::hybrid
