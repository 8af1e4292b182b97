#include "collectives/waiting/finishing_work.h"

#include <atomic>
#include <utility>

#include "core/base/log/log.h"
#include "core/base/mutex.h"
#include "core/base/system/machine/thread.h"

namespace dl::collectives {
namespace {

// The operation and its last step, which outlive a dropped Work.
class LastStep final : public RefCounted {
 public:
  LastStep(Ref<Work> work, std::function<void()> step)
      : work_(std::move(work)), step_(std::move(step)) {}

  Work& work() const noexcept { return *work_; }
  bool is_over() const noexcept { return is_over_.load(std::memory_order_acquire); }

  // To be called after the operation succeeded.
  void run() noexcept {
    const Lock lock(mutex_);
    run_locked();
  }
  // Returns false if another thread is running it.
  bool try_run() noexcept {
    if (!mutex_.try_lock()) return false;
    run_locked();
    mutex_.unlock();
    return true;
  }
  std::exception_ptr error() const noexcept { return is_over() ? failed_ : nullptr; }

 private:
  void run_locked() noexcept DL_REQUIRES(mutex_) {
    if (is_over()) return;
    try {
      std::exchange(step_, nullptr)();
    } catch (...) {
      failed_ = std::current_exception();
    }
    is_over_.store(true, std::memory_order_release);
  }

  const Ref<Work> work_;
  Mutex mutex_;
  std::function<void()> step_ DL_GUARDED_BY(mutex_);
  std::exception_ptr failed_;  // written before is_over_
  std::atomic<bool> is_over_{false};
};

void run_when_over(const Ref<LastStep>& last) noexcept {
  try {
    last->work().synchronize();
  } catch (const std::exception&) {
    return;  // the group's next call throws the error
  }
  last->run();
}

class FinishingWork final : public Work {
 public:
  FinishingWork(Ref<Work> work, std::function<void()> step)
      : last_(make_ref<LastStep>(std::move(work), std::move(step))) {}

  void wait(Stream stream) override {
    last_->work().wait(stream);
    finish();
  }
  void synchronize(std::optional<std::chrono::nanoseconds> timeout) override {
    last_->work().synchronize(timeout);
    finish();
  }
  bool is_completed() const noexcept override {
    if (last_->is_over()) return true;
    if (!last_->work().is_completed()) return false;
    return last_->work().error() != nullptr || (last_->try_run() && last_->is_over());
  }
  std::exception_ptr error() const noexcept override {
    if (!is_completed()) return nullptr;
    const std::exception_ptr error = last_->work().error();
    return error ? error : last_->error();
  }
  std::optional<std::chrono::steady_clock::time_point> completed_at() const noexcept override {
    return is_completed() ? last_->work().completed_at() : std::nullopt;
  }
  std::optional<int> source() const noexcept override { return last_->work().source(); }
  void watch(Ref<Alarm> alarm) override { last_->work().watch(std::move(alarm)); }
  std::string_view algorithm() const noexcept override { return last_->work().algorithm(); }

 private:
  ~FinishingWork() override {
    if (is_completed()) return;
    try {
      make_thread("a dropped operation", [last = last_] { run_when_over(last); }).detach();
    } catch (const std::exception& error) {
      log::warning("a dropped operation's output stays unwritten: {}", error.what());
    }
  }

  void finish() {
    last_->run();
    if (const std::exception_ptr failed = last_->error()) std::rethrow_exception(failed);
  }

  const Ref<LastStep> last_;
};

}  // namespace

Ref<Work> finish_with(Ref<Work> work, std::function<void()> step) {
  return make_ref<FinishingWork>(std::move(work), std::move(step));
}

}  // namespace dl::collectives
