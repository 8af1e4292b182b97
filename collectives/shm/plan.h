// Plan: which way an operation's bytes take, and in which pieces; a pure function of what all ranks
// agree on, so that all choose alike.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "collectives/descriptor.h"

namespace dl::collectives::shm {

enum class Path : std::uint8_t {
  kInline,    // beside the flags
  kExchange,  // a reduction in one chunk that every rank stages whole; whoever wants the sum sums
  kChunks,    // through the slots, chunk by chunk
  kDirect     // in symmetric memory, where all ranks' buffers are found to lie in one
};
inline constexpr std::size_t kPathCount = 4;

// "inline", "exchange", "staged", "symmetric"
std::string_view name_of(Path path) noexcept;

struct Plan {
  Path path = Path::kInline;
  // Elements of a chunk (the last one may have fewer). Where there is a part for each rank: of
  // each.
  std::size_t chunk = 0;
  std::size_t chunks = 0;
  // Beside the flags: bytes that a rank with something to give gives to all together.
  std::size_t payload = 0;
};

struct Range {
  std::size_t begin = 0;
  std::size_t end = 0;
  std::size_t count() const noexcept { return end - begin; }
};

// Which elements of a caller's buffer go to, or come from, each rank.
class Parts {
 public:
  Parts() = default;  // none
  // The same `count` elements, whichever rank it is.
  static Parts whole(std::size_t count) noexcept { return {count, 0}; }
  // `count` for each rank, one behind the other.
  static Parts of_each(std::size_t count) noexcept { return {count, count}; }
  // The same with counts that differ; one for each rank.
  static Parts of(std::span<const std::size_t> counts);

  Range operator[](int rank) const noexcept {
    const auto r = static_cast<std::size_t>(rank);
    if (!offsets_.empty()) return {offsets_[r], offsets_[r + 1]};
    return {r * step_, r * step_ + count_};
  }
  // Elements of the longest.
  std::size_t longest() const noexcept { return count_; }

 private:
  Parts(std::size_t count, std::size_t step) noexcept : count_(count), step_(step) {}

  std::size_t count_ = 0;
  std::size_t step_ = 0;
  std::vector<std::size_t> offsets_{};  // where counts differ: of each part, and of the end
};

// A v-variant's sister with equal counts, which takes the same way; any other operation itself.
OpKind sister_of(OpKind op) noexcept;

// How many parts lie side by side in what a rank gives: one for each rank where every rank gets
// something else (reduce_scatter, scatter, all_to_all), else 1. Of a v-variant's sister.
std::size_t parts_of(OpKind op, int size) noexcept;

// `longest`: elements of the longest part that this rank gives. Only of a v-variant may ranks have
// different ones: then they agree on the number of chunks when all have called (Claim).
// `is_crowded`: ranks outnumber the cores; the same on all of them.
Plan make_plan(const Descriptor& what, std::size_t longest, int size, bool is_crowded) noexcept;

// The elements of a part that lie in chunk k; none behind its end.
inline Range piece_of(Range part, std::size_t k, const Plan& plan) noexcept {
  const std::size_t left = part.count() - std::min(part.count(), k * plan.chunk);
  const std::size_t begin = part.end - left;
  return {begin, begin + std::min(left, plan.chunk)};
}

// Which of a chunk's elements rank `rank` sums; the slices cover the chunk, begin at cache lines,
// and differ by less than a line but for the last.
Range slice_of(std::size_t elements, std::size_t element_bytes, int rank, int size) noexcept;

}  // namespace dl::collectives::shm
