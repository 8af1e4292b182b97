// NodeLink: the messages between dlrun and its dlrun-rendezvous (docs/protocol.md, "Between dlrun
// and dlrun-rendezvous") as values and callbacks, for a job on several nodes.
//
// dlrun starts `dlrun-rendezvous join` as a helper of its warden and gives it the two pipes of this
// object. One thread; io_context must outlive it.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "core/base/system/unique_fd.h"
#include "launcher/nodes/helper_watch.h"
#include "launcher/plan/plan.h"
#include "rendezvous/first_cause/first_cause.h"
#include "rendezvous/first_cause/restart_policy.h"

namespace dl::launcher {

// A program and its arguments as one line, which a person reads and a node compares with the line
// of another node; words that a shell would split get quotes.
std::string line_of(const std::vector<std::string>& words);

// What two nodes of one job have in common, in whatever directory it is installed: the base name of
// the program, or of the script or module that a known interpreter runs; "python" for `python3 -c
// ...`.
std::string base_name_of(const std::vector<std::string>& words);

// The first cause in the whole job, on any node.
struct JobFailure {
  int rank = -1;  // -1: no rank, e.g. a lost node
  int local_rank = -1;
  int pid = 0;
  int exit_code = 0;
  int signal = 0;
  std::string text;    // one line
  std::string detail;  // the other lines of the page
  int group_rank = -1;
  std::string host;
  bool node_lost = false;
  // Whether all nodes restart now.
  rendezvous::Restart restart;
};

struct NodeEvents {
  std::function<void(Meeting)> on_generation;
  std::function<void(JobFailure)> on_failed;
  std::function<void()> on_all_done;
  std::function<void(rendezvous::Question)> on_question;
  // The ranks must save: the request, and then the call at which they save.
  std::function<void(std::string why)> on_preempt;
  std::function<void(std::uint64_t call)> on_checkpoint;
  // The job cannot go on: `kind` is an ErrorKind's name ("timeout"), or "refused".
  std::function<void(std::string kind, std::string text)> on_error;
  std::function<void(std::string line)> on_line;  // for the user; the job goes on
  // The helper stands still, or goes on.
  std::function<void(HelperWatch::News)> on_helper;
};

class NodeLink {
 public:
  NodeLink(boost::asio::io_context& io, NodeEvents events);

  // The helper's standard input and output. To be called once each.
  UniqueFd take_stdin() { return std::move(helper_in_); }
  UniqueFd take_stdout() { return std::move(helper_out_); }

  // `node_rank`: -1: any.
  void join(const NodePlan& plan, int node_rank, int master_port);
  // A rank of this node has failed, or ended with 0.
  void ended(const rendezvous::RankEnd& end, int local_rank);
  void waits(int rank, const rendezvous::Waiting& waiting);
  // The answer to on_question.
  void goes_on(int rank);
  // Sends a request to save to all nodes, and the answer to on_preempt.
  void preempt(const std::string& why);
  void called(std::uint64_t calls);
  // To be called before dlrun stops itself (Ctrl-Z), and when it continues. Otherwise dlrun would
  // count as hanging.
  void suspended() { say_state("SUSPENDED"); }
  void resumed() { say_state("TURNS"); }
  void done();
  void leave(const std::string& reason, int exit_code);
  // Closes the connection; the helper then ends.
  void close();
  // To be called when the helper has ended: reads its last messages.
  void read_rest();

 private:
  void say_state(const char* state);
  void beat();
  void send(const std::string& line);
  void write_some();
  ssize_t read_some();  // returns what read() returns
  void wait_for_lines();
  void take(const std::string& line);

  NodeEvents events_;
  UniqueFd helper_in_;
  UniqueFd helper_out_;
  boost::asio::posix::stream_descriptor to_;
  boost::asio::posix::stream_descriptor from_;
  boost::asio::steady_timer beat_;  // reports that the event loop runs
  HelperWatch helper_;
  std::string unsent_;
  std::string unread_;
  bool waits_ = false;
};

}  // namespace dl::launcher
