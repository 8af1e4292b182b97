#include "collectives/hybrid/operation.h"

#include <utility>

#include "collectives/call/checks.h"
#include "collectives/hybrid/core.h"

namespace dl::collectives::hybrid {

Operation::Operation(Ref<Core> core, const Call& call, std::chrono::nanoseconds timeout,
                     Route route)
    : core_(std::move(core)),
      descriptor_(call.what),
      limit_(timeout),
      owner_(call.options->keep_alive),
      memory_(std::move(route.memory)),
      progress_(std::move(route.slices)) {}

Operation::~Operation() = default;

void Operation::wait(Stream stream) {
  check_waits_on_cpu(descriptor_, "hybrid", stream);
  synchronize(std::nullopt);
}

void Operation::synchronize(std::optional<std::chrono::nanoseconds> limit) {
  core_->wait(*this, limit);
}

bool Operation::is_completed() const noexcept {
  return core_->may_be_over(*this) && progress_.are_works_over();
}

std::exception_ptr Operation::error() const noexcept {
  if (!is_completed()) return nullptr;
  return core_->error_of(*this);
}

std::optional<std::chrono::steady_clock::time_point> Operation::completed_at() const noexcept {
  if (!is_completed()) return std::nullopt;
  return progress_.completed_at(settled_at_);
}

void Operation::agree(tcp::Group& all) {
  agreement_ = all.agree(descriptor_, {.timeout = limit_.timeout});
}

bool Operation::advance(const Lanes& lanes, Progress::Open& open) {
  is_agreed_ = is_agreed_ || is_over(agreement_);
  if (is_agreed_) progress_.advance(lanes, limit_, open);
  return is_agreed_;
}

void Operation::settle(std::exception_ptr error) noexcept {
  if (is_settled()) return;
  error_ = std::move(error);
  settled_at_ = std::chrono::steady_clock::now();
  is_settled_.store(true, std::memory_order_release);
}

Ref<RefCounted> Operation::release_owner() noexcept {
  if (is_owner_released_.exchange(true)) return nullptr;
  return std::exchange(owner_, nullptr);
}

}  // namespace dl::collectives::hybrid
