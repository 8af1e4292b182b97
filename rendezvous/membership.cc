#include "rendezvous/membership.h"

#include <fmt/format.h>
#include <sys/wait.h>

#include <algorithm>
#include <utility>

#include "core/base/error.h"
#include "core/base/log.h"
#include "rendezvous/net/address.h"
#include "rendezvous/same_job.h"

namespace dl::rendezvous {
namespace {

namespace pb = dlrun::rendezvous;

// At the latest; see on_time().
constexpr std::chrono::milliseconds kLookEvery{500};
// For the node of a rank to answer beyond the time that it is given: as long as a rank that is
// ending may take for it, and a node may be silent.
constexpr std::chrono::seconds kAnswerTime{20};

RankEnd end_from(const pb::Failed& failed) {
  RankEnd end{.rank = failed.rank(),
              .pid = failed.pid(),
              .status = failed.signal() != 0 ? failed.signal() : failed.exit_code() << 8,
              .lost_peer = failed.lost_peer(),
              .text = failed.text(),
              .detail = failed.detail()};
  if (!failed.has_follows()) return end;
  const pb::Follows& follows = failed.follows();
  PeerFailure& failure = end.follows.emplace();
  failure.cause.blame = blame_of(follows.blame()).value_or(Blame::kBroke);
  failure.cause.rank = follows.rank();
  failure.cause.found_by = follows.found_by();
  failure.cause.operation = follows.operation();
  failure.cause.text = follows.text();
  failure.call = follows.call();
  return end;
}

// Of nodes that are missing: a line that people read.
constexpr std::size_t kMostNamed = 16;

bool is_loopback(const std::string& address) {
  try {
    return resolve({address, 0}, Deadline::after(std::chrono::seconds(0))).front().is_loopback();
  } catch (const Error&) {
    // A name, or nothing: the node's own affair.
    return false;
  }
}

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

void Membership::join(NodeId id, const pb::Join& facts, Time now, Outbox& out) {
  if (const std::optional<std::string> reason = objection(id, facts)) {
    refuse(id, facts, *reason, out);
    return;
  }
  if (decides_for_the_job(facts)) {
    refuse_other_jobs(facts, out);
    job_ = facts;
  }
  nodes_[id] = {.facts = facts, .heard = now};
  if (joined_.empty()) gathering_.emplace(now);
  joined_.push_back(id);
  if (static_cast<int>(joined_.size()) == job_->nnodes()) close_generation(now, out);
}

void Membership::refuse(NodeId id, const pb::Join& facts, const std::string& reason,
                        Outbox& out) const {
  log::warning("refused host {} (pid {}): {}", facts.host(), facts.pid(), reason);
  Outgoing refusal{.to = id, .message = {}, .last = true};
  refusal.message.mutable_refused()->set_reason(reason);
  out.push_back(std::move(refusal));
}

// The endpoint is node 0's own: a stranger that came before node 0 does not say what the job is.
bool Membership::decides_for_the_job(const pb::Join& facts) const {
  return !job_ || (facts.node_rank() == 0 && job_->node_rank() != 0 && number_ == 0);
}

void Membership::refuse_other_jobs(const pb::Join& first, Outbox& out) {
  for (const NodeId id : std::vector<NodeId>(joined_)) {
    const pb::Join facts = nodes_.at(id).facts;
    if (const std::optional<std::string> reason = why_another_job(first, facts)) {
      refuse(id, facts, *reason, out);
      forget(id);
    }
  }
}

std::optional<std::string> Membership::objection(NodeId id, const pb::Join& facts) const {
  if (facts.node_id().empty() || facts.slots() < 1 || facts.nnodes() < 1) {
    return fmt::format(
        "a join needs a node id, at least one slot and at least one node, got '{}', {}, {}",
        facts.node_id(), facts.slots(), facts.nnodes());
  }
  if (facts.node_rank() < -1 || facts.node_rank() >= facts.nnodes()) {
    return fmt::format("there is no node rank {} in a job of {} nodes (0 to {})", facts.node_rank(),
                       facts.nnodes(), facts.nnodes() - 1);
  }
  if (job_ && !decides_for_the_job(facts)) {
    if (std::optional<std::string> reason = why_another_job(*job_, facts)) return reason;
  }
  if (!members_.empty()) {
    std::vector<std::string> names;
    for (const NodeId member : members_) names.push_back(nodes_.at(member).facts.host());
    return is_member(id) ? fmt::format("generation {} is still running", number_)
                         : fmt::format("generation {} is complete, its {} nodes are on: {}",
                                       number_, job_->nnodes(), fmt::join(names, ", "));
  }
  for (const NodeId other : joined_) {
    const Node& present = nodes_.at(other);
    if (other == id) return "this node has joined already";
    if (present.facts.node_id() == facts.node_id()) {
      return fmt::format(
          "node id '{}' is in use by host {} (pid {}); is this the same machine twice?",
          facts.node_id(), present.facts.host(), present.facts.pid());
    }
    if (facts.node_rank() >= 0 && present.facts.node_rank() == facts.node_rank()) {
      return fmt::format("node rank {} is taken by host {} (pid {})", facts.node_rank(),
                         present.facts.host(), present.facts.pid());
    }
  }
  return std::nullopt;
}

// Wished ranks first; the others keep the one of the generation before where it is free, and then
// fill up in the order in which they joined.
std::vector<Membership::NodeId> Membership::order_of_ranks() const {
  constexpr NodeId kFree = 0;
  std::vector<NodeId> ranks(joined_.size(), kFree);
  std::vector<NodeId> rest;
  for (const NodeId id : joined_) {
    const int wish = nodes_.at(id).facts.node_rank();
    if (wish >= 0) {
      ranks[static_cast<std::size_t>(wish)] = id;
    } else {
      rest.push_back(id);
    }
  }
  std::erase_if(rest, [&](NodeId id) {
    const auto before = previous_ranks_.find(nodes_.at(id).facts.node_id());
    if (before == previous_ranks_.end()) return false;
    const auto rank = static_cast<std::size_t>(before->second);
    if (rank >= ranks.size() || ranks[rank] != kFree) return false;
    ranks[rank] = id;
    return true;
  });
  for (const NodeId id : rest) *std::find(ranks.begin(), ranks.end(), kFree) = id;
  return ranks;
}

// A node on the service's own host may know itself by a loopback address only (Debian's /etc/hosts
// maps the host's name to 127.0.1.1); the others know a better one: that at which they reached the
// service.
std::string Membership::address_of(const Node& node) const {
  if (!is_loopback(node.facts.address())) return node.facts.address();
  for (const NodeId id : joined_) {
    const std::string& seen = nodes_.at(id).facts.service_address();
    if (!seen.empty() && !is_loopback(seen)) return seen;
  }
  return node.facts.address();
}

void Membership::close_generation(Time now, Outbox& out) {
  members_ = order_of_ranks();
  pb::Generation common;
  common.set_number(number_);
  common.set_group_world_size(job_->nnodes());
  int first_rank = 0;
  std::vector<std::string> hosts;
  previous_ranks_.clear();
  previous_names_.clear();
  for (std::size_t i = 0; i < members_.size(); ++i) {
    Node& node = nodes_.at(members_[i]);
    node.group_rank = static_cast<int>(i);
    node.first_rank = first_rank;
    hosts.insert(hosts.end(), static_cast<std::size_t>(node.facts.slots()), label_of(node));
    pb::Generation::Member* member = common.add_members();
    member->set_group_rank(node.group_rank);
    member->set_node_id(node.facts.node_id());
    member->set_host(node.facts.host());
    member->set_address(address_of(node));
    member->set_slots(node.facts.slots());
    member->set_first_rank(first_rank);
    member->set_pid(node.facts.pid());
    first_rank += node.facts.slots();
    previous_ranks_[node.facts.node_id()] = node.group_rank;
    previous_names_[node.group_rank] = node.facts.host();
  }
  common.set_world_size(first_rank);
  common.set_master_addr(common.members(0).address());
  common.set_master_port(nodes_.at(members_.front()).facts.master_port());
  for (const pb::Generation::Member& member : common.members()) {
    Outgoing message{.to = members_[static_cast<std::size_t>(member.group_rank())], .message = {}};
    *message.message.mutable_generation() = common;
    message.message.mutable_generation()->set_group_rank(member.group_rank());
    message.message.mutable_generation()->set_first_rank(member.first_rank());
    out.push_back(std::move(message));
  }
  warn_of_other_lines(out);
  joined_.clear();
  gathering_.reset();
  first_cause_ = FirstCause(std::move(hosts));
  asked_.reset();
  if (number_ == 0) restarts_ = RestartPolicy(job_->max_restarts());
  began_ = now;
}

// To each node whose line differs from node 0's, and to node 0 once.
void Membership::warn_of_other_lines(Outbox& out) const {
  const Node& first = nodes_.at(members_.front());
  std::string shown;
  std::size_t others = 0;
  const auto tell = [&out](NodeId id, const std::string& text) {
    Outgoing notice{.to = id, .message = {}};
    notice.message.mutable_notice()->set_text(text);
    out.push_back(std::move(notice));
  };
  for (const NodeId id : members_) {
    const Node& node = nodes_.at(id);
    if (!may_be_another_job(first.facts, node.facts)) continue;
    const std::string text =
        fmt::format("the nodes run different lines: {} `{}`, {} `{}`", name_of(first),
                    quoted_line(first.facts), name_of(node), quoted_line(node.facts));
    tell(id, text);
    if (others++ == 0) shown = text;
  }
  if (others == 0) return;
  tell(members_.front(),
       others == 1 ? shown : fmt::format("{}; and {} more nodes", shown, others - 1));
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

void Membership::fail(NodeId id, pb::Failed cause, bool is_final, Time now, Outbox& out) {
  // What a node says about a generation that has ended, or before there is one, concerns nobody.
  if (!is_member(id)) return;
  const Node& node = nodes_.at(id);
  cause.set_group_rank(node.group_rank);
  cause.set_host(node.facts.host());
  const Restart restart = restarts_.decide(
      {.exit_code = cause.signal() != 0 ? 128 + cause.signal() : cause.exit_code(),
       // A job that is to make room does not begin again.
       .is_final = is_final || calls_.has_value(),
       .ran = std::chrono::duration_cast<std::chrono::milliseconds>(now - began_)});
  cause.set_again(restart.again);
  cause.set_delay_ms(static_cast<int>(restart.delay.count()));
  cause.set_restart(restart.number);
  cause.set_max_restarts(restarts_.most());
  for (const NodeId member : members_) {
    Outgoing message{.to = member, .message = {}};
    *message.message.mutable_failed() = cause;
    out.push_back(std::move(message));
  }
  end_generation();
  is_over_ = !restart.again;
}

// The others wait for it, or are about to.
void Membership::fail_next(NodeId id, pb::Failed cause, Outbox& out) {
  const auto found = nodes_.find(id);
  if (found == nodes_.end() || number_ == 0 || is_over_) return;
  const auto before = previous_ranks_.find(found->second.facts.node_id());
  cause.set_group_rank(before == previous_ranks_.end() ? -1 : before->second);
  cause.set_host(found->second.facts.host());
  for (const auto& [other, node] : nodes_) {
    if (other == id) continue;
    Outgoing message{.to = other, .message = {}};
    *message.message.mutable_failed() = cause;
    out.push_back(std::move(message));
  }
  is_over_ = true;
}

Membership::NodeId Membership::node_of(int rank) const {
  const auto found = std::find_if(members_.begin(), members_.end(), [&](NodeId id) {
    const Node& node = nodes_.at(id);
    return rank >= node.first_rank && rank < node.first_rank + node.facts.slots();
  });
  return found == members_.end() ? members_.front() : *found;
}

void Membership::rank_failed(NodeId id, const pb::Failed& failed, Time now, Outbox& out) {
  if (!is_member(id)) return;
  if (failed.rank() < 0) return fail(id, failed, /*is_final=*/true, now, out);
  first_cause_.ended(end_from(failed));
  settle(now, out);
}

void Membership::goes_on(NodeId id, int rank) {
  if (rank == kAnyRank) {
    answered_.insert(id);
    if (answered_.size() < members_.size()) return;
  }
  first_cause_.goes_on(rank);
}

void Membership::settle(Time now, Outbox& out) {
  if (const std::optional<Finding>& found = first_cause_.finding()) {
    const auto end = std::find_if(first_cause_.ends().begin(), first_cause_.ends().end(),
                                  [&](const RankEnd& e) { return e.rank == found->rank; });
    const NodeId node = node_of(found->rank);
    pb::Failed cause;
    cause.set_rank(found->rank);
    cause.set_local_rank(found->rank - nodes_.at(node).first_rank);
    cause.set_exit_code(found->exit_code);
    std::string detail;
    for (const std::string& note : found->notes) detail += note + "\n";
    cause.set_text(found->headline);
    if (end != first_cause_.ends().end()) {
      cause.set_pid(end->pid);
      if (WIFSIGNALED(end->status)) {
        cause.set_exit_code(0);
        cause.set_signal(WTERMSIG(end->status));
      }
      if (found->headline.empty()) cause.set_text(end->text + found->clause);
      detail += end->detail;
    }
    cause.set_detail(detail);
    return fail(node, std::move(cause), /*is_final=*/false, now, out);
  }
  const std::optional<Question>& question = first_cause_.question();
  if (!question || question == asked_) return;
  asked_ = question;
  answered_.clear();
  answer_by_ = now + question->patience + kAnswerTime;
  Outgoing look{.to = 0, .message = {}};
  look.message.mutable_look()->set_rank(question->rank);
  look.message.mutable_look()->set_milliseconds(static_cast<int>(question->patience.count()));
  for (const NodeId member : members_) {
    if (question->rank != kAnyRank && member != node_of(question->rank)) continue;
    look.to = member;
    out.push_back(look);
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

// One more than any rank has made: no rank is beyond it, and none of its calls before was true.
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

void Membership::lose(NodeId id, const std::string& text, int exit_code, Time now, Outbox& out) {
  const auto found = nodes_.find(id);
  if (found == nodes_.end()) return;
  pb::Failed cause;
  cause.set_rank(-1);
  cause.set_local_rank(-1);
  cause.set_pid(found->second.facts.pid());
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

Membership::Outbox Membership::on_lost(NodeId id, Time now) {
  Outbox out;
  look_at_clock(now, out);
  const auto found = nodes_.find(id);
  if (found == nodes_.end()) return out;
  const std::string name = name_of(found->second);
  const Silence& silence = options_.silence;
  const auto silent_for = std::chrono::round<std::chrono::seconds>(now - found->second.heard);
  std::string text;
  if (const auto stood = standstill_.recent(now, silence.standstill(), silence.dead_after)) {
    text =
        fmt::format("the rendezvous stood still for {} s, and {} gave it up", stood->count(), name);
  } else if (now - found->second.heard >= silence.named_after()) {
    // The system has given up the connection before the last heartbeat was too old.
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

// Silence does not tell a dead host from a broken network.
std::string Membership::text_of_silence(NodeId id, const std::string& how) const {
  if (!is_member(id) || id == members_.front()) {
    return fmt::format("{} was lost: {}", name_of(nodes_.at(id)), how);
  }
  return fmt::format(
      "hosts {} and {} lost each other: {}; is the network between them up, and do both run?",
      label_of(nodes_.at(members_.front())), label_of(nodes_.at(id)), how);
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

// To all others; that it goes on also to itself, as nobody there has heard of the rest.
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
    // It may only have been stopped, and should then hear that it is too late.
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
