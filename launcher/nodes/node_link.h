// This node's part in a job of several nodes: what dlrun and its dlrun-rendezvous say to each
// other (docs/protocol.md, "Between dlrun and dlrun-rendezvous"), as values and callbacks.
//
// dlrun starts `dlrun-rendezvous join` as a helper of its supervisor and gives it the two pipes of
// this object. One thread; io_context must outlive it.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <deque>
#include <functional>
#include <string>

#include "core/base/unique_fd.h"
#include "launcher/plan/plan.h"
#include "rendezvous/first_cause/first_cause.h"
#include "rendezvous/first_cause/restart_policy.h"

namespace dl::launcher {

// The first cause in the whole job, wherever it happened.
struct JobFailure {
  int rank = -1;  // -1: no rank of its own, e.g. a node that was lost
  int local_rank = -1;
  int pid = 0;
  int exit_code = 0;
  int signal = 0;
  std::string text;    // one line
  std::string detail;  // the rest of the page, lines
  int group_rank = -1;
  std::string host;
  bool node_lost = false;
  // What all nodes do now.
  rendezvous::Restart restart;
};

struct NodeEvents {
  std::function<void(Meeting)> on_generation;
  std::function<void(JobFailure)> on_failed;
  std::function<void()> on_all_done;
  std::function<void(rendezvous::Question)> on_question;
  // The ranks are to save: the request, and at which call.
  std::function<void(std::string why)> on_preempt;
  std::function<void(std::uint64_t call)> on_checkpoint;
  // The job cannot go on: `kind` is an ErrorKind's name ("timeout"), or "refused".
  std::function<void(std::string kind, std::string text)> on_error;
  std::function<void(std::string line)> on_line;  // for the user; the job goes on
};

class NodeLink {
 public:
  NodeLink(boost::asio::io_context& io, NodeEvents events);

  // The helper's standard input and output; each once.
  UniqueFd take_stdin() { return std::move(helper_in_); }
  UniqueFd take_stdout() { return std::move(helper_out_); }

  // `node_rank`: -1: any.
  void join(const NodePlan& plan, int node_rank, int master_port);
  // `local_rank`: on this node. One that failed, or ended with 0.
  void ended(const rendezvous::RankEnd& end, int local_rank);
  void waits(int rank, const rendezvous::Waiting& waiting);
  // The answer to on_question.
  void goes_on(int rank);
  // A request to save, to all nodes; and the answer to on_preempt.
  void preempt(const std::string& why);
  void called(std::uint64_t calls);
  // Before dlrun stops itself (Ctrl-Z), and when it goes on: without it, it would be taken for one
  // that hangs.
  void suspended() { say_state("SUSPENDED"); }
  void resumed() { say_state("TURNS"); }
  void done();
  void leave(const std::string& reason, int exit_code);
  // The helper ends when it sees this.
  void close();
  // Once the helper has ended: what it said last may not have been read yet.
  void read_rest();

 private:
  void say_state(const char* state);
  void beat();
  void send(const std::string& line);
  void write_some();
  ssize_t read_some();  // what read() returns
  void wait_for_lines();
  void take(const std::string& line);

  NodeEvents events_;
  UniqueFd helper_in_;
  UniqueFd helper_out_;
  boost::asio::posix::stream_descriptor to_;
  boost::asio::posix::stream_descriptor from_;
  boost::asio::steady_timer beat_;  // that the event loop turns
  std::string unsent_;
  std::string unread_;
  bool waits_ = false;
};

}  // namespace dl::launcher
