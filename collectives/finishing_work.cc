#include "collectives/finishing_work.h"

#include <mutex>
#include <utility>

namespace dl::collectives {
namespace {

class FinishingWork final : public Work {
 public:
  FinishingWork(Ref<Work> work, std::function<void()> step)
      : work_(std::move(work)), step_(std::move(step)) {}

  void wait(Stream stream) override {
    work_->wait(stream);
    finish();
  }
  void synchronize(std::optional<std::chrono::nanoseconds> timeout) override {
    work_->synchronize(timeout);
    finish();
  }
  bool is_completed() const noexcept override { return work_->is_completed(); }
  std::exception_ptr error() const noexcept override { return work_->error(); }
  std::optional<std::chrono::steady_clock::time_point> completed_at() const noexcept override {
    return work_->completed_at();
  }
  std::string_view algorithm() const noexcept override { return work_->algorithm(); }

 private:
  void finish() {
    const std::lock_guard lock(mutex_);
    if (step_) {
      try {
        std::exchange(step_, nullptr)();
      } catch (...) {
        failed_ = std::current_exception();
      }
    }
    if (failed_) std::rethrow_exception(failed_);
  }

  Ref<Work> work_;
  std::mutex mutex_;
  std::function<void()> step_;  // empty once it has run
  std::exception_ptr failed_;
};

}  // namespace

Ref<Work> finish_with(Ref<Work> work, std::function<void()> step) {
  return make_ref<FinishingWork>(std::move(work), std::move(step));
}

}  // namespace dl::collectives
