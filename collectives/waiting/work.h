// Work: one asynchronous operation of a ProcessGroup.
//
// A Work holds the buffers' owner until the operation is over. Dropping a Work neither waits nor
// throws: an error that no caller has seen appears at the group's next call. Thread-safety: any
// member from any thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <exception>
#include <optional>
#include <string_view>

#include "core/base/lifetime/ref.h"
#include "core/device/stream.h"

namespace dl::collectives {

// Rung when an operation is over, by any thread, also by a driver: ring() must not block, throw or
// call a group. A driver may drop the last Ref.
class Alarm : public RefCounted {
 public:
  virtual void ring() noexcept = 0;
};

class Work : public RefCounted {
 public:
  // Orders the stream after the operation. For the CPU's stream: blocks until it is over, and
  // throws its error.
  virtual void wait(Stream stream = {}) = 0;
  // Blocks the host until the operation is over and throws its error. If the timeout passes first,
  // it throws kTimeout naming the missing ranks, and leaves the operation under way.
  virtual void synchronize(std::optional<std::chrono::nanoseconds> timeout = std::nullopt) = 0;
  // True once the operation is over, with or without an error. Never blocks or throws.
  virtual bool is_completed() const noexcept = 0;
  // The error of an operation that is over; null while it runs, and if it succeeded.
  virtual std::exception_ptr error() const noexcept = 0;
  // When the group noticed that the operation was over; nullopt while it runs, or if the group does
  // not know.
  virtual std::optional<std::chrono::steady_clock::time_point> completed_at() const noexcept {
    return std::nullopt;
  }
  // The rank whose message a receive has taken; for a batch, and sendrecv, that of its first
  // receive. Nullopt for other operations, and while it runs.
  virtual std::optional<int> source() const noexcept { return std::nullopt; }
  // The source of one message of a batch, by its place in the batch. Other operations have place 0
  // only.
  virtual std::optional<int> source_of(std::size_t message) const noexcept {
    return message == 0 ? source() : std::nullopt;
  }
  // Rings the alarm once the operation is over; at once if it is. wait() then blocks no more than
  // for a last step (finishing_work.h). The default takes a thread of its own, which waits.
  virtual void watch(Ref<Alarm> alarm);
  // The path that the operation took: "ring", "direct", "copy", ...; empty if the group does not
  // tell. Text of static lifetime, the same on every rank.
  virtual std::string_view algorithm() const noexcept { return {}; }
};

}  // namespace dl::collectives
