// OtherNodes: the other nodes of a job, as one node's agent sees them. It owns the dlrun-rendezvous
// that joins them and the link to it. It outlives generations: after a verdict the node joins
// again.
//
// One thread. All constructor arguments must outlive it.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "launcher/nodes/node_link.h"
#include "launcher/nodes/rendezvous_helper.h"

namespace dl::launcher {

// "node 2 (host n3): the warden was killed"; "a node (host n3): ..." if its number is -1.
std::string with_node(int number, const std::string& host, const std::string& text);

struct OtherNodesEvents {
  std::function<void(Meeting)> on_meeting;
  // The first cause in the whole job.
  std::function<void(JobFailure)> on_failed;
  std::function<void()> on_all_done;
  std::function<void(rendezvous::Question)> on_question;
  // As in NodeEvents.
  std::function<void(std::string why)> on_preempt;
  std::function<void(std::uint64_t call)> on_checkpoint;
  // This node is not part of the job any more.
  std::function<void(int exit_code, std::string text)> on_lost;
  // Called after close().
  std::function<void()> on_closed;
  std::function<void(const std::string& line)> on_sentence;
};

class OtherNodes {
 public:
  // Starts the helper; node 0 listens at the endpoint, with `listener` if there is one. All
  // references must outlive this object. Throws kIo.
  OtherNodes(boost::asio::io_context& io, WardenClient& warden, NodeOutput& output,
             const UniqueFd& key, const NodePlan& plan, std::chrono::milliseconds join_timeout,
             UniqueFd listener, OtherNodesEvents events);

  // True if this node asks to be node 0; then it will be.
  bool is_node_0() const { return node_rank_ == 0; }
  // Joins the next generation. `master_port`: a free port on this host.
  void join(int master_port);
  // Reports about the ranks of this node. Nothing is sent once a verdict is known.
  void ended(const rendezvous::RankEnd& end, int local_rank);
  void waits(int rank, const rendezvous::Waiting& waiting);
  void goes_on(int rank);
  void preempt(const std::string& why);
  void called(std::uint64_t calls);
  void done() { link_->done(); }
  // Tells the other nodes that the job ends because of this node. Their dlruns end with `exit_code`
  // too. Send nothing after it.
  void leave(const std::string& reason, int exit_code);
  void suspended() { link_->suspended(); }
  void resumed() { link_->resumed(); }
  // Lets the helper deliver this node's last message to the other nodes. on_closed follows, after
  // kFarewell at the latest.
  void close();
  void kill();

  // Time for the other nodes to agree on a verdict, and for their connections to end.
  static constexpr std::chrono::seconds kFarewell{3};

 private:
  NodeEvents events_of_link();
  void start(UniqueFd listener);
  void leave_by_another_helper(const std::string& reason);
  void on_failed(JobFailure failure);
  void on_error(const std::string& kind, const std::string& text);
  void on_helper_news(const Message& news);
  void on_helper_watch(HelperWatch::News news);
  std::string helper_name() const;
  void lose(int exit_code, std::string text);
  void say_closed();

  const NodePlan& plan_;
  int node_rank_;  // requested by this node; -1: any
  boost::asio::io_context& io_;
  WardenClient& warden_;
  NodeOutput& output_;
  const UniqueFd& key_;
  std::chrono::seconds join_timeout_;
  OtherNodesEvents events_;
  std::unique_ptr<NodeLink> link_;
  // The link to a helper that has died: it may be in one of the link's own calls.
  std::unique_ptr<NodeLink> dead_link_;
  boost::asio::steady_timer farewell_;
  std::uint32_t helper_ = 0;
  int helper_pid_ = -1;
  bool helper_stood_still_ = false;  // for so long that it was killed
  bool helper_runs_ = true;
  bool listens_ = false;  // at the endpoint: its helper is the rendezvous
  // True if a message or the end of the helper concerns a generation without a verdict.
  bool takes_part_ = false;
  bool is_to_join_again_ = false;
  bool closing_ = false;
  bool closed_ = false;
  int lost_code_ = 1;
  std::string lost_;  // why the helper cannot be used any more; empty: it can
};

}  // namespace dl::launcher
