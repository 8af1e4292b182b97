// Core's functions that advance an operation: flags, chunks, copies and sums (inline.cc: payloads
// beside the flags; direct.cc: symmetric memory).
//
// If all ranks agree that they do the same, chunk k of an operation goes through up to three
// phases. Each phase counts its chunks in this rank's own Block:
//   stage   copy the input that others need into this rank's slot
//   reduce  sum this rank's slice of the chunk from all slots into this rank's slot and output
//   copy    copy the results, or data, from the other ranks' slots into the output
// A phase waits only for counters of other ranks, so ranks may be as many chunks apart as slots are
// used.
#include <algorithm>
#include <span>

#include "collectives/reduce/reduce.h"
#include "collectives/shm/core/core.h"

namespace dl::collectives::shm {
namespace {

// The phases of an operation. The last one consumes the chunk.
struct Phases {
  bool stages = true;
  bool reduces = false;
  bool copies = false;
};

// True if the ranks divide the sum among themselves.
bool is_divided(OpKind op) noexcept {
  return row_of(op).reduces && row_of(op).input == Side::kWhole;
}

bool comes_from_root(OpKind op) noexcept {
  return row_of(op).root == Root::kGives;
}

Phases phases_of(const Operation& op, int rank) noexcept {
  const bool is_root = op.descriptor.root == rank;
  const bool divides = op.plan.path == Path::kChunks;
  const Root root = row_of(op.kind).root;
  if (row_of(op.kind).scatters_sum()) return {.reduces = true};
  if (is_divided(op.kind)) {
    const bool has_result = root == Root::kNone || is_root;
    return {.reduces = divides || has_result, .copies = divides && has_result};
  }
  if (root == Root::kGives) return {.stages = is_root, .copies = !is_root};
  if (root == Root::kTakes) return {.stages = !is_root, .copies = is_root};
  return {.copies = true};
}

bool is_v_variant(const Operation& op) noexcept {
  return op.kind != op.descriptor.op;
}

}  // namespace

void sum_shares(const Descriptor& what, std::byte* dst, std::span<const void* const> shares,
                std::size_t count) {
  if (shares.size() == 2 &&
      (what.reduce != ReduceOp::kAvg || !needs_raw_shares(what.dtype, what.reduce))) {
    // A sum of two shares is rounded once for every dtype, so no wider sum is needed.
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
    if (is_closed()) return true;
  }
  const bool agreed = op.next_to_agree == size();
  if (op.plan.path == Path::kInline) {
    if (!agreed) return moved;
    finish_inline(op);
    finish_front();
    return true;
  }
  if (op.plan.path == Path::kDirect) return advance_direct(op) || moved;
  moved |= advance_chunk(op);
  const Phases phases = phases_of(op, rank_);
  const std::size_t chunks = op.plan.chunks;
  if (agreed && (!phases.stages || op.staged == chunks) &&
      (!phases.reduces || op.reduced == chunks) && (!phases.copies || op.copied == chunks)) {
    publish(own().consumed, op.first_chunk + chunks);
    finish_front();
    return true;
  }
  return moved;
}

// Publishes that this rank has called the operation. An operation of one chunk is staged first, so
// that the flag says this as well.
bool Core::post(Operation& op) {
  const Descriptor& d = op.descriptor;
  Cell& cell = own().cells[d.sequence % 2];
  if (op.plan.chunks == 1 && !op.memory && phases_of(op, rank_).stages) {
    if (!may_stage(op.first_chunk)) return false;
    stage(op, 0);
    op.staged = 1;
  }
  // Write the descriptor first; it has a line of its own. What shares the flag's line is written
  // right before the flag: peers that poll the flag would take the line away in between.
  copy_bytes(cell.descriptor, &d, sizeof d);
  if (is_v_variant(op)) {
    Counts& counts = own().counts[d.sequence % 2];
    for (int r = 0; r < size(); ++r) {
      const std::uint64_t count = op.gives[r].count();
      copy_bytes(&counts.to[r], &count, sizeof count);
    }
  }
  lines_used_[d.sequence % 2] = 0;
  if (op.plan.payload > 0) {
    post_first_line(op, cell);
  } else if (op.plan.path == Path::kChunks) {
    claims_[static_cast<std::size_t>(rank_)] = op.claim;
    copy_bytes(cell.payload, &op.claim, sizeof op.claim);
  }
  cell.flag.store(flag_of(d.sequence, op.hash), std::memory_order_release);
  if (has_more_lines(op)) post_more_lines(op);
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
      if (has_more_lines(op) && !has_payload(op, p)) break;
      if (is_v_variant(op) && !has_agreed_counts(op, p)) return true;
      continue;
    }
    if (!is_of(theirs, op.descriptor.sequence)) break;
    // After another failure, ranks may differ because of it: its cause counts.
    if (adopt_peers_cause()) return true;
    Descriptor said;
    copy_bytes(&said, cell.descriptor, sizeof said);
    fail_mismatch(op.descriptor, p,
                  mismatch_text(said, p.who.text(), op.descriptor, peer(rank_).who.text()));
    return true;
  }
  if (op.next_to_agree == size() && op.plan.path == Path::kChunks) choose_path(op);
  return op.next_to_agree > before;
}

