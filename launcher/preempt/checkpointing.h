// Checkpointing: a request to save and end, in one generation of one node. It owns the door for the
// ranks, agrees with the other nodes on a call, and limits the ranks' time.
//
// One thread: the event loop's. No handler runs after its destructor.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "launcher/preempt/checkpoint_door.h"
#include "launcher/preempt/preemption.h"

namespace dl::launcher {

struct CheckpointEvents {
  // Empty on one node, as say_calls is. Sends the request to all nodes, this one included;
  // request() follows.
  std::function<void(const std::string& why)> ask_all;
  // Tells all nodes the most calls that a rank of this node has made; agree() follows.
  std::function<void(std::uint64_t calls)> say_calls;
  // The ranks have not come to the call in time. The job ends with this sentence.
  std::function<void(const std::string& complaint)> on_late;
  std::function<void(const std::string& line)> on_sentence;
};

class Checkpointing {
 public:
  Checkpointing(boost::asio::io_context& io, std::vector<int> ranks,
                std::chrono::milliseconds patience, CheckpointEvents events);

  const std::string& name() const { return door_.name(); }

  // To be called for the user's request; `why` is a clause, "SIGTERM". Later requests do nothing.
  void ask(const std::string& why);
  // To be called with the messages that all nodes get.
  void request(const std::string& why);
  void agree(std::uint64_t call);

  // The rank has failed and the others live on: it does not have to save any more.
  void forget(int rank) { forgotten_.insert(rank); }

  bool is_requested() const { return asked_ || preemption_.is_requested(); }
  const std::string& why() const { return why_; }
  // The generation ends for another reason, so requests do nothing any more.
  bool is_over() const { return ends_; }
  void announce_end();

  // The outcome of the request. To be called when all ranks of this node have ended with 0.
  Preemption::Outcome outcome() const { return preemption_.outcome(calls()); }
  // A sentence if some ranks of this node have returned true and others have not; else empty.
  std::string who_has_not_saved() const;
  const Preemption& preemption() const { return preemption_; }

 private:
  // One entry for each rank of the node that is not forgotten.
  std::vector<RankCalls> calls() const;
  void watch(std::chrono::milliseconds time);

  CheckpointDoor door_;
  Preemption preemption_;
  CheckpointEvents events_;
  std::chrono::milliseconds patience_;
  boost::asio::steady_timer timer_;
  std::string why_;
  std::set<int> forgotten_;
  bool asked_ = false;
  bool ends_ = false;
  std::shared_ptr<char> alive_ =
      std::make_shared<char>();  // tells the timer's handler that this object lives
};

}  // namespace dl::launcher
