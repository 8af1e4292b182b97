#include "rendezvous/membership/nodes/node_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace dl::rendezvous {

std::string Node::name() const {
  const int rank = group_rank >= 0 ? group_rank : facts.node_rank();
  return rank >= 0 ? fmt::format("node rank {} (host {}, pid {})", rank, facts.host(), facts.pid())
                   : fmt::format("a node (host {}, pid {})", facts.host(), facts.pid());
}

std::string Node::label() const {
  return fmt::format("{} (node {})", facts.host(), group_rank);
}

int Node::local_rank_of(int rank) const {
  return static_cast<int>(std::ranges::lower_bound(ranks, rank) - ranks.begin());
}

const Node* NodeTable::find(Id id) const {
  const auto found = nodes_.find(id);
  return found == nodes_.end() ? nullptr : &found->second;
}

Node* NodeTable::find(Id id) {
  const auto found = nodes_.find(id);
  return found == nodes_.end() ? nullptr : &found->second;
}

void NodeTable::begin_generation(Ids members, RankBy by) {
  members_ = std::move(members);
  std::vector<int> slots;
  for (const Id id : members_) slots.push_back(nodes_.at(id).facts.slots());
  std::vector<std::vector<int>> ranks = number_ranks(slots, by);
  for (std::size_t i = 0; i < members_.size(); ++i) {
    Node& node = nodes_.at(members_[i]);
    node.group_rank = static_cast<int>(i);
    node.ranks = std::move(ranks[i]);
  }
}

void NodeTable::end_generation() {
  for (const Id member : members_) nodes_.at(member).group_rank = -1;
  members_.clear();
}

bool NodeTable::is_member(Id id) const {
  return std::ranges::find(members_, id) != members_.end();
}

NodeTable::Id NodeTable::member_of(int rank) const {
  const auto found = std::ranges::find_if(
      members_, [&](Id id) { return std::ranges::binary_search(nodes_.at(id).ranks, rank); });
  return found == members_.end() ? members_.front() : *found;
}

std::vector<std::string> NodeTable::hosts_of_ranks() const {
  std::vector<std::string> hosts;
  for (const Id id : members_) {
    const Node& node = nodes_.at(id);
    hosts.resize(std::max(hosts.size(), static_cast<std::size_t>(node.ranks.back()) + 1));
    for (const int rank : node.ranks) hosts[static_cast<std::size_t>(rank)] = node.label();
  }
  return hosts;
}

std::vector<std::string> NodeTable::members_without(const std::set<Id>& these) const {
  std::vector<std::string> names;
  for (const Id member : members_) {
    if (!these.contains(member)) names.push_back(nodes_.at(member).name());
  }
  return names;
}

}  // namespace dl::rendezvous
