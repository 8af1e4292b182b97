#include "collectives/shm/layout/bell.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>

#include "core/base/sanitizers.h"

namespace dl::collectives::shm {
namespace {

// The kernel compares the word as a plain 32-bit integer.
static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t));
static_assert(std::atomic<std::uint32_t>::is_always_lock_free);

// Without FUTEX_PRIVATE_FLAG: the sleeper may be in another process.
void futex(Atomic<std::uint32_t>& word, int operation, std::uint32_t value,
           const timespec* most) noexcept {
  ::syscall(SYS_futex, &word, operation, value, most, nullptr, 0);
}

}  // namespace

void ring(Bell& bell) noexcept {
  bell.word.fetch_add(1, std::memory_order_release);
  wake(bell.word);
}

void wake(Atomic<std::uint32_t>& word) noexcept {
  futex(word, FUTEX_WAKE, INT_MAX, nullptr);
}

void nap(Atomic<std::uint32_t>& word, std::uint32_t seen, std::chrono::nanoseconds most) noexcept {
  if (most <= std::chrono::nanoseconds::zero()) return;
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(most);
  const timespec time{.tv_sec = seconds.count(), .tv_nsec = (most - seconds).count()};
  futex(word, FUTEX_WAIT, seen, &time);
}

void full_fence() noexcept {
#if defined(__SANITIZE_THREAD__)
  // TSan does not model fences; this read-modify-write orders as strongly on the supported
  // machines.
  std::atomic<int> word{0};
  word.fetch_add(1, std::memory_order_seq_cst);
#else
  std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
}

void relax() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield" ::: "memory");
#endif
}

}  // namespace dl::collectives::shm
