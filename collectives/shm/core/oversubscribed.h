// Ranks that outnumber the cores: decides which rank should move to another core.
#pragma once

#include <cstdint>
#include <span>

namespace dl::collectives::shm {

// The CPU to which `rank` should move so that no core has two ranks more than another; -1: it
// should stay. All ranks compute the same answer, and one moves at a time: the last rank of the
// fullest core.
//   cpus    by rank; negative: not known yet
//   usable  CPUs on which `rank` may run
int better_cpu(std::span<const std::int32_t> cpus, int rank, std::span<const int> usable);

}  // namespace dl::collectives::shm
