#include "nn/parallel/reducer/overlap.h"

#include <fmt/format.h>

#include <algorithm>

namespace dl::nn::parallel {

double OverlapStats::hidden() const noexcept {
  if (communication.count() <= 0) return 1;
  const double share =
      1 - static_cast<double>(exposed.count()) / static_cast<double>(communication.count());
  return std::clamp(share, 0.0, 1.0);
}

std::string OverlapStats::str() const {
  const double ms = std::chrono::duration<double, std::milli>(communication).count();
  return fmt::format("all-reduce {:.1f} ms, {:.0f} % hidden",
                     ms / static_cast<double>(std::max<std::int64_t>(steps, 1)), 100 * hidden());
}

OverlapStats& OverlapStats::operator+=(const OverlapStats& other) noexcept {
  steps += other.steps;
  bytes += other.bytes;
  communication += other.communication;
  exposed += other.exposed;
  return *this;
}

std::chrono::nanoseconds union_length(std::span<const Interval> intervals) noexcept {
  std::chrono::nanoseconds length{0};
  std::chrono::steady_clock::time_point covered{};
  for (const Interval& interval : intervals) {
    const auto begin = std::max(interval.begin, covered);
    if (interval.end <= begin) continue;
    length += interval.end - begin;
    covered = interval.end;
  }
  return length;
}

}  // namespace dl::nn::parallel
