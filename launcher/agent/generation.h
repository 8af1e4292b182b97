// One generation on one node, from the first rank's start to the last process's end: the ranks,
// what they say on their lifelines, and the first cause among them.
//
// One thread. It must not be destroyed inside one of its own callbacks.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/base/deadline.h"
#include "core/base/unique_fd.h"
#include "launcher/agent/agent_port.h"
#include "launcher/agent/recorders.h"
#include "launcher/output/node_output.h"
#include "launcher/plan/plan.h"
#include "launcher/pmi/pmi_server.h"
#include "launcher/process/channel_client.h"
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
  // No rank runs or is being started; may come more than once.
  virtual void on_all_ended(bool all_well) = 0;
  // The supervisor has nothing left.
  virtual void on_finished() = 0;
  // The supervisor says that the warden is dead.
  virtual void on_warden_lost() = 0;
  virtual void on_supervisor_lost() = 0;
  virtual void on_note(const std::string& line) = 0;
};

class Generation {
 public:
  using Clock = std::chrono::steady_clock;

  // What all generations of an agent have in common.
  struct Setting {
    const NodePlan& plan;
    const AgentSettings& settings;
    const UniqueFd& key;
    NodeOutput& output;
    std::string checkpoint;  // as in Handles
  };
  // `channel`: to its supervisor. `judges`: this node finds the first cause; else it is asked.
  Generation(boost::asio::io_context& io, Setting setting, Meeting meeting, bool judges,
             UniqueFd channel, GenerationEvents& events);
  Generation(const Generation&) = delete;
  Generation& operator=(const Generation&) = delete;

  const Meeting& meeting() const { return meeting_; }

  void start();
  // No further rank is started, and what ends from now on says nothing about a cause.
  void stop(int signal);
  void signal(int signal);
  // Asks the supervisor to end what is left; on_finished() follows.
  void finish(int patience_ms);
  // Sends the messages that wait; dlrun calls it before it stops itself.
  void flush(Deadline deadline) { supervisor_.flush(deadline); }
  // Calls on_all_ended() if no rank runs or is being started.
  void check_ended();
  // The judge of the whole job wants to know whether a rank is about to end.
  void ask(rendezvous::Question question);
  bool is_to_finish() const { return to_finish_; }
  bool is_finished() const { return finished_; }
  // The supervisor is dead: no rank will be heard of any more.
  void forget_ranks() { alive_ = 0; }

  const std::optional<rendezvous::Finding>& finding() const { return first_cause_.finding(); }
  std::vector<RankFacts> facts() const;
  int local_rank_of(int rank) const { return rank - meeting_.first_rank; }

  // A line for each rank that the kernel does not end or start.
  std::vector<std::string> who_is_left() const;
  std::vector<int> ranks_being_started() const;
  struct Running {
    int rank;
    pid_t pid;
  };
  std::vector<Running> running() const;
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
    bool asked = false;    // the supervisor, to start it
    bool running = false;  // from its answer on
    bool ended = false;
    Clock::time_point started;
    Clock::time_point stopped;
    int ended_by = 0;  // a signal of ours; 0: it ended in another way
    RankEnd end;
    std::unique_ptr<boost::asio::posix::stream_descriptor> lifeline;
    std::optional<rendezvous::PeerFailure> follows;  // as it said first
    UniqueFd error_memory;                           // TORCHELASTIC_ERROR_FILE
    UniqueFd recorder;                               // none: switched off
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
  std::unique_ptr<PmiServer> pmi_;  // null: the ranks are no MPI processes
  boost::asio::steady_timer watch_timer_;
  boost::asio::steady_timer start_timer_;
  std::vector<Rank> ranks_;
  std::size_t begun_ = 0;               // ranks that the supervisor was asked for
  int alive_ = 0;                       // of these, not ended
  rendezvous::FirstCause first_cause_;  // of one node; of several, of this node's ranks alone
  std::optional<rendezvous::Question> question_;  // not answered yet
  std::set<int> signals_sent_;
  bool stopping_ = false;
  bool to_finish_ = false;  // finish() was called
  bool finished_ = false;
};

// Numbers of the descriptors that a process inherits: high enough that no shell script uses one by
// habit.
inline constexpr int kKeyFd = 190;
inline constexpr int kLifelineFd = 191;
inline constexpr int kListenerFd = 192;  // dlrun-rendezvous only
inline constexpr int kRecorderFd = 193;
inline constexpr int kPmiFd = kListenerFd;  // ranks have no listener
inline constexpr int kHighestRankFd = kRecorderFd;

}  // namespace dl::launcher
