// Ranks that outnumber the cores: which of them should move to another one.
#pragma once

#include <cstdint>
#include <span>

namespace dl::collectives::shm {

// The CPU to which rank `rank` should go so that no core has two ranks more than another; -1: it
// should stay. All ranks choose alike, and one at a time: the last one of the fullest core.
//   cpus    by rank; negative: not known yet
//   usable  those on which `rank` may run
int better_cpu(std::span<const std::int32_t> cpus, int rank, std::span<const int> usable);

}  // namespace dl::collectives::shm
