#include "collectives/algorithms/schedule.h"

#include <algorithm>

#include "collectives/algorithms/all_reduce.h"
#include "collectives/algorithms/chunks.h"
#include "collectives/reduce/reduce.h"
#include "core/base/error.h"

namespace dl::collectives {
namespace {

// Sends shares to the rank that sums them, and results to the root.
Schedule shares_reduce(const Descriptor& d, int rank, int size) {
  const std::vector<Part> parts = even_parts(d, size);
  const Part own = parts[static_cast<std::size_t>(rank)];
  const bool is_root = rank == d.root;
  Schedule s =
      exchange_shares(parts, rank, size, is_root ? Region::kOutput : Region::kScratch, own.offset);
  if (!is_root) {
    s.sends.push_back({.peer = d.root,
                       .region = Region::kScratch,
                       .offset = s.combine->offset,
                       .bytes = own.bytes,
                       .after = Transfer::kCombined});
    return s;
  }
  for (int step = 1; step < size; ++step) {
    const int from = modulo(rank - step, size);
    const Part theirs = parts[static_cast<std::size_t>(from)];
    s.receives.push_back(
        {.peer = from, .region = Region::kOutput, .offset = theirs.offset, .bytes = theirs.bytes});
  }
  return s;
}

// The first half of ring_all_reduce, shifted so that rank r ends with chunk r. The input must not
// be changed, so partial sums alternate between two chunks of scratch.
Schedule ring_reduce_scatter(const Descriptor& d, int rank, int size) {
  Schedule s;
  const std::size_t bytes = d.count * size_of(d.dtype);
  const int left = modulo(rank - 1, size);
  const int right = modulo(rank + 1, size);
  for (int step = 0; step < size - 1; ++step) {
    const bool first = step == 0;
    s.sends.push_back(
        {.peer = right,
         .region = first ? Region::kInput : Region::kScratch,
         .offset =
             static_cast<std::size_t>(first ? modulo(rank - 1, size) : (step - 1) % 2) * bytes,
         .bytes = bytes,
         .after = last(s.receives)});
    const bool final = step == size - 2;
    s.receives.push_back(
        {.peer = left,
         .region = final ? Region::kOutput : Region::kScratch,
         .apply = final ? Apply::kReduceLast : Apply::kReduce,
         .offset = final ? 0 : static_cast<std::size_t>(step % 2) * bytes,
         .bytes = bytes,
         .own_offset = static_cast<std::size_t>(modulo(rank - step - 2, size)) * bytes,
         // The slot's previous content was sent one step ago.
         .after = final || step < 2 ? Transfer::kNothing : step - 1});
  }
  s.scratch_bytes = static_cast<std::size_t>(std::min(size - 2, 2)) * bytes;
  return s;
}

Schedule all_gather(const Descriptor& d, int rank, int size, bool ring) {
  Schedule s;
  const std::size_t bytes = d.count * size_of(d.dtype);
  const auto at = [&](int i) { return static_cast<std::size_t>(modulo(i, size)) * bytes; };
  for (int step = 0; step < size - 1; ++step) {
    const bool own = !ring || step == 0;
    s.sends.push_back({.peer = modulo(ring ? rank + 1 : rank + step + 1, size),
                       .region = own ? Region::kInput : Region::kOutput,
                       .offset = own ? 0 : at(rank - step),
                       .bytes = bytes,
                       .after = own ? Transfer::kNothing : last(s.receives)});
    s.receives.push_back({.peer = modulo(ring ? rank - 1 : rank - step - 1, size),
                          .region = Region::kOutput,
                          .offset = at(rank - step - 1),
                          .bytes = bytes});
  }
  return s;
}

// From the root along a binomial tree (few bytes) or a chain (many bytes, a pipeline). Each child
// tells its parent at once that it is in the operation, so that neither side can leave without
// having heard of a mismatch.
Schedule broadcast(const Descriptor& d, int rank, int size, bool tree) {
  Schedule s;
  const std::size_t bytes = d.count * size_of(d.dtype);
  const int place = modulo(rank - d.root, size);
  const auto rank_at = [&](int p) { return modulo(p + d.root, size); };
  int lowest = 1;
  if (tree) {
    while (lowest < size && (place & lowest) == 0) lowest <<= 1;
  }
  if (place != 0) {
    const int parent = rank_at(tree ? place - lowest : place - 1);
    s.sends.push_back({.peer = parent});
    s.receives.push_back({.peer = parent, .region = Region::kOutput, .bytes = bytes});
  }
  const int from = last(s.receives);
  const auto feed = [&](int child) {
    s.sends.push_back({.peer = child, .region = Region::kOutput, .bytes = bytes, .after = from});
    s.receives.push_back({.peer = child, .region = Region::kOutput});
  };
  if (tree) {
    for (int bit = lowest >> 1; bit > 0; bit >>= 1) {
      if (place + bit < size) feed(rank_at(place + bit));
    }
  } else if (place + 1 < size) {
    feed(rank_at(place + 1));
  }
  return s;
}

// To the root along a chain, as a pipeline: each rank adds its share to the data from the rank
// behind it. The rank in front tells at once that it is in the operation, as in broadcast.
Schedule chain_reduce(const Descriptor& d, int rank, int size) {
  Schedule s;
  const std::size_t bytes = d.count * size_of(d.dtype);
  const int place = modulo(rank - d.root, size);
  const bool is_root = place == 0;
  const bool is_last = place == size - 1;
  if (!is_last) {
    const int behind = modulo(rank + 1, size);
    s.sends.push_back({.peer = behind});
    s.receives.push_back({.peer = behind,
                          .region = is_root ? Region::kOutput : Region::kScratch,
                          .apply = is_root ? Apply::kReduceLast : Apply::kReduce,
                          .bytes = bytes});
    if (!is_root) s.scratch_bytes = bytes;
  }
  if (!is_root) {
    const int front = modulo(rank - 1, size);
    s.sends.push_back({.peer = front,
                       .region = is_last ? Region::kInput : Region::kScratch,
                       .bytes = bytes,
                       .after = last(s.receives)});
    s.receives.push_back({.peer = front});
  }
  return s;
}

// Every rank sends its share to the root, which reduces them all.
Schedule direct_reduce(const Descriptor& d, int rank, int size) {
  Schedule s;
  const std::size_t bytes = d.count * size_of(d.dtype);
  if (rank != d.root) {
    s.sends.push_back({.peer = d.root, .region = Region::kInput, .bytes = bytes});
    s.receives.push_back({.peer = d.root});
    return s;
  }
  Combine combine{.bytes = bytes, .receives = std::vector<int>(static_cast<std::size_t>(size), -1)};
  for (int step = 1; step < size; ++step) {
    const int from = modulo(rank + step, size);
    s.sends.push_back({.peer = from});
    s.receives.push_back(
        {.peer = from, .region = Region::kScratch, .offset = s.scratch_bytes, .bytes = bytes});
    s.scratch_bytes += bytes;
    combine.receives[static_cast<std::size_t>(from)] = last(s.receives);
  }
  s.combine = std::move(combine);
  return s;
}

// Hensgen, Finkel and Manber 1988: after ceil(lg p) rounds every rank has heard from all others. A
// round's receive counts only after its send has left, which waits for the previous round:
// otherwise a rank could confirm round 2 before it has heard round 1.
Schedule dissemination_barrier(int rank, int size) {
  Schedule s;
  for (int distance = 1; distance < size; distance *= 2) {
    s.sends.push_back({.peer = modulo(rank + distance, size), .after = last(s.receives)});
    s.receives.push_back({.peer = modulo(rank - distance, size), .after = last(s.sends)});
  }
  return s;
}

}  // namespace

std::string_view name_of(Algorithm algorithm) noexcept {
  constexpr std::string_view kNames[kAlgorithmCount] = {
      "direct", "shares", "ring", "doubling", "halving", "tree", "chain", "dissemination"};
  return kNames[static_cast<std::size_t>(algorithm)];
}

bool wants_raw_shares(const Descriptor& d) noexcept {
  return row_of(d.op).reduces && (d.order == Order::kTree || needs_raw_shares(d.dtype, d.reduce));
}

std::span<const Algorithm> algorithms_of(OpKind op, bool raw_shares) noexcept {
  using enum Algorithm;
  static constexpr Algorithm kAllReduce[] = {kDirect, kShares, kRing, kDoubling, kHalving};
  static constexpr Algorithm kReduce[] = {kDirect, kShares, kChain};
  static constexpr Algorithm kParts[] = {kDirect, kRing};
  static constexpr Algorithm kBroadcast[] = {kTree, kChain};
  static constexpr Algorithm kBarrier[] = {kDissemination};
  const std::span<const Algorithm> parts(kParts);
  switch (op) {
    case OpKind::kAllReduce:
      return std::span(kAllReduce).first(raw_shares ? 2 : std::size(kAllReduce));
    case OpKind::kReduce:
      return std::span(kReduce).first(raw_shares ? 2 : std::size(kReduce));
    case OpKind::kReduceScatter:
      return parts.first(raw_shares ? 1 : parts.size());
    case OpKind::kAllGather:
      return parts;
    case OpKind::kBroadcast:
      return kBroadcast;
    case OpKind::kBarrier:
      return kBarrier;
    default:
      return parts.first(1);
  }
}

Schedule make_schedule(const Descriptor& d, Algorithm algorithm, int rank, int size,
                       bool in_place) {
  const std::span<const Algorithm> allowed = algorithms_of(d.op, wants_raw_shares(d));
  DL_CHECK(std::ranges::find(allowed, algorithm) != allowed.end(), kInternal,
           "{} has no algorithm '{}'", text(d), name_of(algorithm));
  Schedule s = [&]() -> Schedule {
    switch (d.op) {
      case OpKind::kAllReduce:
        return all_reduce_schedule(d, algorithm, rank, size, in_place);
      case OpKind::kReduceScatter: {
        if (algorithm == Algorithm::kRing) return ring_reduce_scatter(d, rank, size);
        const std::vector<std::size_t> counts(static_cast<std::size_t>(size), d.count);
        return exchange_shares(pack(counts, size_of(d.dtype)), rank, size, Region::kOutput, 0);
      }
      case OpKind::kReduce:
        if (algorithm == Algorithm::kChain) return chain_reduce(d, rank, size);
        return algorithm == Algorithm::kDirect ? direct_reduce(d, rank, size)
                                               : shares_reduce(d, rank, size);
      case OpKind::kAllGather:
        return all_gather(d, rank, size, algorithm == Algorithm::kRing);
      case OpKind::kBroadcast:
        return broadcast(d, rank, size, algorithm == Algorithm::kTree);
      case OpKind::kBarrier:
        return dissemination_barrier(rank, size);
      default:
        throw_error(ErrorKind::kInternal, "{} has no schedule", name_of(d.op));
    }
  }();
  s.algorithm = algorithm;
  return s;
}

}  // namespace dl::collectives
