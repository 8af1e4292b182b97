// Membership's functions that gather nodes: which nodes may join, and which ranks they get.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/base/error.h"
#include "core/base/log/log.h"
#include "rendezvous/membership/membership.h"
#include "rendezvous/membership/same_job.h"
#include "rendezvous/net/socket/address.h"
#include "rendezvous/rank_numbers.h"

namespace dl::rendezvous {

namespace pb = dlrun::rendezvous;

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

// The endpoint is node 0's own, so node 0 defines the job, even if another node came first.
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
    if (facts.serves() && present.facts.serves()) {
      return fmt::format(
          "host {} (pid {}) took the endpoint for its own, as host {} (pid {}) has done; do both "
          "have one name? Give all nodes an address of node 0, or its number to each (--node-rank)",
          facts.host(), facts.pid(), present.facts.host(), present.facts.pid());
    }
    if (facts.node_rank() >= 0 && present.facts.node_rank() == facts.node_rank()) {
      return fmt::format("node rank {} is taken by host {} (pid {})", facts.node_rank(),
                         present.facts.host(), present.facts.pid());
    }
  }
  return std::nullopt;
}

// Requested ranks come first. The other nodes keep their ranks of the previous generation if these
// are free, and then fill up in the order in which they joined.
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

void Membership::close_generation(Time now, Outbox& out) {
  members_ = order_of_ranks();
  pb::Generation common;
  common.set_number(number_);
  common.set_group_world_size(job_->nnodes());
  std::vector<int> slots;
  for (const NodeId id : members_) slots.push_back(nodes_.at(id).facts.slots());
  std::vector<std::vector<int>> ranks =
      number_ranks(slots, job_->rank_by() == pb::Join::NODE ? RankBy::kNode : RankBy::kSlot);
  common.set_rank_by(job_->rank_by());
  common.set_world_size(std::accumulate(slots.begin(), slots.end(), 0));
  std::vector<std::string> hosts(static_cast<std::size_t>(common.world_size()));
  previous_ranks_.clear();
  previous_names_.clear();
  for (std::size_t i = 0; i < members_.size(); ++i) {
    Node& node = nodes_.at(members_[i]);
    node.group_rank = static_cast<int>(i);
    node.ranks = std::move(ranks[i]);
    for (const int rank : node.ranks) hosts[static_cast<std::size_t>(rank)] = label_of(node);
    pb::Generation::Member* member = common.add_members();
    member->set_group_rank(node.group_rank);
    member->set_node_id(node.facts.node_id());
    member->set_host(node.facts.host());
    member->set_address(address_of(node));
    member->set_slots(node.facts.slots());
    member->set_first_rank(node.ranks.front());
    member->set_pid(node.facts.pid());
    previous_ranks_[node.facts.node_id()] = node.group_rank;
    previous_names_[node.group_rank] = node.facts.host();
  }
  const Node& first = nodes_.at(members_.front());
  common.set_master_port(first.facts.master_port());
  for (const NodeId id : members_) {
    const std::string address = address_for(nodes_.at(id), first);
    const auto& known = common.met_at();
    if (std::find(known.begin(), known.end(), address) == known.end()) common.add_met_at(address);
  }
  for (const pb::Generation::Member& member : common.members()) {
    const NodeId id = members_[static_cast<std::size_t>(member.group_rank())];
    Outgoing message{.to = id, .message = {}};
    pb::Generation& generation = *message.message.mutable_generation();
    generation = common;
    generation.set_group_rank(member.group_rank());
    generation.set_first_rank(member.first_rank());
    generation.set_master_addr(address_for(nodes_.at(id), first));
    if (options_.moves_to != 0) {
      generation.set_store(Endpoint{generation.master_addr(), options_.moves_to}.text());
    }
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

// Warns each node whose line differs from node 0's, and node 0 once.
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

}  // namespace dl::rendezvous
