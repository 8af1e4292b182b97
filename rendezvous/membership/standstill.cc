#include "rendezvous/membership/standstill.h"

#include <ctime>

namespace dl::rendezvous {
namespace {

std::chrono::nanoseconds read_clock(clockid_t clock) noexcept {
  timespec time{};
  if (::clock_gettime(clock, &time) != 0) return {};
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

}  // namespace

std::chrono::nanoseconds time_suspended() noexcept {
  const std::chrono::nanoseconds awake = read_clock(CLOCK_MONOTONIC);
  return read_clock(CLOCK_BOOTTIME) - awake;
}

}  // namespace dl::rendezvous
