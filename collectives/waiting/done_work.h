// The Work of an operation that was over when its call returned.
#pragma once

#include <chrono>

#include "collectives/waiting/work.h"

namespace dl::collectives {

class DoneWork final : public Work {
 public:
  // `algorithm` must be a literal.
  explicit DoneWork(std::string_view algorithm) : algorithm_(algorithm) {}

  void wait(Stream) override {}
  void synchronize(std::optional<std::chrono::nanoseconds>) override {}
  bool is_completed() const noexcept override { return true; }
  std::exception_ptr error() const noexcept override { return nullptr; }
  std::optional<std::chrono::steady_clock::time_point> completed_at() const noexcept override {
    return made_;
  }
  void watch(Ref<Alarm> alarm) override { alarm->ring(); }
  std::string_view algorithm() const noexcept override { return algorithm_; }

 private:
  const std::string_view algorithm_;
  const std::chrono::steady_clock::time_point made_ = std::chrono::steady_clock::now();
};

}  // namespace dl::collectives
