// Core's functions that move the data of collectives.
#include <algorithm>
#include <cstring>

#include "collectives/tcp/core/core.h"

namespace dl::collectives::tcp {
namespace {

// Past operations to keep, so that a peer that is a few operations behind is told both sides of a
// mismatch.
constexpr std::size_t kPastOperations = 256;
// After that many slices the other direction and the other peers get their turn.
constexpr int kSlicesARound = 2;

}  // namespace

Link& Core::incoming_lane(const Peer& p) const noexcept {
  const std::size_t frame =
      queue_.empty() ? 0 : queue_.front()->execution.slices_received(p.who.rank);
  return *p.data[frame % p.data.size()];
}

bool Core::advance_data(Peer& p, Engine::Clock::time_point now) {
  const bool sent = transmit_data(p);
  const bool received = receive_data(p);
  if (received) p.last_heard = now;
  return received || sent;
}

// Gives the next frame to every idle lane.
void Core::load_lanes(Peer& p) {
  Collective& running = *queue_.front();
  while (p.leaving.size() < p.data.size()) {
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
    p.leaving.push_back({lane, next->bytes});
  }
}

bool Core::transmit_data(Peer& p) {
  if (queue_.empty()) return false;
  bool moved = false;
  for (int slice = 0; slice < kSlicesARound; ++slice) {
    load_lanes(p);
    const auto next = std::ranges::find_if(
        p.leaving, [](const Peer::Leaving& l) { return l.lane->is_sending(); });
    if (next == p.leaving.end()) break;
    // A full lane does not delay the next one.
    bool some = false;
    for (auto l = next; l != p.leaving.end() && !some; ++l) {
      some = l->lane->is_sending() && l->lane->flush();
    }
    if (!some) break;
    // In order: complete bytes are counted from the front.
    while (!p.leaving.empty() && !p.leaving.front().lane->is_sending()) {
      queue_.front()->execution.end_send(p.who.rank, p.leaving.front().bytes);
      p.leaving.pop_front();
    }
    moved = true;
  }
  return moved;
}

bool Core::receive_data(Peer& p) {
  bool moved = false;
  for (int slice = 0; slice < kSlicesARound && !is_closed(); ++slice) {
    Link& lane = incoming_lane(p);
    const FrameHeader* header = lane.header();
    if (header == nullptr) break;
    if (!p.admitted) {
      if (!admit(p, *header)) break;
      p.admitted = true;
      queue_.front()->execution.begin_receive(p.who.rank, header->length);
    }
    const bool some = apply(p, lane, *header);
    moved |= some;
    if (lane.payload_left() > 0) {
      if (!some) break;
      continue;
    }
    p.admitted = false;
    lane.end_frame();
    queue_.front()->execution.end_receive(p.who.rank);
    moved = true;
  }
  return moved;
}

bool Core::admit(Peer& p, const FrameHeader& header) {
  const Descriptor& theirs = header.descriptor;
  p.last_called = std::max(p.last_called, theirs.sequence);
  DL_CHECK(header.type == FrameType::kData, kInternal,
           "group '{}': {} sent a frame of type {} on a data link", name_, p.who.text(),
           name_of(header.type));
  Collective* const running = queue_.empty() ? nullptr : queue_.front().get();
  const std::string us = identity(rank_).text();
  const auto differs = [&](const Descriptor& where, std::string text) {
    fail(cause_about(where, ErrorKind::kMismatch, std::move(text), Blame::kMismatch,
                     p.who.in_job()));
  };
  if (running == nullptr || theirs.sequence != running->descriptor.sequence) {
    const std::uint64_t ours = running == nullptr ? last_called_ + 1 : running->descriptor.sequence;
    // The frame is early: the peer is ahead of this rank. That is fine unless this rank still needs
    // the peer's data for the operation under way, which the peer has then skipped.
    if (theirs.sequence >= ours) {
      if (running == nullptr || !running->execution.expected(p.who.rank)) return false;
      differs(running->descriptor, mismatch_text(theirs, p.who.text(), running->descriptor, us));
      return false;
    }
    const Descriptor* past = find_past(theirs.sequence);
    differs(theirs, past != nullptr ? mismatch_text(theirs, p.who.text(), *past, us)
                                    : fmt::format("{} sent data of {}, which {} has left long ago",
                                                  p.who.text(), text(theirs), us));
    return false;
  }
  if (header.hash != running->hash) {
    differs(running->descriptor, mismatch_text(theirs, p.who.text(), running->descriptor, us));
    return false;
  }
  const std::optional<Execution::Expected> next = running->execution.expected(p.who.rank);
  if (next && header.aux != next->whole) {
    const std::size_t element = size_of(theirs.dtype);
    differs(theirs, part_mismatch_text(theirs, p.who.text(), header.aux / element, us,
                                       next->whole / element));
    return false;
  }
  DL_CHECK(next && header.transfer == next->transfer && header.offset == next->offset &&
               header.length <= next->whole - next->offset &&
               header.length % size_of(running->descriptor.dtype) == 0 &&
               (header.length > 0 || next->whole == 0),
           kInternal, "{}: {} sent slice {}+{} of transfer {}, which is not the one expected",
           text(running->descriptor), p.who.text(), header.offset, header.length, header.transfer);
  return running->execution.may_receive(p.who.rank, header.length);
}

bool Core::apply(Peer& p, Link& lane, const FrameHeader& header) {
  if (header.length == 0) return false;
  Collective& running = *queue_.front();
  if (std::byte* const to = running.execution.place(p.who.rank)) {
    const std::size_t got = lane.read(to, lane.payload_left());
    running.execution.apply(p.who.rank, to, got);
    return got > 0;
  }
  std::byte* const staging = engine_->staging();
  std::memcpy(staging, p.carry.data(), p.carried);
  const std::size_t got = lane.read(staging + p.carried, lane.payload_left());
  if (got == 0) return false;
  const std::size_t here = p.carried + got;
  const std::size_t whole = here - here % size_of(running.descriptor.dtype);
  running.execution.apply(p.who.rank, staging, whole);
  p.carried = here - whole;
  std::memcpy(p.carry.data(), staging + whole, p.carried);
  return true;
}

void Core::finish_front() {
  Ref<Collective> over = std::move(queue_.front());
  queue_.pop_front();
  if (!queue_.empty()) record_start(*queue_.front());
  completed_ = over->descriptor.sequence;
  past_.push_back(over->descriptor);
  if (past_.size() > kPastOperations) past_.pop_front();
  over->end(nullptr);
  const std::lock_guard lock(finished_mutex_);
  finished_.emplace_back(std::move(over));
}

const Descriptor* Core::find_past(std::uint64_t sequence) const noexcept {
  for (const Descriptor& d : past_) {
    if (d.sequence == sequence) return &d;
  }
  return nullptr;
}

}  // namespace dl::collectives::tcp
