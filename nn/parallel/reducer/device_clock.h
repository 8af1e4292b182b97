// DeviceClock: times all-reduces on a CUDA device with CUDA events. The host cannot time them: it
// only knows when it submitted them.
//
// start(), computed(), end() and reduced() record events while a step is submitted. take() returns
// a step's times after the device has executed it. Events are recorded on the clock's own stream,
// which waits for the timed work. Not for use in a capture. Thread-safety: none.
#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <optional>
#include <vector>

#include "collectives/waiting/work.h"
#include "core/device/cuda/cuda.h"

namespace dl::nn::parallel {

class DeviceClock {
 public:
  explicit DeviceClock(int device);

  // Each records an event in the current step, after the work that the thread's current stream has
  // so far. start(): an all-reduce may start. computed(): all of backward is submitted. end(): the
  // next of the started all-reduces is complete. reduced(): all of them are complete.
  void start();
  void computed();
  void end(collectives::Work& work);
  void reduced();
  // Discards the current step, which was aborted.
  void drop() { now_ = {}; }

  struct Times {
    std::chrono::nanoseconds communication{0};  // at least one all-reduce was in flight
    std::chrono::nanoseconds exposed{0};        // and backward had finished
  };
  // The times of the oldest step that take() has not returned yet. Nullopt if there is no such
  // step, or if the device has not executed it yet. With `wait`, blocks until the device has
  // executed the step.
  std::optional<Times> take(bool wait);
  void forget() { given_.clear(); }

 private:
  struct Step {
    std::vector<cuda::Event> starts, ends, marks;  // marks: computed, reduced
  };
  cuda::Event mark(const Stream& stream) const;

  int device_;
  cuda::OwnedStream after_;
  Step now_;
  std::deque<Step> given_;
};

}  // namespace dl::nn::parallel
