// Plan: the path of an operation's bytes and the sizes of its chunks; a pure function of arguments
// that all ranks share, so that all choose alike.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "collectives/call/call.h"

namespace dl::collectives::shm {

enum class Path : std::uint8_t {
  kInline,  // beside the flags
  // a reduction in one chunk: every rank stages its whole input, each receiver sums it
  kExchange,
  kChunks,  // through the slots, chunk by chunk
  kDirect   // in symmetric memory, if all ranks' buffers lie in the same one
};
inline constexpr std::size_t kPathCount = 4;

// "inline", "exchange", "staged", "symmetric"
std::string_view name_of(Path path) noexcept;

struct Plan {
  Path path = Path::kInline;
  // Elements of a chunk (the last one may have fewer). If there is a part for each rank: elements
  // of each part.
  std::size_t chunk = 0;
  std::size_t chunks = 0;
  // kInline: bytes that a rank with data to give gives to all ranks together.
  std::size_t payload = 0;
};

struct Range {
  std::size_t begin = 0;
  std::size_t end = 0;
  std::size_t count() const noexcept { return end - begin; }
};

// The range of the caller's buffer that goes to, or comes from, each rank.
class Parts {
 public:
  Parts() = default;  // none
  explicit Parts(const PartsView& parts);

  Range operator[](int rank) const noexcept {
    const auto r = static_cast<std::size_t>(rank);
    if (!offsets_.empty()) return {offsets_[r], offsets_[r + 1]};
    return {r * step_, r * step_ + count_};
  }
  std::size_t longest() const noexcept { return count_; }

 private:
  std::size_t count_ = 0;
  std::size_t step_ = 0;
  std::vector<std::size_t> offsets_{};  // if counts differ: the begin of each part, and the end
};

// Number of parts side by side in what a rank gives: the number of ranks if each gets a different
// part, else 1.
std::size_t parts_of(OpKind op, int size) noexcept;

// `longest`: elements of the longest part that this rank gives. It may differ between ranks for a
// v-variant only: then they agree on the number of chunks when all have called (Claim).
// `is_oversubscribed`: ranks outnumber the cores; the same on all ranks.
Plan make_plan(const Descriptor& what, std::size_t longest, int size,
               bool is_oversubscribed) noexcept;

// The elements of a part that lie in chunk k; empty after the part's end.
inline Range piece_of(Range part, std::size_t k, const Plan& plan) noexcept {
  const std::size_t left = part.count() - std::min(part.count(), k * plan.chunk);
  const std::size_t begin = part.end - left;
  return {begin, begin + std::min(left, plan.chunk)};
}

// The elements of a chunk that `rank` sums. The slices cover the chunk, begin at cache lines, and
// differ in size by less than a line, except the last.
Range slice_of(std::size_t elements, std::size_t element_bytes, int rank, int size) noexcept;

}  // namespace dl::collectives::shm
