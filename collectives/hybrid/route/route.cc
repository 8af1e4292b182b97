#include "collectives/hybrid/route/route.h"

#include <algorithm>
#include <memory>

#include "collectives/algorithms/schedule.h"

namespace dl::collectives::hybrid {
namespace {

// A slice should keep a link between nodes busy for longer than it takes to start one (about 50
// us). An operation should have many slices, because its first and last steps overlap with nothing.
constexpr std::size_t kLeastSliceBytes = 256 * 1024;
constexpr std::size_t kMostSliceBytes = 4 * 1024 * 1024;
constexpr std::size_t kSlices = 16;

std::byte* at(const void* base, std::size_t elements, DType dtype) noexcept {
  return static_cast<std::byte*>(const_cast<void*>(base)) + elements * size_of(dtype);
}

// Bytes that a rank may send in total if one TCP exchange among all ranks is to be the fastest way.
constexpr std::size_t kSmallBytes = 64 * 1024;

bool is_small(std::size_t count, DType dtype, std::size_t ranks) noexcept {
  return count * size_of(dtype) <= kSmallBytes / std::max<std::size_t>(ranks - 1, 1);
}

// Elements of a slice, a multiple of `of`.
std::size_t slice_elements(std::size_t count, DType dtype, std::size_t of) noexcept {
  const std::size_t bytes =
      std::clamp(count * size_of(dtype) / kSlices, kLeastSliceBytes, kMostSliceBytes);
  return std::max(of, bytes / size_of(dtype) / of * of);
}

// A rank's place in its lanes.
struct Seat {
  Seat(const Places& places, int rank)
      : node(places.node_of[static_cast<std::size_t>(rank)]),
        index(static_cast<std::size_t>(places.index_of[static_cast<std::size_t>(rank)])),
        carriers(static_cast<std::size_t>(places.carriers())),
        is_carrier(index < carriers) {}
  int node;
  std::size_t index;
  std::size_t carriers;
  bool is_carrier;
};

// The place of one slice in a buffer, and whether its ranks share it.
struct Piece {
  std::size_t begin;
  std::size_t count;
  bool is_shared_out;  // every rank of the node carries a share; else the carriers carry it whole
};

// Cuts [0, count) into slices; the rest that cannot be divided evenly comes last, as a whole.
std::vector<Piece> cut(std::size_t count, DType dtype, std::size_t carriers) {
  std::vector<Piece> pieces;
  const std::size_t even = carriers > 1 ? count / carriers * carriers : count;
  const std::size_t most = slice_elements(count, dtype, carriers);
  for (std::size_t begin = 0; begin < even; begin += most) {
    pieces.push_back({begin, std::min(most, even - begin), carriers > 1});
  }
  if (even < count) pieces.push_back({even, count - even, false});
  return pieces;
}

// A call whose options are set when it starts.
template <typename Options>
Call lane_call(const Options& options) noexcept {
  Call call = call_of(options);
  call.options = nullptr;
  return call;
}

// Memory for partial sums of a reduce_scatter.
struct Partial final : RefCounted {
  explicit Partial(std::size_t bytes)
      : memory(std::make_unique_for_overwrite<std::byte[]>(bytes)) {}
  std::unique_ptr<std::byte[]> memory;
};

std::vector<Slice> route_all_reduce(const Call& call, const Places& places, int rank) {
  const Descriptor& o = call.what;
  const Seat seat(places, rank);
  const bool divides = o.reduce == ReduceOp::kAvg;
  const ReduceOp op = divides ? ReduceOp::kSum : o.reduce;
  const bool all_carry = places.is_even;
  std::vector<Slice> slices;
  for (const Piece& piece : cut(o.count, o.dtype, seat.carriers)) {
    const std::byte* const input = at(call.input, piece.begin, o.dtype);
    std::byte* const output = at(call.output, piece.begin, o.dtype);
    Slice slice;
    auto& [in, cross, out] = slice.calls;
    std::byte* sum = output;
    std::size_t count = piece.count;
    if (piece.is_shared_out) {
      count /= seat.carriers;
      sum = at(output, seat.index * count, o.dtype);
      in = lane_call(ReduceScatterOptions{
          .input = input, .output = sum, .count = count, .dtype = o.dtype, .op = op});
      out = lane_call(
          AllGatherOptions{.input = sum, .output = output, .count = count, .dtype = o.dtype});
    } else if (all_carry) {
      // Fewer elements than ranks: all ranks sum them, and all carry them.
      in = lane_call(AllReduceOptions{
          .input = input, .output = sum, .count = count, .dtype = o.dtype, .op = op});
    } else {
      in = lane_call(
          ReduceOptions{.input = input, .output = sum, .count = count, .dtype = o.dtype, .op = op});
      out = lane_call(BroadcastOptions{.buffer = output, .count = count, .dtype = o.dtype});
    }
    if (seat.is_carrier) {
      cross = lane_call(AllReduceOptions{
          .input = sum, .output = sum, .count = count, .dtype = o.dtype, .op = op});
      if (divides) {
        slice.division = {sum, count, o.dtype, static_cast<int>(places.node_of.size())};
      }
    }
    slices.push_back(slice);
  }
  return slices;
}

std::vector<Slice> route_broadcast(const Call& call, const Places& places, int rank) {
  const Descriptor& o = call.what;
  const Seat seat(places, rank);
  const auto root = static_cast<std::size_t>(o.root);
  const int from = places.node_of[root];
  std::vector<Slice> slices;
  for (const Piece& piece : cut(o.count, o.dtype, seat.carriers)) {
    std::byte* const data = at(call.output, piece.begin, o.dtype);
    Slice slice;
    auto& [in, cross, out] = slice.calls;
    std::byte* share = data;
    std::size_t count = piece.count;
    if (piece.is_shared_out) {
      count /= seat.carriers;
      share = at(data, seat.index * count, o.dtype);
    }
    if (seat.node == from) {
      in = lane_call(BroadcastOptions{
          .buffer = data, .count = piece.count, .dtype = o.dtype, .root = places.index_of[root]});
    } else if (piece.is_shared_out) {
      out = lane_call(
          AllGatherOptions{.input = share, .output = data, .count = count, .dtype = o.dtype});
    } else if (!places.is_even) {
      out = lane_call(BroadcastOptions{.buffer = data, .count = count, .dtype = o.dtype});
    }
    if (seat.is_carrier) {
      cross = lane_call(
          BroadcastOptions{.buffer = share, .count = count, .dtype = o.dtype, .root = from});
    }
    slices.push_back(slice);
  }
  return slices;
}

// A slice is what the ranks of one node give.
std::vector<Slice> route_all_gather(const Call& call, const Places& places, int rank) {
  const Descriptor& o = call.what;
  const Seat seat(places, rank);
  std::vector<Slice> slices(places.nodes.size());
  for (std::size_t node = 0; node < slices.size(); ++node) {
    std::byte* const parts = at(call.output, node * seat.carriers * o.count, o.dtype);
    std::byte* const part = at(parts, seat.index * o.count, o.dtype);
    auto& [in, cross, out] = slices[node].calls;
    cross = lane_call(BroadcastOptions{
        .buffer = part, .count = o.count, .dtype = o.dtype, .root = static_cast<int>(node)});
    out = lane_call(
        AllGatherOptions{.input = part, .output = parts, .count = o.count, .dtype = o.dtype});
  }
  return slices;
}

// A slice is what the ranks of one node receive. `partial`: memory for sums, [nodes, count].
std::vector<Slice> route_reduce_scatter(const Call& call, const Places& places, int rank,
                                        void* partial) {
  const Descriptor& o = call.what;
  const Seat seat(places, rank);
  const bool divides = o.reduce == ReduceOp::kAvg;
  const ReduceOp op = divides ? ReduceOp::kSum : o.reduce;
  std::vector<Slice> slices(places.nodes.size());
  for (std::size_t node = 0; node < slices.size(); ++node) {
    std::byte* const sum = at(partial, node * o.count, o.dtype);
    auto& [in, cross, out] = slices[node].calls;
    in = lane_call(
        ReduceScatterOptions{.input = at(call.input, node * seat.carriers * o.count, o.dtype),
                             .output = sum,
                             .count = o.count,
                             .dtype = o.dtype,
                             .op = op});
    const bool is_ours = static_cast<int>(node) == seat.node;
    cross = lane_call(ReduceOptions{.input = sum,
                                    .output = is_ours ? call.output : nullptr,
                                    .count = o.count,
                                    .dtype = o.dtype,
                                    .op = op,
                                    .root = static_cast<int>(node)});
    if (is_ours && divides) {
      slices[node].division = {call.output, o.count, o.dtype,
                               static_cast<int>(places.node_of.size())};
    }
  }
  return slices;
}

}  // namespace

std::optional<Route> route(const Call& call, const Places& places, int rank) {
  const Descriptor& o = call.what;
  if (is_small(o.count, o.dtype, places.node_of.size())) return std::nullopt;
  if (wants_raw_shares(o)) return std::nullopt;
  switch (o.op) {
    case OpKind::kAllReduce:
      return Route{.slices = route_all_reduce(call, places, rank)};
    case OpKind::kBroadcast:
      return Route{.slices = route_broadcast(call, places, rank)};
    case OpKind::kAllGather:
      if (!places.is_in_order) return std::nullopt;
      return Route{.slices = route_all_gather(call, places, rank)};
    case OpKind::kReduceScatter: {
      if (!places.is_in_order) return std::nullopt;
      auto partial = make_ref<Partial>(places.nodes.size() * o.count * size_of(o.dtype));
      return Route{.slices = route_reduce_scatter(call, places, rank, partial->memory.get()),
                   .memory = partial};
    }
    default:
      return std::nullopt;
  }
}

}  // namespace dl::collectives::hybrid
