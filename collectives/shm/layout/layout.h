// Layout of a rank's segment: one Block, then its slots (docs/protocol.md has the offsets).
//
// Only its owner writes a Block, except the bell. Peers may read it even after the owner has died,
// because a segment lives as long as a process maps it. A word that one rank writes and others poll
// shares its cache lines with nothing else.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "collectives/call/descriptor.h"
#include "collectives/shm/layout/access.h"
#include "collectives/shm/layout/bell.h"
#include "collectives/shm/layout/constants.h"
#include "core/base/error.h"

namespace dl::collectives::shm {

using Word = Atomic<std::uint64_t>;
static_assert(Word::is_always_lock_free);

// Published in place of the payload for an operation that goes through chunks.
struct Claim {
  // Place of its buffer in symmetric memory.
  std::uint64_t memory = 0;  // the memory's number; 0: the buffer is elsewhere
  std::uint64_t offset = 0;  // bytes
  // Number of chunks for which it has data to give. The operation has the maximum over all ranks.
  std::uint64_t chunks = 0;
};

// For a v-variant: how many elements the rank gives to each rank. Belongs to the cell with the same
// index; written before its flag.
struct alignas(kApartBytes) Counts {
  std::uint64_t to[kMostRanks];
};

// Publishes that a rank has called an operation with these arguments. Operations alternate between
// two cells. Two are enough, because no rank finishes an operation before it has seen the cells of
// all ranks: a rank that writes operation n + 2 has seen that all ranks called n + 1, and so left
// n.
struct alignas(kApartBytes) Cell {
  Word flag;                                             // sequence (low half) and hash (high half)
  std::byte payload[kLinePayload];                       // or a Claim; written before the flag
  alignas(kLineBytes) std::byte descriptor[kLineBytes];  // to be quoted if hashes differ
};
static_assert(sizeof(Cell) == kApartBytes);
static_assert(sizeof(Claim) <= kLinePayload);
static_assert(std::is_trivially_copyable_v<Descriptor> && sizeof(Descriptor) <= kLineBytes);

// The payload's lines after the first, for the cell with the same index. Each flag is the whole
// sequence number; the cell's flag already tells that all ranks have called the same operation.
struct alignas(kApartBytes) MoreLines {
  struct Line {
    Word flag;
    std::byte payload[kLinePayload];  // written before the flag
  };
  Line lines[kPayloadLines - 1];
};
static_assert(sizeof(MoreLines::Line) == kLineBytes);

struct alignas(kApartBytes) Counter {
  Word value;
};

enum class Presence : std::uint32_t { kHere, kLeft, kFailed };

struct Block {
  Cell cells[2];
  MoreLines more[2];
  // How many chunks, counted over the group's life, this rank has
  Counter staged;    // copied into its slots,
  Counter reduced;   // summed (its slice of each) into its slots,
  Counter consumed;  // and is done with: it no longer reads them.

  // Read when a wait gets long.
  alignas(kApartBytes) Word called;  // sequence number of this rank's last call
  // In a broken group: operations up to this number go on (ProcessGroup::fail). Written before
  // presence; only decreases after that.
  Word completes_until;
  Atomic<Presence> presence;  // written after what follows
  std::uint32_t cause_bytes;
  char cause[kMostCauseBytes];  // see encode(Cause)

  // Peers write it too.
  alignas(kApartBytes) Bell bell;

  // True if this rank shares its core with others; set before the segment is passed on.
  alignas(kApartBytes) bool is_oversubscribed;
  // The CPU on which this rank last called an operation, if is_oversubscribed; -1: not known.
  Atomic<std::int32_t> cpu;

  Counts counts[2];
};

inline constexpr std::size_t kSlotsOffset = (sizeof(Block) + 4095) / 4096 * 4096;
inline constexpr std::size_t kSegmentBytes = kSlotsOffset + kSlots * kSlotBytes;

constexpr std::uint64_t flag_of(std::uint64_t sequence, std::uint32_t hash) noexcept {
  return (sequence & 0xffffffffu) | std::uint64_t{hash} << 32;
}
constexpr bool is_of(std::uint64_t flag, std::uint64_t sequence) noexcept {
  return (flag & 0xffffffffu) == (sequence & 0xffffffffu);
}

}  // namespace dl::collectives::shm
