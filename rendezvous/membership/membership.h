// Membership: gathers nodes until a generation is complete, and numbers it. Then it passes
// barriers, the first failure and the end to all members. docs/protocol.md has the messages.
//
// A state machine without input, output, clock or lock. It is given a node's message, the loss of a
// node, or the time, and returns the messages to send. One thread at a time. Included by .cc files
// only, because its messages are Protobuf's.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "core/base/deadline.h"
#include "rendezvous/first_cause/restart_policy.h"
#include "rendezvous/membership/job_cause.h"
#include "rendezvous/membership/nodes/admission.h"
#include "rendezvous/membership/nodes/node_table.h"
#include "rendezvous/membership/nodes/outbox.h"
#include "rendezvous/membership/save_round.h"
#include "rendezvous/membership/standstill.h"
#include "rendezvous/net/patience.h"
#include "rendezvous/rendezvous.pb.h"

namespace dl::rendezvous {

// How long silence lasts before it has consequences. All nodes of a job use the same values.
struct Silence {
  std::chrono::milliseconds dead_after{std::chrono::seconds(10)};  // the other side is lost
  std::chrono::milliseconds heartbeat_every() const { return dead_after / 5; }
  // A process that did not run for this long reports it, and does not blame others for messages
  // that it missed.
  std::chrono::milliseconds standstill() const { return dead_after / 2; }
  // A dlrun that is stopped or stuck for this long is reported to the other nodes.
  std::chrono::milliseconds named_after() const { return dead_after / 2; }
};

class Membership {
 public:
  using Time = Deadline::Clock::time_point;
  struct Options {
    Silence silence = {};
    std::chrono::nanoseconds (*suspended)() noexcept = &time_suspended;
    // The port of the service while a generation runs; 0: the endpoint's port.
    std::uint16_t moves_to = 0;
  };
  using NodeId = NodeTable::Id;
  using Outgoing = rendezvous::Outgoing;
  using Outbox = rendezvous::Outbox;

  explicit Membership(Options options);

  Outbox on_message(NodeId node, const dlrun::rendezvous::FromNode& message, Time now);
  // Call it when the node's connection has ended.
  Outbox on_lost(NodeId node, Time now);
  // Call it at least every half second.
  Outbox on_time(Time now);

  // True if nodes may join.
  bool is_gathering() const { return nodes_.members().empty() && !is_over_; }

 private:
  struct Waiters {
    std::set<NodeId> arrived;
    Patience patience;
  };

  // Every public function calls it first. If this service stood still, it tells all nodes and
  // extends their deadlines by as much.
  void look_at_clock(Time now, Outbox& out);
  void tell_of_agent(NodeId id, const dlrun::rendezvous::Agent& agent, Outbox& out) const;
  // Names each node that has been silent for a while to the others, once.
  void tell_of_silence(Time now, Outbox& out);
  void warn(Time now, Outbox& out);

  void join(NodeId id, const dlrun::rendezvous::Join& facts, Time now, Outbox& out);
  void refuse(NodeId id, const dlrun::rendezvous::Join& facts, const std::string& reason,
              Outbox& out) const;
  void begin_generation(Time now, Outbox& out);

  void barrier(NodeId id, const std::string& name, Time now, Outbox& out);
  void done(NodeId id, Time now, Outbox& out);
  // Ends the job once all nodes are done.
  void end_if_done(Time now, Outbox& out);
  // Sends all members a sentence for their users, unless it is empty.
  void tell_all(const std::string& text, Outbox& out) const;
  // A request to save and end.
  void preempt(const std::string& why, Outbox& out);
  void called(NodeId id, std::uint64_t calls, Outbox& out);

  // `is_final`: no generation follows, regardless of --max-restarts.
  void fail(NodeId id, dlrun::rendezvous::Failed cause, bool is_final, Time now, Outbox& out);
  // Call it when a node leaves between two generations.
  void fail_next(NodeId id, dlrun::rendezvous::Failed cause, Outbox& out);
  // A rank of this node has failed, or the node itself if no rank is named.
  void failed(NodeId id, const dlrun::rendezvous::Failed& failed, Time now, Outbox& out);
  // Sends the first cause, or asks the next question that it needs answered.
  void settle(Time now, Outbox& out);
  void end_generation();

  void leave(NodeId id, const dlrun::rendezvous::Leave& leave, Time now, Outbox& out);
  // `text` is one line for the users of all nodes.
  void lose(NodeId id, const std::string& text, int exit_code, Time now, Outbox& out);
  std::string text_of_silence(NodeId id, const std::string& how) const;
  void forget(NodeId id);

  Options options_;
  Standstill standstill_;
  NodeTable nodes_;
  Admission admission_;
  RestartPolicy restarts_;
  Time began_{};          // when the running generation began
  bool is_over_ = false;  // the last generation has ended, and none follows
  int number_ = 0;        // of the running generation, or of the one being gathered
  std::map<std::string, Waiters> barriers_;
  std::optional<Waiters> ending_;  // since the first node was done
  JobCause cause_;                 // of the running generation
  SaveRound saving_;               // of the running generation
  std::optional<Time> last_heartbeat_;
};

}  // namespace dl::rendezvous
