#include "rendezvous/membership/membership.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/base/log/log.h"

namespace dl::rendezvous {
namespace {

namespace pb = dlrun::rendezvous;

// The longest time between calls of on_time().
constexpr std::chrono::milliseconds kLookEvery{500};
// Missing nodes that a message names: people read it.
constexpr std::size_t kMostNamed = 16;

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

bool Membership::is_member(NodeId id) const {
  return std::find(members_.begin(), members_.end(), id) != members_.end();
}

std::string Membership::name_of(const Node& node) const {
  const int rank = node.group_rank >= 0 ? node.group_rank : node.facts.node_rank();
  return rank >= 0 ? fmt::format("node rank {} (host {}, pid {})", rank, node.facts.host(),
                                 node.facts.pid())
                   : fmt::format("a node (host {}, pid {})", node.facts.host(), node.facts.pid());
}

std::string Membership::label_of(const Node& node) {
  return fmt::format("{} (node {})", node.facts.host(), node.group_rank);
}

Membership::Outbox Membership::on_message(NodeId id, const pb::FromNode& message, Time now) {
  Outbox out;
  look_at_clock(now, out);
  if (const auto found = nodes_.find(id); found != nodes_.end()) found->second.heard = now;
  switch (message.message_case()) {
    case pb::FromNode::kJoin:
      join(id, message.join(), now, out);
      break;
    case pb::FromNode::kBarrier:
      if (is_member(id)) barrier(id, message.barrier().name(), now, out);
      break;
    case pb::FromNode::kFailed:
      rank_failed(id, message.failed(), now, out);
      break;
    case pb::FromNode::kFinished:
      if (!is_member(id)) break;
      first_cause_.ended({.rank = message.finished().rank(),
                          .pid = message.finished().pid(),
                          .text = message.finished().text(),
                          .detail = message.finished().detail()});
      settle(now, out);
      break;
    case pb::FromNode::kWaits:
      if (!is_member(id)) break;
      first_cause_.waits(message.waits().rank(), {.rank = message.waits().for_rank(),
                                                  .operation = message.waits().operation()});
      settle(now, out);
      break;
    case pb::FromNode::kGoesOn:
      if (!is_member(id)) break;
      goes_on(id, message.goes_on().rank());
      settle(now, out);
      break;
    case pb::FromNode::kPreempt:
      if (is_member(id)) preempt(message.preempt().why(), out);
      break;
    case pb::FromNode::kCalled:
      if (is_member(id)) called(id, message.called().calls(), out);
      break;
    case pb::FromNode::kDone:
      if (is_member(id)) done(id, now, out);
      break;
    case pb::FromNode::kLeave: {
      if (message.leave().lost()) {
        const auto found = nodes_.find(id);
        if (found == nodes_.end()) break;
        lose(id, fmt::format("{} was lost: {}", name_of(found->second), message.leave().reason()),
             message.leave().exit_code(), now, out);
        break;
      }
      pb::Failed cause;
      cause.set_rank(-1);
      cause.set_local_rank(-1);
      cause.set_text(message.leave().reason());
      cause.set_exit_code(message.leave().exit_code());
      if (is_member(id)) {
        fail(id, std::move(cause), /*is_final=*/true, now, out);
      } else {
        fail_next(id, std::move(cause), out);
      }
      forget(id);
      break;
    }
    case pb::FromNode::kWhoIsMissing:
      if (std::find(joined_.begin(), joined_.end(), id) != joined_.end()) {
        out.push_back({.to = id, .message = waiting("nodes", *gathering_, now, missing_nodes())});
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
  if (found->second.arrived.size() < members_.size()) return;
  barriers_.erase(found);
  for (const NodeId member : members_) {
    Outgoing message{.to = member, .message = {}};
    message.message.mutable_barrier_done()->set_name(name);
    out.push_back(std::move(message));
  }
}

void Membership::done(NodeId id, Time now, Outbox& out) {
  nodes_.at(id).done = true;
  if (!ending_) ending_ = Waiters{{}, Patience(now)};
  ending_->arrived.insert(id);
  if (ending_->arrived.size() < members_.size()) return;
  for (const NodeId member : members_) {
    Outgoing message{.to = member, .message = {}};
    message.message.mutable_all_done();
    out.push_back(std::move(message));
  }
  end_generation();
  is_over_ = true;
}

void Membership::preempt(const std::string& why, Outbox& out) {
  if (calls_) return;
  calls_.emplace();
  for (const NodeId member : members_) {
    Outgoing request{.to = member, .message = {}};
    request.message.mutable_preempt()->set_why(why);
    out.push_back(std::move(request));
  }
}

// All ranks save one call after the most calls of any rank: no rank is further, and none has
// returned true before.
void Membership::called(NodeId id, std::uint64_t calls, Outbox& out) {
  if (!calls_ || !calls_->emplace(id, calls).second || calls_->size() != members_.size()) return;
  std::uint64_t most = 0;
  for (const auto& [node, count] : *calls_) most = std::max(most, count);
  for (const NodeId member : members_) {
    Outgoing checkpoint{.to = member, .message = {}};
    checkpoint.message.mutable_checkpoint()->set_call(most + 1);
    out.push_back(std::move(checkpoint));
  }
}

void Membership::end_generation() {
  for (const NodeId member : members_) nodes_.at(member).group_rank = -1;
  members_.clear();
  first_cause_ = FirstCause();
  asked_.reset();
  calls_.reset();
  barriers_.clear();
  ending_.reset();
  ++number_;
}

void Membership::forget(NodeId id) {
  nodes_.erase(id);
  std::erase(joined_, id);
  if (joined_.empty()) gathering_.reset();
  // If every node of a job that never began has left, the next node may belong to another job.
  if (nodes_.empty() && number_ == 0) job_.reset();
}

void Membership::look_at_clock(Time now, Outbox& out) {
  const auto missed = standstill_.look(now, options_.suspended());
  for (auto& [id, node] : nodes_) node.heard = std::min(now, node.heard + missed);
  if (const auto stood = standstill_.news(options_.silence.standstill())) {
    log::warning("this rendezvous stood still for {} s: stopped, or its machine was paused",
                 stood->count());
    for (const auto& [id, node] : nodes_) {
      Outgoing notice{.to = id, .message = {}};
      notice.message.mutable_notice()->set_text(
          fmt::format("the rendezvous stood still for {} s (stopped, or its machine was paused), "
                      "and goes on",
                      stood->count()));
      out.push_back(std::move(notice));
    }
  }
}

// Tells all other nodes; the node itself only hears that it goes on, because it was stopped when
// the rest was sent.
void Membership::tell_of_agent(NodeId id, const pb::Agent& agent, Outbox& out) const {
  const auto found = nodes_.find(id);
  if (found == nodes_.end()) return;
  const auto what = [&agent]() -> std::string {
    switch (agent.state()) {
      case pb::Agent::SUSPENDED:
        return fmt::format("was suspended by its user (Ctrl-Z) {} s ago", agent.seconds());
      case pb::Agent::STOPPED:
        return fmt::format("has been stopped for {} s", agent.seconds());
      case pb::Agent::STUCK:
        return fmt::format("has not turned its event loop for {} s", agent.seconds());
      default:
        return fmt::format("goes on after {} s", agent.seconds());
    }
  };
  const std::string text = fmt::format("{}: its dlrun {}", name_of(found->second), what());
  for (const auto& [other, node] : nodes_) {
    if (other == id && agent.state() != pb::Agent::TURNS) continue;
    Outgoing notice{.to = other, .message = {}};
    notice.message.mutable_notice()->set_text(text);
    out.push_back(std::move(notice));
  }
}

Membership::Outbox Membership::on_time(Time now) {
  Outbox out;
  look_at_clock(now, out);
  const std::chrono::milliseconds dead_after = options_.silence.dead_after;
  std::vector<NodeId> silent;
  for (const auto& [id, node] : nodes_) {
    if (now - node.heard >= dead_after) silent.push_back(id);
  }
  for (const NodeId id : silent) {
    const std::string how = fmt::format(
        "no heartbeat for {} s", std::chrono::round<std::chrono::seconds>(dead_after).count());
    lose(id, text_of_silence(id, how), 0, now, out);
    // The node may only have been stopped, and should then hear that it is too late.
    Outgoing farewell{.to = id, .message = {}, .last = true};
    farewell.message.mutable_error()->set_kind("connection");
    farewell.message.mutable_error()->set_text("the rendezvous gave this node up: " + how);
    out.push_back(std::move(farewell));
  }
  if (asked_ && first_cause_.question() == asked_ && now >= answer_by_) {
    first_cause_.goes_on(asked_->rank);
    settle(now, out);
  }
  if (!last_heartbeat_ || now - *last_heartbeat_ >= options_.silence.heartbeat_every()) {
    last_heartbeat_ = now;
    for (const auto& [id, node] : nodes_) {
      Outgoing heartbeat{.to = id, .message = {}};
      heartbeat.message.mutable_heartbeat();
      out.push_back(std::move(heartbeat));
    }
  }
  speak(now, out);
  return out;
}

void Membership::speak(Time now, Outbox& out) {
  const auto tell = [&](const auto& whom, const pb::ToNode& message) {
    for (const NodeId id : whom) out.push_back({.to = id, .message = message});
  };
  if (gathering_ && gathering_->should_speak(now)) {
    tell(joined_, waiting("nodes", *gathering_, now, missing_nodes()));
  }
  for (auto& [name, waiters] : barriers_) {
    if (!waiters.patience.should_speak(now)) continue;
    tell(waiters.arrived,
         waiting("barrier " + name, waiters.patience, now, missing_members(waiters.arrived)));
  }
  if (ending_ && ending_->patience.should_speak(now)) {
    tell(ending_->arrived,
         waiting("the end", ending_->patience, now, missing_members(ending_->arrived)));
  }
}

std::vector<std::string> Membership::missing_nodes() const {
  const int nnodes = job_->nnodes();
  const auto count = static_cast<std::size_t>(nnodes) - joined_.size();
  std::vector<std::string> names;
  std::vector<NodeId> by_rank(static_cast<std::size_t>(nnodes), 0);
  bool all_known = true;
  for (const NodeId id : joined_) {
    const Node& node = nodes_.at(id);
    int rank = node.facts.node_rank();
    if (const auto before = previous_ranks_.find(node.facts.node_id());
        rank < 0 && before != previous_ranks_.end()) {
      rank = before->second;
    }
    if (rank < 0) {
      all_known = false;
    } else {
      by_rank[static_cast<std::size_t>(rank)] = id;
    }
  }
  if (!all_known) return {fmt::format("{} more node{}", count, count == 1 ? "" : "s")};
  for (int rank = 0; rank < nnodes; ++rank) {
    if (by_rank[static_cast<std::size_t>(rank)] != 0) continue;
    const auto before = previous_names_.find(rank);
    names.push_back(before == previous_names_.end()
                        ? fmt::format("node rank {}", rank)
                        : fmt::format("node rank {} (host {})", rank, before->second));
  }
  if (names.size() > kMostNamed) {
    const std::size_t more = names.size() - kMostNamed;
    names.resize(kMostNamed);
    names.push_back(fmt::format("{} more", more));
  }
  return names;
}

std::vector<std::string> Membership::missing_members(const std::set<NodeId>& arrived) const {
  std::vector<std::string> names;
  for (const NodeId member : members_) {
    if (!arrived.contains(member)) names.push_back(name_of(nodes_.at(member)));
  }
  return names;
}

}  // namespace dl::rendezvous
