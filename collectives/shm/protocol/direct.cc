// Protocol's path for buffers in symmetric memory, which the ranks access without staging.
//
// With its flag, each rank publishes the position of its buffer (Claim). If all buffers lie in the
// same memory, at any offsets, the operation takes this path; otherwise it is staged. Every rank
// knows this once it has seen all flags. A rank does its share of the work in steps, counts itself
// out (`consumed`), and leaves when all ranks have: after that no rank touches its buffer.
//
//   all_reduce             in place, in one pass: rank r sums slice r of all buffers, and writes
//                          the sum into slice r of all
//   sum in parts           rank r sums part r of all inputs into its output
//   all_gather, broadcast  read from the other ranks' buffers
//
// Shares are added from rank 0 upwards, as on every path.
#include <algorithm>

#include "collectives/shm/protocol/protocol.h"

namespace dl::collectives::shm {
namespace {

// The caller's buffer that peers read or write; empty if the operation has no direct path.
std::span<const std::byte> reached_buffer(const Transfer& op, int size) noexcept {
  const Descriptor& d = op.descriptor;
  const std::size_t bytes = d.count * size_of(d.dtype);
  if (row_of(d.op).is_v_variant()) return {};
  if (row_of(d.op).scatters_sum()) return {op.input, bytes * static_cast<std::size_t>(size)};
  switch (d.op) {
    case OpKind::kAllReduce:
      if (op.input != op.output) return {};
      [[fallthrough]];
    case OpKind::kBroadcast:
    case OpKind::kAllGather:
      return {op.input, bytes};
    default:
      return {};
  }
}

Range work_of(const Transfer& op, int rank, int size) noexcept {
  const Descriptor& d = op.descriptor;
  if (d.op == OpKind::kAllReduce) return slice_of(d.count, size_of(d.dtype), rank, size);
  if (d.op == OpKind::kBroadcast && d.root == rank) return {};
  return {0, d.count};
}

}  // namespace

std::span<const std::byte> begin_claim(Transfer& op, int size) noexcept {
  if (op.plan.path != Path::kChunks) return {};
  op.claim.chunks = op.plan.chunks;
  return reached_buffer(op, size);
}

// All ranks have called the same operation and all claims are known, so every rank decides alike.
void Protocol::choose_path(Transfer& op) {
  const std::uint64_t memory = claims_.front().memory;
  bool is_direct = memory != 0;
  std::size_t chunks = 0;
  for (const Claim& c : claims_) {
    op.has_claims |= c.memory != 0;
    is_direct &= c.memory == memory;
    chunks = std::max<std::size_t>(chunks, c.chunks);
  }
  if (is_direct) {
    op.plan = {.path = Path::kDirect,
               .chunk = kDirectStepBytes / size_of(op.descriptor.dtype),
               .chunks = 1};
  } else {
    const bool was_one = op.plan.chunks == 1;
    op.plan.chunks = chunks;
    // If some rank has a claim, or more than one chunk, not every flag says that its rank has
    // staged its first chunk.
    if (was_one && op.staged == 1 && (op.has_claims || chunks > 1)) {
      publish(own().staged, op.first_chunk + 1);
    }
  }
  next_chunk_ = op.first_chunk + op.plan.chunks;
}

Outcome Protocol::advance_direct(Transfer& op) {
  const std::uint64_t wanted = op.first_chunk + 1;
  if (!op.is_worked_out) {
    const Range work = work_of(op, rank_, size_);
    const std::size_t begin = work.begin + op.worked;
    const Range step{begin, std::min(work.end, begin + op.plan.chunk)};
    work_directly(op, step);
    op.worked += step.count();
    op.is_worked_out = step.end == work.end;
    if (op.is_worked_out) publish(own().consumed, wanted);
    return Outcome::kMoved;
  }
  return all_have(&View::consumed, &Block::consumed, wanted) ? Outcome::kDone : Outcome::kNothing;
}

void Protocol::work_directly(const Transfer& op, Range elements) {
  const Descriptor& d = op.descriptor;
  const std::size_t element = size_of(d.dtype);
  const auto buffer_of = [&](int r) {
    const auto rank = static_cast<std::size_t>(r);
    return op.memory[rank] + claims_[rank].offset;
  };
  const std::size_t at = elements.begin * element;
  const std::size_t bytes = elements.count() * element;
  if (d.op == OpKind::kBroadcast) {
    copy_bytes(op.output + at, buffer_of(d.root) + at, bytes);
    return;
  }
  if (d.op == OpKind::kAllGather) {
    // Each rank begins with itself, so that not all ranks read the same memory at once.
    for (int i = 0; i < size_; ++i) {
      const int r = (rank_ + i) % size_;
      const std::size_t part = static_cast<std::size_t>(r) * d.count * element;
      copy_bytes(op.output + part + at, buffer_of(r) + at, bytes);
    }
    return;
  }
  const bool scatters_sum = row_of(d.op).scatters_sum();
  const std::size_t own_part =
      scatters_sum ? static_cast<std::size_t>(rank_) * d.count * element : 0;
  const std::size_t block = kSumBlockBytes / element;
  for (std::size_t begin = elements.begin; begin < elements.end; begin += block) {
    const std::size_t count = std::min(block, elements.end - begin);
    for (int r = 0; r < size_; ++r) {
      shares_[static_cast<std::size_t>(r)] = buffer_of(r) + own_part + begin * element;
    }
    std::byte* const sum = op.output + begin * element;
    sum_shares(d, sum, shares_, count);
    if (scatters_sum) continue;
    for (int r = 0; r < size_; ++r) {
      if (r != rank_) copy_bytes(buffer_of(r) + begin * element, sum, count * element);
    }
  }
}

bool Protocol::may_be_written(const Transfer& op) const noexcept {
  return op.memory != nullptr && op.is_posted && op.descriptor.op == OpKind::kAllReduce &&
         (!has_agreed(op) || op.plan.path == Path::kDirect);
}

}  // namespace dl::collectives::shm
