// Format of a rank's flight recorder in memory, and on disk after a failure (docs/protocol.md,
// "Flight recorder").
//
// Each rank has one piece of memory: a header, a table of groups, and a ring of slots with one
// operation each. The rank writes it. dlrun copies it (snapshot.h); without dlrun the rank copies
// it itself. Everything that changes while another process may read is a lock-free 64-bit word, so
// the rank may be killed at any instruction. Numbers are little-endian.
//
// This room includes no header of the other rooms.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace dl::collectives::record {

inline constexpr char kMagic[8] = {'D', 'L', 'F', 'L', 'I', 'G', 'H', 'T'};
inline constexpr std::uint32_t kFormat = 1;
inline constexpr std::size_t kGroups = 64;
inline constexpr std::size_t kSlots = 1024;  // a power of two; 64 KiB stay in a core's own cache

// A name in a table; ends with a zero unless it fills its place.
inline constexpr std::size_t kNameBytes = 24;
inline constexpr std::size_t kNames = 32;
using NameTable = char[kNames][kNameBytes];

// The low bits of the words of groups and slots hold the state.
inline constexpr std::uint64_t kStateBits = 0xff;

inline constexpr auto kRelaxed = std::memory_order_relaxed;

// How the rank ended, as dlrun saw it.
enum class End : std::uint32_t { kUnknown, kRunning, kEnded, kNotStarted };

struct Header {
  char magic[8];
  std::uint32_t format;
  std::uint32_t header_bytes;
  std::uint32_t group_count;
  std::uint32_t group_bytes;
  std::uint32_t slot_count;
  std::uint32_t slot_bytes;

  // Written by the process that makes the memory.
  std::int32_t rank;
  std::int32_t world_size;
  std::uint64_t generation;
  char host[64];
  char job[64];

  // Written by the process that takes the copy.
  std::uint64_t copied_at;     // ticks
  std::uint64_t copied_at_ns;  // since 1970
  std::uint64_t ended_at;      // ticks; 0: not known
  End end;
  std::int32_t status;       // as waitpid() gives it
  std::int32_t pid;          // of the process that was started
  std::uint8_t was_stopped;  // dlrun had begun to end the job when this rank ended
  std::uint8_t is_cause;     // dlrun named this rank as the first cause
  char process_state;        // of a running rank: R, S, D, T, Z as in /proc; 0: not known
  std::uint8_t zero[1];

  // Written by the rank.
  std::atomic<std::uint64_t> owner;  // its pid; 0: no process has opened the recorder
  std::uint64_t clock;               // ClockKind
  std::uint64_t opened_at;           // ticks
  std::uint64_t opened_at_ns;        // since 1970
  std::uint8_t zero2[8];

  // All words that change with every operation, on a cache line of their own.
  alignas(64) std::atomic<std::uint64_t> tickets;  // slots taken so far, skipped ones included
  std::atomic<std::uint64_t> dropped;              // operations that found no free slot
  std::atomic<std::uint64_t> dropped_groups;
  std::uint8_t zero3[40];

  NameTable ops;
  NameTable dtypes;
  NameTable reduces;
  NameTable algorithms;  // 0 stays empty

  // Written by the process that takes the copy: how dlrun says that the rank ended, on the page of
  // a failed job; empty: the rank has not ended, or dlrun has not seen it.
  char fate[256];
  std::uint8_t zero4[448];
};
static_assert(sizeof(Header) == 4096);

// A group that broke and then left keeps its cause.
enum class GroupState : std::uint8_t { kFree, kWriting, kOpen, kBroken, kLeft };

struct Group {
  std::atomic<std::uint64_t> word;  // number << 8 | GroupState; numbers count from 1
  std::uint64_t generation;
  std::int32_t rank;  // in this group
  std::int32_t size;
  char backend[16];
  char name[136];
  std::atomic<std::uint64_t> last_called;  // sequence number of the last collective; 0: none yet
  std::uint64_t broken_at;                 // ticks
  char kind[24];                           // of the error that broke the group
  char cause[808];                         // its text
};
static_assert(sizeof(Group) == 1024);

enum class State : std::uint8_t { kEmpty, kWriting, kEnqueued, kStarted, kFinished, kFailed };

// One operation. The slot is not reused before the operation has ended.
struct alignas(64) Slot {
  std::atomic<std::uint64_t> word;  // ticket << 8 | State; tickets count from 1
  std::atomic<std::uint64_t> sequence;
  std::atomic<std::uint64_t> count;
  std::atomic<std::uint64_t> enqueued_at;  // ticks
  std::atomic<std::uint64_t> started_at;   // 0: not yet
  std::atomic<std::uint64_t> ended_at;
  std::atomic<std::uint64_t> kinds;  // root << 32 | order << 24 | reduce << 16 | dtype << 8 | op
  std::atomic<std::uint64_t> links;  // waits_for << 40 | algorithm << 32 | group << 16 | hash
};
static_assert(sizeof(Slot) == 64);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

// In `order`: a send or recv, and no collective.
inline constexpr std::uint8_t kPointToPoint = 0x80;
inline constexpr std::uint64_t kNoRank = 0xffffff;  // in waits_for

inline constexpr std::size_t kBytes =
    sizeof(Header) + kGroups * sizeof(Group) + kSlots * sizeof(Slot);

struct Memory {
  Header header;
  Group groups[kGroups];
  Slot slots[kSlots];
};
static_assert(sizeof(Memory) == kBytes);

}  // namespace dl::collectives::record
