// What the operations of a step depend on beside their tensors: training mode, which parameters
// require gradients, hooks. A tape was recorded under one arrangement.
//
// Any thread.
#pragma once

#include <atomic>
#include <cstdint>

namespace dl::tape {

namespace detail {
inline constinit std::atomic<std::uint64_t> rearrangements{0};
}

// Changes with every rearranged().
inline std::uint64_t arrangement() noexcept {
  return detail::rearrangements.load(std::memory_order_relaxed);
}
inline void rearranged() noexcept {
  detail::rearrangements.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace dl::tape
