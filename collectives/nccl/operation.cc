#include "collectives/nccl/operation.h"

#include <utility>

#include "collectives/call/recording.h"
#include "collectives/waiting/still_running.h"
#include "core/base/deadline.h"
#include "core/base/error.h"

namespace dl::collectives::nccl {

void Bell::ring() noexcept {
  const Lock lock(mutex_);
  is_rung_ = true;
  rung_.notify_all();
}

void Bell::stop() noexcept {
  is_stopped_ = true;
  ring();
}

void Bell::sleep(std::chrono::nanoseconds most) noexcept {
  Lock lock(mutex_);
  rung_.wait_for(lock.native(), most, [this]() DL_REQUIRES(mutex_) { return is_rung_; });
  is_rung_ = false;
}

Events::~Events() {
  const Lock lock(mutex_);
  for (void* const event : free_) cuda_.destroy_event(event);
}

void* Events::take() {
  {
    const Lock lock(mutex_);
    if (!free_.empty()) {
      void* const event = free_.back();
      free_.pop_back();
      return event;
    }
  }
  return cuda_.make_event(device_, false);
}

void Events::give(void* event) noexcept {
  const Lock lock(mutex_);
  free_.push_back(event);
}

Shared::Shared(cuda::Runtime& runtime, int device_number, Ref<ProcessGroup> host, Identity self,
               std::string group)
    : cuda(runtime),
      device(device_number),
      stream(cuda.make_stream(device, true)),
      failure(std::move(host), std::move(self), std::move(group)),
      events(cuda, device) {}

Shared::~Shared() {
  cuda.destroy_stream(stream);
}

Operation::Operation(Ref<Shared> shared, const Descriptor& what, Options options)
    : shared_(std::move(shared)),
      descriptor_(what),
      options_(std::move(options)),
      done_(options_.is_captured) {}

Operation::~Operation() {
  if (shared_->failure.is_in_child()) return;  // the pool's lock may be held for ever there
  for (void* const event : {begin_, end_}) {
    if (event == nullptr) continue;
    // An event that a graph has recorded must not be recorded again, so it does not go to the pool.
    options_.is_captured ? shared_->cuda.destroy_event(event) : shared_->events.give(event);
  }
}

void Operation::make_events() {
  if (options_.is_captured) {
    end_ = shared_->cuda.make_event(shared_->device, false);
    return;
  }
  begin_ = shared_->events.take();
  end_ = shared_->events.take();
}

std::string Operation::text() const {
  if (!is_launch()) return collectives::text(descriptor_);
  return fmt::format("a graph's launch ({} operation{}, up to {})", options_.in_graph,
                     options_.in_graph == 1 ? "" : "s", collectives::text(descriptor_));
}

void Operation::throw_in_child() const {
  if (shared_->failure.is_in_child()) std::rethrow_exception(shared_->failure.error());
}

void Operation::wait(Stream stream) {
  if (stream.device.type == DeviceType::kCPU) return synchronize(std::nullopt);
  throw_in_child();
  if (const std::exception_ptr failed = error()) std::rethrow_exception(failed);
  awaited_.store(true, std::memory_order_relaxed);
  shared_->cuda.wait_event(stream.handle, end_);
}

void Operation::synchronize(std::optional<std::chrono::nanoseconds> timeout) {
  DL_CHECK(!options_.is_captured, kInvalidArgument,
           "{}: it is being captured into a graph, and the host cannot wait for it; use "
           "wait(stream)",
           collectives::text(descriptor_));
  const profiler::Span span = wait_span();
  throw_in_child();
  const Deadline until = timeout ? Deadline::after(*timeout) : Deadline::never();
  if (!is_completed()) shared_->bell.ring();
  Lock lock(mutex_);
  if (!wait_until(over_, lock.native(), until, [this] { return is_completed(); })) {
    throw StillRunning(collectives::text(descriptor_), *timeout, {});
  }
  if (error_) std::rethrow_exception(error_);
}

std::exception_ptr Operation::error() const noexcept {
  if (shared_->failure.is_in_child()) return shared_->failure.error();
  if (!is_completed()) return nullptr;
  const Lock lock(mutex_);
  return error_;
}

std::optional<std::chrono::steady_clock::time_point> Operation::completed_at() const noexcept {
  if (!is_completed() || options_.is_captured) return std::nullopt;
  const Lock lock(mutex_);
  return completed_at_;
}

void Operation::end(std::exception_ptr failed) noexcept {
  if (!failed && !shared_->failure.is_set()) rendezvous::report_recovery(reported_);
  const Ref<RefCounted> owner = std::exchange(options_.owner, nullptr);  // dropped after the lock
  const Lock lock(mutex_);
  error_ = std::move(failed);
  completed_at_ = std::chrono::steady_clock::now();
  done_.store(true, std::memory_order_release);
  over_.notify_all();
}

}  // namespace dl::collectives::nccl
