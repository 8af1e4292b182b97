// For ranks that outnumber the cores: each notes its core, and moves to another one that has fewer
// ranks.
#pragma once

#include <cstdint>
#include <span>

#include "collectives/shm/peers/peers.h"

namespace dl::collectives::shm {

// The CPU to which `rank` should move so that no core has two ranks more than another; -1: it
// should stay. All ranks compute the same answer, and one moves at a time: the last rank of the
// fullest core.
//   cpus    by rank; negative: not known yet
//   usable  CPUs on which `rank` may run
int better_cpu(std::span<const std::int32_t> cpus, int rank, std::span<const int> usable);

// A rank that moves to another CPU publishes it at its next call only; a long wait yields in any
// case.
void note_cpu(Block& own) noexcept;
// Moves the calling thread to a core with fewer ranks, if there is one.
void spread(const Peers& peers);

}  // namespace dl::collectives::shm
