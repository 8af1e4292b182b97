// SaveRound: a request to save and end, until all nodes agree at which call of
// dl::should_checkpoint() the ranks save.
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

  // A node's answer: the most calls of any of its ranks. Once all `members` have answered, returns
  // the call at which all ranks save: one after the most calls of any rank. So no rank is further,
  // and none has returned true before.
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
