#include "collectives/algorithms/schedule.h"

#include <algorithm>

#include "collectives/algorithms/parts.h"
#include "collectives/algorithms/reduce.h"
#include "core/base/error.h"

namespace dl::collectives {
namespace {

// The part of [0, count) that rank `i` of `size` is responsible for, in bytes.
struct Chunk {
  std::size_t offset;
  std::size_t bytes;
};
Chunk chunk_of(std::size_t count, std::size_t element, int size, int i) {
  const auto ranks = static_cast<std::size_t>(size);
  const auto index = static_cast<std::size_t>(i);
  const std::size_t quotient = count / ranks;
  const std::size_t rest = count % ranks;
  const std::size_t begin = index * quotient + std::min(index, rest);
  return {begin * element, (quotient + (index < rest ? 1 : 0)) * element};
}

int modulo(int a, int size) {
  return (a % size + size) % size;
}

int last(const std::vector<Transfer>& transfers) {
  return static_cast<int>(transfers.size()) - 1;
}

// Every rank sends all of its input to every other and reduces all shares itself: one step, and the
// same order of additions everywhere.
Schedule direct_all_reduce(const Descriptor& d, int rank, int size, bool in_place) {
  Schedule s;
  const std::size_t bytes = d.count * size_of(d.dtype);
  Combine combine{.bytes = bytes, .receives = std::vector<int>(static_cast<std::size_t>(size), -1)};
  for (int step = 1; step < size; ++step) {
    const int to = modulo(rank + step, size);
    const int from = modulo(rank - step, size);
    s.sends.push_back({.peer = to, .region = Region::kInput, .bytes = bytes});
    if (in_place) combine.overwrites.push_back(last(s.sends));
    s.receives.push_back(
        {.peer = from, .region = Region::kScratch, .offset = s.scratch_bytes, .bytes = bytes});
    s.scratch_bytes += bytes;
    combine.receives[static_cast<std::size_t>(from)] = last(s.receives);
  }
  s.combine = std::move(combine);
  return s;
}

std::vector<Part> even_parts(const Descriptor& d, int size) {
  std::vector<Part> parts;
  for (int i = 0; i < size; ++i) {
    const Chunk chunk = chunk_of(d.count, size_of(d.dtype), size, i);
    parts.push_back({chunk.offset, chunk.bytes});
  }
  return parts;
}

// As many bytes as a ring: shares to the rank that sums them, results to everybody.
Schedule shares_all_reduce(const Descriptor& d, int rank, int size) {
  const std::vector<Part> parts = even_parts(d, size);
  const Part own = parts[static_cast<std::size_t>(rank)];
  Schedule s = exchange_shares(parts, rank, size, Region::kOutput, own.offset);
  for (int step = 1; step < size; ++step) {
    const int from = modulo(rank - step, size);
    const Part theirs = parts[static_cast<std::size_t>(from)];
    s.sends.push_back({.peer = modulo(rank + step, size),
                       .region = Region::kOutput,
                       .offset = own.offset,
                       .bytes = own.bytes,
                       .after = Transfer::kCombined});
    s.receives.push_back(
        {.peer = from, .region = Region::kOutput, .offset = theirs.offset, .bytes = theirs.bytes});
  }
  return s;
}

// The same with results to the root alone.
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

// Patarasuk and Yuan 2009: p-1 steps of reduce-scatter, p-1 of all-gather; each chunk's sum is made
// along the ring, once, and copied. In place needs no guard: a chunk's final bytes exist only after
// this rank's share of them has arrived at its neighbour.
Schedule ring_all_reduce(const Descriptor& d, int rank, int size) {
  Schedule s;
  const std::size_t element = size_of(d.dtype);
  const int left = modulo(rank - 1, size);
  const int right = modulo(rank + 1, size);
  const auto chunk = [&](int i) { return chunk_of(d.count, element, size, modulo(i, size)); };
  for (int step = 0; step < size - 1; ++step) {
    const Chunk out = chunk(rank - step);
    s.sends.push_back({.peer = right,
                       .region = step == 0 ? Region::kInput : Region::kOutput,
                       .offset = out.offset,
                       .bytes = out.bytes,
                       .after = last(s.receives)});
    const Chunk in = chunk(rank - step - 1);
    s.receives.push_back({.peer = left,
                          .region = Region::kOutput,
                          .apply = step == size - 2 ? Apply::kReduceLast : Apply::kReduce,
                          .offset = in.offset,
                          .bytes = in.bytes,
                          .input_offset = in.offset});
  }
  for (int step = 0; step < size - 1; ++step) {
    const Chunk out = chunk(rank + 1 - step);
    s.sends.push_back({.peer = right,
                       .region = Region::kOutput,
                       .offset = out.offset,
                       .bytes = out.bytes,
                       .after = last(s.receives)});
    const Chunk in = chunk(rank - step);
    s.receives.push_back(
        {.peer = left, .region = Region::kOutput, .offset = in.offset, .bytes = in.bytes});
  }
  return s;
}

// The first half of ring_all_reduce, shifted so that rank r ends with chunk r. The input is read
// only, so partial sums live in two chunks of scratch that take turns.
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
         .input_offset = static_cast<std::size_t>(modulo(rank - step - 2, size)) * bytes,
         // The slot's previous content left with the send of one step ago.
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

// From the root along a binomial tree (few bytes) or a chain (many: a pipeline). Each child tells
// its parent at once that it is in the operation, so that neither side can leave it unaware of a
// mismatch.
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

// To the root along a chain, a pipeline: each rank adds its share to what comes from the rank
// behind it. The rank in front says at once that it is in the operation, as in broadcast.
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
// round's receive counts only once its send has left, which waits for the round before: otherwise a
// rank could pass on the news of round 2 without having had those of round 1.
Schedule dissemination_barrier(int rank, int size) {
  Schedule s;
  for (int distance = 1; distance < size; distance *= 2) {
    s.sends.push_back({.peer = modulo(rank + distance, size), .after = last(s.receives)});
    s.receives.push_back({.peer = modulo(rank - distance, size), .after = last(s.sends)});
  }
  return s;
}

// Sums that grow from rank to rank have the order of the way they take.
bool wants_raw_shares(const Descriptor& d) noexcept {
  return d.order == Order::kTree || needs_raw_shares(d.dtype, d.reduce);
}

}  // namespace

std::string_view name_of(Algorithm algorithm) noexcept {
  constexpr std::string_view kNames[] = {"direct", "ring", "tree", "chain", "dissemination"};
  return kNames[static_cast<std::size_t>(algorithm)];
}

Algorithm plan(const Descriptor& d, int size) noexcept {
  const std::size_t bytes = d.count * size_of(d.dtype);
  const bool small = bytes <= kSmallBytes / static_cast<std::size_t>(std::max(size - 1, 1));
  switch (d.op) {
    case OpKind::kAllReduce:
    case OpKind::kReduceScatter:
      return small || wants_raw_shares(d) ? Algorithm::kDirect : Algorithm::kRing;
    case OpKind::kAllGather:
      return small ? Algorithm::kDirect : Algorithm::kRing;
    case OpKind::kBroadcast:
      return bytes <= kSmallBytes ? Algorithm::kTree : Algorithm::kChain;
    case OpKind::kReduce:
      return small || wants_raw_shares(d) ? Algorithm::kDirect : Algorithm::kChain;
    case OpKind::kBarrier:
      return Algorithm::kDissemination;
    default:
      return Algorithm::kDirect;
  }
}

Schedule make_schedule(const Descriptor& d, int rank, int size, bool in_place) {
  const Algorithm algorithm = plan(d, size);
  const std::size_t bytes = d.count * size_of(d.dtype);
  switch (d.op) {
    case OpKind::kAllReduce:
      if (algorithm == Algorithm::kRing) return ring_all_reduce(d, rank, size);
      return bytes <= kSmallBytes / static_cast<std::size_t>(std::max(size - 1, 1))
                 ? direct_all_reduce(d, rank, size, in_place)
                 : shares_all_reduce(d, rank, size);
    case OpKind::kReduceScatter: {
      if (algorithm == Algorithm::kRing) return ring_reduce_scatter(d, rank, size);
      const std::vector<std::size_t> counts(static_cast<std::size_t>(size), d.count);
      return exchange_shares(pack(counts, size_of(d.dtype)), rank, size, Region::kOutput, 0);
    }
    case OpKind::kReduce:
      if (algorithm == Algorithm::kChain) return chain_reduce(d, rank, size);
      return bytes <= kSmallBytes / static_cast<std::size_t>(std::max(size - 1, 1))
                 ? direct_reduce(d, rank, size)
                 : shares_reduce(d, rank, size);
    case OpKind::kAllGather:
      return all_gather(d, rank, size, algorithm == Algorithm::kRing);
    case OpKind::kBroadcast:
      return broadcast(d, rank, size, algorithm == Algorithm::kTree);
    case OpKind::kBarrier:
      return dissemination_barrier(rank, size);
    default:
      break;
  }
  throw_error(ErrorKind::kInternal, "{} has no schedule", name_of(d.op));
}

}  // namespace dl::collectives
