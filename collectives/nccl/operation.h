// Operation: the Work of one operation of an NcclGroup, or of one launch of a graph that contains
// some.
//
// The caller makes it and records its events; the watcher ends it. It keeps Shared alive, not the
// group. Any thread.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <string>
#include <vector>

#include "collectives/call/descriptor.h"
#include "collectives/nccl/failure.h"
#include "collectives/waiting/work.h"
#include "core/base/mutex.h"
#include "core/device/cuda/module/runtime.h"
#include "rendezvous/net/lifeline.h"

namespace dl::collectives::nccl {

// Wakes the watcher, if it sleeps long. Waking a thread costs the caller more than everything else
// that the group adds to a call of NCCL (10 us and more in a virtual machine). A watcher that is
// not idle looks soon by itself.
class Bell {
 public:
  void ring() noexcept;
  void ring_if_idle() noexcept {
    if (is_idle_.load()) ring();
  }
  // The watcher is to end.
  void stop() noexcept;
  bool is_stopped() const noexcept { return is_stopped_.load(); }

  // For the watcher: it calls set_idle(true), looks once more for new operations, and then sleeps.
  void set_idle(bool idle) noexcept { is_idle_.store(idle); }
  void sleep(std::chrono::nanoseconds most) noexcept;

 private:
  std::atomic<bool> is_idle_{false};
  std::atomic<bool> is_stopped_{false};
  Mutex mutex_;
  std::condition_variable rung_;
  bool is_rung_ DL_GUARDED_BY(mutex_) = false;
};

// A pool of CUDA events.
class Events {
 public:
  Events(cuda::Runtime& cuda, int device) : cuda_(cuda), device_(device) {}
  ~Events();
  Events(const Events&) = delete;
  Events& operator=(const Events&) = delete;

  void* take();
  void give(void* event) noexcept;

 private:
  cuda::Runtime& cuda_;
  const int device_;
  Mutex mutex_;
  std::vector<void*> free_ DL_GUARDED_BY(mutex_);
};

// What the parts of a group and its Works share.
struct Shared final : RefCounted {
  Shared(cuda::Runtime& runtime, int device_number, Ref<ProcessGroup> host, Identity self,
         std::string group);
  ~Shared() override;

  cuda::Runtime& cuda;
  const int device;
  void* const stream;  // of the operations
  Bell bell;
  Failure failure;
  Events events;
};

class Operation final : public Work {
 public:
  struct Options {
    Ref<RefCounted> owner{};  // of the buffers
    std::chrono::nanoseconds timeout{};
    bool is_captured = false;    // into a graph: end() is never called, and it counts as over
    std::uint64_t in_graph = 0;  // number of operations in a graph's launch
    int peer = -1;               // of a message; -1: it is none, or several
  };
  Operation(Ref<Shared> shared, const Descriptor& what, Options options);
  ~Operation() override;

  void wait(Stream stream) override;
  void synchronize(std::optional<std::chrono::nanoseconds> timeout) override;
  bool is_completed() const noexcept override { return done_.load(std::memory_order_acquire); }
  std::exception_ptr error() const noexcept override;
  std::optional<std::chrono::steady_clock::time_point> completed_at() const noexcept override;
  std::string_view algorithm() const noexcept override { return "nccl"; }

  // For the group.
  const Descriptor& descriptor() const noexcept { return descriptor_; }
  std::chrono::nanoseconds timeout() const noexcept { return options_.timeout; }
  bool is_launch() const noexcept { return options_.in_graph > 0; }
  int peer() const noexcept { return options_.peer; }
  std::string text() const;
  // Call it once, before the events are used.
  void make_events();
  // Events in its stream. The GPU has reached the operation (begin), and has finished it (end).
  void* begin_event() const noexcept { return begin_; }
  void* end_event() const noexcept { return end_; }
  // Both events are recorded in the stream.
  bool is_launched() const noexcept { return launched_.load(std::memory_order_acquire); }
  void set_launched() noexcept { launched_.store(true, std::memory_order_release); }
  // True if a stream waits for it.
  bool is_awaited() const noexcept { return awaited_.load(std::memory_order_relaxed); }
  void end(std::exception_ptr failed) noexcept;

 private:
  void throw_in_child() const;

  const Ref<Shared> shared_;
  const Descriptor descriptor_;
  const std::uint32_t reported_ = rendezvous::standing_report();  // when it was called
  Options options_;
  void* begin_ = nullptr;
  void* end_ = nullptr;
  std::atomic<bool> done_;
  std::atomic<bool> launched_{false};
  std::atomic<bool> awaited_{false};

  mutable Mutex mutex_;
  std::condition_variable over_;
  std::exception_ptr error_ DL_GUARDED_BY(mutex_);
  std::chrono::steady_clock::time_point completed_at_ DL_GUARDED_BY(mutex_){};
};

}  // namespace dl::collectives::nccl
