// Protocol's payloads that travel beside the flags.
//
// The first line of a cell carries the flag and the first bytes of the payload. Each further line
// carries a flag of its own, so that a reader waits for the lines themselves: if it had to see the
// flag before it requested the data, it would wait for two transfers in a row. NCCL calls this
// LL128.
#include <algorithm>

#include "collectives/shm/protocol/protocol.h"

namespace dl::collectives::shm {
namespace {

bool gives_payload(const Transfer& op, int rank) noexcept {
  const Root root = row_of(op.kind).root;
  return root == Root::kNone || (op.descriptor.root == rank) == (root == Root::kGives);
}

bool takes_payload(const Transfer& op, int rank, int from) noexcept {
  const Root root = row_of(op.kind).root;
  return root == Root::kNone || op.descriptor.root == (root == Root::kGives ? from : rank);
}

Range bytes_of(Range elements, const Transfer& op) noexcept {
  const std::size_t element = size_of(op.descriptor.dtype);
  return {elements.begin * element, elements.end * element};
}

// Copies the content of one line, into it or out of it. The line is usually full, and for this
// constant size the compiler emits a few moves.
inline void copy_in_line(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
  bytes == kLinePayload ? copy_bytes(to, from, kLinePayload) : copy_bytes(to, from, bytes);
}

// Copies bytes of a payload out of its lines.
void take(const Block& block, std::size_t cell, Range bytes, std::byte* to) noexcept {
  for (std::size_t at = bytes.begin; at < bytes.end;) {
    const std::size_t line = at / kLinePayload;
    const std::size_t offset = at % kLinePayload;
    const std::byte* const from =
        (line == 0 ? block.cells[cell].payload : block.more[cell].lines[line - 1].payload) + offset;
    const std::size_t count = std::min(kLinePayload - offset, bytes.end - at);
    copy_in_line(to, from, count);
    to += count;
    at += count;
  }
}

}  // namespace

void Protocol::post_first_line(const Transfer& op, Cell& cell) const noexcept {
  if (!gives_payload(op, rank_)) return;
  copy_in_line(cell.payload, op.input, std::min(op.plan.payload, kLinePayload));
}

void Protocol::post_more_lines(const Transfer& op) noexcept {
  if (!gives_payload(op, rank_)) return;
  const std::size_t cell = op.descriptor.sequence % 2;
  // If each rank gets a different part, no peer reads the caller's own part.
  const bool has_parts = parts_of(op.kind, size_) > 1;
  const Range own_part = has_parts ? bytes_of(op.gives[rank_], op) : Range{};
  for (std::size_t at = kLinePayload; at < op.plan.payload; at += kLinePayload) {
    const std::size_t count = std::min(kLinePayload, op.plan.payload - at);
    MoreLines::Line& line = own().more[cell].lines[at / kLinePayload - 1];
    lines_used_[cell] = at / kLinePayload;
    if (own_part.begin <= at && at + count <= own_part.end) continue;
    copy_in_line(line.payload, op.input + at, count);
    line.flag.store(op.descriptor.sequence, std::memory_order_release);
  }
}

bool Protocol::has_payload(const Transfer& op, int from) const noexcept {
  if (!takes_payload(op, rank_, from)) return true;
  // If each rank gets a different part, the peer's part for this rank has the same place as this
  // rank's own part.
  const Range bytes = bytes_of(op.gives[rank_], op);
  const MoreLines& more = view(from).block->more[op.descriptor.sequence % 2];
  const std::size_t first = std::max<std::size_t>(bytes.begin / kLinePayload, 1);
  for (std::size_t line = first; line * kLinePayload < bytes.end; ++line) {
    if (more.lines[line - 1].flag.load(std::memory_order_acquire) != op.descriptor.sequence) {
      return false;
    }
  }
  return true;
}

void Protocol::finish_inline(const Transfer& op) {
  const Descriptor& d = op.descriptor;
  if (d.count == 0) return;
  const Range wanted = bytes_of(op.gives[rank_], op);
  const std::size_t cell = d.sequence % 2;
  if (row_of(d.op).reduces) {
    if (row_of(d.op).root == Root::kTakes && d.root != rank_) return;
    for (int r = 0; r < size_; ++r) {
      const void*& share = shares_[static_cast<std::size_t>(r)];
      if (r == rank_) {
        // Read the input instead: the line of this rank's own cell is on its way to the peers.
        share = op.input + wanted.begin;
      } else if (wanted.end <= kLinePayload) {
        share = view(r).block->cells[cell].payload + wanted.begin;
      } else {
        std::byte* const together = &taken_lines_[static_cast<std::size_t>(r) * kInlineBytes];
        take(*view(r).block, cell, wanted, together);
        share = together;
      }
    }
    sum_shares(d, op.output, shares_, d.count);
    return;
  }
  switch (d.op) {
    case OpKind::kBroadcast:
    case OpKind::kScatter:
      if (d.root != rank_) {
        take(*view(d.root).block, cell, wanted, op.output);
      } else if (d.op == OpKind::kScatter) {
        copy_bytes(op.output, op.input + wanted.begin, wanted.count());
      }
      return;
    case OpKind::kGather:
      if (d.root != rank_) return;
      [[fallthrough]];
    case OpKind::kAllGather:
    case OpKind::kAllToAll:
      for (int r = 0; r < size_; ++r) {
        std::byte* const to = op.output + static_cast<std::size_t>(r) * wanted.count();
        if (r == rank_) {
          copy_bytes(to, op.input + wanted.begin, wanted.count());
        } else {
          take(*view(r).block, cell, wanted, to);
        }
      }
      return;
    default:
      return;
  }
}

}  // namespace dl::collectives::shm
