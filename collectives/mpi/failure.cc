// Core's functions that find failures, tell all ranks the cause, and end every operation.
#include <algorithm>
#include <cstddef>
#include <cstring>

#include "collectives/mpi/core.h"
#include "core/base/log/log.h"

namespace dl::collectives::mpi {

void Core::fail(Cause cause, bool tells) noexcept {
  if (is_poisoned()) return;
  const int self = peer(rank_).who.in_job();
  if (cause.found_by < 0) cause.found_by = self;
  const std::exception_ptr error = std::make_exception_ptr(GroupError(cause));
  {
    const std::lock_guard lock(error_mutex_);
    error_ = error;
  }
  poisoned_.store(true, std::memory_order_release);
  log_.broken(dl::name_of(cause.kind), cause.text);
  std::vector<Ref<Operation>> over;
  for (Ref<Collective>& operation : queue_) over.emplace_back(std::move(operation));
  for (Ref<Message>& message : messages_) over.emplace_back(std::move(message));
  queue_.clear();
  messages_.clear();
  matching_.clear();
  for (Ref<Operation>& operation : over) {
    if (!operation->requests.empty()) engine_.hold(operation);
    log_.fail(operation->slot);
    operation->end(error);
    finished_.push_back(std::move(operation));
  }
  if (!tells) return;
  Control said{};
  said.kind = Control::Kind::kFailed;
  const std::string bytes = encode(as_told(std::move(cause), self), sizeof said.cause);
  said.bytes = static_cast<std::uint16_t>(bytes.size());
  std::memcpy(said.cause, bytes.data(), bytes.size());
  for (int r = 0; r < size(); ++r) {
    if (r == rank_) continue;
    try {
      tell(r, said);
    } catch (const std::exception& why) {
      log::warning("group '{}': {} cannot be told that it broke: {}", name(), peer(r).who.text(),
                   why.what());
    }
  }
}

void Core::fail_mismatch(const Descriptor& operation, int rank, std::string text, bool tells) {
  fail(cause_about(operation, ErrorKind::kMismatch, std::move(text), Blame::kMismatch,
                   peer(rank).who.in_job()),
       tells);
}

void Core::tell(int rank, const Control& control) {
  outgoing_.push_back({.memory = {}, .requests = {}, .peer = rank});
  Outgoing& out = outgoing_.back();
  const auto* const bytes = reinterpret_cast<const std::byte*>(&control);
  out.memory.assign(bytes, bytes + offsetof(Control, cause) + control.bytes);
  send_parts(out.requests, out.memory.data(), out.memory.size(), rank, kControlTag);
}

bool Core::read_control() {
  Ended ended{};
  engine_.check(mpi_.test(&control_request_, &ended), "MPI_Test");
  if (!ended.is_ended) return false;
  on_control(ended.source);
  engine_.check(
      mpi_.receive(&control_, sizeof control_, kAnySource, kControlTag, comm_, &control_request_),
      "MPI_Irecv");
  return true;
}

void Core::on_control(int source) {
  Peer& from = peer(source);
  switch (control_.kind) {
    case Control::Kind::kFailed: {
      auto cause = rendezvous::decode_cause(
          {control_.cause, std::min<std::size_t>(control_.bytes, sizeof control_.cause)});
      DL_CHECK(cause, kInternal, "group '{}': {} broke the group, with a cause that cannot be read",
               name(), from.who.text());
      fail(*std::move(cause), /*tells=*/false);
      return;
    }
    case Control::Kind::kAsk: {
      Control answer{};
      answer.kind = Control::Kind::kAnswer;
      answer.last_called = peer(rank_).last_called;
      if (!is_poisoned()) tell(source, answer);
      return;
    }
    case Control::Kind::kAnswer:
      from.last_answer = Clock::now();
      from.last_called = std::max(from.last_called, control_.last_called);
      return;
    case Control::Kind::kBye:
      from.has_left = true;
      from.last_called = control_.last_called;
      return;
  }
}

void Core::look_at_leavers() {
  if (is_poisoned() || queue_.empty()) return;
  const Operation& running = *queue_.front();
  for (const Peer& p : peers_) {
    if (!p.has_left || p.last_called >= running.descriptor.sequence) continue;
    return fail(cause_in(running.descriptor, ErrorKind::kPeerFailed,
                         text_of_left(p.who.text(), name(), p.last_called, /*had_called=*/false),
                         Blame::kLeft, p.who.in_job()));
  }
}

void Core::look_at_clocks(Clock::time_point now) {
  timer_ = Clock::time_point::max();
  const std::vector<Ref<Message>> messages = messages_;
  for (const Ref<Message>& message : messages) {
    look_at_clock(*message, now);
    if (is_poisoned()) return;
  }
  for (std::size_t i = 0; i < queue_.size(); ++i) {
    look_at_clock(*queue_[i], now);
    if (is_poisoned()) return;
  }
}

void Core::look_at_clock(Operation& operation, Clock::time_point now) {
  Judgement judgement = judge(operation.waiting, operation.descriptor, now,
                              options_.policy.warn_after, [&] { return missing(operation); });
  if (judgement.waits_for) log_.wait_for(operation.slot, *judgement.waits_for);
  if (judgement.failure) return fail(*std::move(judgement.failure));
  if (judgement.is_to_probe) {
    Control ask{};
    ask.kind = Control::Kind::kAsk;
    for (int r = 0; r < size(); ++r) {
      if (r != rank_) tell(r, ask);
    }
  }
  if (!judgement.warning.empty()) log::warning("{}", judgement.warning);
  timer_ = std::min(timer_, judgement.next);
}

Missing Core::missing(const Operation& operation) const {
  const Descriptor& d = operation.descriptor;
  if (operation.is_message()) {
    return missing_for(d, static_cast<const Message&>(operation).peer, others(operation));
  }
  if (!queue_.empty() && queue_.front()->descriptor.sequence < d.sequence) {
    return missing_behind(queue_.front()->descriptor, missing(*queue_.front()));
  }
  return missing_in(d, others(operation), {.own = "MPI to move its data"});
}

std::vector<PeerState> Core::others(const Operation& operation) const {
  std::vector<PeerState> others;
  for (const Peer& p : peers_) {
    if (p.who.rank == rank_) continue;
    const bool is_silent = operation.waiting.probes.are_unanswered(p.last_answer);
    others.push_back(
        {.who = &p.who,
         .presence = p.has_left ? PeerState::Presence::kLeft : PeerState::Presence::kHere,
         .contact = is_silent ? Contact::kSilent : Contact::kAnswers,
         .last_called = p.last_called});
  }
  return others;
}

}  // namespace dl::collectives::mpi
