#include "collectives/mpi/core/driver.h"

#include <algorithm>

#include "collectives/call/checks.h"
#include "collectives/mpi/core/core.h"
#include "core/base/log/log.h"

namespace dl::collectives::mpi {
namespace {

constexpr std::chrono::seconds kLeaveTime{1};  // in a broken group

}  // namespace

Driver::Driver(Engine& engine, Handle comm, std::vector<Identity> ranks, int rank, std::string name,
               std::chrono::nanoseconds warn_after, Ledger& ledger, GroupStatus& status)
    : engine_(engine),
      name_(std::move(name)),
      warn_after_(warn_after),
      ledger_(ledger),
      status_(status),
      peers_(std::move(ranks), rank),
      requests_(engine.mpi(), comm, name_),
      outgoing_(requests_, peers_.size()),
      notes_(requests_, outgoing_, peers_, name_),
      collectives_(requests_, peers_, ledger_),
      messages_(requests_, outgoing_, peers_, ledger_, name_, engine.world().most_tag) {}

// An exception breaks the group instead of leaving the driver.
template <typename F>
void Driver::guarded(const F& run) noexcept {
  try {
    run();
  } catch (const Disagreement& found) {
    fail(found.cause, /*tells=*/false);
  } catch (const std::exception&) {
    fail(cause_caught(name_));
  }
}

void Driver::submit(const Ref<Operation>& operation, const Call& call, const Choices& choices) {
  guarded([&] {
    if (operation->is_message()) {
      messages_.start(Ref<Message>(static_cast<Message*>(operation.get())));
    } else {
      collectives_.submit(Ref<Collective>(static_cast<Collective*>(operation.get())), call,
                          choices);
    }
  });
  // It failed at its start, before it was under way.
  if (status_.is_broken()) end(operation);
  timer_ = Clock::time_point::min();
}

bool Driver::step() noexcept {
  bool moved = false;
  guarded([&] {
    // A running collective comes first: the rest may wait a few rounds.
    const bool looks_around = rounds_++ % 16 == 0;
    if (collectives_.under_way().empty() || looks_around) {
      moved |= outgoing_.advance();
      read_notes(moved);
      look_at_leavers();
    }
    moved |= messages_.advance();
    while (collectives_.advance()) moved = true;
    if (looks_around && has_operations()) {
      if (const Clock::time_point now = Clock::now(); now >= timer_) look_at_clocks(now);
    }
  });
  return moved;
}

void Driver::read_notes(bool& moved) {
  while (auto note = notes_.read(/*answers=*/!status_.is_broken())) {
    moved = true;
    if (note->broke) fail(*std::move(note->broke), /*tells=*/false);
  }
}

void Driver::abort(std::string_view reason) noexcept {
  guarded([&] { fail(cause_of_abort(name_, peers_.self().who.text(), reason)); });
}

void Driver::tell_more() noexcept {
  guarded([&] { outgoing_.advance(); });
}

bool Driver::leave() noexcept {
  if (is_leaving_) return false;
  guarded([&] {
    if (has_operations()) {
      const Descriptor& first = collectives_.under_way().empty()
                                    ? messages_.under_way().front()->descriptor
                                    : collectives_.under_way().front()->descriptor;
      fail(cause_of_destruction(name_, peers_.self().who.text(), &first));
    }
    notes_.say_goodbye();
  });
  is_leaving_ = true;
  leave_by_ = Clock::now() + kLeaveTime;
  return true;
}

bool Driver::close(const Ref<RefCounted>& owner) {
  const bool is_broken = status_.is_broken();
  const bool is_late = is_broken && Clock::now() >= leave_by_;
  // Messages for this rank must not arrive after it has left: wait until the others have left too.
  if (!is_late && (!outgoing_.is_empty() || !peers_.have_all_left())) return false;
  if (!outgoing_.is_empty() || (is_broken && engine_.is_holding())) {
    // MPI keeps the buffers of messages that no rank receives any more
    engine_.hold(owner);
    return true;
  }
  notes_.cancel();
  messages_.cancel();
  // All ranks have left, or the group is broken: MPI_Comm_free does not block then (MPI 3.1,
  // 6.4.3).
  requests_.free();
  return true;
}

void Driver::fail(Cause cause, bool tells) noexcept {
  const int self = peers_.self().who.in_job();
  const bool is_first = status_.break_with(std::move(cause), 0, {}, [&](const Cause& found) {
    if (tells) notes_.tell_all(as_told(found, self));
  });
  if (!is_first) return;
  for (Ref<Collective>& collective : collectives_.take_all()) end(std::move(collective));
  for (Ref<Message>& message : messages_.take_all()) end(std::move(message));
}

void Driver::end(Ref<Operation> operation) noexcept {
  if (operation->is_over()) return;
  // MPI keeps the buffers of requests that have not ended.
  if (operation->has_requests()) engine_.hold(operation);
  ledger_.end(std::move(operation), status_.error());
}

void Driver::look_at_leavers() {
  if (collectives_.under_way().empty()) return;
  const Descriptor& running = collectives_.under_way().front()->descriptor;
  const Peer* const left = peers_.left_before(running.sequence);
  if (left == nullptr) return;
  fail(cause_in(running, ErrorKind::kPeerFailed,
                text_of_left(left->who.text(), name_, left->last_called, /*had_called=*/false),
                Blame::kLeft, left->who.in_job()));
}

void Driver::look_at_clocks(Clock::time_point now) {
  timer_ = Clock::time_point::max();
  // A failure ends all operations, so that no loop may go on.
  for (const Ref<Message>& message : messages_.under_way()) {
    look_at_clock(*message, now);
    if (status_.is_broken()) return;
  }
  for (const Ref<Collective>& collective : collectives_.under_way()) {
    look_at_clock(*collective, now);
    if (status_.is_broken()) return;
  }
}

void Driver::look_at_clock(Operation& operation, Clock::time_point now) {
  Judgement judgement = judge(operation.waiting, operation.descriptor, now, warn_after_,
                              [&] { return missing(operation); });
  if (judgement.waits_for) ledger_.log().wait_for(operation.slot, *judgement.waits_for);
  if (judgement.failure) return fail(*std::move(judgement.failure));
  if (judgement.is_to_probe) notes_.probe_all();
  if (!judgement.warning.empty()) log::warning("{}", judgement.warning);
  timer_ = std::min(timer_, judgement.next);
}

Missing Driver::missing(const Operation& operation) const {
  const Descriptor& d = operation.descriptor;
  const std::vector<PeerState> others = peers_.others(operation.waiting.probes);
  if (operation.is_message()) {
    return missing_for(d, static_cast<const Message&>(operation).peer, others);
  }
  const auto& queue = collectives_.under_way();
  if (!queue.empty() && queue.front()->descriptor.sequence < d.sequence) {
    return missing_behind(queue.front()->descriptor, missing(*queue.front()));
  }
  return missing_in(d, others, {.own = "MPI to move its data"});
}

}  // namespace dl::collectives::mpi
