#include "collectives/waiting/pending/ledger.h"

#include <algorithm>

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

}  // namespace dl::collectives
