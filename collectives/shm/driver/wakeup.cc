#include "collectives/shm/driver/wakeup.h"

#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

#include "core/base/error.h"

namespace dl::collectives::shm {
namespace {

// How late the thread takes up an operation for which no thread waits, if callers usually wait for
// theirs.
constexpr long kTakeUpNanoseconds = 1'000'000;

void drain(int fd) noexcept {
  std::uint64_t count = 0;
  [[maybe_unused]] const ssize_t size = ::read(fd, &count, sizeof count);
}

}  // namespace

Wakeup::Wakeup()
    : event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      timer_(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)) {
  if (!event_) throw_errno(errno, "eventfd");
  if (!timer_) throw_errno(errno, "timerfd_create");
}

void Wakeup::now() noexcept {
  ::eventfd_write(event_.get(), 1);
}

void Wakeup::soon() noexcept {
  // Sequentially consistent with the thread, which disarms the timer and then looks for operations.
  if (timer_is_armed_.load() || timer_is_armed_.exchange(true)) return;
  const itimerspec once{.it_interval = {},
                        .it_value = {.tv_sec = 0, .tv_nsec = kTakeUpNanoseconds}};
  ::timerfd_settime(timer_.get(), 0, &once, nullptr);
}

void Wakeup::after_call() noexcept {
  wakes_at_once_.load(std::memory_order_relaxed) ? now() : soon();
}

void Wakeup::note_taken_up() noexcept {
  has_taken_up_.store(true, std::memory_order_relaxed);
  wakes_at_once_.store(true, std::memory_order_relaxed);
}

void Wakeup::note_waited() noexcept {
  if (has_taken_up_.load(std::memory_order_relaxed)) {
    has_taken_up_.store(false, std::memory_order_relaxed);
  } else {
    wakes_at_once_.store(false, std::memory_order_relaxed);
  }
}

void Wakeup::clear_event() noexcept {
  drain(event_.get());
}

void Wakeup::clear_timer() noexcept {
  drain(timer_.get());
  timer_is_armed_.store(false);
}

}  // namespace dl::collectives::shm
