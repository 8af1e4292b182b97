#include "collectives/hybrid/route/route.h"

#include <algorithm>

#include "collectives/algorithms/schedule.h"
#include "collectives/call/calls.h"

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

}  // namespace

std::optional<std::vector<Slice>> route(const AllReduceOptions& o, const Places& places, int rank) {
  if (is_small(o.count, o.dtype, places.node_of.size()) || wants_raw_shares(descriptor_of(o))) {
    return std::nullopt;
  }
  const Seat seat(places, rank);
  const bool divides = o.op == ReduceOp::kAvg;
  const ReduceOp op = divides ? ReduceOp::kSum : o.op;
  const bool all_carry = places.is_even;
  std::vector<Slice> slices;
  for (const Piece& piece : cut(o.count, o.dtype, seat.carriers)) {
    const std::byte* const input = at(o.input, piece.begin, o.dtype);
    std::byte* const output = at(o.output, piece.begin, o.dtype);
    Slice slice;
    auto& [in, cross, out] = slice.calls;
    std::byte* sum = output;
    std::size_t count = piece.count;
    if (piece.is_shared_out) {
      count /= seat.carriers;
      sum = at(output, seat.index * count, o.dtype);
      in = ReduceScatterOptions{
          .input = input, .output = sum, .count = count, .dtype = o.dtype, .op = op};
      out = AllGatherOptions{.input = sum, .output = output, .count = count, .dtype = o.dtype};
    } else if (all_carry) {
      // Fewer elements than ranks: all ranks sum them, and all carry them.
      in = AllReduceOptions{
          .input = input, .output = sum, .count = count, .dtype = o.dtype, .op = op};
    } else {
      in = ReduceOptions{.input = input, .output = sum, .count = count, .dtype = o.dtype, .op = op};
      out = BroadcastOptions{.buffer = output, .count = count, .dtype = o.dtype};
    }
    if (seat.is_carrier) {
      cross =
          AllReduceOptions{.input = sum, .output = sum, .count = count, .dtype = o.dtype, .op = op};
      if (divides) {
        slice.division = {sum, count, o.dtype, static_cast<int>(places.node_of.size())};
      }
    }
    slices.push_back(std::move(slice));
  }
  return slices;
}

std::optional<std::vector<Slice>> route(const BroadcastOptions& o, const Places& places, int rank) {
  if (is_small(o.count, o.dtype, places.node_of.size())) return std::nullopt;
  const Seat seat(places, rank);
  const auto root = static_cast<std::size_t>(o.root);
  const int from = places.node_of[root];
  std::vector<Slice> slices;
  for (const Piece& piece : cut(o.count, o.dtype, seat.carriers)) {
    std::byte* const data = at(o.buffer, piece.begin, o.dtype);
    Slice slice;
    auto& [in, cross, out] = slice.calls;
    std::byte* share = data;
    std::size_t count = piece.count;
    if (piece.is_shared_out) {
      count /= seat.carriers;
      share = at(data, seat.index * count, o.dtype);
    }
    if (seat.node == from) {
      in = BroadcastOptions{
          .buffer = data, .count = piece.count, .dtype = o.dtype, .root = places.index_of[root]};
    } else if (piece.is_shared_out) {
      out = AllGatherOptions{.input = share, .output = data, .count = count, .dtype = o.dtype};
    } else if (!places.is_even) {
      out = BroadcastOptions{.buffer = data, .count = count, .dtype = o.dtype};
    }
    if (seat.is_carrier) {
      cross = BroadcastOptions{.buffer = share, .count = count, .dtype = o.dtype, .root = from};
    }
    slices.push_back(std::move(slice));
  }
  return slices;
}

std::optional<std::vector<Slice>> route(const AllGatherOptions& o, const Places& places, int rank) {
  if (!places.is_in_order || is_small(o.count, o.dtype, places.node_of.size())) {
    return std::nullopt;
  }
  // A slice is what the ranks of one node give.
  const Seat seat(places, rank);
  std::vector<Slice> slices(places.nodes.size());
  for (std::size_t node = 0; node < slices.size(); ++node) {
    std::byte* const parts = at(o.output, node * seat.carriers * o.count, o.dtype);
    std::byte* const part = at(parts, seat.index * o.count, o.dtype);
    auto& [in, cross, out] = slices[node].calls;
    cross = BroadcastOptions{
        .buffer = part, .count = o.count, .dtype = o.dtype, .root = static_cast<int>(node)};
    out = AllGatherOptions{.input = part, .output = parts, .count = o.count, .dtype = o.dtype};
  }
  return slices;
}

bool routes(const ReduceScatterOptions& o, const Places& places) {
  return places.is_in_order && !is_small(o.count, o.dtype, places.node_of.size()) &&
         !wants_raw_shares(descriptor_of(o));
}

std::vector<Slice> route(const ReduceScatterOptions& o, const Places& places, int rank,
                         void* partial) {
  const Seat seat(places, rank);
  const bool divides = o.op == ReduceOp::kAvg;
  const ReduceOp op = divides ? ReduceOp::kSum : o.op;
  // A slice is what the ranks of one node receive.
  std::vector<Slice> slices(places.nodes.size());
  for (std::size_t node = 0; node < slices.size(); ++node) {
    std::byte* const sum = at(partial, node * o.count, o.dtype);
    auto& [in, cross, out] = slices[node].calls;
    in = ReduceScatterOptions{.input = at(o.input, node * seat.carriers * o.count, o.dtype),
                              .output = sum,
                              .count = o.count,
                              .dtype = o.dtype,
                              .op = op};
    const bool is_ours = static_cast<int>(node) == seat.node;
    cross = ReduceOptions{.input = sum,
                          .output = is_ours ? o.output : nullptr,
                          .count = o.count,
                          .dtype = o.dtype,
                          .op = op,
                          .root = static_cast<int>(node)};
    if (is_ours && divides) {
      slices[node].division = {o.output, o.count, o.dtype, static_cast<int>(places.node_of.size())};
    }
  }
  return slices;
}

}  // namespace dl::collectives::hybrid
