#include "core/tape/plan/arena.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace dl::tape {
namespace {

std::size_t rounded(std::size_t bytes, std::size_t alignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}

}  // namespace

ArenaPlan plan_arena(const std::vector<Lifetime>& blocks, std::size_t alignment) {
  ArenaPlan plan{.offsets = std::vector<std::size_t>(blocks.size()), .bytes = 0};
  std::vector<std::size_t> order(blocks.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, [&](std::size_t a, std::size_t b) {
    return blocks[a].bytes != blocks[b].bytes ? blocks[a].bytes > blocks[b].bytes : a < b;
  });
  std::vector<std::size_t> placed;  // by offset
  for (const std::size_t i : order) {
    const Lifetime& block = blocks[i];
    const std::size_t bytes = rounded(block.bytes, alignment);
    std::size_t offset = 0;
    for (const std::size_t j : placed) {
      const Lifetime& other = blocks[j];
      if (other.last < block.first || block.last < other.first) continue;
      if (offset + bytes <= plan.offsets[j]) break;
      offset = std::max(offset, plan.offsets[j] + rounded(other.bytes, alignment));
    }
    plan.offsets[i] = offset;
    plan.bytes = std::max(plan.bytes, offset + bytes);
    const auto by_offset = [&](std::size_t j) { return plan.offsets[j]; };
    placed.insert(std::ranges::upper_bound(placed, offset, {}, by_offset), i);
  }
  return plan;
}

std::size_t most_bytes_at_once(const std::vector<Lifetime>& blocks, std::size_t alignment) {
  std::map<std::int64_t, std::int64_t> changes;
  for (const Lifetime& block : blocks) {
    const auto bytes = static_cast<std::int64_t>(rounded(block.bytes, alignment));
    changes[block.first] += bytes;
    changes[block.last + 1] -= bytes;
  }
  std::int64_t now = 0;
  std::int64_t most = 0;
  for (const auto& [step, change] : changes) most = std::max(most, now += change);
  return static_cast<std::size_t>(most);
}

}  // namespace dl::tape
