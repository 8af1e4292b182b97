#include "core/base/system/futex.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>

namespace dl {
namespace {

// The kernel compares the word as a plain 32-bit integer.
static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t));
static_assert(std::atomic<std::uint32_t>::is_always_lock_free);

// Without FUTEX_PRIVATE_FLAG: the sleeper may be in another process.
void futex(std::atomic<std::uint32_t>& word, int operation, std::uint32_t value,
           const timespec* most) noexcept {
  ::syscall(SYS_futex, &word, operation, value, most, nullptr, 0);
}

}  // namespace

void futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t seen,
                std::chrono::nanoseconds most) noexcept {
  if (most <= std::chrono::nanoseconds::zero()) return;
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(most);
  const timespec time{.tv_sec = seconds.count(), .tv_nsec = (most - seconds).count()};
  futex(word, FUTEX_WAIT, seen, &time);
}

void futex_wake(std::atomic<std::uint32_t>& word) noexcept {
  futex(word, FUTEX_WAKE, INT_MAX, nullptr);
}

}  // namespace dl
