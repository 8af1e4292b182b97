// Core's half that moves an operation on: flags, chunks, copies and sums (direct.cc: on symmetric
// memory).
//
// Where all ranks agree that they do the same, chunk k of an operation goes through up to three
// phases, each of which counts what it has done in the rank's own Block:
//   stage   copy what others need of the caller's input into the own slot
//   reduce  sum the own slice of the chunk from all slots, into the own slot and the caller's
//   output copy    copy the others' results, or data, from their slots into the caller's output
// A phase waits for the counters of others only, so that ranks may be up to kSlots chunks apart.
#include <algorithm>
#include <span>

#include "collectives/algorithms/reduce.h"
#include "collectives/shm/core.h"

namespace dl::collectives::shm {
namespace {

// Which phases an operation has. The last one consumes the chunk.
struct Phases {
  bool stages = true;
  bool reduces = false;
  bool copies = false;
};

Phases phases_of(const Operation& op, int rank) noexcept {
  const bool is_root = op.descriptor.root == rank;
  const bool divides = op.plan.path == Path::kChunks;
  switch (op.descriptor.op) {
    case OpKind::kAllReduce:
      return {.reduces = true, .copies = divides};
    case OpKind::kReduce:
      return {.reduces = divides || is_root, .copies = divides && is_root};
    case OpKind::kReduceScatter:
      return {.reduces = true};
    case OpKind::kBroadcast:
    case OpKind::kScatter:
      return {.stages = is_root, .copies = !is_root};
    case OpKind::kGather:
      return {.stages = !is_root, .copies = is_root};
    default:  // all_gather and all_to_all
      return {.copies = true};
  }
}

// Whose sum is divided among the ranks.
bool is_divided(OpKind op) noexcept {
  return op == OpKind::kAllReduce || op == OpKind::kReduce;
}

bool comes_from_root(OpKind op) noexcept {
  return op == OpKind::kBroadcast || op == OpKind::kScatter;
}

// The elements of chunk k.
Range chunk_range(const Operation& op, std::size_t k) noexcept {
  const std::size_t begin = k * op.plan.chunk;
  return {begin, std::min<std::size_t>(op.descriptor.count, begin + op.plan.chunk)};
}

}  // namespace

void sum_shares(const Descriptor& what, std::byte* dst, std::span<const void* const> shares,
                std::size_t count) {
  if (shares.size() == 2 &&
      (what.reduce != ReduceOp::kAvg || !needs_raw_shares(what.dtype, what.reduce))) {
    // Of two shares every dtype's sum is rounded once, wherever it is taken.
    reduce(what.dtype, what.reduce, dst, shares[0], shares[1], count);
    finish(what.dtype, what.reduce, dst, count, 2);
  } else {
    combine(what.dtype, what.reduce, dst, shares, count, what.order);
  }
}

bool Core::advance(Operation& op) {
  if (!op.is_posted) return post(op);
  bool moved = false;
  if (op.next_to_agree < size()) {
    moved = agree(op);
    if (is_poisoned()) return true;
  }
  const bool agreed = op.next_to_agree == size();
  if (op.plan.path == Path::kInline) {
    if (!agreed) return moved;
    finish_inline(op);
    finish_front(nullptr);
    return true;
  }
  if (op.plan.path == Path::kDirect) return advance_direct(op) || moved;
  moved |= advance_chunk(op);
  const Phases phases = phases_of(op, rank_);
  const std::size_t chunks = op.plan.chunks;
  if (agreed && (!phases.stages || op.staged == chunks) &&
      (!phases.reduces || op.reduced == chunks) && (!phases.copies || op.copied == chunks)) {
    publish(own().consumed, op.first_chunk + chunks);
    finish_front(nullptr);
    return true;
  }
  return moved;
}

// Says that this rank has called the operation. What goes through one chunk is staged first, so
// that the flag says that, too.
bool Core::post(Operation& op) {
  const Descriptor& d = op.descriptor;
  Cell& cell = own().cells[d.sequence % 2];
  if (op.plan.chunks == 1 && !op.memory && phases_of(op, rank_).stages) {
    if (!may_stage(op.first_chunk)) return false;
    stage(op, 0);
    op.staged = 1;
  }
  // First, since it has a line of its own: what shares the flag's line is written right before the
  // flag, or peers that look at the flag would take the line away in between.
  copy_bytes(cell.descriptor, &d, sizeof d);
  if (op.plan.path == Path::kInline && (!comes_from_root(d.op) || d.root == rank_)) {
    copy_bytes(cell.payload, op.input, d.count * size_of(d.dtype) * parts_of(d.op, size()));
  } else if (op.plan.path == Path::kChunks) {
    claims_[static_cast<std::size_t>(rank_)] = op.claim;
    copy_bytes(cell.payload, &op.claim, sizeof op.claim);
  }
  cell.flag.store(flag_of(d.sequence, op.hash), std::memory_order_release);
  op.is_posted = true;
  published();
  return true;
}

bool Core::agree(Operation& op) {
  const std::uint64_t ours = flag_of(op.descriptor.sequence, op.hash);
  const int before = op.next_to_agree;
  for (; op.next_to_agree < size(); ++op.next_to_agree) {
    if (op.next_to_agree == rank_) continue;
    Peer& p = peer(op.next_to_agree);
    const Cell& cell = p.block->cells[op.descriptor.sequence % 2];
    const std::uint64_t theirs = cell.flag.load(std::memory_order_acquire);
    if (theirs == ours) {
      if (op.plan.path == Path::kChunks) {
        copy_bytes(&claims_[static_cast<std::size_t>(op.next_to_agree)], cell.payload,
                   sizeof(Claim));
      }
      continue;
    }
    if (!is_of(theirs, op.descriptor.sequence)) break;
    // Ranks that differ after another cause differ because of it.
    if (adopt_peers_cause()) return true;
    Descriptor said;
    copy_bytes(&said, cell.descriptor, sizeof said);
    fail(ErrorKind::kMismatch,
         mismatch_text(said, p.who.text(), op.descriptor, peer(rank_).who.text()));
    return true;
  }
  if (op.next_to_agree == size() && op.plan.path == Path::kChunks) choose_path(op);
  return op.next_to_agree > before;
}

void Core::finish_inline(Operation& op) {
  const Descriptor& d = op.descriptor;
  if (d.count == 0) return;
  const std::size_t bytes = d.count * size_of(d.dtype);
  // Of the own part, where there is one for each rank.
  const std::size_t at = parts_of(d.op, size()) > 1 ? static_cast<std::size_t>(rank_) * bytes : 0;
  // What is the caller's own is taken from the caller: the line of the own cell is on its way to
  // the peers.
  const auto payload = [&](int r) {
    return (r == rank_ ? op.input : peer(r).block->cells[d.sequence % 2].payload) + at;
  };
  switch (d.op) {
    case OpKind::kReduce:
      if (d.root != rank_) return;
      [[fallthrough]];
    case OpKind::kAllReduce:
    case OpKind::kReduceScatter:
      for (int r = 0; r < size(); ++r) shares_[static_cast<std::size_t>(r)] = payload(r);
      sum_shares(d, op.output, shares_, d.count);
      return;
    case OpKind::kBroadcast:
      if (d.root == rank_) return;
      [[fallthrough]];
    case OpKind::kScatter:
      copy_bytes(op.output, payload(d.root), bytes);
      return;
    case OpKind::kGather:
      if (d.root != rank_) return;
      [[fallthrough]];
    case OpKind::kAllGather:
    case OpKind::kAllToAll:
      for (int r = 0; r < size(); ++r) {
        copy_bytes(op.output + static_cast<std::size_t>(r) * bytes, payload(r), bytes);
      }
      return;
    default:
      return;
  }
}

bool Core::has(Peer& p, std::uint64_t Peer::* seen, Counter Block::* counter,
               std::uint64_t count) noexcept {
  if (p.*seen >= count) return true;
  p.*seen = (p.block->*counter).value.load(std::memory_order_acquire);
  return p.*seen >= count;
}

bool Core::all_have(std::uint64_t Peer::* seen, Counter Block::* counter,
                    std::uint64_t count) noexcept {
  for (Peer& p : peers_) {
    if (p.who.rank != rank_ && !has(p, seen, counter, count)) return false;
  }
  return true;
}

bool Core::may_stage(std::uint64_t chunk) noexcept {
  return chunk < kSlots || all_have(&Peer::consumed, &Block::consumed, chunk + 1 - kSlots);
}

// Where enough is staged, the latest phase that can go on does, since that frees slots.
bool Core::advance_chunk(Operation& op) {
  const Phases phases = phases_of(op, rank_);
  const std::size_t chunks = op.plan.chunks;
  const bool agreed = op.next_to_agree == size();
  // Of an operation of one chunk the flags say that it is staged, unless some rank did not know yet
  // whether it would have to.
  const bool one = chunks == 1 && !op.has_claims;
  const auto stage_next = [&] {
    if (!phases.stages || op.staged == chunks || (op.memory && !agreed) ||
        !may_stage(op.first_chunk + op.staged)) {
      return false;
    }
    stage(op, op.staged++);
    const std::uint64_t staged = op.first_chunk + op.staged;
    publish(own().staged, staged);
    if (!phases.reduces && !phases.copies && op.staged < chunks) publish(own().consumed, staged);
    return true;
  };
  const std::size_t taken_up = phases.reduces ? op.reduced : op.copied;
  if (op.staged < taken_up + kStagedAhead && stage_next()) return true;
  if (agreed && phases.copies && op.copied < chunks) {
    const std::uint64_t wanted = op.first_chunk + op.copied + 1;
    bool ready = one;
    if (phases.reduces) {
      ready = op.copied < op.reduced && all_have(&Peer::reduced, &Block::reduced, wanted);
    } else if (!one && comes_from_root(op.descriptor.op)) {
      ready = has(peer(op.descriptor.root), &Peer::staged, &Block::staged, wanted);
    } else if (!one) {
      ready = (!phases.stages || op.copied < op.staged) &&
              all_have(&Peer::staged, &Block::staged, wanted);
    }
    if (ready) {
      copy_chunk(op, op.copied++);
      if (op.copied < chunks) publish(own().consumed, wanted);
      return true;
    }
  }
  if (agreed && phases.reduces && op.reduced < op.staged) {
    const std::uint64_t wanted = op.first_chunk + op.reduced + 1;
    if (one || all_have(&Peer::staged, &Block::staged, wanted)) {
      reduce_chunk(op, op.reduced++);
      if (!phases.copies && op.reduced < chunks) publish(own().consumed, wanted);
      return true;
    }
  }
  return stage_next();
}

void Core::stage(Operation& op, std::size_t k) {
  const Descriptor& d = op.descriptor;
  const std::size_t element = size_of(d.dtype);
  const Range range = chunk_range(op, k);
  std::byte* const to = slot(peer(rank_), op.first_chunk + k);
  const std::byte* const from = op.input + range.begin * element;
  const std::size_t bytes = range.count() * element;
  const std::size_t own_part = static_cast<std::size_t>(rank_) * d.count * element;
  if (parts_of(d.op, size()) > 1) {
    for (int r = 0; r < size(); ++r) {
      const auto part = static_cast<std::size_t>(r);
      if (r != rank_) copy_bytes(to + part * bytes, from + part * d.count * element, bytes);
    }
    if (d.op == OpKind::kReduceScatter) return;
    std::byte* const place = op.output + range.begin * element;
    copy_bytes(d.op == OpKind::kScatter ? place : place + own_part, from + own_part, bytes);
  } else if (op.plan.path == Path::kChunks && is_divided(d.op)) {
    // The own slice is nobody else's business.
    const Range own_slice = slice_of(range.count(), element, rank_, size());
    copy_bytes(to, from, own_slice.begin * element);
    copy_bytes(to + own_slice.end * element, from + own_slice.end * element,
               bytes - own_slice.end * element);
  } else {
    copy_bytes(to, from, bytes);
    if (d.op == OpKind::kAllGather) {
      copy_bytes(op.output + own_part + range.begin * element, from, bytes);
    }
  }
}

void Core::reduce_chunk(Operation& op, std::size_t k) {
  const Descriptor& d = op.descriptor;
  const std::size_t element = size_of(d.dtype);
  const Range range = chunk_range(op, k);
  const std::uint64_t chunk = op.first_chunk + k;
  // Where the own part begins in the slots, and in the caller's input and output.
  Range part{0, range.count()};
  std::size_t in_slot = 0;
  std::size_t in_input = range.begin;
  if (d.op == OpKind::kReduceScatter) {
    in_slot = static_cast<std::size_t>(rank_) * range.count();
    in_input += static_cast<std::size_t>(rank_) * d.count;
  } else if (op.plan.path == Path::kChunks) {
    part = slice_of(range.count(), element, rank_, size());
    in_slot = part.begin;
    in_input += part.begin;
  }
  for (int r = 0; r < size(); ++r) {
    shares_[static_cast<std::size_t>(r)] =
        r == rank_ ? op.input + in_input * element : slot(peer(r), chunk) + in_slot * element;
  }
  const std::size_t in_output = (range.begin + part.begin) * element;
  if (op.plan.path == Path::kChunks && is_divided(d.op)) {
    std::byte* const result = slot(peer(rank_), chunk) + in_slot * element;
    const bool wants_sum = d.op == OpKind::kAllReduce || d.root == rank_;
    const std::size_t block = kSumBlockBytes / element;
    for (std::size_t begin = 0; begin < part.count(); begin += block) {
      const std::size_t at = begin * element;
      const std::size_t bytes = std::min(kSumBlockBytes, part.count() * element - at);
      sum_shares(d, result + at, shares_, bytes / element);
      if (wants_sum) copy_bytes(op.output + in_output + at, result + at, bytes);
      for (const void*& share : shares_) share = static_cast<const std::byte*>(share) + bytes;
    }
    publish(own().reduced, chunk + 1);
  } else {
    sum_shares(d, op.output + in_output, shares_, part.count());
  }
}

void Core::copy_chunk(Operation& op, std::size_t k) {
  const Descriptor& d = op.descriptor;
  const std::size_t element = size_of(d.dtype);
  const Range range = chunk_range(op, k);
  const std::uint64_t chunk = op.first_chunk + k;
  const std::size_t bytes = range.count() * element;
  const std::size_t own_part = static_cast<std::size_t>(rank_);
  // Where the own part begins in a slot that has one for each rank.
  const std::size_t at = parts_of(d.op, size()) > 1 ? own_part * bytes : 0;
  if (comes_from_root(d.op)) {
    copy_bytes(op.output + range.begin * element, slot(peer(d.root), chunk) + at, bytes);
    return;
  }
  if (d.op == OpKind::kGather) {
    copy_bytes(op.output + (own_part * d.count + range.begin) * element,
               op.input + range.begin * element, bytes);
  }
  // Each rank begins with its neighbour, so that not all read the same slot at once.
  for (int i = 1; i < size(); ++i) {
    const int r = (rank_ + i) % size();
    const std::byte* const from = slot(peer(r), chunk) + at;
    if (is_divided(d.op)) {
      const Range slice = slice_of(range.count(), element, r, size());
      copy_bytes(op.output + (range.begin + slice.begin) * element, from + slice.begin * element,
                 slice.count() * element);
    } else {
      copy_bytes(op.output + (static_cast<std::size_t>(r) * d.count + range.begin) * element, from,
                 bytes);
    }
  }
}

void Core::publish(Counter& counter, std::uint64_t count) noexcept {
  counter.value.store(count, std::memory_order_release);
  published();
  // A chunk's work is worth a fence.
  settle();
}

}  // namespace dl::collectives::shm
