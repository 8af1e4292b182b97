#include "collectives/waiting/pending/ledger.h"

#include <algorithm>

#include "collectives/waiting/pending/group_status.h"
#include "rendezvous/net/lifeline.h"

namespace dl::collectives {

void Ledger::begin(const PendingWork& operation) {
  if (operation.slot == nullptr) return;
  const std::string_view name = operation.algorithm();
  auto known =
      std::ranges::find(algorithms_, name.data(), &std::pair<const char*, std::uint8_t>::first);
  if (known == algorithms_.end()) {
    const std::uint8_t number = name.empty() ? 0 : log_.recorder()->algorithm(name);
    known = algorithms_.insert(algorithms_.end(), {name.data(), number});
  }
  log_.start(operation.slot, known->second);
}

// An operation of a broken group may still end well, as the other ranks have completed it. The
// program need not have heard of the failure.
void Ledger::tell_recovery(const PendingWork& operation) const noexcept {
  if (status_ == nullptr || !status_->reports() || status_->is_broken()) return;
  rendezvous::report_recovery(operation.reported);
}

}  // namespace dl::collectives
