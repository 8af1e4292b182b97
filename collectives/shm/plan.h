// Plan: which way an operation's bytes take, and in which pieces; a pure function of what all ranks
// agree on, so that all choose alike.
#pragma once

#include <cstddef>
#include <string_view>

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
};

// How many parts of `count` elements lie side by side in what a rank gives: one for each rank where
// every rank gets something else (reduce_scatter, scatter, all_to_all), else 1.
std::size_t parts_of(OpKind op, int size) noexcept;

// `is_crowded`: ranks outnumber the cores; the same on all of them.
Plan make_plan(const Descriptor& what, int size, bool is_crowded) noexcept;

struct Range {
  std::size_t begin = 0;
  std::size_t end = 0;
  std::size_t count() const noexcept { return end - begin; }
};

// Which of a chunk's elements rank `rank` sums; the slices cover the chunk, begin at cache lines,
// and differ by less than a line but for the last.
Range slice_of(std::size_t elements, std::size_t element_bytes, int rank, int size) noexcept;

}  // namespace dl::collectives::shm
