// Membership: gathers nodes until a generation is complete, numbers it, and then passes barriers,
// the first failure and the end to all of its members. docs/protocol.md has the messages.
//
// A state machine without input, output, clock or lock. Its inputs are a node's message, a node's
// loss, and the time; it returns the messages to send. One thread at a time. Included by .cc files
// only, because its messages are Protobuf's.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/base/deadline.h"
#include "rendezvous/first_cause/first_cause.h"
#include "rendezvous/first_cause/restart_policy.h"
#include "rendezvous/membership/standstill.h"
#include "rendezvous/net/patience.h"
#include "rendezvous/rendezvous.pb.h"

namespace dl::rendezvous {

// How long silence lasts before it counts. Both sides of a job use the same values.
struct Silence {
  std::chrono::milliseconds dead_after{std::chrono::seconds(10)};  // the other side is lost
  std::chrono::milliseconds heartbeat_every() const { return dead_after / 5; }
  // A process that stood still for this long reports it, and does not blame others for what it
  // missed.
  std::chrono::milliseconds standstill() const { return dead_after / 2; }
  // A dlrun that is stopped or stuck for this long is reported.
  std::chrono::milliseconds named_after() const { return dead_after / 2; }
};

class Membership {
 public:
  using Time = Deadline::Clock::time_point;
  struct Options {
    Silence silence = {};
    std::chrono::nanoseconds (*suspended)() noexcept = &time_suspended;
    // The port at which the service is reached once a generation is complete; 0: the endpoint's.
    std::uint16_t moves_to = 0;
  };
  using NodeId = std::uint64_t;  // of a node's stream; never used twice

  struct Outgoing {
    NodeId to = 0;
    dlrun::rendezvous::ToNode message;
    bool last = false;  // the stream ends after it
  };
  using Outbox = std::vector<Outgoing>;

  explicit Membership(Options options);

  Outbox on_message(NodeId node, const dlrun::rendezvous::FromNode& message, Time now);
  // To be called when the node's connection broke.
  Outbox on_lost(NodeId node, Time now);
  // To be called at least every half second.
  Outbox on_time(Time now);

  // True if nodes may join.
  bool is_gathering() const { return members_.empty() && !is_over_; }

 private:
  struct Node {
    dlrun::rendezvous::Join facts;
    Time heard;
    int group_rank = -1;  // in the running generation
    bool done = false;
    std::vector<int> ranks = {};  // in the running generation, by local rank; ascending
  };
  struct Waiters {
    std::set<NodeId> arrived;
    Patience patience;
  };

  // Every entry point calls it first. If this service stood still, it tells all nodes and extends
  // their times by as much.
  void look_at_clock(Time now, Outbox& out);
  void tell_of_agent(NodeId id, const dlrun::rendezvous::Agent& agent, Outbox& out) const;
  void barrier(NodeId id, const std::string& name, Time now, Outbox& out);
  void done(NodeId id, Time now, Outbox& out);
  // A request to save and end.
  void preempt(const std::string& why, Outbox& out);
  void called(NodeId id, std::uint64_t calls, Outbox& out);
  void end_generation();
  void forget(NodeId id);
  void speak(Time now, Outbox& out);
  std::vector<std::string> missing_nodes() const;
  std::vector<std::string> missing_members(const std::set<NodeId>& arrived) const;
  std::string name_of(const Node& node) const;
  static std::string label_of(const Node& node);  // of a member: "host-b (node 1)"
  bool is_member(NodeId id) const;

  // membership_gathering.cc
  void join(NodeId id, const dlrun::rendezvous::Join& facts, Time now, Outbox& out);
  std::optional<std::string> objection(NodeId id, const dlrun::rendezvous::Join& facts) const;
  bool decides_for_the_job(const dlrun::rendezvous::Join& facts) const;
  void refuse(NodeId id, const dlrun::rendezvous::Join& facts, const std::string& reason,
              Outbox& out) const;
  void refuse_other_jobs(const dlrun::rendezvous::Join& first, Outbox& out);
  void warn_of_other_lines(Outbox& out) const;
  void close_generation(Time now, Outbox& out);
  std::vector<NodeId> order_of_ranks() const;

  // membership_address.cc
  // The address by which other nodes reach `node`, and the one by which `from` reaches it.
  std::string address_of(const Node& node) const;
  std::string address_for(const Node& from, const Node& node) const;

  // membership_failure.cc
  // `is_final`: no generation follows, regardless of --max-restarts.
  void fail(NodeId id, dlrun::rendezvous::Failed cause, bool is_final, Time now, Outbox& out);
  // To be called when a node leaves between two generations.
  void fail_next(NodeId id, dlrun::rendezvous::Failed cause, Outbox& out);
  // A rank's end, as input for the first cause.
  void rank_failed(NodeId id, const dlrun::rendezvous::Failed& failed, Time now, Outbox& out);
  void goes_on(NodeId id, int rank);
  // Sends the first cause, or asks the next question that it needs answered.
  void settle(Time now, Outbox& out);
  NodeId node_of(int rank) const;
  // `text` is one line for the users of all nodes.
  void lose(NodeId id, const std::string& text, int exit_code, Time now, Outbox& out);
  std::string text_of_silence(NodeId id, const std::string& how) const;

  Options options_;
  Standstill standstill_;
  std::map<NodeId, Node> nodes_;  // every node that has joined and is still connected
  std::vector<NodeId> joined_;    // for the generation that is being gathered, in order
  std::vector<NodeId> members_;   // of the running generation, by group rank; empty: none runs
  // Identifies the job: the facts of node 0, or until node 0 has joined those of the first node.
  // Empty: no node has joined.
  std::optional<dlrun::rendezvous::Join> job_;
  RestartPolicy restarts_;
  Time began_{};          // when the running generation began
  bool is_over_ = false;  // the last generation has ended, and none follows
  int number_ = 0;        // of the running generation, or of the one being gathered
  std::map<std::string, int> previous_ranks_;  // by node id
  std::map<int, std::string> previous_names_;  // by group rank
  std::map<std::string, Waiters> barriers_;
  std::optional<Patience> gathering_;  // since the first node joined
  std::optional<Waiters> ending_;      // since the first node was done
  FirstCause first_cause_;             // of the running generation
  std::optional<Question> asked_;      // the last question
  Time answer_by_{};                   // at this time nodes without an answer count as going on
  std::set<NodeId> answered_;          // if all nodes were asked
  // After a request to save: each node's answer.
  std::optional<std::map<NodeId, std::uint64_t>> calls_;
  std::optional<Time> last_heartbeat_;
};

}  // namespace dl::rendezvous
