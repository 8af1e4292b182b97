// Five algorithms for all_reduce. A sum adds the ranks' shares in the same order on all ranks: if
// two ranks exchange partial sums, both put the lower ranks' sum first.
#include "collectives/algorithms/all_reduce.h"

#include <bit>

#include "collectives/algorithms/chunks.h"

namespace dl::collectives {
namespace {

// Every rank sends all of its input to every other rank and reduces all shares itself: one step,
// and the same order of additions on every rank.
Schedule direct_all_reduce(const Descriptor& d, int rank, int size, bool in_place) {
  Schedule s;
  const std::size_t bytes = d.count * size_of(d.dtype);
  s.sends.reserve(static_cast<std::size_t>(size));
  s.receives.reserve(static_cast<std::size_t>(size));
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

// Sends as many bytes as a ring: shares to the rank that sums them, results to all ranks.
Schedule shares_all_reduce(const Descriptor& d, int rank, int size, bool in_place) {
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
    s.receives.push_back({.peer = from,
                          .region = Region::kOutput,
                          .offset = theirs.offset,
                          .bytes = theirs.bytes,
                          // the share that went to `from`
                          .after = in_place ? size - 1 - step : Transfer::kNothing});
  }
  return s;
}

// Patarasuk and Yuan 2009: p-1 steps of reduce-scatter, then p-1 of all-gather; each chunk's sum is
// computed once, along the ring, and then copied.
Schedule ring_all_reduce(const Descriptor& d, int rank, int size, bool in_place) {
  Schedule s;
  const std::size_t element = size_of(d.dtype);
  const int left = modulo(rank - 1, size);
  const int right = modulo(rank + 1, size);
  const auto chunk = [&](int i) { return chunk_of(d.count, element, size, modulo(i, size)); };
  for (int step = 0; step < size - 1; ++step) {
    const Part out = chunk(rank - step);
    s.sends.push_back({.peer = right,
                       .region = step == 0 ? Region::kInput : Region::kOutput,
                       .offset = out.offset,
                       .bytes = out.bytes,
                       .after = last(s.receives)});
    const Part in = chunk(rank - step - 1);
    s.receives.push_back({.peer = left,
                          .region = Region::kOutput,
                          .apply = step == size - 2 ? Apply::kReduceLast : Apply::kReduce,
                          .offset = in.offset,
                          .bytes = in.bytes,
                          .own_offset = in.offset});
  }
  for (int step = 0; step < size - 1; ++step) {
    const Part out = chunk(rank + 1 - step);
    s.sends.push_back({.peer = right,
                       .region = Region::kOutput,
                       .offset = out.offset,
                       .bytes = out.bytes,
                       .after = last(s.receives)});
    const Part in = chunk(rank - step);
    s.receives.push_back({.peer = left,
                          .region = Region::kOutput,
                          .offset = in.offset,
                          .bytes = in.bytes,
                          // the send of the same chunk, the first one from the input
                          .after = step > 0 || in_place ? step : Transfer::kNothing});
  }
  return s;
}

// Pairwise exchange needs a power of two. In each of the first `rest` pairs of neighbours the odd
// rank gives its share to the even one, stays out, and receives the result (Rabenseifner 2004).
struct Core {
  int size;   // the largest power of two
  int rest;   // ranks beyond it
  int index;  // of this rank among them; -1: it stays out

  Core(int rank, int ranks)
      : size(static_cast<int>(std::bit_floor(static_cast<unsigned>(ranks)))),
        rest(ranks - size),
        index(rank >= 2 * rest ? rank - rest : (rank % 2 == 0 ? rank / 2 : -1)) {}

