#include "collectives/shm/layout/bell.h"

#include "core/base/sanitizers.h"
#include "core/base/system/futex.h"

namespace dl::collectives::shm {
void ring(Bell& bell) noexcept {
  bell.word.fetch_add(1, std::memory_order_release);
  futex_wake(bell.word);
}

void nap(Bell& bell, std::uint32_t seen, std::chrono::nanoseconds most) noexcept {
  futex_wait(bell.word, seen, most);
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
