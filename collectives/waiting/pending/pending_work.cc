#include "collectives/waiting/pending/pending_work.h"

#include "collectives/call/checks.h"
#include "core/base/system/futex.h"

namespace dl::collectives {

void PendingWork::wait(Stream stream) {
  check_waits_on_cpu(descriptor, backend_, stream);
  synchronize(std::nullopt);
}

void PendingWork::wake_sleepers() noexcept {
  futex_wake(is_over_);
}

bool PendingWork::sleep_until(Deadline deadline) noexcept {
  sleepers_.fetch_add(1);
  while (is_over_.load() == 0 && !deadline.has_passed()) futex_wait(is_over_, 0, deadline.left());
  sleepers_.fetch_sub(1);
  return is_over();
}

}  // namespace dl::collectives
