// The agent: what dlrun is once the supervisor stands. It starts the ranks of this node, shows what
// they write, and brings the job to its end.
//
// One thread, one event loop. On one node the ranks start at once, and the rendezvous service only
// when the first of them connects to it. On several, a dlrun-rendezvous joins this node to the
// others first.
//
// The end has one path: stop_ranks() -> all ranks ended -> the other nodes know and say the first
// cause -> finish() -> the supervisor has nothing left -> the loop ends -> what is left in the
// pipes is shown -> bring_out().
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/unique_fd.h"
#include "launcher/cli/options.h"
#include "launcher/job/listener.h"
#include "launcher/job/node_link.h"
#include "launcher/job/recorders.h"
#include "launcher/output/job_output.h"
#include "launcher/plan/plan.h"
#include "launcher/process/job_signals.h"
#include "launcher/process/supervisor.h"
#include "launcher/process/supervisor_client.h"
#include "launcher/verdict/report.h"
#include "rendezvous/first_cause/first_cause.h"

namespace dl::launcher {

class Agent {
 public:
  Agent(const Options& options, const Plan& plan, SupervisorHandle supervisor);
  ~Agent();

  // Runs the job to its end and returns dlrun's exit code. Throws Error for what goes wrong before
  // the first rank.
  int run();

  // Of the descriptors that a rank inherits.
  static constexpr int kHighestRankFd = 193;

 private:
  using Clock = std::chrono::steady_clock;

  // Where a process finds what it inherits: high enough that no shell script uses the number by
  // habit.
  static constexpr int kKeyFd = 190;
  static constexpr int kLifelineFd = 191;
  static constexpr int kListenerFd = 192;  // dlrun-rendezvous only
  static constexpr int kRecorderFd = kHighestRankFd;
  static constexpr std::size_t kMostSpawnsWaiting = 4;  // each holds six descriptors
  // What does not come to its start, or to its end after SIGKILL, is said then,
  static constexpr std::chrono::seconds kSilence{5};
  // and dlrun ends without it then.
  static constexpr std::chrono::seconds kMostKilling{30};
  // Time for the other nodes to agree on the first cause, and for their connections to end.
  static constexpr std::chrono::seconds kFarewell{3};
  // The most that a rank which is ending already may take for it, when another one blames it: the
  // kernel closes its connections long before it has freed a GPU's memory.
  static constexpr std::chrono::seconds kMostEnding{10};

  struct Rank {
    pid_t pid = -1;
    bool asked = false;    // the supervisor, to start it
    bool running = false;  // from its answer on
    bool ended = false;
    Clock::time_point started;
    Clock::time_point stopped;
    RankEnd end;
    std::unique_ptr<boost::asio::posix::stream_descriptor> lifeline;
    std::optional<rendezvous::PeerFailure> follows;  // as it said first
    UniqueFd error_memory;                           // TORCHELASTIC_ERROR_FILE
    UniqueFd recorder;                               // none: switched off
    std::uint64_t ended_at = 0;                      // in the recorder's ticks
    RankOutput* out = nullptr;                       // of output_; null: not started
    RankOutput* err = nullptr;
  };

  // dlrun's last word.
  struct Ending {
    int exit_code = 0;
    std::vector<std::string> page;
    bool keeps_recorders = false;
  };

  // Why the job ends, where it is not a rank's failure.
  struct OtherCause {
    int exit_code = 1;
    std::string text;  // empty: nothing to say
  };

  void wait_for_store_client();
  void join_nodes();
  void start_helper(std::vector<std::string> arguments, UniqueFd in, UniqueFd out,
                    UniqueFd listener);
  void open_logs();
  void start_ranks();
  void start_some();
  bool is_starting() const;
  void watch_start();
  void start_rank(Rank& rank, const LocalRank& where);
  std::string prefix_of(const Rank& rank) const;

  void on_message(Message message);
  void on_started(Rank& rank, pid_t pid);
  void on_not_started(Rank& rank, const Message& message);
  void on_exited(Rank& rank, int status);
  void on_helper_message(const Message& message);
  void on_supervisor_gone();
  void wait_for_wardens_end();
  void on_warden_gone();
  void on_job_failed(JobFailure failure);
  void on_link_error(const std::string& kind, const std::string& text);
  void on_signal(int signal);
  void on_request();
  void on_output_lost(int error);
  void suspend();

  // agent_cause.cc: what the ranks say and how they end, and what follows from it.
  void on_lifeline(Rank& rank);
  void read_lifeline(Rank& rank);
  void wait_for_lifeline(Rank& rank);
  void judge(Rank& rank);
  void act_on_first_cause();
  void on_question(rendezvous::Question question);
  void watch(rendezvous::Question question, std::chrono::milliseconds time,
             Clock::time_point latest);
  void answer();
  RankFacts facts_of(const Rank& rank) const;
  Rank* local(int rank);
  void end_job(OtherCause cause, int signal);
  void stop_ranks(int signal);
  void signal_ranks(int signal);
  void finish_if_all_ended();
  void close_link();
  void finish();
  void kill_ranks();
  void expect_end(std::chrono::milliseconds lead);
  std::vector<std::string> who_is_left() const;
  void say_who_is_left();
  void end_descendants();

  std::optional<int> end_of_warden();
  std::vector<RankFacts> facts() const;
  std::vector<RecorderCopy> copy_recorders() const;
  void keep_recorders();
  void keep_error_files();
  Ending ending();
  Ending ending_of(const rendezvous::Finding& found);
  int bring_out(Ending ending);
  void say(const std::string& line);
  int rank_number(const Rank& rank) const;
  std::chrono::milliseconds ran(const Rank& rank) const;

  const Options& options_;
  const Plan& plan_;
  std::optional<Meeting> meeting_;  // once the nodes have met
  UniqueFd key_;
  pid_t warden_;                      // -1: it has been waited for
  std::optional<int> warden_status_;  // as waitpid() gives it, if it ended by itself

  boost::asio::io_context io_{1};
  JobOutput output_;
  SupervisorClient supervisor_;
  JobSignals signals_;
  boost::asio::steady_timer timer_;
  boost::asio::steady_timer watch_timer_;
  boost::asio::steady_timer link_timer_;
  boost::asio::steady_timer start_timer_;
  boost::asio::steady_timer left_timer_;  // after SIGKILL
  boost::asio::posix::stream_descriptor warden_life_;
  boost::asio::posix::stream_descriptor store_door_;  // one node: listens for the store's clients
  std::unique_ptr<NodeLink> link_;                    // several nodes
  UniqueFd service_lifeline_;

  std::vector<Rank> ranks_;
  std::size_t begun_ = 0;               // ranks that the supervisor was asked for
  int alive_ = 0;                       // of these, not ended
  rendezvous::FirstCause first_cause_;  // of one node; of several, of this node's ranks alone
  std::optional<rendezvous::Question> question_;  // not answered yet
  std::optional<OtherCause> other_cause_;
  std::optional<JobFailure> job_failure_;  // of several nodes: as all have heard
  bool helper_runs_ = false;
  bool link_over_ = false;  // the other nodes have said their last word
  bool stopping_ = false;
  bool finishing_ = false;
  bool finished_ = false;
  bool said_left_ = false;
  bool gave_up_ = false;          // dlrun ends though some are left
  bool keeps_recorders_ = false;  // is at it
  int interrupts_ = 0;
  int last_interrupt_ = 0;  // its signal
  Clock::time_point began_ = Clock::now();
};

}  // namespace dl::launcher
