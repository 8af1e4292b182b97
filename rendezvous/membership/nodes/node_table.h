// NodeTable: the nodes that have joined and are still connected, and which of them are members of
// the running generation.
//
// One thread at a time. Included by .cc files only, because Join is Protobuf's.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/base/deadline.h"
#include "rendezvous/rank_numbers.h"
#include "rendezvous/rendezvous.pb.h"

namespace dl::rendezvous {

struct Node {
  dlrun::rendezvous::Join facts;
  Deadline::Clock::time_point heard;  // its last message
  int group_rank = -1;                // in the running generation
  std::vector<int> ranks = {};        // in the running generation, by local rank; ascending
  bool is_silent = false;             // for so long that the others were told

  // The local rank of one of its ranks.
  int local_rank_of(int rank) const;

  std::string name() const;   // "node rank 1 (host b, pid 4711)"
  std::string label() const;  // of a member: "b (node 1)"
};

class NodeTable {
 public:
  using Id = std::uint64_t;  // of a node's stream; never used twice
  using Ids = std::vector<Id>;

  // Null: the node has not joined, or was removed.
  const Node* find(Id id) const;
  Node* find(Id id);
  const Node& at(Id id) const { return nodes_.at(id); }
  const std::map<Id, Node>& connected() const { return nodes_; }
  std::map<Id, Node>& connected() { return nodes_; }
  void add(Id id, Node node) { nodes_[id] = std::move(node); }
  void remove(Id id) { nodes_.erase(id); }

  // The running generation: its members by group rank.
  void begin_generation(Ids members, RankBy by);
  void end_generation();
  const Ids& members() const { return members_; }
  bool is_member(Id id) const;
  // The member that has this rank; node 0 if none has.
  Id member_of(int rank) const;
  // The label of the node of each rank.
  std::vector<std::string> hosts_of_ranks() const;
  // The names of the members that are not among these.
  std::vector<std::string> members_without(const std::set<Id>& these) const;

 private:
  std::map<Id, Node> nodes_;
  Ids members_;  // empty: no generation runs
};

}  // namespace dl::rendezvous
