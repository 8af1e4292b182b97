#include "collectives/waiting/joined_work.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "collectives/waiting/still_running.h"
#include "core/base/deadline.h"

namespace dl::collectives {
namespace {

// Rings another alarm when it has been rung `times` times.
class CountingAlarm final : public Alarm {
 public:
  CountingAlarm(std::size_t times, Ref<Alarm> then) : left_(times), then_(std::move(then)) {}
  void ring() noexcept override {
    if (left_.fetch_sub(1) == 1) then_->ring();
  }

 private:
  std::atomic<std::size_t> left_;
  const Ref<Alarm> then_;
};

class JoinedWork final : public Work {
 public:
  explicit JoinedWork(std::vector<Ref<Work>> works) : works_(std::move(works)) {}

  void wait(Stream stream) override {
    for (const Ref<Work>& work : works_) work->wait(stream);
  }
  void synchronize(std::optional<std::chrono::nanoseconds> timeout) override {
    const Deadline deadline = timeout ? Deadline::after(*timeout) : Deadline::never();
    for (const Ref<Work>& work : works_) {
      try {
        work->synchronize(timeout ? std::optional(deadline.left()) : std::nullopt);
      } catch (const StillRunning& late) {
        throw StillRunning(late.operation(), timeout.value(), late.missing());
      }
    }
  }
  bool is_completed() const noexcept override {
    return std::all_of(works_.begin(), works_.end(),
                       [](const Ref<Work>& work) { return work->is_completed(); });
  }
  std::exception_ptr error() const noexcept override {
    if (!is_completed()) return nullptr;
    for (const Ref<Work>& work : works_) {
      if (std::exception_ptr error = work->error()) return error;
    }
    return nullptr;
  }
  std::optional<std::chrono::steady_clock::time_point> completed_at() const noexcept override {
    std::optional<std::chrono::steady_clock::time_point> last;
    for (const Ref<Work>& work : works_) {
      const auto at = work->completed_at();
      if (!at) return std::nullopt;
      last = std::max(last, at);
    }
    return last;
  }
  void watch(Ref<Alarm> alarm) override {
    if (works_.empty()) return alarm->ring();
    const auto all = make_ref<CountingAlarm>(works_.size(), std::move(alarm));
    for (const Ref<Work>& work : works_) work->watch(all);
  }
  std::optional<int> source() const noexcept override {
    for (const Ref<Work>& work : works_) {
      if (const auto from = work->source()) return from;
    }
    return std::nullopt;
  }
  std::optional<int> source_of(std::size_t message) const noexcept override {
    return message < works_.size() ? works_[message]->source() : std::nullopt;
  }

 private:
  std::vector<Ref<Work>> works_;
};

}  // namespace

Ref<Work> join(std::vector<Ref<Work>> works) {
  return make_ref<JoinedWork>(std::move(works));
}

}  // namespace dl::collectives
