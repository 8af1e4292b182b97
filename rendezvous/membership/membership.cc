#include "rendezvous/membership/membership.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/base/log/log.h"
#include "rendezvous/membership/nodes/generation_message.h"

namespace dl::rendezvous {
namespace {

namespace pb = dlrun::rendezvous;

// The longest time between calls of on_time().
constexpr std::chrono::milliseconds kLookEvery{500};

pb::ToNode waiting(const std::string& what, const Patience& patience, Membership::Time now,
                   const std::vector<std::string>& missing) {
  pb::ToNode message;
  pb::Waiting* waiting = message.mutable_waiting();
  waiting->set_what(what);
  waiting->set_seconds(static_cast<int>(patience.waited(now).count()));
  for (const std::string& name : missing) waiting->add_missing(name);
  return message;
}

}  // namespace

Membership::Membership(Options options)
    : options_(options), standstill_(kLookEvery, options.silence.dead_after / 10) {}

Outbox Membership::on_message(NodeId id, const pb::FromNode& message, Time now) {
  Outbox out;
  look_at_clock(now, out);
  if (Node* const node = nodes_.find(id)) node->heard = now;
  switch (message.message_case()) {
    case pb::FromNode::kJoin:
      join(id, message.join(), now, out);
      break;
    case pb::FromNode::kBarrier:
      if (nodes_.is_member(id)) barrier(id, message.barrier().name(), now, out);
      break;
    case pb::FromNode::kFailed:
      failed(id, message.failed(), now, out);
      break;
    case pb::FromNode::kFinished:
      if (!nodes_.is_member(id)) break;
      cause_.finished(message.finished());
      settle(now, out);
      break;
    case pb::FromNode::kWaits:
      if (!nodes_.is_member(id)) break;
      cause_.waits(message.waits());
      settle(now, out);
      break;
    case pb::FromNode::kGoesOn:
      if (!nodes_.is_member(id)) break;
      cause_.goes_on(id, message.goes_on().rank(), nodes_);
      settle(now, out);
      break;
    case pb::FromNode::kPreempt:
      if (nodes_.is_member(id)) preempt(message.preempt().why(), out);
      break;
    case pb::FromNode::kCalled:
      if (nodes_.is_member(id)) called(id, message.called().calls(), out);
      break;
    case pb::FromNode::kDone:
      if (nodes_.is_member(id)) done(id, now, out);
      break;
    case pb::FromNode::kLeave:
      leave(id, message.leave(), now, out);
      break;
    case pb::FromNode::kWhoIsMissing:
      if (std::ranges::find(admission_.joined(), id) != admission_.joined().end()) {
        const Patience& patience = *admission_.patience();
        out.push_back(
            {.to = id, .message = waiting("nodes", patience, now, admission_.missing(nodes_))});
      }
      break;
    case pb::FromNode::kAgent:
      tell_of_agent(id, message.agent(), out);
      break;
    case pb::FromNode::kHeartbeat:
    case pb::FromNode::MESSAGE_NOT_SET:
      break;
  }
  return out;
}

void Membership::barrier(NodeId id, const std::string& name, Time now, Outbox& out) {
  const auto found = barriers_.try_emplace(name, Waiters{{}, Patience(now)}).first;
  found->second.arrived.insert(id);
  if (found->second.arrived.size() < nodes_.members().size()) return;
  barriers_.erase(found);
  pb::ToNode passed;
  passed.mutable_barrier_done()->set_name(name);
  send_to_all(nodes_.members(), passed, out);
}

void Membership::done(NodeId id, Time now, Outbox& out) {
  if (!ending_) ending_ = Waiters{{}, Patience(now)};
  ending_->arrived.insert(id);
  end_if_done(now, out);
}

void Membership::end_if_done(Time now, Outbox& out) {
  if (!ending_ || ending_->arrived.size() < nodes_.members().size()) return;
  if (cause_.keeps()) {
    if (cause_.awaits_answer()) return;
    if (std::optional<JobCause::Found> found = cause_.found(nodes_)) {
      return fail(found->node, std::move(found->cause), /*is_final=*/false, now, out);
    }
    tell_all(cause_.went_on_without(), out);
  }
  pb::ToNode all_done;
  all_done.mutable_all_done();
  send_to_all(nodes_.members(), all_done, out);
  end_generation();
  is_over_ = true;
}

void Membership::tell_all(const std::string& text, Outbox& out) const {
  if (text.empty()) return;
  for (const NodeId member : nodes_.members()) send_notice(member, text, out);
}

void Membership::preempt(const std::string& why, Outbox& out) {
  if (!saving_.begin()) return;
  pb::ToNode request;
  request.mutable_preempt()->set_why(why);
  send_to_all(nodes_.members(), request, out);
}

void Membership::called(NodeId id, std::uint64_t calls, Outbox& out) {
  const auto call = saving_.answered(id, calls, nodes_.members().size());
  if (!call) return;
  pb::ToNode checkpoint;
  checkpoint.mutable_checkpoint()->set_call(*call);
  send_to_all(nodes_.members(), checkpoint, out);
}

void Membership::end_generation() {
  nodes_.end_generation();
  cause_ = JobCause();
  saving_ = SaveRound();
  barriers_.clear();
  ending_.reset();
  ++number_;
}

void Membership::forget(NodeId id) {
  nodes_.remove(id);
  admission_.remove(id);
  // If all nodes have left before the first generation, the next node may belong to another job.
  if (nodes_.connected().empty() && number_ == 0) admission_.forget_job();
}

void Membership::look_at_clock(Time now, Outbox& out) {
  const auto missed = standstill_.look(now, options_.suspended());
  for (auto& [id, node] : nodes_.connected()) node.heard = std::min(now, node.heard + missed);
  if (const auto stood = standstill_.news(options_.silence.standstill())) {
    log::warning("this rendezvous stood still for {} s: stopped, or its machine was paused",
                 stood->count());
    const std::string text = fmt::format(
        "the rendezvous stood still for {} s (stopped, or its machine was paused), "
        "and goes on",
        stood->count());
    for (const auto& [id, node] : nodes_.connected()) send_notice(id, text, out);
  }
}

// Tells all other nodes. The node itself only hears that it goes on: it was stopped when the
// earlier news was sent.
void Membership::tell_of_agent(NodeId id, const pb::Agent& agent, Outbox& out) const {
  const Node* const stuck = nodes_.find(id);
  if (stuck == nullptr) return;
  const auto what = [&agent]() -> std::string {
    switch (agent.state()) {
      case pb::Agent::SUSPENDED:
        return fmt::format("was suspended by its user (Ctrl-Z) {} s ago", agent.seconds());
      case pb::Agent::STOPPED:
        return fmt::format("has been stopped for {} s", agent.seconds());
      case pb::Agent::STUCK:
        return fmt::format("has not run its event loop for {} s", agent.seconds());
      default:
        return fmt::format("goes on after {} s", agent.seconds());
    }
  };
  const std::string text = fmt::format("{}: its dlrun {}", stuck->name(), what());
  for (const auto& [other, node] : nodes_.connected()) {
    if (other == id && agent.state() != pb::Agent::TURNS) continue;
    send_notice(other, text, out);
  }
}

void Membership::tell_of_silence(Time now, Outbox& out) {
  using std::chrono::round;
  using std::chrono::seconds;
  for (auto& [id, node] : nodes_.connected()) {
    const bool is_silent = now - node.heard >= options_.silence.named_after();
    if (!std::exchange(node.is_silent, is_silent) && is_silent) {
      const std::string text =
          fmt::format("{}: nothing has come from it for {} s; after {} s it counts as lost",
                      node.name(), round<seconds>(now - node.heard).count(),
                      round<seconds>(options_.silence.dead_after).count());
      for (const auto& [other, its] : nodes_.connected()) {
        if (other != id) send_notice(other, text, out);
      }
    }
  }
}

Outbox Membership::on_time(Time now) {
  Outbox out;
  look_at_clock(now, out);
  const std::chrono::milliseconds dead_after = options_.silence.dead_after;
  std::vector<NodeId> silent;
  for (const auto& [id, node] : nodes_.connected()) {
    if (now - node.heard >= dead_after) silent.push_back(id);
  }
  for (const NodeId id : silent) {
    const std::string how = fmt::format(
        "no heartbeat for {} s", std::chrono::round<std::chrono::seconds>(dead_after).count());
    lose(id, text_of_silence(id, how), 0, now, out);
    // If the node was only stopped, it reads this when it runs again.
    Outgoing farewell{.to = id, .message = {}, .last = true};
    farewell.message.mutable_error()->set_kind("connection");
    farewell.message.mutable_error()->set_text("the rendezvous gave this node up: " + how);
    out.push_back(std::move(farewell));
  }
  tell_of_silence(now, out);
  if (cause_.end_late_question(now)) settle(now, out);
  if (!last_heartbeat_ || now - *last_heartbeat_ >= options_.silence.heartbeat_every()) {
    last_heartbeat_ = now;
    for (const auto& [id, node] : nodes_.connected()) {
      Outgoing heartbeat{.to = id, .message = {}};
      heartbeat.message.mutable_heartbeat();
      out.push_back(std::move(heartbeat));
    }
  }
  warn(now, out);
  return out;
}

void Membership::warn(Time now, Outbox& out) {
  const auto tell = [&](const auto& whom, const std::string& what, const Patience& patience,
                        const std::vector<std::string>& missing) {
    send_to_all(whom, waiting(what, patience, now, missing), out);
  };
  if (auto& gathering = admission_.patience(); gathering && gathering->should_warn(now)) {
    tell(admission_.joined(), "nodes", *gathering, admission_.missing(nodes_));
  }
  for (auto& [name, waiters] : barriers_) {
    if (!waiters.patience.should_warn(now)) continue;
    tell(waiters.arrived, "barrier " + name, waiters.patience,
         nodes_.members_without(waiters.arrived));
  }
  if (ending_ && ending_->patience.should_warn(now)) {
    tell(ending_->arrived, "the end", ending_->patience, nodes_.members_without(ending_->arrived));
  }
}

// A generation begins.

void Membership::join(NodeId id, const pb::Join& facts, Time now, Outbox& out) {
  if (const auto reason = admission_.objection(id, facts, nodes_, number_)) {
    refuse(id, facts, *reason, out);
    return;
  }
  if (admission_.decides_for_the_job(facts, number_)) {
    for (const auto& [other, reason] : admission_.of_other_jobs(facts, nodes_)) {
      refuse(other, nodes_.at(other).facts, reason, out);
      forget(other);
    }
    admission_.set_job(facts);
  }
  nodes_.add(id, {.facts = facts, .heard = now});
  admission_.add(id, now);
  if (admission_.is_complete()) begin_generation(now, out);
}

void Membership::refuse(NodeId id, const pb::Join& facts, const std::string& reason,
                        Outbox& out) const {
  log::warning("refused host {} (pid {}): {}", facts.host(), facts.pid(), reason);
  Outgoing refusal{.to = id, .message = {}, .last = true};
  refusal.message.mutable_refused()->set_reason(reason);
  out.push_back(std::move(refusal));
}

void Membership::begin_generation(Time now, Outbox& out) {
  const pb::Join& job = admission_.job();
  nodes_.begin_generation(admission_.order_of_ranks(nodes_),
                          job.rank_by() == pb::Join::NODE ? RankBy::kNode : RankBy::kSlot);
  send_generation(nodes_, admission_.joined(), number_, job, options_.moves_to, out);
  warn_of_other_lines(nodes_, out);
  admission_.close(nodes_);
  cause_ = JobCause(nodes_.hosts_of_ranks(),
                    job.on_failure() == pb::Join::KEEP ? OnFailure::kKeep : OnFailure::kStop);
  if (number_ == 0) restarts_ = RestartPolicy(job.max_restarts());
  began_ = now;
}

// A generation fails.

void Membership::fail(NodeId id, pb::Failed cause, bool is_final, Time now, Outbox& out) {
  // Ignore messages about a generation that has ended or has not begun.
  if (!nodes_.is_member(id)) return;
  const Node& node = nodes_.at(id);
  cause.set_group_rank(node.group_rank);
  cause.set_host(node.facts.host());
  const Restart restart = restarts_.decide(
      {.exit_code = cause.signal() != 0 ? 128 + cause.signal() : cause.exit_code(),
       // A job that was asked to save and end does not restart.
       .is_final = is_final || saving_.has_begun(),
       .ran = std::chrono::duration_cast<std::chrono::milliseconds>(now - began_)});
  cause.set_again(restart.again);
  cause.set_delay_ms(static_cast<int>(restart.delay.count()));
  cause.set_restart(restart.number);
  cause.set_max_restarts(restarts_.most());
  pb::ToNode message;
  *message.mutable_failed() = std::move(cause);
  send_to_all(nodes_.members(), message, out);
  end_generation();
  is_over_ = !restart.again;
}

// Called between two generations: the other nodes wait for this node, or will.
void Membership::fail_next(NodeId id, pb::Failed cause, Outbox& out) {
  const Node* const node = nodes_.find(id);
  if (node == nullptr || number_ == 0 || is_over_) return;
  cause.set_group_rank(admission_.previous_rank(node->facts));
  cause.set_host(node->facts.host());
  pb::ToNode message;
  *message.mutable_failed() = std::move(cause);
  for (const auto& [other, facts] : nodes_.connected()) {
    if (other != id) out.push_back({.to = other, .message = message});
  }
  is_over_ = true;
}

void Membership::failed(NodeId id, const pb::Failed& failed, Time now, Outbox& out) {
  if (!nodes_.is_member(id)) return;
  if (failed.rank() < 0) return fail(id, failed, /*is_final=*/true, now, out);
  cause_.failed(failed);
  if (cause_.keeps()) tell_all(cause_.goes_on_without(), out);
  settle(now, out);
}

void Membership::settle(Time now, Outbox& out) {
  if (!cause_.keeps()) {
    if (std::optional<JobCause::Found> found = cause_.found(nodes_)) {
      return fail(found->node, std::move(found->cause), /*is_final=*/false, now, out);
    }
  }
  cause_.ask(nodes_, now, out);
  if (cause_.keeps()) end_if_done(now, out);
}

// A node leaves.

void Membership::leave(NodeId id, const pb::Leave& leave, Time now, Outbox& out) {
  if (leave.lost()) {
    if (const Node* const node = nodes_.find(id)) {
      lose(id, fmt::format("{} was lost: {}", node->name(), leave.reason()), leave.exit_code(), now,
           out);
    }
    return;
  }
  pb::Failed cause;
  cause.set_rank(-1);
  cause.set_local_rank(-1);
  cause.set_text(leave.reason());
  cause.set_exit_code(leave.exit_code());
  if (nodes_.is_member(id)) {
    fail(id, std::move(cause), /*is_final=*/true, now, out);
  } else {
    fail_next(id, std::move(cause), out);
  }
  forget(id);
}

void Membership::lose(NodeId id, const std::string& text, int exit_code, Time now, Outbox& out) {
  const Node* const node = nodes_.find(id);
  if (node == nullptr) return;
  pb::Failed cause;
  cause.set_rank(-1);
  cause.set_local_rank(-1);
  cause.set_pid(node->facts.pid());
  cause.set_exit_code(exit_code);
  cause.set_node_lost(true);
  cause.set_text(text);
  const std::size_t before = out.size();
  fail(id, std::move(cause), /*is_final=*/false, now, out);
  out.erase(std::remove_if(out.begin() + static_cast<std::ptrdiff_t>(before), out.end(),
                           [&](const Outgoing& message) { return message.to == id; }),
            out.end());
  forget(id);
}

Outbox Membership::on_lost(NodeId id, Time now) {
  Outbox out;
  look_at_clock(now, out);
  const Node* const node = nodes_.find(id);
  if (node == nullptr) return out;
  const std::string name = node->name();
  const Silence& silence = options_.silence;
  const auto silent_for = std::chrono::round<std::chrono::seconds>(now - node->heard);
  std::string text;
  if (const auto stood = standstill_.recent(now, silence.standstill(), silence.dead_after)) {
    text =
        fmt::format("the rendezvous stood still for {} s, and {} gave it up", stood->count(), name);
  } else if (now - node->heard >= silence.named_after()) {
    // The kernel closed the connection before the last heartbeat was too old.
    text = text_of_silence(id, fmt::format("no heartbeat for {} s", silent_for.count()));
  } else {
    text = fmt::format(
        "lost the connection to {}: it was closed or reset; its dlrun-rendezvous "
        "has ended, or something between them ends connections",
        name);
  }
  lose(id, text, 0, now, out);
  return out;
}

// Silence does not distinguish a dead host from a broken network.
std::string Membership::text_of_silence(NodeId id, const std::string& how) const {
  const NodeTable::Ids& members = nodes_.members();
  if (!nodes_.is_member(id) || id == members.front()) {
    return fmt::format("{} was lost: {}", nodes_.at(id).name(), how);
  }
  return fmt::format(
      "hosts {} and {} lost each other: {}; is the network between them up, and do both run?",
      nodes_.at(members.front()).label(), nodes_.at(id).label(), how);
}

}  // namespace dl::rendezvous
