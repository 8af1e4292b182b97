// FirstError: the first error of background work, for users of its results who hold no handle to
// the work.
//
// The background work sets it before its failure becomes visible. Users of the results share it,
// and may keep it longer than the background work lives. Thread-safety: any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <utility>

#include "core/base/lifetime/ref.h"

namespace dl {

class FirstError : public RefCounted {
 public:
  // Also reports the error of `others`, which may be null.
  explicit FirstError(Ref<FirstError> others = nullptr) noexcept : others_(std::move(others)) {}

  // Keeps the first error; later calls do nothing.
  void set(std::exception_ptr error) noexcept {
    State none = State::kNone;
    if (!state_.compare_exchange_strong(none, State::kBeingSet)) return;
    error_ = std::move(error);
    state_.store(State::kSet, std::memory_order_release);
  }
  std::exception_ptr get() const noexcept {
    for (const FirstError* each = this; each != nullptr; each = each->others_.get()) {
      if (each->state_.load(std::memory_order_acquire) == State::kSet) return each->error_;
    }
    return nullptr;
  }
  // Throws the error, if there is one.
  void check() const {
    if (const std::exception_ptr error = get()) std::rethrow_exception(error);
  }

 private:
  enum class State : std::uint8_t { kNone, kBeingSet, kSet };
  const Ref<FirstError> others_;
  std::atomic<State> state_{State::kNone};
  std::exception_ptr error_;
};

}  // namespace dl
