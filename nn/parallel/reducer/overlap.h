// OverlapStats: how much of the communication was hidden behind backward.
//
// Communication is the time in which at least one all-reduce of gradients was under way, from its
// start on this rank to its completion: waiting for a rank that is behind counts. Exposed is the
// time that backward() spent waiting for it with nothing left to compute. Of gradients on a CUDA
// device both are the device's, by its events (device_clock.h).
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

  // 1 - exposed / communication, in [0, 1]; 1 where there was no communication.
  double hidden() const noexcept;
  // "all-reduce 12.3 ms, 91 % hidden": means of a step.
  std::string str() const;

  OverlapStats& operator+=(const OverlapStats& other) noexcept;
};

// When an all-reduce was under way.
struct Interval {
  std::chrono::steady_clock::time_point begin;
  std::chrono::steady_clock::time_point end;
};

// Length of the union; the intervals stand in the order of their beginnings.
std::chrono::nanoseconds union_length(std::span<const Interval> intervals) noexcept;

}  // namespace dl::nn::parallel
