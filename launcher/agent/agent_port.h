// The interface between a frontend and the agent of one node: orders one way, events the other way,
// all of them values.
//
// On one node, both are in one process, and each order or event is a call (Agent, Frontend). If the
// agent is on another host, the values travel as frames. There `dlrun` is a frontend without a
// terminal, which implements AgentEvents and FrameTaker by writing frames. The user's dlrun holds
// an AgentOrders that writes frames.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/first_cause/restart_policy.h"

namespace dl::launcher {

class NodeOutput;

// What an agent gets from the frontend beside its NodePlan and the job's key.
struct AgentSettings {
  // The ranks get this time to call dl::should_checkpoint(); nullopt: the job cannot be preempted.
  std::optional<std::chrono::milliseconds> preempt_wait;
  std::string log_dir;  // empty: no logs
  // Columns that a progress line of rank 0 may have; 0: it is not shown.
  int progress_columns = 0;
};

// Why a node ends the job without a failure of a rank.
struct StopCause {
  int exit_code = 1;
  std::string text;         // one sentence; empty: none
  bool names_node = false;  // the sentence names this node
};

// How a generation ended, as this node knows it. On several nodes, all have one cause.
struct Verdict {
  int exit_code = 0;
  std::vector<std::string> page;  // lines for the user
  bool keeps_recorders = false;
  bool may_begin_again = false;  // a rank failed, or a node was lost
  std::chrono::milliseconds ran{0};
  // On several nodes: whether all of them restart. nullopt: the frontend decides.
  std::optional<rendezvous::Restart> agreed = std::nullopt;
  int attempt = 0;  // the generation's number
  int rank = -1;    // this node's rank that failed first; -1: none. Not sent to a remote frontend
};

// A rank was started or has ended.
struct RankNews {
  enum class What : std::uint8_t { kStarted, kEnded };
  What what = What::kStarted;
  int rank = -1;
  int pid = -1;
  int status = 0;  // kEnded: as waitpid() gives it
};

class AgentOrders {
 public:
  virtual ~AgentOrders() = default;
  // Starts the first generation, once.
  virtual void begin() = 0;
  // Ends the job: the ranks get `signal`, and SIGKILL after the grace time.
  virtual void stop(StopCause cause, int signal) = 0;
  // A second stop(): sends SIGKILL now. Once the agent has named the processes that are left, ends
  // without them.
  virtual void kill_now() = 0;
  // Sends `signal` to the process group of every rank.
  virtual void signal_ranks(int signal) = 0;
  // Asks all ranks of the job to save and end. `why`: a clause for the user, "SIGTERM".
  virtual void ask_to_save(const std::string& why) = 0;
  // To be called before Ctrl-Z stops dlrun, and after it continues.
  virtual void suspend() = 0;
  virtual void resume() = 0;
  // Tells the user what each rank is doing.
  virtual void report() = 0;

  // To be called after on_over(), when the event loop has ended. Ends every process that is left,
  // passes on what is left in the pipes, and returns the verdict on the last generation.
  virtual Verdict finish() = 0;
  // The processes that dlrun could not end, a line each: "rank 3, pid 4711: state D ...".
  virtual std::vector<std::string> left_behind() const = 0;
  // Writes error files, and recorders after a failure, to the log folder.
  virtual void keep_files(const Verdict& verdict) = 0;
  // The output of an agent in this process; null if the agent is on another host.
  virtual NodeOutput* node_output() = 0;
};

class AgentEvents {
 public:
  virtual ~AgentEvents() = default;
  // A sentence for the user, without "dlrun: ".
  virtual void on_sentence(const std::string& line) = 0;
  virtual void on_attempt(int attempt, const std::vector<int>& ranks) = 0;
  virtual void on_rank(const RankNews& news) = 0;
  // All ranks have ended, and all nodes agree on why. Returns whether the next generation begins.
  virtual rendezvous::Restart on_verdict(const Verdict& verdict) = 0;
  // The generation is over, and the next one begins.
  virtual void on_begins_again(const Verdict& verdict, const rendezvous::Restart& restart) = 0;
  // The agent has finished, but its streams are not drained.
  virtual void on_over() = 0;
};

}  // namespace dl::launcher
