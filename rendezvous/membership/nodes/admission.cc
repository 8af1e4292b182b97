#include "rendezvous/membership/nodes/admission.h"

#include <fmt/format.h>

#include <algorithm>

#include "rendezvous/membership/nodes/same_job.h"

namespace dl::rendezvous {
namespace {

// The most missing nodes that a message names, because people read it.
constexpr std::size_t kMostNamed = 16;

}  // namespace

std::optional<std::string> Admission::objection(NodeTable::Id id, const Join& facts,
                                                const NodeTable& nodes, int number) const {
  if (facts.node_id().empty() || facts.slots() < 1 || facts.nnodes() < 1) {
    return fmt::format(
        "a join needs a node id, at least one slot and at least one node, got '{}', {}, {}",
        facts.node_id(), facts.slots(), facts.nnodes());
  }
  if (facts.node_rank() < -1 || facts.node_rank() >= facts.nnodes()) {
    return fmt::format("there is no node rank {} in a job of {} nodes (0 to {})", facts.node_rank(),
                       facts.nnodes(), facts.nnodes() - 1);
  }
  if (job_ && !decides_for_the_job(facts, number)) {
    if (std::optional<std::string> reason = why_another_job(*job_, facts)) return reason;
  }
  if (!nodes.members().empty()) {
    std::vector<std::string> names;
    for (const NodeTable::Id member : nodes.members())
      names.push_back(nodes.at(member).facts.host());
    return nodes.is_member(id) ? fmt::format("generation {} is still running", number)
                               : fmt::format("generation {} is complete, its {} nodes are on: {}",
                                             number, job_->nnodes(), fmt::join(names, ", "));
  }
  for (const NodeTable::Id other : joined_) {
    const Node& present = nodes.at(other);
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

// Node 0 defines the job, because the endpoint is its own, even if another node came first.
bool Admission::decides_for_the_job(const Join& facts, int number) const {
  return !job_ || (facts.node_rank() == 0 && job_->node_rank() != 0 && number == 0);
}

std::vector<std::pair<NodeTable::Id, std::string>> Admission::of_other_jobs(
    const Join& facts, const NodeTable& nodes) const {
  std::vector<std::pair<NodeTable::Id, std::string>> others;
  for (const NodeTable::Id id : joined_) {
    if (std::optional<std::string> reason = why_another_job(facts, nodes.at(id).facts)) {
      others.emplace_back(id, *std::move(reason));
    }
  }
  return others;
}

void Admission::add(NodeTable::Id id, Patience::Time now) {
  if (joined_.empty()) patience_.emplace(now);
  joined_.push_back(id);
}

void Admission::remove(NodeTable::Id id) {
  std::erase(joined_, id);
  if (joined_.empty()) patience_.reset();
}

std::vector<std::string> Admission::missing(const NodeTable& nodes) const {
  const int nnodes = job_->nnodes();
  const auto count = static_cast<std::size_t>(nnodes) - joined_.size();
  std::vector<std::string> names;
  NodeTable::Ids by_rank(static_cast<std::size_t>(nnodes), 0);
  bool all_known = true;
  for (const NodeTable::Id id : joined_) {
    const Node& node = nodes.at(id);
    int rank = node.facts.node_rank();
    if (rank < 0) rank = previous_rank(node.facts);
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

// Requested ranks come first. The other nodes keep their ranks of the previous generation if these
// are free, and then fill up in the order in which they joined.
NodeTable::Ids Admission::order_of_ranks(const NodeTable& nodes) const {
  constexpr NodeTable::Id kFree = 0;
  NodeTable::Ids ranks(joined_.size(), kFree);
  NodeTable::Ids rest;
  for (const NodeTable::Id id : joined_) {
    const int wish = nodes.at(id).facts.node_rank();
    if (wish >= 0) {
      ranks[static_cast<std::size_t>(wish)] = id;
    } else {
      rest.push_back(id);
    }
  }
  std::erase_if(rest, [&](NodeTable::Id id) {
    const auto before = previous_ranks_.find(nodes.at(id).facts.node_id());
    if (before == previous_ranks_.end()) return false;
    const auto rank = static_cast<std::size_t>(before->second);
    if (rank >= ranks.size() || ranks[rank] != kFree) return false;
    ranks[rank] = id;
    return true;
  });
  for (const NodeTable::Id id : rest) *std::find(ranks.begin(), ranks.end(), kFree) = id;
  return ranks;
}

void Admission::close(const NodeTable& nodes) {
  previous_ranks_.clear();
  previous_names_.clear();
  for (const NodeTable::Id id : joined_) {
    const Node& node = nodes.at(id);
    previous_ranks_[node.facts.node_id()] = node.group_rank;
    previous_names_[node.group_rank] = node.facts.host();
  }
  joined_.clear();
  patience_.reset();
}

int Admission::previous_rank(const Join& facts) const {
  const auto before = previous_ranks_.find(facts.node_id());
  return before == previous_ranks_.end() ? -1 : before->second;
}

}  // namespace dl::rendezvous
