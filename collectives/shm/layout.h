// What lies in a rank's segment: one Block, then its slots (docs/protocol.md has the offsets).
//
// Only its owner writes a Block, but for the bell. Peers read it, also after the owner has died: a
// segment lives as long as anybody maps it. A word that is written by one rank and polled by others
// shares its cache lines with nothing else.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "collectives/descriptor.h"
#include "collectives/shm/access.h"
#include "collectives/shm/bell.h"
#include "collectives/shm/constants.h"
#include "core/base/error.h"

namespace dl::collectives::shm {

using Word = Atomic<std::uint64_t>;
static_assert(Word::is_always_lock_free);

// What a rank says, in place of the payload, of an operation that goes through chunks.
struct Claim {
  // Where its buffer lies in symmetric memory.
  std::uint64_t memory = 0;  // its number; 0: elsewhere
  std::uint64_t offset = 0;  // bytes
  // For how many chunks it has something to give. The most of all ranks is what the operation has.
  std::uint64_t chunks = 0;
};

// Of a v-variant: how many elements a rank gives to each. Of the cell with the same index, written
// before its flag.
struct alignas(kApartBytes) Counts {
  std::uint64_t to[kMostRanks];
};

// What a rank says of one operation: it has called it, with these arguments. Operations alternate
// between two cells, which suffices since nobody finishes an operation before it has seen the cells
// of all ranks: whoever writes operation n + 2 has seen that all called n + 1, and so left n.
struct alignas(kApartBytes) Cell {
  Word flag;                                             // sequence (low half) and hash (high half)
  std::byte payload[kLinePayload];                       // or a Claim; written before the flag
  alignas(kLineBytes) std::byte descriptor[kLineBytes];  // to be quoted where hashes differ
};
static_assert(sizeof(Cell) == kApartBytes);
static_assert(sizeof(Claim) <= kLinePayload);
static_assert(std::is_trivially_copyable_v<Descriptor> && sizeof(Descriptor) <= kLineBytes);

// A payload's lines behind the first, of the cell with the same index. The flag of each is the
// whole sequence number: that all have called the same the flag of the cell says.
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
  // How many chunks, counted over the whole life of the group, this rank has
  Counter staged;    // copied into its slots,
  Counter reduced;   // summed (its slice of each) into its slots,
  Counter consumed;  // and is done with: it reads nothing of them any more.

  // Read when a wait gets long.
  alignas(kApartBytes) Word called;  // sequence number of this rank's last call
  // In a broken group: operations up to this number go on (ProcessGroup::fail). Written before
  // presence; it only falls after that.
  Word spared;
  Atomic<Presence> presence;  // written after what follows
  std::uint32_t cause_bytes;
  char cause[kMostCauseBytes];  // as encode(Cause) has it

  // Written by peers, too.
  alignas(kApartBytes) Bell bell;

  // True where this rank shares its core with others; set before the segment is passed on.
  alignas(kApartBytes) bool is_crowded;
  // The CPU on which this rank last called an operation, where it is crowded; -1: not known.
  Atomic<std::int32_t> cpu;

  Counts counts[2];
};

inline constexpr std::size_t kSlotsOffset = (sizeof(Block) + 4095) / 4096 * 4096;
inline constexpr std::size_t kSegmentBytes = kSlotsOffset + kSlots * kSlotBytes;

// The flag of an operation.
constexpr std::uint64_t flag_of(std::uint64_t sequence, std::uint32_t hash) noexcept {
  return (sequence & 0xffffffffu) | std::uint64_t{hash} << 32;
}
constexpr bool is_of(std::uint64_t flag, std::uint64_t sequence) noexcept {
  return (flag & 0xffffffffu) == (sequence & 0xffffffffu);
}

}  // namespace dl::collectives::shm
