#include "collectives/bench/operation/operation.h"

#include "collectives/bench/operation/bare_ring.h"
#include "collectives/bench/operation/values.h"

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
std::size_t own_part(const ProcessGroup& g, const Call& c) {
  return static_cast<std::size_t>(g.rank()) * c.count;
}

// Fills one part for every rank with its values, beginning with place `from`. Returns the total
// number of elements.
std::size_t fill_parts(const ProcessGroup& g, const Call& c, std::byte* to, std::size_t from) {
  for (int rank = 0; rank < g.size(); ++rank) {
    fill(c.dtype, rank, to, c.count, from);
    to += c.count * size_of(c.dtype);
  }
  return c.count * static_cast<std::size_t>(g.size());
}

std::size_t expect_all_parts(const ProcessGroup& g, const Call& c, std::byte* wanted) {
  return fill_parts(g, c, wanted, 0);
}

std::size_t expect_parts_on_root(const ProcessGroup& g, const Call& c, std::byte* wanted) {
  return g.rank() == c.root ? fill_parts(g, c, wanted, 0) : 0;
}

std::size_t expect_own_sum(const ProcessGroup& g, const Call& c, std::byte* wanted) {
  fill_reduced(c.dtype, c.reduce, g.size(), wanted, c.count, own_part(g, c));
  return c.count;
}

std::size_t expect_own_part_of_root(const ProcessGroup& g, const Call& c, std::byte* wanted) {
  fill(c.dtype, c.root, wanted, c.count, own_part(g, c));
  return c.count;
}

std::size_t expect_own_parts_of_all(const ProcessGroup& g, const Call& c, std::byte* wanted) {
  return fill_parts(g, c, wanted, own_part(g, c));
}

std::size_t expect_of_left(const ProcessGroup& g, const Call& c, std::byte* wanted) {
  fill(c.dtype, left_of(g), wanted, c.count, 0);
  return c.count;
}

