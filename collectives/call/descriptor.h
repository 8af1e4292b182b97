// Descriptor: an operation as one rank calls it. Ranks compare descriptors before they mix their
// data, so that different calls are an error.
//
// Ranks send each other the descriptor with its 32-bit hash, so that an error can quote both sides.
// Values; any thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/call/identity.h"
#include "collectives/call/operations.h"
#include "collectives/call/options.h"
#include "core/tensor/dtype.h"

namespace dl::collectives {

inline constexpr std::size_t kReduceOpCount = 8;

// "sum", "avg", ...
std::string_view name_of(ReduceOp op) noexcept;

// What an all_gather or all_gatherv of a group's own is for, as Descriptor::root. Ranks that call
// it for different things differ, and an error names the call that the program has made.
inline constexpr std::int32_t kForProgram = -1;  // the program has called it
inline constexpr std::int32_t kForSplit = -2;
inline constexpr std::int32_t kForAllocate = -3;
inline constexpr std::int32_t kForRegister = -4;

struct Descriptor {
  // The number in the group, from 1. Each rank counts its own messages separately.
  std::uint64_t sequence = 0;
  // The caller's count: elements of one rank's part, if the buffer has a part for each rank. For a
  // v-variant: the sum of the counts, or 0 if not every rank knows all of them
  // (OpRow::has_common_count).
  std::uint64_t count = 0;
  // -1: the operation has none; of a message: the tag; of all_gather and all_gatherv: kForSplit and
  // so on.
  std::int32_t root = -1;
  OpKind op = OpKind::kBarrier;
  DType dtype = DType::kU8;
  ReduceOp reduce = ReduceOp::kSum;
  Order order = Order::kPlan;
  // Hash of what the group's plan chooses (algorithms/plan.h); 0 if the group has no plan.
  std::uint32_t plan = 0;
  friend bool operator==(const Descriptor&, const Descriptor&) noexcept = default;
};

// `salt` identifies the group and its generation (hash_of_group).
std::uint32_t hash(const Descriptor& descriptor, std::uint64_t salt) noexcept;
std::uint64_t hash_of_group(std::string_view name, std::uint64_t generation) noexcept;

// "all_reduce #1042"
std::string title(const Descriptor& descriptor);
// The text after the title: "f32[1024] sum", "f32[8] from root 2", "f32 to root 0" for a gatherv,
// "" for a barrier.
std::string payload_text(const Descriptor& descriptor);
// "all_reduce #1042 (f32[1024] sum)"
std::string text(const Descriptor& descriptor);
// "all_reduce #1042 (f32[1024] sum): `rest`"
std::string with_operation(const Descriptor& descriptor, std::string_view rest);
// "0.25", "600"
std::string seconds_text(std::chrono::nanoseconds span);

// One sentence that quotes both sides. `theirs_who` and `ours_who` are texts like "rank 3 (node2,
// pid 4711)".
std::string mismatch_text(const Descriptor& theirs, std::string_view theirs_who,
                          const Descriptor& ours, std::string_view ours_who);
// mismatch_text() for the counts of one part: what `theirs_who` sent, and what this rank expects.
std::string part_mismatch_text(const Descriptor& descriptor, std::string_view theirs_who,
                               std::uint64_t sent, std::string_view ours_who,
                               std::uint64_t expected);
// Says which rank a send or recv waits for.
std::string missing_message_text(const Descriptor& message, std::string_view who, bool is_silent);
// missing_message_text() for a recv from any source. `departed`: ranks that can no longer send.
std::string missing_sender_text(const Descriptor& message, const std::vector<Identity>& departed);
// For a rank whose process has ended. `link`: how its connection ended, "closed" or "reset".
std::string gone_text(std::string_view who, std::string_view link = "closed");
// "rank 2 (...) has left group 'world' ...". `called`: the sequence number of its last call.
// `had_called`: that rank had called the operation that now waits for it.
std::string text_of_left(std::string_view who, std::string_view group, std::uint64_t called,
                         bool had_called);
// For a process that calls exit() while `count` operations run. `first`: one of them. `missing`:
// what that operation waits for.
std::string unfinished_text(std::string_view who, std::string_view group, const Descriptor& first,
                            std::string_view missing, std::size_t count);

}  // namespace dl::collectives
