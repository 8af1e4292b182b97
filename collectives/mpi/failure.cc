// Core's functions that find failures, tell all ranks the cause, and end every operation.
#include <algorithm>
#include <cstddef>
#include <cstring>

#include "collectives/mpi/core.h"
#include "core/base/log/log.h"

namespace dl::collectives::mpi {
namespace {

// When to probe the other ranks next.
Core::Clock::time_point ask_time(const Operation& o, Core::Clock::duration warn_after) noexcept {
  return o.begin + std::min<Core::Clock::duration>(o.probes.next(o.timeout, warn_after),
                                                   Core::Clock::time_point::max() - o.begin);
}

}  // namespace

void Core::fail(ErrorKind kind, const std::string& cause, bool tells) noexcept {
  if (is_poisoned()) return;
  const std::exception_ptr error = std::make_exception_ptr(Error(kind, cause));
  {
    const std::lock_guard lock(error_mutex_);
    error_ = error;
  }
  poisoned_.store(true, std::memory_order_release);
  log_.broken(dl::name_of(kind), cause);
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
  said.error = kind;
  said.bytes = static_cast<std::uint16_t>(std::min(cause.size(), sizeof said.text));
  std::memcpy(said.text, cause.data(), said.bytes);
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

void Core::tell(int rank, const Control& control) {
  outgoing_.push_back({.memory = {}, .requests = {}, .peer = rank});
  Outgoing& out = outgoing_.back();
  const auto* const bytes = reinterpret_cast<const std::byte*>(&control);
  out.memory.assign(bytes, bytes + offsetof(Control, text) + control.bytes);
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
    case Control::Kind::kFailed:
      fail(control_.error, std::string(control_.text, control_.bytes), false);
      return;
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
    return fail(ErrorKind::kPeerFailed,
                with_operation(running.descriptor,
                               fmt::format("{} has left group '{}' without calling it (its last "
                                           "call was #{})",
                                           p.who.text(), name(), p.last_called)),
                true);
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
  const Clock::duration warn_after = options_.policy.warn_after;
  if (now >= operation.deadline.when()) {
    log_.wait_for(operation.slot, missing_rank(operation));
    fail(ErrorKind::kTimeout,
         with_operation(operation.descriptor,
                        fmt::format("timed out after {} s {}", seconds_text(operation.timeout),
                                    missing_text(operation))),
         true);
    return;
  }
  if (operation.probes.are_due(operation.begin, now, operation.timeout, warn_after)) {
    Control ask{};
    ask.kind = Control::Kind::kAsk;
    for (int r = 0; r < size(); ++r) {
      if (r != rank_) tell(r, ask);
    }
  }
  const bool is_slow = operation.timeout > warn_after;
  if (is_slow && !operation.has_warned && now >= operation.begin + warn_after) {
    operation.has_warned = true;
    log_.wait_for(operation.slot, missing_rank(operation));
    log::warning(
        "{}", with_operation(operation.descriptor, fmt::format("{} s {}", seconds_text(warn_after),
                                                               missing_text(operation))));
  }
  timer_ = std::min(timer_, operation.deadline.when());
  timer_ = std::min(timer_, ask_time(operation, warn_after));
  if (is_slow && !operation.has_warned) timer_ = std::min(timer_, operation.begin + warn_after);
}

int Core::missing_rank(const Operation& operation) const {
  if (operation.is_message()) return static_cast<const Message&>(operation).peer;
  for (const Peer& p : peers_) {
    if (p.last_called < operation.descriptor.sequence) return p.who.rank;
  }
  return -1;
}

std::string Core::missing_text(const Operation& operation) const {
  const Descriptor& d = operation.descriptor;
  const auto is_silent = [&](const Peer& p) {
    return operation.probes.are_unanswered(p.last_answer);
  };
  if (operation.is_message()) {
    const auto& message = static_cast<const Message&>(operation);
    if (message.peer == kAnySource) {
      std::vector<Identity> departed;
      for (const Peer& p : peers_) {
        if (p.has_left) departed.push_back(p.who);
      }
      return missing_sender_text(d, departed);
    }
    const Peer& p = peer(message.peer);
    return missing_message_text(d, p.who.text(), is_silent(p));
  }
  if (!queue_.empty() && queue_.front()->descriptor.sequence < d.sequence) {
    const Collective& first = *queue_.front();
    return fmt::format("behind {}, which is {}", text(first.descriptor), missing_text(first));
  }
  std::string missing;
  const auto add = [&](const Peer& p, std::string_view why) {
    missing += fmt::format("{}{}, {}", missing.empty() ? "" : "; ", p.who.text(), why);
  };
  for (const Peer& p : peers_) {
    if (p.last_called >= d.sequence) continue;
    if (is_silent(p)) {
      add(p, "which does not answer (stopped, or its host cannot be reached)");
    } else if (p.last_called == 0) {
      add(p, "which has not called it, nor anything before it");
    } else {
      add(p, fmt::format("which has not called it (its last call was #{})", p.last_called));
    }
  }
  for (const Peer& p : peers_) {
    if (missing.empty() && p.who.rank != rank_ && is_silent(p)) {
      add(p, "which has called it and does not answer any more (stopped?)");
    }
  }
  return missing.empty() ? "waiting for MPI to move its data" : "waiting for " + missing;
}

}  // namespace dl::collectives::mpi
