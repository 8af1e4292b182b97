// Waited: an operation for which threads can wait.
//
// Any thread. `Base`: Collective or Message.
#pragma once

#include <exception>
#include <optional>
#include <utility>

#include "collectives/call/recording.h"
#include "collectives/process/at_exit.h"
#include "collectives/tcp/core/core.h"
#include "collectives/tcp/core/engine.h"
#include "collectives/tcp/state/operation.h"

namespace dl::collectives::tcp {

// What an operation needs to be waited for.
struct Waiter {
  Ref<Engine> engine;
  Ref<Core> core;

  bool is_in_child() const noexcept { return core->status().is_in_child(); }
  // Drives until the operation is over. Throws StillRunning at the limit.
  void wait(Operation& operation, std::optional<std::chrono::nanoseconds> limit) const;
};

template <typename Base>
class Waited final : public Base {
 public:
  template <typename... Arguments>
  explicit Waited(Waiter waiter, Arguments&&... arguments)
      : Base(std::forward<Arguments>(arguments)...), waiter_(std::move(waiter)) {}

  void synchronize(std::optional<std::chrono::nanoseconds> limit) override {
    if (!this->is_over()) {
      const profiler::Span span = wait_span();
      waiter_.wait(*this, limit);
    }
    if (const std::exception_ptr failed = error()) {
      stay_if_exiting();
      std::rethrow_exception(failed);
    }
  }
  bool is_completed() const noexcept override {
    if (this->is_over() || waiter_.is_in_child()) return true;  // no thread drives it in a child
    waiter_.engine->poll();
    return this->is_over();
  }
  std::exception_ptr error() const noexcept override {
    return this->is_over() || !waiter_.is_in_child() ? Base::error()
                                                     : waiter_.core->status().error();
  }
  // It holds the engine, whose end waits for the driving thread.
  bool has_owner() const noexcept override { return true; }

 private:
  const Waiter waiter_;
};

}  // namespace dl::collectives::tcp
