#include "collectives/tcp/state/ledger.h"

#include <algorithm>
#include <string_view>

namespace dl::collectives::tcp {

Ledger::Ledger(const Membership& group, const std::shared_ptr<record::Recorder>& recorder) {
  if (!recorder) return;
  recorder_ = recorder->add_group({.name = group.name,
                                   .backend = "tcp",
                                   .generation = group.generation,
                                   .rank = group.rank,
                                   .size = group.size()});
}

void Ledger::release() {
  std::vector<Ref<Operation>> over;
  const Lock lock(mutex_);
  over.swap(finished_);
}

void Ledger::begin(const Operation& operation) {
  if (operation.slot == nullptr) return;
  const std::string_view name = operation.algorithm();
  auto known = std::find_if(algorithms_.begin(), algorithms_.end(),
                            [&](const auto& entry) { return entry.first == name.data(); });
  if (known == algorithms_.end()) {
    const std::uint8_t number = name.empty() ? 0 : recorder_.recorder()->algorithm(name);
    known = algorithms_.insert(algorithms_.end(), {name.data(), number});
  }
  recorder_.start(operation.slot, known->second);
}

void Ledger::end(Ref<Operation> operation, const std::exception_ptr& error) {
  if (!operation->is_over()) {
    if (error) {
      recorder_.fail(operation->slot);
    } else {
      recorder_.finish(operation->slot);
    }
    operation->end(error);
  }
  const Lock lock(mutex_);
  finished_.push_back(std::move(operation));
}

}  // namespace dl::collectives::tcp
