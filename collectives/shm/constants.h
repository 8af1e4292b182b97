// The sizes on which the speed of shared memory depends, and the reasons for them.
//
// Every rank must use the same values: they decide where bytes lie. None of them changes a result:
// every reduction adds the ranks' shares from rank 0 upwards, whichever path it takes.
#pragma once

#include <cstddef>

namespace dl::collectives::shm {

// A word that one rank writes and others poll has two cache lines of its own, since processors
// fetch lines in pairs.
inline constexpr std::size_t kLineBytes = 64;
inline constexpr std::size_t kApartBytes = 2 * kLineBytes;

// What fits beside the flag in its cache line, so that flag and data arrive in one transfer.
inline constexpr std::size_t kInlineBytes = kLineBytes - 8;

// A rank's slots together must exceed a core's L2 (1 to 2 MiB): a line that a peer still holds
// costs the next writer a round trip, one that has been evicted does not. With 1 MiB messages two
// slots of 64 KiB took 170 us, 2 to 4 MiB of them 45 us. A slot is small enough for a chunk's
// input, staged copy and output to stay in L2 while the chunk is worked on.
inline constexpr std::size_t kSlotBytes = 128 * 1024;
inline constexpr std::size_t kSlots = 32;

// So many chunks are staged before the first of them is summed, so that what a peer has just
// written is seldom read at once. Of 0, 2, 4 and 8 the best at 4 MiB, by less than runs differ
// (docs/benchmarks).
inline constexpr std::size_t kStagedAhead = 4;

// Up to here an all_reduce takes one exchange: every rank stages all of its input and sums all
// shares itself. It moves more bytes than dividing the sum among the ranks, and waits once less.
// Where ranks outnumber cores a wait costs thread switches, and is worth more bytes.
inline constexpr std::size_t kExchangeBytes = 8 * 1024;
inline constexpr std::size_t kCrowdedExchangeBytes = 32 * 1024;

// A sum that goes to several places is taken in blocks, which the first level of the cache still
// holds when they are copied to the next place.
inline constexpr std::size_t kSumBlockBytes = 8 * 1024;

// On symmetric memory so many bytes make a step, after which the driver looks at the rest of the
// world.
inline constexpr std::size_t kDirectStepBytes = 256 * 1024;

// Room for the text of the first cause in each rank's segment.
inline constexpr std::size_t kMostCauseBytes = 4096;

}  // namespace dl::collectives::shm
