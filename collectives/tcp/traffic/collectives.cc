#include "collectives/tcp/traffic/collectives.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace dl::collectives::tcp {
namespace {

// Past operations to keep, so that a peer that is a few operations behind is told both sides of a
// mismatch.
constexpr std::size_t kPastOperations = 256;
// After that many slices the other direction and the other peers get their turn.
constexpr int kSlicesARound = 2;

static_assert(SliceSizes{}.most <= kMostSliceBytes);

[[noreturn]] void throw_mismatch(const Peer& p, const Descriptor& where, std::string text) {
  throw GroupError(
      cause_about(where, ErrorKind::kMismatch, std::move(text), Blame::kMismatch, p.who.in_job()));
}

}  // namespace

void Collectives::start(Ref<Collective> collective) {
  last_called_ = collective->descriptor.sequence;
  if (queue_.empty()) ledger_.begin(*collective);
  queue_.push_back(std::move(collective));
}

bool Collectives::advance(Peer& p, Peer::Time now) {
  const bool sent = transmit(p);
  const bool received = receive(p);
  if (received) p.last_heard = now;
  return received || sent;
}

// Gives the next frame to every idle lane.
void Collectives::load_lanes(const Peer& p) {
  Collective& running = *queue_.front();
  Flow& to = flow(p);
  while (to.leaving.size() < p.data.size()) {
    const std::optional<Execution::Slice> next = running.execution.next_send(p.who.rank);
    if (!next) return;
    Link* const lane = p.data[next->frame % p.data.size()].get();
    lane->send({.type = FrameType::kData,
                .length = static_cast<std::uint32_t>(next->bytes),
                .descriptor = running.descriptor,
                .hash = running.hash,
                .transfer = next->transfer,
                .offset = next->offset,
                .aux = next->whole},
               next->data);
    running.execution.begin_send(p.who.rank, next->bytes);
    to.leaving.push_back({lane, next->bytes});
  }
}

bool Collectives::transmit(const Peer& p) {
  if (queue_.empty()) return false;
  std::deque<Flow::Leaving>& leaving = flow(p).leaving;
  bool moved = false;
  for (int slice = 0; slice < kSlicesARound; ++slice) {
    load_lanes(p);
    // A full lane does not delay the next one.
    if (std::ranges::none_of(leaving, [](const Flow::Leaving& l) {
          return l.lane->is_sending() && l.lane->flush();
        })) {
      break;
    }
    // In order: complete bytes are counted from the front.
    while (!leaving.empty() && !leaving.front().lane->is_sending()) {
      queue_.front()->execution.end_send(p.who.rank, leaving.front().bytes);
      leaving.pop_front();
    }
    moved = true;
  }
  return moved;
}

bool Collectives::receive(Peer& p) {
  Flow& from = flow(p);
  bool moved = false;
  for (int slice = 0; slice < kSlicesARound; ++slice) {
    Link& lane = *p.data[incoming(p)];
    const FrameHeader* const header = lane.header();
    if (header == nullptr) break;
    if (!from.is_admitted) {
      if (!admit(p, *header)) break;
      from.is_admitted = true;
      queue_.front()->execution.begin_receive(p.who.rank, header->length);
    }
    const bool some = header->length > 0 && apply(p, lane);
    moved |= some;
    if (lane.payload_left() > 0) {
      if (!some) break;
      continue;
    }
    from.is_admitted = false;
    lane.end_frame();
    queue_.front()->execution.end_receive(p.who.rank);
    moved = true;
  }
  return moved;
}

