// NodeIndex: numbers the nodes of a backward pass. Borrows the nodes; one thread uses it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace dl::autograd {

class Node;

// A hash map from nodes to their numbers with open addressing. clear() is cheap: it usually only
// changes the stamp, so that older entries count as empty.
class NodeIndex {
 public:
  // Returns the number of `node`, and whether the node is new; a new one gets the number `next`.
  std::pair<std::uint32_t, bool> insert(const Node* node, std::uint32_t next) {
    if (2 * (count_ + 1) > entries_.size()) grow();
    Entry& entry = find(node);
    if (entry.stamp == stamp_) return {entry.number, false};
    entry = {node, next, stamp_};
    ++count_;
    return {next, true};
  }
  std::uint32_t at(const Node* node) noexcept { return find(node).number; }
  bool contains(const Node* node) noexcept { return count_ != 0 && find(node).stamp == stamp_; }
  void clear() {
    constexpr std::size_t kKept = 1 << 16;
    if (entries_.size() > kKept || ++stamp_ == 0) {
      entries_ = std::vector<Entry>();
      stamp_ = 1;
    }
    count_ = 0;
  }

 private:
  struct Entry {
    const Node* node = nullptr;
    std::uint32_t number = 0;
    std::uint32_t stamp = 0;
  };

  Entry& find(const Node* node) noexcept {
    const std::size_t mask = entries_.size() - 1;
    std::size_t at = (reinterpret_cast<std::uintptr_t>(node) >> 4) * 0x9e3779b97f4a7c15u >> 20;
    for (;; ++at) {
      Entry& entry = entries_[at & mask];
      if (entry.stamp != stamp_ || entry.node == node) return entry;
    }
  }
  void grow() {
    const std::vector<Entry> old = std::move(entries_);
    entries_ = std::vector<Entry>(std::max<std::size_t>(64, 2 * old.size()));
    for (const Entry& entry : old) {
      if (entry.stamp == stamp_) find(entry.node) = entry;
    }
  }

  std::vector<Entry> entries_;
  std::uint32_t stamp_ = 1;
  std::size_t count_ = 0;
};

}  // namespace dl::autograd
