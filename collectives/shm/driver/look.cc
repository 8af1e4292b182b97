// The driver's checks of a wait that gets long: peers that are gone, causes that peers have found,
// warnings and deadlines.
#include "collectives/shm/driver/driver.h"
#include "core/base/log/log.h"

namespace dl::collectives::shm {

void Driver::look(Clock::time_point now) {
  // If there are messages, the progress thread adopts the cause, because it reads the sockets
  // first.
  if (!queue_.has_messages()) failure_.adopt_peers_cause();
  if (failure_.stops()) return;
  messages_.look_for_gone();
  for (const Ref<Message>& message : messages_.under_way()) {
    if (failure_.is_broken()) break;
    look_at_clock(*message, now);
  }
  if (failure_.stops() || !front_) return;
  look_at_peers(*front_);
  if (failure_.is_closed() || !front_) return;
  look_at_clock(*front_, now);
  if (failure_.is_closed()) return;
  queue_.for_each([&](Operation& op) {
    look_at_clock(op, now);
    return !failure_.is_closed();
  });
}

void Driver::look_at_peers(const Operation& front) {
  for (const Peer& p : peers_) {
    if (p.who.rank == peers_.rank()) continue;
    if (!p.has_left() && !p.is_gone.load(std::memory_order_acquire)) continue;
    // Data that the peer wrote before it left counts: only what is missing now will never come.
    if (!protocol_.needs(front.transfer, p.who.rank)) continue;
    if (step()) return;
    if (!failure_.adopt_peers_cause()) failure_.fail(peers_.cause_of_end(p, front.descriptor));
    return;
  }
}

void Driver::look_at_clock(Pending& op, Clock::time_point now) {
  Judgement judgement =
      judge(op.waiting, op.descriptor, now, policy_.warn_after, [&] { return missing(op); });
  if (judgement.waits_for) records_.log().wait_for(op.slot, *judgement.waits_for);
  if (judgement.failure) return failure_.fail(*std::move(judgement.failure));
  if (judgement.is_to_probe) peers_.send_notes(Note::Kind::kProbe);
  if (!judgement.warning.empty()) log::warning("{}", judgement.warning);
}

Missing Driver::missing(const Pending& pending) const {
  const Descriptor& d = pending.descriptor;
  if (row_of(d.op).is_message) {
    return missing_for(d, static_cast<const Message&>(pending).peer,
                       peers_.others(pending.waiting.probes, [](int) { return false; }));
  }
  if (front_ && front_->descriptor.sequence < d.sequence) {
    return missing_behind(front_->descriptor, missing(*front_));
  }
  const Transfer& transfer = static_cast<const Operation&>(pending).transfer;
  return missing_in(d,
                    peers_.others(pending.waiting.probes,
                                  [&](int rank) { return protocol_.needs(transfer, rank); }),
                    {.silent = "stopped?"});
}

void Driver::warn_of_unfinished() const {
  const auto& messages = messages_.under_way();
  if (!front_ && messages.empty()) return;
  const Pending& first = messages.empty() ? static_cast<Pending&>(*front_) : *messages.front();
  log::warning("{}",
               unfinished_text(peers_.self().text(), peers_.group(), first.descriptor,
                               missing(first).text, static_cast<std::size_t>(queue_.under_way())));
}

}  // namespace dl::collectives::shm