// For a v-variant that this rank and a peer have called: true if both give the same count for the
// part from the peer to this rank.
bool Core::has_agreed_counts(Operation& op, Peer& p) {
  const Descriptor& d = op.descriptor;
  if (op.kind == OpKind::kGather && d.root != rank_) return true;
  if (op.kind == OpKind::kScatter && d.root != p.who.rank) return true;
  std::uint64_t sent = 0;
  copy_bytes(&sent, &p.block->counts[d.sequence % 2].to[rank_], sizeof sent);
  const std::uint64_t expected = op.takes[p.who.rank].count();
  if (sent == expected) return true;
  if (!adopt_peers_cause()) {
    fail_mismatch(d, p,
                  part_mismatch_text(d, p.who.text(), sent, peer(rank_).who.text(), expected));
  }
  return false;
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
  return chunk < slots_ || all_have(&Peer::consumed, &Block::consumed, chunk + 1 - slots_);
}

// Runs the latest phase that can advance, because that frees slots.
bool Core::advance_chunk(Operation& op) {
  const Phases phases = phases_of(op, rank_);
  const std::size_t chunks = op.plan.chunks;
  const bool agreed = op.next_to_agree == size();
  // For an operation of one chunk the flags say that it is staged, unless some rank could not know
  // yet whether it had to stage.
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
  if (agreed && phases.copies && op.copied < chunks) {
    const std::uint64_t wanted = op.first_chunk + op.copied + 1;
    bool ready = one;
    if (phases.reduces) {
      ready = op.copied < op.reduced && all_have(&Peer::reduced, &Block::reduced, wanted);
    } else if (!one && comes_from_root(op.kind)) {
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
  const std::size_t element = size_of(op.descriptor.dtype);
  std::byte* const to = slot(peer(rank_), op.first_chunk + k);
  // Copies the part that this rank gives to rank r to `at` in the slot.
  const auto stage_part = [&](int r, std::size_t at) {
    const Range piece = piece_of(op.gives[r], k, op.plan);
    copy_bytes(to + at, op.input + piece.begin * element, piece.count() * element);
  };
  const auto copy_own_part = [&] {
    const Range from = piece_of(op.gives[rank_], k, op.plan);
    const Range place = piece_of(op.takes[rank_], k, op.plan);
    copy_bytes(op.output + place.begin * element, op.input + from.begin * element,
               from.count() * element);
  };
  if (parts_of(op.kind, size()) > 1) {
    for (int r = 0; r < size(); ++r) {
      if (r != rank_) stage_part(r, static_cast<std::size_t>(r) * op.plan.chunk * element);
    }
    if (!row_of(op.kind).scatters_sum()) copy_own_part();
  } else if (op.plan.path == Path::kChunks && is_divided(op.kind)) {
    // No other rank needs this rank's own slice.
    const Range piece = piece_of(op.gives[rank_], k, op.plan);
    const Range own_slice = slice_of(piece.count(), element, rank_, size());
    const std::byte* const from = op.input + piece.begin * element;
    copy_bytes(to, from, own_slice.begin * element);
    copy_bytes(to + own_slice.end * element, from + own_slice.end * element,
               (piece.count() - own_slice.end) * element);
  } else {
    stage_part(rank_, 0);
    if (op.kind == OpKind::kAllGather) copy_own_part();
  }
}

void Core::reduce_chunk(Operation& op, std::size_t k) {
  const Descriptor& d = op.descriptor;
  const std::size_t element = size_of(d.dtype);
  const std::uint64_t chunk = op.first_chunk + k;
  const Range given = piece_of(op.gives[rank_], k, op.plan);
  const bool divides = op.plan.path == Path::kChunks && is_divided(op.kind);
  // The elements of the piece that this rank sums, and their first index in the slots.
  const Range part =
      divides ? slice_of(given.count(), element, rank_, size()) : Range{0, given.count()};
  const std::size_t in_slot =
      row_of(op.kind).scatters_sum() ? static_cast<std::size_t>(rank_) * op.plan.chunk : part.begin;
  for (int r = 0; r < size(); ++r) {
    shares_[static_cast<std::size_t>(r)] = r == rank_
                                               ? op.input + (given.begin + part.begin) * element
                                               : slot(peer(r), chunk) + in_slot * element;
  }
  // Only a root has one in a reduce.
  std::byte* const output =
      op.output == nullptr
          ? nullptr
          : op.output + (piece_of(op.takes[rank_], k, op.plan).begin + part.begin) * element;
  if (!divides) {
    sum_shares(d, output, shares_, part.count());
    return;
  }
  std::byte* const result = slot(peer(rank_), chunk) + in_slot * element;
  const bool wants_sum = op.kind == OpKind::kAllReduce || d.root == rank_;
  const std::size_t block = kSumBlockBytes / element;
  for (std::size_t begin = 0; begin < part.count(); begin += block) {
    const std::size_t at = begin * element;
    const std::size_t bytes = std::min(kSumBlockBytes, part.count() * element - at);
    sum_shares(d, result + at, shares_, bytes / element);
    if (wants_sum) copy_bytes(output + at, result + at, bytes);
    for (const void*& share : shares_) share = static_cast<const std::byte*>(share) + bytes;
  }
  publish(own().reduced, chunk + 1);
}

void Core::copy_chunk(Operation& op, std::size_t k) {
  const Descriptor& d = op.descriptor;
  const std::size_t element = size_of(d.dtype);
  const std::uint64_t chunk = op.first_chunk + k;
  // Offset of this rank's part, if a slot has a part for each rank.
  const std::size_t at =
      parts_of(op.kind, size()) > 1 ? static_cast<std::size_t>(rank_) * op.plan.chunk * element : 0;
  const auto copy_from = [&](int r) {
    const Range place = piece_of(op.takes[r], k, op.plan);
    std::byte* const to = op.output + place.begin * element;
    const std::byte* const from = slot(peer(r), chunk) + at;
    if (is_divided(op.kind)) {
      const Range slice = slice_of(place.count(), element, r, size());
      copy_bytes(to + slice.begin * element, from + slice.begin * element, slice.count() * element);
    } else {
      copy_bytes(to, from, place.count() * element);
    }
  };
  if (comes_from_root(op.kind)) {
    copy_from(d.root);
    return;
  }
  if (op.kind == OpKind::kGather) {
    const Range from = piece_of(op.gives[rank_], k, op.plan);
    const Range place = piece_of(op.takes[rank_], k, op.plan);
    copy_bytes(op.output + place.begin * element, op.input + from.begin * element,
               from.count() * element);
  }
  // Each rank begins with its neighbour, so that not all ranks read the same slot at once.
  for (int i = 1; i < size(); ++i) copy_from((rank_ + i) % size());
}

void Core::publish(Counter& counter, std::uint64_t count) noexcept {
  counter.value.store(count, std::memory_order_release);
  published();
  // A fence is cheap compared with a chunk's work.
  settle();
}

}  // namespace dl::collectives::shm
