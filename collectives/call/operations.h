// The table of operations: how each of them uses its buffers. Checks, staged copies and the
// backends read it, so that none of them lists the operations again. Constants; any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace dl::collectives {

enum class OpKind : std::uint8_t {
  kAllReduce,
  kBroadcast,
  kAllGather,
  kReduceScatter,
  kBarrier,
  kSend,
  kRecv,
  kReduce,
  kGather,
  kScatter,
  kAllToAll,
  kAllGatherv,
  kReduceScatterv,
  kGatherv,
  kScatterv,
  kAllToAllv
};
inline constexpr std::size_t kOpKindCount = 16;

// How a buffer is divided among the ranks.
enum class Side : std::uint8_t {
  kNone,
  kWhole,  // all of it for every rank
  kEach    // a part for each rank, in rank order
};

enum class Root : std::uint8_t {
  kNone,
  kGives,  // the root's input alone is read
  kTakes   // the root's output alone is written
};

struct OpRow {
  OpKind op;
  std::string_view name;
  Side input;
  Side output;
  Root root = Root::kNone;
  bool reduces = false;
  bool is_message = false;
  OpKind fixed_count = op;  // of a v-variant: the operation whose parts have equal counts
  // False if some ranks know only their own counts.
  bool has_common_count = true;

  constexpr bool is_v_variant() const noexcept { return fixed_count != op; }
  // True for a reduction in which each rank gets a part of the result.
  constexpr bool scatters_sum() const noexcept { return reduces && input == Side::kEach; }
};

// clang-format off
inline constexpr std::array<OpRow, kOpKindCount> kOperations{{
    {OpKind::kAllReduce,      "all_reduce",      Side::kWhole, Side::kWhole, Root::kNone,  true},
    {OpKind::kBroadcast,      "broadcast",       Side::kWhole, Side::kWhole, Root::kGives},
    {OpKind::kAllGather,      "all_gather",      Side::kWhole, Side::kEach},
    {OpKind::kReduceScatter,  "reduce_scatter",  Side::kEach,  Side::kWhole, Root::kNone,  true},
    {OpKind::kBarrier,        "barrier",         Side::kNone,  Side::kNone},
    {OpKind::kSend,           "send",            Side::kWhole, Side::kNone,  Root::kNone,  false, true},
    {OpKind::kRecv,           "recv",            Side::kNone,  Side::kWhole, Root::kNone,  false, true},
    {OpKind::kReduce,         "reduce",          Side::kWhole, Side::kWhole, Root::kTakes, true},
    {OpKind::kGather,         "gather",          Side::kWhole, Side::kEach,  Root::kTakes},
    {OpKind::kScatter,        "scatter",         Side::kEach,  Side::kWhole, Root::kGives},
    {OpKind::kAllToAll,       "all_to_all",      Side::kEach,  Side::kEach},
    {OpKind::kAllGatherv,     "all_gatherv",     Side::kWhole, Side::kEach,  Root::kNone,  false, false, OpKind::kAllGather},
    {OpKind::kReduceScatterv, "reduce_scatterv", Side::kEach,  Side::kWhole, Root::kNone,  true,  false, OpKind::kReduceScatter},
    {OpKind::kGatherv,        "gatherv",         Side::kWhole, Side::kEach,  Root::kTakes, false, false, OpKind::kGather,   false},
    {OpKind::kScatterv,       "scatterv",        Side::kEach,  Side::kWhole, Root::kGives, false, false, OpKind::kScatter,  false},
    {OpKind::kAllToAllv,      "all_to_allv",     Side::kEach,  Side::kEach,  Root::kNone,  false, false, OpKind::kAllToAll, false},
}};
// clang-format on

constexpr const OpRow& row_of(OpKind op) noexcept {
  return kOperations[static_cast<std::size_t>(op)];
}
static_assert([] {
  for (std::size_t i = 0; i < kOpKindCount; ++i) {
    if (kOperations[i].op != static_cast<OpKind>(i)) return false;
  }
  return true;
}());

// "all_reduce", "broadcast", ...
constexpr std::string_view name_of(OpKind op) noexcept {
  return row_of(op).name;
}

}  // namespace dl::collectives
