// Sizes on which the speed of shared memory depends, and the reasons for them.
//
// All ranks must use the same values, because they determine the layout. No value changes a result:
// every reduction adds the ranks' shares from rank 0 upwards, on every path.
#pragma once

#include <algorithm>
#include <cstddef>

namespace dl::collectives::shm {

// A word that one rank writes and others poll has two cache lines of its own, because processors
// prefetch lines in pairs.
inline constexpr std::size_t kLineBytes = 64;
inline constexpr std::size_t kApartBytes = 2 * kLineBytes;

// Payload bytes beside a flag in its cache line: flag and data arrive in one transfer.
inline constexpr std::size_t kLinePayload = kLineBytes - 8;

// A small payload takes at most this many lines. Each line has a flag of its own, so that all lines
// arrive at once: an all_reduce of 128 bytes takes 0.59 us. Through a slot it takes 0.68 us,
// because the slot's lines can be requested only after the flag was seen.
inline constexpr std::size_t kPayloadLines = 19;
inline constexpr std::size_t kInlineBytes = kPayloadLines * kLinePayload;
// Limit for sums: an inline share is assembled first, and a slot needs no such copy.
inline constexpr std::size_t kInlineSumBytes = 10 * kLinePayload;

// A rank's slots together must exceed a core's L2 (1 to 2 MiB): a line that is still in a peer's
// cache costs the next writer a round trip, an evicted one does not. With 1 MiB messages two slots
// of 64 KiB took 170 us, 2 to 4 MiB of slots 45 us. A slot is small enough that a chunk's input,
// staged copy and output stay in L2.
inline constexpr std::size_t kSlotBytes = 128 * 1024;
inline constexpr std::size_t kSlots = 32;

// If ranks share cores, all ranks together use this many slots, and each at least kLeastSlots. So
// the slots stay in the last-level cache beside the ranks' buffers. With four ranks on two cores 16
// MiB took 10 ms instead of 14.5, and 1 MiB took 400 us instead of 600. With eight ranks 1 MiB took
// 1.3 ms with four slots each, 1.6 with eight, 1.9 with 32.
inline constexpr std::size_t kOversubscribedSlots = 32;
inline constexpr std::size_t kLeastSlots = 4;

// Number of slots that each of `ranks` ranks uses.
constexpr std::size_t slots_in_use(std::size_t ranks, bool is_oversubscribed) noexcept {
  const std::size_t share = std::max(kOversubscribedSlots / ranks, kLeastSlots);
  return is_oversubscribed ? std::min(share, kSlots) : kSlots;
}

// Up to this size an all_reduce takes one exchange: every rank stages its whole input and sums all
// shares itself. This moves more bytes than dividing the sum among the ranks, but waits once less.
// A wait costs thread switches if ranks outnumber cores, so the limit is higher then.
inline constexpr std::size_t kExchangeBytes = 8 * 1024;
inline constexpr std::size_t kOversubscribedExchangeBytes = 32 * 1024;

// If data flows one way, one side waits while the other copies a chunk. This many chunks, or chunks
// of this size, let both sides copy at once: a broadcast of 64 KiB took 3.9 us instead of 4.5, one
// of 256 KiB 12.9 instead of 16.3. Not used if ranks outnumber cores, because every chunk adds a
// wait.
inline constexpr std::size_t kOneWayChunks = 8;
inline constexpr std::size_t kOneWayChunkBytes = 32 * 1024;

// A sum that goes to several places is computed in blocks that stay in the L1 cache until they are
// copied.
inline constexpr std::size_t kSumBlockBytes = 8 * 1024;

// On symmetric memory a step covers this many bytes; between steps the driver checks peers and
// clocks.
inline constexpr std::size_t kDirectStepBytes = 256 * 1024;

// A slot must hold one line of every rank's part.
inline constexpr std::size_t kMostRanks = 1024;

// Messages from one rank to another lie in a ring, in lines of this size. The ring holds all
// messages that may wait for a receive, so that a send completes without its receiver.
inline constexpr std::size_t kFrameBytes = kLineBytes;
inline constexpr std::size_t kRingBytes = 1024 * 1024;
inline constexpr std::size_t kCreditBytes = kRingBytes;

// A message up to this size is sent at once. A larger one is sent in slices when its receiver has a
// buffer; other messages may go between two slices.
inline constexpr std::size_t kMostMessageBytes = 64 * 1024;
inline constexpr std::size_t kMostSliceBytes = 64 * 1024;
// Bytes after which the other side learns of the progress, so that both sides copy at once.
inline constexpr std::size_t kPieceBytes = 16 * 1024;

// Room for the text of the first cause in each rank's segment.
inline constexpr std::size_t kMostCauseBytes = 4096;

}  // namespace dl::collectives::shm
