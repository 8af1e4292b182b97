// SaveRound: one request to save and end. It lasts until all nodes agree on the call of
// dl::should_checkpoint() at which the ranks save.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>

#include "rendezvous/membership/nodes/node_table.h"

namespace dl::rendezvous {

class SaveRound {
 public:
  // Returns false if there was a request before.
  bool begin() {
    if (calls_) return false;
    calls_.emplace();
    return true;
  }
  bool has_begun() const { return calls_.has_value(); }

  // A node answers with the largest number of calls that any of its ranks has made. Once all
  // `members` have answered, returns the call at which all ranks save: one more than the largest
  // answer. So no rank is beyond it, and no earlier call has returned true.
  std::optional<std::uint64_t> answered(NodeTable::Id id, std::uint64_t calls,
                                        std::size_t members) {
    if (!calls_ || !calls_->emplace(id, calls).second || calls_->size() != members) {
      return std::nullopt;
    }
    std::uint64_t most = 0;
    for (const auto& [node, count] : *calls_) most = std::max(most, count);
    return most + 1;
  }

 private:
  std::optional<std::map<NodeTable::Id, std::uint64_t>> calls_;
};

}  // namespace dl::rendezvous
