// PassedOn: an operation of the inner group as one of a ShmGroup: where it fails, the group's first
// cause counts, which may not be the inner group's.
#pragma once

#include "collectives/shm/core.h"
#include "collectives/work.h"

namespace dl::collectives::shm {

class PassedOn final : public Work {
 public:
  PassedOn(Ref<Core> core, Ref<Work> inner) noexcept
      : core_(std::move(core)), inner_(std::move(inner)) {}

  void wait(Stream stream) override;
  void synchronize(std::optional<std::chrono::nanoseconds> timeout) override;
  bool is_completed() const noexcept override { return inner_->is_completed(); }
  std::exception_ptr error() const noexcept override;
  std::optional<std::chrono::steady_clock::time_point> completed_at() const noexcept override {
    return inner_->completed_at();
  }
  std::optional<int> source() const noexcept override { return inner_->source(); }
  std::string_view algorithm() const noexcept override { return inner_->algorithm(); }

 private:
  Ref<Core> core_;
  Ref<Work> inner_;
};

}  // namespace dl::collectives::shm
