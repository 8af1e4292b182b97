// Admission: decides which nodes may join the next generation, and which group rank each of them
// gets.
//
// One thread at a time. Included by .cc files only, because Join is Protobuf's.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rendezvous/membership/nodes/node_table.h"
#include "rendezvous/net/patience.h"
#include "rendezvous/rendezvous.pb.h"

namespace dl::rendezvous {

class Admission {
 public:
  using Join = dlrun::rendezvous::Join;

  // One sentence that says why this node may not join; nullopt: it may. `number`: of the running
  // generation, or of the one being gathered.
  std::optional<std::string> objection(NodeTable::Id id, const Join& facts, const NodeTable& nodes,
                                       int number) const;
  // True if this node's facts define the job from now on.
  bool decides_for_the_job(const Join& facts, int number) const;
  // The nodes that have joined but do not belong to this node's job, each with the reason.
  std::vector<std::pair<NodeTable::Id, std::string>> of_other_jobs(const Join& facts,
                                                                   const NodeTable& nodes) const;
  void set_job(const Join& facts) { job_ = facts; }
  void forget_job() { job_.reset(); }
  const Join& job() const { return *job_; }

  void add(NodeTable::Id id, Patience::Time now);
  void remove(NodeTable::Id id);
  // In the order in which they joined.
  const NodeTable::Ids& joined() const { return joined_; }
  bool is_complete() const { return static_cast<int>(joined_.size()) == job_->nnodes(); }
  // How long the first node has waited; nullopt: no node waits.
  std::optional<Patience>& patience() { return patience_; }
  // The nodes that have not joined, for a text.
  std::vector<std::string> missing(const NodeTable& nodes) const;

  // The nodes by group rank, once all have joined.
  NodeTable::Ids order_of_ranks(const NodeTable& nodes) const;
  // Call it when the nodes have their ranks. Nodes that join later are for the next generation.
  void close(const NodeTable& nodes);
  // The group rank that this node had last; -1: none.
  int previous_rank(const Join& facts) const;

 private:
  // Defines the job: the facts of node 0; until node 0 has joined, those of the first node. Empty:
  // no node has joined.
  std::optional<Join> job_;
  NodeTable::Ids joined_;
  std::optional<Patience> patience_;
  std::map<std::string, int> previous_ranks_;  // by node id
  std::map<int, std::string> previous_names_;  // by group rank
};

}  // namespace dl::rendezvous