constexpr Operation kOperations[] = {
    {.name = "all_reduce",
     .perf_name = "all_reduce_perf",
     .share = Share::kWhole,
     .place = Place::kEither,
     .reduces = true,
     .rooted = false,
     .bus_factor = twice_share_of_others,
     .start = [](ProcessGroup& g, const Call& c) -> Ref<Work> {
       return g.all_reduce({.input = c.input,
                            .output = c.output,
                            .count = c.count,
                            .dtype = c.dtype,
                            .op = c.reduce,
                            .call = c.options});
     },
     .expect = [](const ProcessGroup& g, const Call& c, std::byte* wanted) -> std::size_t {
       fill_reduced(c.dtype, c.reduce, g.size(), wanted, c.count, 0);
       return c.count;
     }},
    {.name = "broadcast",
     .perf_name = "broadcast_perf",
     .share = Share::kWhole,
     .place = Place::kInOnly,
     .reduces = false,
     .rooted = true,
     .bus_factor = one,
     .start = [](ProcessGroup& g, const Call& c) -> Ref<Work> {
       return g.broadcast({.buffer = c.output,
                           .count = c.count,
                           .dtype = c.dtype,
                           .root = c.root,
                           .call = c.options});
     },
     .expect = [](const ProcessGroup&, const Call& c, std::byte* wanted) -> std::size_t {
       fill(c.dtype, c.root, wanted, c.count, 0);
       return c.count;
     }},
    {.name = "all_gather",
     .perf_name = "all_gather_perf",
     .share = Share::kGathers,
     .place = Place::kEither,
     .reduces = false,
     .rooted = false,
     .bus_factor = share_of_others,
     .start = [](ProcessGroup& g, const Call& c) -> Ref<Work> {
       return g.all_gather({.input = c.input,
                            .output = c.output,
                            .count = c.count,
                            .dtype = c.dtype,
                            .call = c.options});
     },
     .expect = expect_all_parts},
    {.name = "reduce_scatter",
     .perf_name = "reduce_scatter_perf",
     .share = Share::kScatters,
     .place = Place::kEither,
     .reduces = true,
     .rooted = false,
     .bus_factor = share_of_others,
     .start = [](ProcessGroup& g, const Call& c) -> Ref<Work> {
       return g.reduce_scatter({.input = c.input,
                                .output = c.output,
                                .count = c.count,
                                .dtype = c.dtype,
                                .op = c.reduce,
                                .call = c.options});
     },
     .expect = expect_own_sum},
    {.name = "reduce",
     .perf_name = "reduce_perf",
     .share = Share::kWhole,
     .place = Place::kEither,
     .reduces = true,
     .rooted = true,
     .bus_factor = one,
     .start = [](ProcessGroup& g, const Call& c) -> Ref<Work> {
       return g.reduce({.input = c.input,
                        .output = c.output,
                        .count = c.count,
                        .dtype = c.dtype,
                        .op = c.reduce,
                        .root = c.root,
                        .call = c.options});
     },
     .expect = [](const ProcessGroup& g, const Call& c, std::byte* wanted) -> std::size_t {
       if (g.rank() != c.root) return 0;
       fill_reduced(c.dtype, c.reduce, g.size(), wanted, c.count, 0);
       return c.count;
     }},
    {.name = "gather",
     .perf_name = "gather_perf",
     .share = Share::kGathers,
     .place = Place::kEither,
     .reduces = false,
     .rooted = true,
     .bus_factor = share_of_others,
     .start = [](ProcessGroup& g, const Call& c) -> Ref<Work> {
       return g.gather({.input = c.input,
                        .output = c.output,
                        .count = c.count,
                        .dtype = c.dtype,
                        .root = c.root,
                        .call = c.options});
     },
     .expect = expect_parts_on_root},
    {.name = "scatter",
     .perf_name = "scatter_perf",
     .share = Share::kScatters,
     .place = Place::kEither,
     .reduces = false,
     .rooted = true,
     .bus_factor = share_of_others,
     .start = [](ProcessGroup& g, const Call& c) -> Ref<Work> {
       return g.scatter({.input = c.input,
                         .output = c.output,
                         .count = c.count,
                         .dtype = c.dtype,
                         .root = c.root,
                         .call = c.options});
     },
     .expect = expect_own_part_of_root},
    {.name = "all_to_all",
     .perf_name = "alltoall_perf",
     .share = Share::kExchanges,
     .place = Place::kEither,
     .reduces = false,
     .rooted = false,
     .bus_factor = share_of_others,
     .start = [](ProcessGroup& g, const Call& c) -> Ref<Work> {
       return g.all_to_all({.input = c.input,
                            .output = c.output,
                            .count = c.count,
                            .dtype = c.dtype,
                            .call = c.options});
     },
     .expect = expect_own_parts_of_all},
    // The v-variants with equal parts, to compare their cost with the fixed-count forms.
    {.name = "all_gatherv",
     .perf_name = "",
     .share = Share::kGathers,
     .place = Place::kEither,
     .reduces = false,
     .rooted = false,
     .bus_factor = share_of_others,
     .start = [](ProcessGroup& g, const Call& c) -> Ref<Work> {
       return g.all_gatherv({.input = c.input,
                             .output = c.output,
                             .counts = c.counts,
                             .dtype = c.dtype,
                             .call = c.options});
     },
     .expect = expect_all_parts},
    {.name = "reduce_scatterv",
     .perf_name = "",
     .share = Share::kScatters,
     .place = Place::kEither,
     .reduces = true,
     .rooted = false,
     .bus_factor = share_of_others,
     .start = [](ProcessGroup& g, const Call& c) -> Ref<Work> {
       return g.reduce_scatterv({.input = c.input,
                                 .output = c.output,
                                 .counts = c.counts,
                                 .dtype = c.dtype,
                                 .op = c.reduce,
                                 .call = c.options});
     },
     .expect = expect_own_sum},
    {.name = "gatherv",
     .perf_name = "",
     .share = Share::kGathers,
     .place = Place::kEither,
     .reduces = false,
     .rooted = true,
     .bus_factor = share_of_others,
     .start = [](ProcessGroup& g, const Call& c) -> Ref<Work> {
       return g.gatherv({.input = c.input,
                         .count = c.count,
                         .output = c.output,
                         .counts = c.counts,
                         .dtype = c.dtype,
                         .root = c.root,
                         .call = c.options});
     },
     .expect = expect_parts_on_root},
    {.name = "scatterv",
     .perf_name = "",
     .share = Share::kScatters,
     .place = Place::kEither,
     .reduces = false,
     .rooted = true,
     .bus_factor = share_of_others,
     .start = [](ProcessGroup& g, const Call& c) -> Ref<Work> {
       return g.scatterv({.input = c.input,
                          .counts = c.counts,
                          .output = c.output,
                          .count = c.count,
                          .dtype = c.dtype,
                          .root = c.root,
                          .call = c.options});
     },
     .expect = expect_own_part_of_root},
    {.name = "all_to_allv",
     .perf_name = "",
     .share = Share::kExchanges,
     .place = Place::kEither,
     .reduces = false,
     .rooted = false,
     .bus_factor = share_of_others,
     .start = [](ProcessGroup& g, const Call& c) -> Ref<Work> {
       return g.all_to_allv({.input = c.input,
                             .send_counts = c.counts,
                             .output = c.output,
                             .receive_counts = c.counts,
                             .dtype = c.dtype,
                             .call = c.options});
     },
     .expect = expect_own_parts_of_all},
    // Sends to the right neighbour and receives from the left one at once, as nccl-tests' sendrecv.
    {.name = "sendrecv",
     .perf_name = "sendrecv_perf",
     .share = Share::kWhole,
     .place = Place::kOutOnly,
     .reduces = false,
     .rooted = false,
     .bus_factor = one,
     .start = [](ProcessGroup& g, const Call& c) -> Ref<Work> {
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
     },
     .expect = expect_of_left},
    // The bytes that an all_reduce of this size must at least move, over plain sockets.
    {.name = "floor",
     .perf_name = "",
     .share = Share::kWhole,
     .place = Place::kOutOnly,
     .reduces = false,
     .rooted = false,
     .bare = true,
     .bus_factor = twice_share_of_others,
     .start = [](ProcessGroup&, const Call& c) -> Ref<Work> { return c.ring->exchange(c); },
     .expect = expect_of_left},
    {.name = "barrier",
     .perf_name = "",
     .share = Share::kWhole,
     .place = Place::kInOnly,
     .reduces = false,
     .rooted = false,
     .bus_factor = none,
     .start = [](ProcessGroup& g, const Call& c) -> Ref<Work> {
       return g.barrier({.call = c.options});
     },
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

std::optional<OpKind> kind_of(const Operation& operation) noexcept {
  for (std::size_t i = 0; i < kOpKindCount; ++i) {
    if (name_of(static_cast<OpKind>(i)) == operation.name) return static_cast<OpKind>(i);
  }
  // sendrecv is a send and a receive.
  return operation.bare ? std::nullopt : std::optional(OpKind::kSend);
}

}  // namespace dl::collectives::bench