bool Collectives::admit(Peer& p, const FrameHeader& header) {
  const Descriptor& theirs = header.descriptor;
  p.last_called = std::max(p.last_called, theirs.sequence);
  DL_CHECK(header.type == FrameType::kData, kInternal,
           "group '{}': {} sent a frame of type {} on a data link", group_.name, p.who.text(),
           name_of(header.type));
  Collective* const running = queue_.empty() ? nullptr : queue_.front().get();
  const std::uint64_t ours = running == nullptr ? last_called_ + 1 : running->descriptor.sequence;
  const auto next = running == nullptr ? std::nullopt : running->execution.expected(p.who.rank);
  if (running == nullptr || theirs.sequence != ours) {
    // The frame is early: the peer is ahead of this rank. That is fine unless this rank still needs
    // the peer's data for the operation under way, which the peer has then skipped.
    if (theirs.sequence >= ours && !next) return false;
    throw_other_call(p, theirs);
  }
  if (header.hash != running->hash) throw_other_call(p, theirs);
  if (next && header.aux != next->whole) {
    const std::size_t element = size_of(theirs.dtype);
    throw_mismatch(p, theirs,
                   part_mismatch_text(theirs, p.who.text(), header.aux / element,
                                      group_.self().text(), next->whole / element));
  }
  DL_CHECK(next && header.transfer == next->transfer && header.offset == next->offset &&
               header.length <= next->whole - next->offset &&
               header.length % size_of(running->descriptor.dtype) == 0 &&
               (header.length > 0 || next->whole == 0),
           kInternal, "{}: {} sent slice {}+{} of transfer {}, which is not the one expected",
           text(running->descriptor), p.who.text(), header.offset, header.length, header.transfer);
  return running->execution.may_receive(p.who.rank, header.length);
}

void Collectives::throw_other_call(const Peer& p, const Descriptor& theirs) const {
  const std::string us = group_.self().text();
  if (!queue_.empty() && theirs.sequence >= queue_.front()->descriptor.sequence) {
    const Descriptor& ours = queue_.front()->descriptor;
    throw_mismatch(p, ours, mismatch_text(theirs, p.who.text(), ours, us));
  }
  const Descriptor* const past = find_past(theirs.sequence);
  throw_mismatch(p, theirs,
                 past != nullptr ? mismatch_text(theirs, p.who.text(), *past, us)
                                 : fmt::format("{} sent data of {}, which {} finished long ago",
                                               p.who.text(), text(theirs), us));
}

bool Collectives::apply(const Peer& p, Link& lane) {
  Collective& running = *queue_.front();
  if (std::byte* const to = running.execution.place(p.who.rank)) {
    const std::size_t got = lane.read(to, lane.payload_left());
    running.execution.apply(p.who.rank, to, got);
    return got > 0;
  }
  Flow& from = flow(p);
  std::memcpy(staging_, from.carry.data(), from.carried);
  const std::size_t got = lane.read(staging_ + from.carried, lane.payload_left());
  if (got == 0) return false;
  const std::size_t here = from.carried + got;
  const std::size_t whole = here - here % size_of(running.descriptor.dtype);
  running.execution.apply(p.who.rank, staging_, whole);
  from.carried = here - whole;
  std::memcpy(from.carry.data(), staging_ + whole, from.carried);
  return true;
}

bool Collectives::advance_front() {
  if (queue_.empty()) return false;
  const bool has_reduced = queue_.front()->execution.combine_ready();
  if (!queue_.front()->execution.is_finished()) return has_reduced;
  Ref<Collective> over = std::move(queue_.front());
  queue_.pop_front();
  if (!queue_.empty()) ledger_.begin(*queue_.front());
  status_.note_completed(over->descriptor.sequence);
  past_.push_back(over->descriptor);
  if (past_.size() > kPastOperations) past_.pop_front();
  ledger_.end(std::move(over), nullptr);
  return true;
}

std::vector<Ref<Operation>> Collectives::drop_after(std::uint64_t last) {
  const auto first = std::ranges::find_if(
      queue_, [&](const Ref<Collective>& c) { return c->descriptor.sequence > last; });
  std::vector<Ref<Operation>> dropped(std::make_move_iterator(first),
                                      std::make_move_iterator(queue_.end()));
  queue_.erase(first, queue_.end());
  return dropped;
}

std::string Collectives::call_of(const Cause& cause) const {
  if (cause.blame != Blame::kMismatch || cause.sequence == 0) return {};
  for (const Ref<Collective>& operation : queue_) {
    if (operation->descriptor.sequence == cause.sequence) return call_text(operation->descriptor);
  }
  const Descriptor* const past = find_past(cause.sequence);
  return past == nullptr ? std::string() : call_text(*past);
}

const Descriptor* Collectives::find_past(std::uint64_t sequence) const noexcept {
  const auto found = std::ranges::find(past_, sequence, &Descriptor::sequence);
  return found == past_.end() ? nullptr : &*found;
}

}  // namespace dl::collectives::tcp
