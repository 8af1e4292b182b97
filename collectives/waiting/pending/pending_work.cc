#include "collectives/waiting/pending/pending_work.h"

#include <memory>

#include "collectives/call/checks.h"
#include "core/base/system/futex.h"

namespace dl::collectives {

void PendingWork::wait(Stream stream) {
  check_waits_on_cpu(descriptor, backend_, stream);
  synchronize(std::nullopt);
}

// An alarm to be rung; a list.
struct PendingWork::Watch {
  Ref<Alarm> alarm;
  Watch* next = nullptr;
};

PendingWork::~PendingWork() {
  // Looks first: an exchange is a tenth of the smallest operation's time.
  if (watches_.load(std::memory_order_relaxed) != nullptr) ring_alarms();
}

void PendingWork::watch(Ref<Alarm> alarm) {
  auto* const watch = new Watch{std::move(alarm), watches_.load()};
  while (!watches_.compare_exchange_weak(watch->next, watch)) {
  }
  sleepers_.fetch_add(1);
  if (is_over_.load() != 0) ring_alarms();
}

void PendingWork::ring_alarms() noexcept {
  for (Watch* next = watches_.exchange(nullptr); next != nullptr;) {
    const std::unique_ptr<Watch> watch(next);
    next = watch->next;
    watch->alarm->ring();
  }
}

void PendingWork::wake_sleepers() noexcept {
  futex_wake(is_over_);
  ring_alarms();
}

bool PendingWork::sleep_until(Deadline deadline) noexcept {
  sleepers_.fetch_add(1);
  while (is_over_.load() == 0 && !deadline.has_passed()) futex_wait(is_over_, 0, deadline.left());
  sleepers_.fetch_sub(1);
  return is_over();
}

}  // namespace dl::collectives
