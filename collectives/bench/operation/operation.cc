#include "collectives/bench/operation/operation.h"

#include "collectives/bench/operation/bare_ring.h"
#include "collectives/bench/operation/values.h"
#include "collectives/call/checks.h"

namespace dl::collectives::bench {
namespace {

double share_of_others(double p) {
  return (p - 1) / p;
}
double twice_share_of_others(double p) {
  return 2 * (p - 1) / p;
}
double one(double) {
  return 1;
}
double none(double) {
  return 0;
}

int right_of(const ProcessGroup& g) {
  return (g.rank() + 1) % g.size();
}
int left_of(const ProcessGroup& g) {
  return (g.rank() + g.size() - 1) % g.size();
}

// The offset of this rank's part.
std::size_t own_part(const ProcessGroup& g, const TimedCall& c) {
  return static_cast<std::size_t>(g.rank()) * c.count;
}

// Fills one part for every rank with that rank's values from place `from` on. Returns the total
// number of elements.
std::size_t fill_parts(const ProcessGroup& g, const TimedCall& c, std::byte* to, std::size_t from) {
  for (int rank = 0; rank < g.size(); ++rank) {
    fill(c.dtype, rank, to, c.count, from);
    to += c.count * size_of(c.dtype);
  }
  return c.count * static_cast<std::size_t>(g.size());
}

std::size_t expect_all_parts(const ProcessGroup& g, const TimedCall& c, std::byte* wanted) {
  return fill_parts(g, c, wanted, 0);
}

std::size_t expect_parts_on_root(const ProcessGroup& g, const TimedCall& c, std::byte* wanted) {
  return g.rank() == c.root ? fill_parts(g, c, wanted, 0) : 0;
}

std::size_t expect_own_sum(const ProcessGroup& g, const TimedCall& c, std::byte* wanted) {
  fill_reduced(c.dtype, c.reduce, g.size(), wanted, c.count, own_part(g, c));
  return c.count;
}

std::size_t expect_own_part_of_root(const ProcessGroup& g, const TimedCall& c, std::byte* wanted) {
  fill(c.dtype, c.root, wanted, c.count, own_part(g, c));
  return c.count;
}

std::size_t expect_own_parts_of_all(const ProcessGroup& g, const TimedCall& c, std::byte* wanted) {
  return fill_parts(g, c, wanted, own_part(g, c));
}

std::size_t expect_of_left(const ProcessGroup& g, const TimedCall& c, std::byte* wanted) {
  fill(c.dtype, left_of(g), wanted, c.count, 0);
  return c.count;
}

std::size_t expect_sum(const ProcessGroup& g, const TimedCall& c, std::byte* wanted) {
  fill_reduced(c.dtype, c.reduce, g.size(), wanted, c.count, 0);
  return c.count;
}

std::size_t expect_sum_on_root(const ProcessGroup& g, const TimedCall& c, std::byte* wanted) {
  return g.rank() == c.root ? expect_sum(g, c, wanted) : 0;
}

std::size_t expect_of_root(const ProcessGroup&, const TimedCall& c, std::byte* wanted) {
  fill(c.dtype, c.root, wanted, c.count, 0);
  return c.count;
}

constexpr Operation kOperations[] = {
    {.name = "all_reduce",
     .perf_name = "all_reduce_perf",
     .kind = OpKind::kAllReduce,
     .place = Place::kEither,
     .bus_factor = twice_share_of_others,
     .expect = expect_sum},
    {.name = "broadcast",
     .perf_name = "broadcast_perf",
     .kind = OpKind::kBroadcast,
     .place = Place::kInOnly,
     .bus_factor = one,
     .expect = expect_of_root},
    {.name = "all_gather",
     .perf_name = "all_gather_perf",
     .kind = OpKind::kAllGather,
     .place = Place::kEither,
     .bus_factor = share_of_others,
     .expect = expect_all_parts},
    {.name = "reduce_scatter",
     .perf_name = "reduce_scatter_perf",
     .kind = OpKind::kReduceScatter,
     .place = Place::kEither,
     .bus_factor = share_of_others,
     .expect = expect_own_sum},
    {.name = "reduce",
     .perf_name = "reduce_perf",
     .kind = OpKind::kReduce,
     .place = Place::kEither,
     .bus_factor = one,
     .expect = expect_sum_on_root},
    {.name = "gather",
     .perf_name = "gather_perf",
     .kind = OpKind::kGather,
     .place = Place::kEither,
     .bus_factor = share_of_others,
     .expect = expect_parts_on_root},
    {.name = "scatter",
     .perf_name = "scatter_perf",
     .kind = OpKind::kScatter,
     .place = Place::kEither,
     .bus_factor = share_of_others,
     .expect = expect_own_part_of_root},
    {.name = "all_to_all",
     .perf_name = "alltoall_perf",
     .kind = OpKind::kAllToAll,
     .place = Place::kEither,
     .bus_factor = share_of_others,
     .expect = expect_own_parts_of_all},
    // The v-variants with equal parts, to compare their cost with the fixed-count forms.
    {.name = "all_gatherv",
     .perf_name = "",
     .kind = OpKind::kAllGatherv,
     .place = Place::kEither,
     .bus_factor = share_of_others,
     .expect = expect_all_parts},
    {.name = "reduce_scatterv",
     .perf_name = "",
     .kind = OpKind::kReduceScatterv,
     .place = Place::kEither,
     .bus_factor = share_of_others,
     .expect = expect_own_sum},
    {.name = "gatherv",
     .perf_name = "",
     .kind = OpKind::kGatherv,
     .place = Place::kEither,
     .bus_factor = share_of_others,
     .expect = expect_parts_on_root},
    {.name = "scatterv",
     .perf_name = "",
     .kind = OpKind::kScatterv,
     .place = Place::kEither,
     .bus_factor = share_of_others,
     .expect = expect_own_part_of_root},
    {.name = "all_to_allv",
     .perf_name = "",
     .kind = OpKind::kAllToAllv,
     .place = Place::kEither,
     .bus_factor = share_of_others,
     .expect = expect_own_parts_of_all},
    // Sends to the right neighbour and receives from the left one at once, as nccl-tests' sendrecv.
    {.name = "sendrecv",
     .perf_name = "sendrecv_perf",
     .kind = OpKind::kSend,
     .place = Place::kOutOnly,
     .bus_factor = one,
     .expect = expect_of_left,
     .start_own = [](ProcessGroup& g, const TimedCall& c) -> Ref<Work> {
       return g.sendrecv({.buffer = c.input,
                          .count = c.count,
                          .dtype = c.dtype,
                          .peer = right_of(g),
                          .call = c.options},
                         {.buffer = c.output,
                          .count = c.count,
                          .dtype = c.dtype,
                          .peer = left_of(g),
                          .call = c.options});
     }},
    // The bytes that an all_reduce of this size must at least move, over plain sockets.
    {.name = "floor",
     .perf_name = "",
     .kind = std::nullopt,
     .place = Place::kOutOnly,
     .bus_factor = twice_share_of_others,
     .expect = expect_of_left,
     .start_own = [](ProcessGroup&, const TimedCall& c) -> Ref<Work> {
       return c.ring->exchange(c);
     }},
    {.name = "barrier",
     .perf_name = "",
     .kind = OpKind::kBarrier,
     .place = Place::kInOnly,
     .bus_factor = none,
     .expect = nullptr},
};

}  // namespace

std::span<const Operation> operations() noexcept {
  return kOperations;
}

const Operation* find_operation(std::string_view name) noexcept {
  for (const Operation& each : kOperations) {
    if (name == each.name || (name == each.perf_name && !name.empty())) return &each;
  }
  return nullptr;
}

Ref<Work> Operation::start(ProcessGroup& group, const TimedCall& c) const {
  if (start_own != nullptr) return start_own(group, c);
  const OpRow& row = row_of(*kind);
  const bool has_parts = row.root == Root::kNone || group.rank() == c.root;
  const std::span<const std::size_t> counts =
      has_parts ? std::span<const std::size_t>(c.counts) : std::span<const std::size_t>();
  Call call = make_call(*kind, {.input = row.op == OpKind::kBroadcast ? c.output : c.input,
                                .output = c.output,
                                .count = c.count,
                                .input_counts = counts,
                                .output_counts = counts,
                                .dtype = c.dtype,
                                .reduce = c.reduce,
                                .root = c.root,
                                .options = &c.options});
  check(call, group.rank(), group.size());
  return group.start(call);
}

Share Operation::share() const noexcept {
  if (!kind || row_of(*kind).is_message) return Share::kWhole;
  const OpRow& row = row_of(*kind);
  if (row.input == Side::kEach) {
    return row.output == Side::kEach ? Share::kExchanges : Share::kScatters;
  }
  return row.output == Side::kEach ? Share::kGathers : Share::kWhole;
}

}  // namespace dl::collectives::bench
