// DeviceClock: when all-reduces were under way on a CUDA device, by events of the device, as the
// host knows only when it gave them to it.
//
// One step after the other is marked while its work is given to the device, and taken when the
// device has passed it; nothing waits in between. Work is timed by a stream of the clock's own that
// is ordered after it. Not for use in a capture. Thread-safety: none.
#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <optional>
#include <vector>

#include "collectives/work.h"
#include "core/device/cuda/cuda.h"

namespace dl::nn::parallel {

class DeviceClock {
 public:
  explicit DeviceClock(int device);

  // Marks in the step that is being submitted to the thread's current stream. start(): an
  // all-reduce may start. computed(): all of backward is submitted. end(): the next of the started
  // all-reduces is over. reduced(): all of them are over.
  void start();
  void computed();
  void end(collectives::Work& work);
  void reduced();
  // The step broke off.
  void drop() { now_ = {}; }

  struct Times {
    std::chrono::nanoseconds communication{0};  // at least one all-reduce was under way
    std::chrono::nanoseconds exposed{0};        // and nothing of backward was
  };
  // The times of the oldest step that take() has not returned yet; with `wait`, waits until the
  // device has passed it. Nullopt if there is none.
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
