// The sizes on which the speed of shared memory depends, and the reasons for them.
//
// Every rank must use the same values: they decide where bytes lie. None of them changes a result:
// every reduction adds the ranks' shares from rank 0 upwards, whichever path it takes.
#pragma once

#include <algorithm>
#include <cstddef>

namespace dl::collectives::shm {

// A word that one rank writes and others poll has two cache lines of its own, since processors
// fetch lines in pairs.
inline constexpr std::size_t kLineBytes = 64;
inline constexpr std::size_t kApartBytes = 2 * kLineBytes;

// What fits beside a flag in its cache line, so that flag and data arrive in one transfer.
inline constexpr std::size_t kLinePayload = kLineBytes - 8;

// A small payload lies in so many lines at most, each of which brings a flag of its own, so that
// they all arrive at once: an all_reduce of 128 bytes takes 0.59 us, and 0.68 through a slot, whose
// lines can be asked for only when the flag has been seen.
inline constexpr std::size_t kPayloadLines = 19;
inline constexpr std::size_t kInlineBytes = kPayloadLines * kLinePayload;
// What all ranks sum, up to here only: it is put together first, and a slot needs no such copy.
inline constexpr std::size_t kInlineSumBytes = 10 * kLinePayload;

// A rank's slots together must exceed a core's L2 (1 to 2 MiB): a line that a peer still holds
// costs the next writer a round trip, one that has been evicted does not. With 1 MiB messages two
// slots of 64 KiB took 170 us, 2 to 4 MiB of them 45 us. A slot is small enough for a chunk's
// input, staged copy and output to stay in L2 while the chunk is worked on.
inline constexpr std::size_t kSlotBytes = 128 * 1024;
inline constexpr std::size_t kSlots = 32;

// Where ranks share cores, so many slots are used by all of them together, and at least so many by
// each: they should stay in the last level of the cache beside the ranks' buffers. With four ranks
// on two cores 16 MiB took 10 ms instead of 14.5, 1 MiB 400 us instead of 600; with eight ranks 1
// MiB 1.3 ms with four slots each, 1.6 with eight, 1.9 with 32.
inline constexpr std::size_t kCrowdedSlots = 32;
inline constexpr std::size_t kLeastSlots = 4;

// How many of its slots each of `ranks` ranks uses.
constexpr std::size_t slots_in_use(std::size_t ranks, bool is_crowded) noexcept {
  const std::size_t share = std::max(kCrowdedSlots / ranks, kLeastSlots);
  return is_crowded ? std::min(share, kSlots) : kSlots;
}

// Up to here an all_reduce takes one exchange: every rank stages all of its input and sums all
// shares itself. It moves more bytes than dividing the sum among the ranks, and waits once less.
// Where ranks outnumber cores a wait costs thread switches, and is worth more bytes.
inline constexpr std::size_t kExchangeBytes = 8 * 1024;
inline constexpr std::size_t kCrowdedExchangeBytes = 32 * 1024;

// Where data flows one way, one side would wait while the other copies a chunk: so many of them, or
// chunks of at least so many bytes, let both copy at once. A broadcast of 64 KiB took 3.9 us
// instead of 4.5, one of 256 KiB 12.9 instead of 16.3. Not where ranks outnumber cores: a chunk
// more is a wait more.
inline constexpr std::size_t kOneWayChunks = 8;
inline constexpr std::size_t kOneWayChunkBytes = 32 * 1024;

// A sum that goes to several places is taken in blocks, which the first level of the cache still
// holds when they are copied to the next place.
inline constexpr std::size_t kSumBlockBytes = 8 * 1024;

// On symmetric memory so many bytes make a step, after which the driver looks at the rest of the
// world.
inline constexpr std::size_t kDirectStepBytes = 256 * 1024;

// A slot must hold a line of every rank's part.
inline constexpr std::size_t kMostRanks = 1024;

// Messages from one rank to another lie in a ring, in lines of this size. It holds as much as may
// wait there for a receive, so that a send needs nobody else.
inline constexpr std::size_t kFrameBytes = kLineBytes;
inline constexpr std::size_t kRingBytes = 1024 * 1024;
inline constexpr std::size_t kCreditBytes = kRingBytes;

// A message up to here leaves at once; a larger one when its receiver says where to put it, in
// slices, between which others get their turn.
inline constexpr std::size_t kMostMessageBytes = 64 * 1024;
inline constexpr std::size_t kMostSliceBytes = 64 * 1024;
// After so much the other side learns what has been written or read, so that both copy at once.
inline constexpr std::size_t kPieceBytes = 16 * 1024;

// Room for the text of the first cause in each rank's segment.
inline constexpr std::size_t kMostCauseBytes = 4096;

}  // namespace dl::collectives::shm