  int rank_at(int i) const noexcept { return i < rest ? 2 * i : i + rest; }
  bool has_partner() const noexcept { return index >= 0 && index < rest; }
};

// A rank that stays out.
Schedule outside(int partner, std::size_t bytes, bool in_place) {
  Schedule s;
  s.sends.push_back({.peer = partner, .region = Region::kInput, .bytes = bytes});
  s.receives.push_back({.peer = partner,
                        .region = Region::kOutput,
                        .bytes = bytes,
                        .after = in_place ? last(s.sends) : Transfer::kNothing});
  return s;
}

// The place of the partial sum, and the receive that completed it.
struct Sum {
  Region region = Region::kInput;
  std::size_t offset = 0;
  int from = Transfer::kNothing;
};

// lg p rounds; in each, pairs of twice the distance exchange their whole partial sums. Sums
// alternate between two slots of scratch, because a slot may still be being sent.
Schedule doubling_all_reduce(const Descriptor& d, int rank, int size, bool in_place) {
  const Core core(rank, size);
  const std::size_t bytes = d.count * size_of(d.dtype);
  if (core.index < 0) return outside(rank - 1, bytes, in_place);
  Schedule s;
  Sum sum;
  std::size_t slots = 0;  // filled so far
  int slot_sent[2] = {Transfer::kNothing, Transfer::kNothing};
  int input_sent = Transfer::kNothing;
  const auto give = [&](int peer) {
    s.sends.push_back({.peer = peer,
                       .region = sum.region,
                       .offset = sum.offset,
                       .bytes = bytes,
                       .after = sum.from});
    (sum.region == Region::kInput ? input_sent : slot_sent[(slots + 1) % 2]) = last(s.sends);
  };
  const auto take = [&](int peer, bool own_first, bool is_last) {
    const std::size_t slot = slots % 2;
    s.receives.push_back({.peer = peer,
                          .region = is_last ? Region::kOutput : Region::kScratch,
                          .apply = is_last ? Apply::kReduceLast : Apply::kReduce,
                          .offset = is_last ? 0 : slot * bytes,
                          .bytes = bytes,
                          .own = sum.region,
                          .own_offset = sum.offset,
                          .own_from = sum.from,
                          .own_first = own_first,
                          .after = !is_last   ? slot_sent[slot]
                                   : in_place ? input_sent
                                              : Transfer::kNothing});
    sum = {s.receives.back().region, s.receives.back().offset, last(s.receives)};
    if (!is_last) ++slots;
  };
  if (core.has_partner()) take(rank + 1, true, false);
  for (int distance = 1; distance < core.size; distance *= 2) {
    const int peer = core.rank_at(core.index ^ distance);
    give(peer);
    take(peer, rank < peer, 2 * distance == core.size);
  }
  if (core.has_partner()) give(rank + 1);
  s.scratch_bytes = std::min<std::size_t>(slots, 2) * bytes;
  return s;
}

// Rabenseifner 2004: in lg p rounds pairs of twice the distance exchange halves of their partial
// sums, and then in reverse order the results.
Schedule halving_all_reduce(const Descriptor& d, int rank, int size, bool in_place) {
  const Core core(rank, size);
  const std::size_t element = size_of(d.dtype);
  const std::size_t bytes = d.count * element;
  if (core.index < 0) return outside(rank - 1, bytes, in_place);
  // Chunks [begin, end) as one range of bytes.
  const auto range = [&](int begin, int end) -> Part {
    const std::size_t from = chunk_of(d.count, element, core.size, begin).offset;
    const Part back = chunk_of(d.count, element, core.size, end - 1);
    return {from, back.offset + back.bytes - from};
  };
  Schedule s;
  Sum sum;
  const auto take = [&](int peer, Part part, bool own_first, bool is_last) {
    s.receives.push_back({.peer = peer,
                          .region = Region::kOutput,
                          .apply = is_last ? Apply::kReduceLast : Apply::kReduce,
                          .offset = part.offset,
                          .bytes = part.bytes,
                          .own = sum.region,
                          .own_offset = part.offset,
                          .own_from = sum.from,
                          .own_first = own_first});
    sum = {Region::kOutput, 0, last(s.receives)};
  };
  if (core.has_partner()) take(rank + 1, {0, bytes}, true, false);
  int begin = 0;
  int end = core.size;
  std::vector<Part> given;
  for (int distance = 1; distance < core.size; distance *= 2) {
    const int peer = core.rank_at(core.index ^ distance);
    const int middle = (begin + end) / 2;
    const bool is_lower = rank < peer;
    given.push_back(is_lower ? range(middle, end) : range(begin, middle));
    (is_lower ? end : begin) = middle;
    s.sends.push_back({.peer = peer,
                       .region = sum.region,
                       .offset = given.back().offset,
                       .bytes = given.back().bytes,
                       .after = sum.from});
    take(peer, range(begin, end), is_lower, 2 * distance == core.size);
  }
  Part have = range(begin, end);
  for (int distance = core.size / 2; distance > 0; distance /= 2) {
    const int peer = core.rank_at(core.index ^ distance);
    const int sent = static_cast<int>(given.size()) - 1;
    const Part other = given.back();
    given.pop_back();
    s.sends.push_back({.peer = peer,
                       .region = Region::kOutput,
                       .offset = have.offset,
                       .bytes = have.bytes,
                       .after = last(s.receives),
                       .after_all = true});
    const bool overwrites =
        in_place || s.sends[static_cast<std::size_t>(sent)].region == Region::kOutput;
    s.receives.push_back({.peer = peer,
                          .region = Region::kOutput,
                          .offset = other.offset,
                          .bytes = other.bytes,
                          .after = overwrites ? sent : Transfer::kNothing});
    have = {std::min(have.offset, other.offset), have.bytes + other.bytes};
  }
  if (core.has_partner()) {
    s.sends.push_back({.peer = rank + 1,
                       .region = Region::kOutput,
                       .bytes = bytes,
                       .after = last(s.receives),
                       .after_all = true});
  }
  return s;
}

}  // namespace

Schedule all_reduce_schedule(const Descriptor& d, Algorithm algorithm, int rank, int size,
                             bool in_place) {
  if (size == 1) algorithm = Algorithm::kDirect;
  switch (algorithm) {
    case Algorithm::kShares:
      return shares_all_reduce(d, rank, size, in_place);
    case Algorithm::kRing:
      return ring_all_reduce(d, rank, size, in_place);
    case Algorithm::kHalving:
      return halving_all_reduce(d, rank, size, in_place);
    case Algorithm::kDoubling:
      if (size >= kLeastRanksToDouble) return doubling_all_reduce(d, rank, size, in_place);
      break;
    default:
      break;
  }
  return direct_all_reduce(d, rank, size, in_place);
}

}  // namespace dl::collectives
