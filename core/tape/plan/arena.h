// Places for blocks that live for a part of a tape only, in one arena.
//
// A pure function; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace dl::tape {

// A block in use from step `first` to step `last`, both included.
struct Lifetime {
  std::size_t bytes = 0;
  std::int64_t first = 0;
  std::int64_t last = 0;
};

struct ArenaPlan {
  std::vector<std::size_t> offsets;  // of each block
  std::size_t bytes = 0;             // of the arena
};

// Blocks that are in use at the same step do not overlap. Offsets are multiples of `alignment`. The
// largest block gets its place first, each at the lowest offset that is free in all of its steps.
ArenaPlan plan_arena(const std::vector<Lifetime>& blocks, std::size_t alignment);

// The most bytes that are in use at one step: no arena can be smaller.
std::size_t most_bytes_at_once(const std::vector<Lifetime>& blocks, std::size_t alignment);

}  // namespace dl::tape
