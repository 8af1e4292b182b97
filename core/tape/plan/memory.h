// The memory of a tape: which blocks of its recording share an arena, and their places there.
#pragma once

#include <cstddef>
#include <vector>

#include "core/tape/plan/arena.h"
#include "core/tape/plan/chain.h"
#include "core/tape/recorder.h"

namespace dl::tape {

struct MemoryPlan {
  // For each block the one whose memory it takes: itself, or an operand that ends with the step
  // that writes this block.
  std::vector<std::size_t> holders;
  std::vector<std::size_t> shared;  // the holders that have a place in the arena
  ArenaPlan arena;                  // of `shared`, in this order
  std::size_t separate_bytes = 0;   // of all blocks in the arena, if each had a place of its own
};

// Steps of a chain are taken to run at the same time.
MemoryPlan plan_memory(const Recording& recording, const std::vector<Chain>& chains);

}  // namespace dl::tape
