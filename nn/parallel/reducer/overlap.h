// OverlapStats: how much communication overlapped with backward.
//
// `communication` is the time in which at least one all-reduce of gradients was in flight, from its
// start on this rank to its completion. It includes waits for slower ranks. `exposed` is the time
// that backward() waited for all-reduces with nothing left to compute. For gradients on a CUDA
// device, CUDA events measure both (device_clock.h). Values; any thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace dl::nn::parallel {

struct OverlapStats {
  std::int64_t steps = 0;  // backward passes that synchronised
  std::size_t bytes = 0;   // of gradients
  std::chrono::nanoseconds communication{0};
  std::chrono::nanoseconds exposed{0};

  // 1 - exposed / communication, in [0, 1]; 1 if there was no communication.
  double hidden() const noexcept;
  // "all-reduce 12.3 ms, 91 % hidden": means over the steps.
  std::string str() const;

  OverlapStats& operator+=(const OverlapStats& other) noexcept;
};

// The interval in which an all-reduce was in flight.
struct Interval {
  std::chrono::steady_clock::time_point begin;
  std::chrono::steady_clock::time_point end;
};

// The length of the union of the intervals, which must be sorted by `begin`.
std::chrono::nanoseconds union_length(std::span<const Interval> intervals) noexcept;

}  // namespace dl::nn::parallel
