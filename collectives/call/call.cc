#include "collectives/call/call.h"

#include <cstring>
#include <vector>

#include "core/base/error.h"

namespace dl::collectives {
namespace {

void check_counts(OpKind op, std::string_view what, std::span<const std::size_t> counts, int size) {
  DL_CHECK(counts.size() == static_cast<std::size_t>(size), kInvalidArgument,
           "{}: {} has {} elements, wanted one for each of {} ranks", name_of(op), what,
           counts.size(), size);
}

struct InputCopy final : RefCounted {
  InputCopy(const Call& call, std::size_t bytes)
      : memory(static_cast<const std::byte*>(call.input),
               static_cast<const std::byte*>(call.input) + bytes),
        owner(call.options->keep_alive) {}
  std::vector<std::byte> memory;
  Ref<RefCounted> owner;
};

}  // namespace

Call make_call(OpKind op, const Arguments& a) noexcept {
  const OpRow& row = row_of(op);
  const auto parts = [&](Side side, std::span<const std::size_t> counts) {
    if (side == Side::kNone) return PartsView();
    if (side == Side::kWhole) return PartsView::whole(a.count);
    if (!row.is_v_variant()) return PartsView::each(a.count);
    return counts.empty() ? PartsView() : PartsView::of(counts);
  };
  Call call{.what = {.op = op},
            .input = a.input,
            .gives = parts(row.input, a.input_counts),
            .output = a.output,
            .takes = parts(row.output, a.output_counts),
            .options = a.options};
  if (row.input == Side::kNone) return call;
  call.what.dtype = a.dtype;
  if (!row.is_v_variant()) call.what.count = a.count;
  if (row.root != Root::kNone) call.what.root = a.root;
  if (row.reduces) {
    call.what.reduce = a.reduce;
    call.what.order = a.options->order;
  }
  return call;
}

Call call_of(const AllReduceOptions& o) noexcept {
  return make_call(OpKind::kAllReduce, {.input = o.input,
                                        .output = o.output,
                                        .count = o.count,
                                        .dtype = o.dtype,
                                        .reduce = o.op,
                                        .options = &o.call});
}

Call call_of(const BroadcastOptions& o) noexcept {
  return make_call(OpKind::kBroadcast, {.input = o.buffer,
                                        .output = o.buffer,
                                        .count = o.count,
                                        .dtype = o.dtype,
                                        .root = o.root,
                                        .options = &o.call});
}

Call call_of(const AllGatherOptions& o) noexcept {
  return make_call(OpKind::kAllGather, {.input = o.input,
                                        .output = o.output,
                                        .count = o.count,
                                        .dtype = o.dtype,
                                        .options = &o.call});
}

Call call_of(const ReduceScatterOptions& o) noexcept {
  return make_call(OpKind::kReduceScatter, {.input = o.input,
                                            .output = o.output,
                                            .count = o.count,
                                            .dtype = o.dtype,
                                            .reduce = o.op,
                                            .options = &o.call});
}

Call call_of(const ReduceOptions& o) noexcept {
  return make_call(OpKind::kReduce, {.input = o.input,
                                     .output = o.output,
                                     .count = o.count,
                                     .dtype = o.dtype,
                                     .reduce = o.op,
                                     .root = o.root,
                                     .options = &o.call});
}

Call call_of(const GatherOptions& o) noexcept {
  return make_call(OpKind::kGather, {.input = o.input,
                                     .output = o.output,
                                     .count = o.count,
                                     .dtype = o.dtype,
                                     .root = o.root,
                                     .options = &o.call});
}

Call call_of(const ScatterOptions& o) noexcept {
  return make_call(OpKind::kScatter, {.input = o.input,
                                      .output = o.output,
                                      .count = o.count,
                                      .dtype = o.dtype,
                                      .root = o.root,
                                      .options = &o.call});
}

Call call_of(const AllToAllOptions& o) noexcept {
  return make_call(OpKind::kAllToAll, {.input = o.input,
                                       .output = o.output,
                                       .count = o.count,
                                       .dtype = o.dtype,
                                       .options = &o.call});
}

Call call_of(const BarrierOptions& o) noexcept {
  return make_call(OpKind::kBarrier, {.options = &o.call});
}

Call make_call(OpKind op, Arguments a, int rank, int size) {
  const OpRow& row = row_of(op);
  if (!row.is_v_variant()) return make_call(op, a);
  const bool has_two = row.input == row.output;
  const auto take = [&](std::span<const std::size_t>& counts, Side side, Root root,
                        std::string_view name) {
    if (side == Side::kEach && (row.root != root || rank == a.root)) {
      return check_counts(op, has_two ? name : "counts", counts, size);
    }
    counts = {};
  };
  take(a.input_counts, row.input, Root::kGives, "send_counts");
  take(a.output_counts, row.output, Root::kTakes, "receive_counts");
  if (row.has_common_count) {
    const auto counts = row.input == Side::kEach ? a.input_counts : a.output_counts;
    a.count = counts[static_cast<std::size_t>(rank)];
  }
  return make_call(op, a);
}

Call call_of(const AllGathervOptions& o, int rank, int size) {
  return make_call(OpKind::kAllGatherv,
                   {.input = o.input,
                    .output = o.output,
                    .output_counts = o.counts,
                    .dtype = o.dtype,
                    .options = &o.call},
                   rank, size);
}

Call call_of(const ReduceScattervOptions& o, int rank, int size) {
  return make_call(OpKind::kReduceScatterv,
                   {.input = o.input,
                    .output = o.output,
                    .input_counts = o.counts,
                    .dtype = o.dtype,
                    .reduce = o.op,
                    .options = &o.call},
                   rank, size);
}

Call call_of(const GathervOptions& o, int rank, int size) {
  return make_call(OpKind::kGatherv,
                   {.input = o.input,
                    .output = o.output,
                    .count = o.count,
                    .output_counts = o.counts,
                    .dtype = o.dtype,
                    .root = o.root,
                    .options = &o.call},
                   rank, size);
}

Call call_of(const ScattervOptions& o, int rank, int size) {
  return make_call(OpKind::kScatterv,
                   {.input = o.input,
                    .output = o.output,
                    .count = o.count,
                    .input_counts = o.counts,
                    .dtype = o.dtype,
                    .root = o.root,
                    .options = &o.call},
                   rank, size);
}

Call call_of(const AllToAllvOptions& o, int rank, int size) {
  return make_call(OpKind::kAllToAllv,
                   {.input = o.input,
                    .output = o.output,
                    .input_counts = o.send_counts,
                    .output_counts = o.receive_counts,
                    .dtype = o.dtype,
                    .options = &o.call},
                   rank, size);
}

Call call_of(const SendOptions& o) noexcept {
  return {.what = {.count = o.count,
                   .root = static_cast<std::int32_t>(o.tag),
                   .op = OpKind::kSend,
                   .dtype = o.dtype},
          .input = o.buffer,
          .gives = PartsView::whole(o.count),
          .peer = o.peer,
          .options = &o.call};
}

Call call_of(const RecvOptions& o) noexcept {
  return {.what = {.count = o.count,
                   .root = static_cast<std::int32_t>(o.tag),
                   .op = OpKind::kRecv,
                   .dtype = o.dtype},
          .output = o.buffer,
          .takes = PartsView::whole(o.count),
          .peer = o.peer,
          .options = &o.call};
}

Call call_of(const PeerMessage& message) noexcept {
  const auto* const to = std::get_if<SendOptions>(&message);
  return to != nullptr ? call_of(*to) : call_of(*std::get_if<RecvOptions>(&message));
}

const CallOptions& options_of(const PeerMessage& message) noexcept {
  const auto* const to = std::get_if<SendOptions>(&message);
  return to != nullptr ? to->call : std::get_if<RecvOptions>(&message)->call;
}

void copy_own_part(const Call& call, int rank) noexcept {
  if (call.row().reduces || !call.reads(rank) || !call.writes(rank)) return;
  const std::size_t element = size_of(call.what.dtype);
  const std::size_t bytes = call.takes.count(rank) * element;
  const auto* const from =
      static_cast<const std::byte*>(call.input) + call.gives.before(rank) * element;
  auto* const to = static_cast<std::byte*>(call.output) + call.takes.before(rank) * element;
  if (bytes > 0 && from != to) std::memcpy(to, from, bytes);
}

SeparateCall::SeparateCall(const Call& call, int size) : options_(*call.options), call_(call) {
  const auto copy = make_ref<InputCopy>(call, call.gives.all(size) * size_of(call.what.dtype));
  call_.input = copy->memory.data();
  call_.options = &options_;
  options_.keep_alive = copy;
}

}  // namespace dl::collectives
