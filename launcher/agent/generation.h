// Generation: one generation on one node, from the start of the first rank to the end of the last
// process. It keeps the ranks, reads their lifelines, and finds the first cause among them.
//
// One thread. It must not be destroyed inside one of its own callbacks.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/base/deadline.h"
#include "core/base/system/unique_fd.h"
#include "launcher/agent/agent_port.h"
#include "launcher/agent/evidence/recorders.h"
#include "launcher/output/node_output.h"
#include "launcher/plan/plan.h"
#include "launcher/pmi/pmi_server.h"
#include "launcher/process/supervisor/channel_client.h"
#include "launcher/verdict/report.h"
#include "rendezvous/first_cause/first_cause.h"

namespace dl::launcher {

class GenerationEvents {
 public:
  virtual ~GenerationEvents() = default;
  virtual void on_rank_started(int rank, pid_t pid) = 0;
  // `end.text` and `end.detail` are for a judge on another node.
  virtual void on_rank_ended(const RankEnd& end, int local_rank) = 0;
  virtual void on_rank_waits(int rank, const rendezvous::Waiting& waiting) = 0;
  // The answer to ask().
  virtual void on_rank_goes_on(int rank) = 0;
  // A rank of this node is the first cause, as far as this node knows.
  virtual void on_cause() = 0;
  // The job cannot go on: a rank could not be started, has called MPI_Abort, or was ended by a
  // signal that SLURM sends to every process of a step.
  virtual void on_stop(StopCause why) = 0;
  // No rank runs or is being started. May be called more than once.
  virtual void on_all_ended(bool all_well) = 0;
  // No process is left below the supervisor.
  virtual void on_finished() = 0;
  // The supervisor says that the warden is dead.
  virtual void on_warden_lost() = 0;
  virtual void on_supervisor_lost() = 0;
  virtual void on_note(const std::string& line) = 0;
};

class Generation {
 public:
  using Clock = std::chrono::steady_clock;

  // Common to all generations of an agent.
  struct Setting {
    const NodePlan& plan;
    const AgentSettings& settings;
    const UniqueFd& key;
    NodeOutput& output;
    std::string checkpoint;  // as in Handles
  };
  // `channel`: to the generation's supervisor. `judges`: this node finds the first cause; if false,
  // another node does and asks this one.
  Generation(boost::asio::io_context& io, Setting setting, Meeting meeting, bool judges,
             UniqueFd channel, GenerationEvents& events);
  Generation(const Generation&) = delete;
  Generation& operator=(const Generation&) = delete;

  const Meeting& meeting() const { return meeting_; }

  void start();
  // Starts no further rank. Ends of ranks from now on say nothing about a cause.
  void stop(int signal);
  void signal(int signal);
  // Tells the supervisor what to do with the processes that are left; on_finished() follows.
  void finish(Leftovers order);
  // Sends the pending messages. To be called before dlrun stops itself.
  void flush(rendezvous::Deadline deadline) { supervisor_.flush(deadline); }
  // Calls on_all_ended() if no rank runs or is being started.
  void check_ended();
  // To be called when the judge of the whole job asks whether a rank is about to end.
  void ask(rendezvous::Question question);
  bool is_to_finish() const { return to_finish_; }
  bool is_finished() const { return finished_; }
  // To be called when the supervisor is dead: no rank will be reported any more.
  void forget_ranks() { alive_ = 0; }

  const std::optional<rendezvous::Finding>& finding() const { return first_cause_.finding(); }
  std::vector<RankFacts> facts() const;
  int local_rank_of(int rank) const { return meeting_.local_rank_of(rank); }

  // A line for each rank that the kernel does not end, or does not start.
  std::vector<std::string> who_is_left() const;
  std::vector<int> ranks_being_started() const;
  struct Running {
    int rank;
    pid_t pid;
  };
  std::vector<Running> running() const;
  // The numbers of all ranks that were started, by process id.
  std::map<pid_t, int> ranks_by_pid() const;
  // `cause`: the rank that is the first cause; -1: none.
  std::vector<RecorderCopy> copy_recorders(int cause) const;
  // Rank and content of each error file that is not empty.
  std::vector<std::pair<int, std::string>> error_files() const;

 private:
  static constexpr std::size_t kMostSpawnsWaiting = 4;  // each holds six descriptors
  static constexpr std::chrono::seconds kSilence{5};
  // The longest time that a rank may take to end when another rank blames it: the kernel closes its
  // connections long before it has freed a GPU's memory.
  static constexpr std::chrono::seconds kMostEnding{10};

  struct Rank {
    pid_t pid = -1;
    bool asked = false;    // the supervisor was asked to start it
    bool running = false;  // from the answer of the supervisor on
    bool ended = false;
    Clock::time_point started;
    Clock::time_point stopped;
    int ended_by = 0;  // dlrun's signal that ended it; 0: another reason
    RankEnd end;
    std::unique_ptr<boost::asio::posix::stream_descriptor> lifeline;
    std::optional<rendezvous::PeerFailure> follows;  // its first report
    UniqueFd error_memory;                           // TORCHELASTIC_ERROR_FILE
    UniqueFd recorder;                               // empty: recorders are off
    std::optional<std::uint64_t> memory_kills;       // see RankFacts
    std::uint64_t ended_at = 0;                      // in the recorder's ticks
    RankStream* out = nullptr;                       // of the NodeOutput; null: not started
    RankStream* err = nullptr;
  };

  bool is_starting() const;
  void start_some();
  void start_rank(Rank& rank, const LocalRank& where);
  void watch_start();
  void on_message(Message message);
  void on_not_started(Rank& rank, const Message& message);
  void on_exited(Rank& rank, int status);
  void wait_for_lifeline(Rank& rank);
  void on_lifeline(Rank& rank);
  void read_lifeline(Rank& rank);
  void judge(Rank& rank);
  void judge_pmi();
  void act_on_first_cause();
  void watch(rendezvous::Question question, std::chrono::milliseconds time,
             Clock::time_point latest);
  void answer();
  RankFacts facts_of(const Rank& rank) const;
  int number_of(const Rank& rank) const;

  boost::asio::io_context& io_;
  Setting set_;
  Meeting meeting_;
  bool judges_;
  GenerationEvents& events_;
  ChannelClient supervisor_;
  std::unique_ptr<PmiServer> pmi_;                // null: the ranks are no MPI processes
  std::map<int, rendezvous::Waiting> pmi_waits_;  // that first_cause_ has been told of
  boost::asio::steady_timer watch_timer_;
  boost::asio::steady_timer start_timer_;
  std::vector<Rank> ranks_;
  std::size_t begun_ = 0;               // ranks that the supervisor was asked to start
  int alive_ = 0;                       // ... and that have not ended
  rendezvous::FirstCause first_cause_;  // of the job; on several nodes, of this node's ranks only
  std::optional<rendezvous::Question> question_;  // that is not answered yet
  std::set<int> signals_sent_;
  std::optional<std::uint64_t> memory_kills_before_;
  bool stopping_ = false;
  bool to_finish_ = false;  // finish() was called
  bool finished_ = false;
};

// Descriptor numbers that a process inherits: high enough that shell scripts do not use them.
inline constexpr int kKeyFd = 190;
inline constexpr int kLifelineFd = 191;
inline constexpr int kListenerFd = 192;  // dlrun-rendezvous only
inline constexpr int kRecorderFd = 193;
inline constexpr int kPmiFd = kListenerFd;  // ranks have no listener
inline constexpr int kHighestRankFd = kRecorderFd;

}  // namespace dl::launcher
