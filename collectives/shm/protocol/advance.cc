// Protocol's flags, chunks, copies and sums.
//
// Chunk k of an operation that all ranks have called goes through up to three phases. Each phase
// counts its chunks in this rank's own Block:
//   stage   copy the input that others need into this rank's slot
//   reduce  sum this rank's slice of the chunk from all slots into this rank's slot and output
//   copy    copy the results, or data, from the other ranks' slots into the output
// A phase waits only for counters of other ranks, so ranks may be as many chunks apart as slots are
// used.
#include <algorithm>
#include <span>

#include "collectives/reduce/reduce.h"
#include "collectives/shm/protocol/protocol.h"

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

Phases phases_of(const Transfer& op, int rank) noexcept {
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

bool is_v_variant(const Transfer& op) noexcept {
  return op.kind != op.descriptor.op;
}

Block& block_in(std::byte* segment) noexcept {
  return *reinterpret_cast<Block*>(segment);
}

bool has_reached(View& rank, std::uint64_t View::* seen, Counter Block::* counter,
                 std::uint64_t count) noexcept {
  if (rank.*seen >= count) return true;
  rank.*seen = (rank.block->*counter).value.load(std::memory_order_acquire);
  return rank.*seen >= count;
}

std::vector<Bell*> bells_of(std::span<std::byte* const> segments) {
  std::vector<Bell*> bells;
  for (std::byte* const segment : segments) bells.push_back(&block_in(segment).bell);
  return bells;
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

Protocol::Protocol(int rank, std::span<std::byte* const> segments, std::size_t slots)
    : rank_(rank),
      size_(static_cast<int>(segments.size())),
      slots_(slots),
      bells_(rank, bells_of(segments)),
      shares_(segments.size()),
      claims_(segments.size()),
      taken_lines_(segments.size() * kInlineBytes) {
  for (std::byte* const segment : segments) {
    views_.push_back({.block = &block_in(segment), .slots = segment + kSlotsOffset});
  }
}

void Protocol::begin(Transfer& op) noexcept {
  op.first_chunk = next_chunk_;
  next_chunk_ += op.plan.chunks;
}

Outcome Protocol::advance(Transfer& op) {
  if (!op.is_posted) return post(op) ? Outcome::kMoved : Outcome::kNothing;
  Outcome outcome = Outcome::kNothing;
  if (!has_agreed(op)) {
    outcome = agree(op);
    if (outcome == Outcome::kMismatch) return outcome;
  }
  const bool agreed = has_agreed(op);
  if (op.plan.path == Path::kInline) {
    if (!agreed) return outcome;
    finish_inline(op);
    return Outcome::kDone;
  }
  if (op.plan.path == Path::kDirect) {
    const Outcome direct = advance_direct(op);
    return direct == Outcome::kNothing ? outcome : direct;
  }
  if (advance_chunk(op)) outcome = Outcome::kMoved;
  const Phases phases = phases_of(op, rank_);
  const std::size_t chunks = op.plan.chunks;
  if (agreed && (!phases.stages || op.staged == chunks) &&
      (!phases.reduces || op.reduced == chunks) && (!phases.copies || op.copied == chunks)) {
    publish(own().consumed, op.first_chunk + chunks);
    return Outcome::kDone;
  }
  return outcome;
}

bool Protocol::needs(const Transfer& op, int rank) const noexcept {
  if (rank == rank_) return false;
  const Block& block = *view(rank).block;
  if (block.cells[op.descriptor.sequence % 2].flag.load(std::memory_order_acquire) !=
      flag_of(op.descriptor.sequence, op.hash)) {
    return true;
  }
  if (has_more_lines(op)) return !has_payload(op, rank);
  // An exchange needs only what the peer has staged before it called.
  return op.plan.chunks > 0 && op.plan.path != Path::kExchange &&
         block.consumed.value.load(std::memory_order_acquire) < op.first_chunk + op.plan.chunks;
}

void Protocol::fetch_next(const Transfer& op) noexcept {
  // No peer still polls the cell that the next operation will write.
  const std::size_t cell = (op.descriptor.sequence + 1) % 2;
  Cell& next = own().cells[cell];
  fetch_to_write(&next);
  fetch_to_write(&next.descriptor);
  // The two cells alternate between operations, and operations often alternate as well: expect the
  // next one to be as long as the last one in its cell.
  for (std::size_t i = 0; i < lines_used_[cell]; ++i) fetch_to_write(&own().more[cell].lines[i]);
}

// Publishes that this rank has called the operation. An operation of one chunk is staged first, so
// that the flag says this as well.
bool Protocol::post(Transfer& op) {
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
    for (int r = 0; r < size_; ++r) {
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
  bells_.published();
  return true;
}

Outcome Protocol::agree(Transfer& op) {
  const std::uint64_t ours = flag_of(op.descriptor.sequence, op.hash);
  const int before = op.next_to_agree;
  for (; op.next_to_agree < size_; ++op.next_to_agree) {
    if (op.next_to_agree == rank_) continue;
    const int rank = op.next_to_agree;
    const Cell& cell = view(rank).block->cells[op.descriptor.sequence % 2];
    const std::uint64_t theirs = cell.flag.load(std::memory_order_acquire);
    if (theirs == ours) {
      if (op.plan.path == Path::kChunks) {
        copy_bytes(&claims_[static_cast<std::size_t>(rank)], cell.payload, sizeof(Claim));
      }
      if (has_more_lines(op) && !has_payload(op, rank)) break;
      if (is_v_variant(op) && !has_agreed_counts(op, rank)) return Outcome::kMismatch;
      continue;
    }
    if (!is_of(theirs, op.descriptor.sequence)) break;
    mismatch_ = {.rank = rank};
    copy_bytes(&mismatch_.called, cell.descriptor, sizeof mismatch_.called);
    return Outcome::kMismatch;
  }
  if (has_agreed(op) && op.plan.path == Path::kChunks) choose_path(op);
  return op.next_to_agree > before ? Outcome::kMoved : Outcome::kNothing;
}

// For a v-variant that this rank and a peer have called: true if both give the same count for the
// part from the peer to this rank.
bool Protocol::has_agreed_counts(const Transfer& op, int rank) {
  const Descriptor& d = op.descriptor;
  if (op.kind == OpKind::kGather && d.root != rank_) return true;
  if (op.kind == OpKind::kScatter && d.root != rank) return true;
  std::uint64_t sent = 0;
  copy_bytes(&sent, &view(rank).block->counts[d.sequence % 2].to[rank_], sizeof sent);
  const std::uint64_t expected = op.takes[rank].count();
  if (sent == expected) return true;
  mismatch_ = {.rank = rank, .is_of_count = true, .called = d, .sent = sent, .expected = expected};
  return false;
}

bool Protocol::all_have(std::uint64_t View::* seen, Counter Block::* counter,
                        std::uint64_t count) noexcept {
  for (int r = 0; r < size_; ++r) {
    if (r != rank_ && !has_reached(view(r), seen, counter, count)) return false;
  }
  return true;
}

bool Protocol::may_stage(std::uint64_t chunk) noexcept {
  return chunk < slots_ || all_have(&View::consumed, &Block::consumed, chunk + 1 - slots_);
}

// Runs the latest phase that can advance, because that frees slots.
bool Protocol::advance_chunk(Transfer& op) {
  const Phases phases = phases_of(op, rank_);
  const std::size_t chunks = op.plan.chunks;
  const bool agreed = has_agreed(op);
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
      ready = op.copied < op.reduced && all_have(&View::reduced, &Block::reduced, wanted);
    } else if (!one && comes_from_root(op.kind)) {
      ready = has_reached(view(op.descriptor.root), &View::staged, &Block::staged, wanted);
    } else if (!one) {
      ready = (!phases.stages || op.copied < op.staged) &&
              all_have(&View::staged, &Block::staged, wanted);
    }
    if (ready) {
      copy_chunk(op, op.copied++);
      if (op.copied < chunks) publish(own().consumed, wanted);
      return true;
    }
  }
  if (agreed && phases.reduces && op.reduced < op.staged) {
    const std::uint64_t wanted = op.first_chunk + op.reduced + 1;
    if (one || all_have(&View::staged, &Block::staged, wanted)) {
      reduce_chunk(op, op.reduced++);
      if (!phases.copies && op.reduced < chunks) publish(own().consumed, wanted);
      return true;
    }
  }
  return stage_next();
}

void Protocol::stage(const Transfer& op, std::size_t k) {
  const std::size_t element = size_of(op.descriptor.dtype);
  std::byte* const to = slot(rank_, op.first_chunk + k);
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
  if (parts_of(op.kind, size_) > 1) {
    for (int r = 0; r < size_; ++r) {
      if (r != rank_) stage_part(r, static_cast<std::size_t>(r) * op.plan.chunk * element);
    }
    if (!row_of(op.kind).scatters_sum()) copy_own_part();
  } else if (op.plan.path == Path::kChunks && is_divided(op.kind)) {
    // No other rank needs this rank's own slice.
    const Range piece = piece_of(op.gives[rank_], k, op.plan);
    const Range own_slice = slice_of(piece.count(), element, rank_, size_);
    const std::byte* const from = op.input + piece.begin * element;
    copy_bytes(to, from, own_slice.begin * element);
    copy_bytes(to + own_slice.end * element, from + own_slice.end * element,
               (piece.count() - own_slice.end) * element);
  } else {
    stage_part(rank_, 0);
    if (op.kind == OpKind::kAllGather) copy_own_part();
  }
}

void Protocol::reduce_chunk(const Transfer& op, std::size_t k) {
  const Descriptor& d = op.descriptor;
  const std::size_t element = size_of(d.dtype);
  const std::uint64_t chunk = op.first_chunk + k;
  const Range given = piece_of(op.gives[rank_], k, op.plan);
  const bool divides = op.plan.path == Path::kChunks && is_divided(op.kind);
  // The elements of the piece that this rank sums, and their first index in the slots.
  const Range part =
      divides ? slice_of(given.count(), element, rank_, size_) : Range{0, given.count()};
  const std::size_t in_slot =
      row_of(op.kind).scatters_sum() ? static_cast<std::size_t>(rank_) * op.plan.chunk : part.begin;
  for (int r = 0; r < size_; ++r) {
    shares_[static_cast<std::size_t>(r)] = r == rank_
                                               ? op.input + (given.begin + part.begin) * element
                                               : slot(r, chunk) + in_slot * element;
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
  std::byte* const result = slot(rank_, chunk) + in_slot * element;
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

void Protocol::copy_chunk(const Transfer& op, std::size_t k) {
  const Descriptor& d = op.descriptor;
  const std::size_t element = size_of(d.dtype);
  const std::uint64_t chunk = op.first_chunk + k;
  // Offset of this rank's part, if a slot has a part for each rank.
  const std::size_t at =
      parts_of(op.kind, size_) > 1 ? static_cast<std::size_t>(rank_) * op.plan.chunk * element : 0;
  const auto copy_from = [&](int r) {
    const Range place = piece_of(op.takes[r], k, op.plan);
    std::byte* const to = op.output + place.begin * element;
    const std::byte* const from = slot(r, chunk) + at;
    if (is_divided(op.kind)) {
      const Range slice = slice_of(place.count(), element, r, size_);
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
  for (int i = 1; i < size_; ++i) copy_from((rank_ + i) % size_);
}

void Protocol::publish(Counter& counter, std::uint64_t count) noexcept {
  counter.value.store(count, std::memory_order_release);
  bells_.published();
  // A fence is cheap compared with a chunk's work.
  bells_.settle();
}

}  // namespace dl::collectives::shm
