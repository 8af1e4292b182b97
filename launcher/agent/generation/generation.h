// Generation: one generation on one node, from the start of the first rank to the end of the last
// process. It has the supervisor start, signal and end the ranks, and tells CauseSearch their ends.
//
// One thread. It must not be destroyed inside one of its own callbacks.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "core/base/deadline.h"
#include "core/base/system/unique_fd.h"
#include "launcher/agent/generation/cause_search.h"
#include "launcher/agent/ranks/rank_table.h"
#include "launcher/output/node_output.h"
#include "launcher/plan/plan.h"
#include "launcher/pmi/mpi_server.h"
#include "launcher/process/supervisor/channel_client.h"
#include "launcher/process/warden/warden_client.h"
#include "rendezvous/first_cause/first_cause.h"

namespace dl::launcher {

struct GenerationEvents {
  std::function<void(int rank, pid_t pid)> on_rank_started;
  std::function<void(const Rank& rank)> on_rank_gone;  // its process has ended
  // What the end of a rank, or its call of MPI_Abort, says about a cause. `end.text` and
  // `end.detail` are for a judge on another node.
  std::function<void(const RankEnd& end, int local_rank)> on_rank_ended;
  std::function<void(int rank, const rendezvous::Waiting& waiting)> on_rank_waits;
  // The answer to ask().
  std::function<void(int rank)> on_rank_goes_on;
  // A rank of this node is the first cause, as far as this node knows.
  std::function<void()> on_cause;
  // The job cannot go on: a rank could not be started, has called MPI_Abort with 0 or a multiple
  // of 256, or with any number while others are to live on (--on-failure keep), or was ended by a
  // signal that SLURM sends to every process of a step.
  std::function<void(int exit_code, const std::string& why)> on_stop;
  // No rank runs or is being started. May be called more than once.
  std::function<void(bool all_well)> on_all_ended;
  // No process is left below the supervisor.
  std::function<void()> on_finished;
  // The supervisor says that the warden is dead.
  std::function<void()> on_warden_lost;
  std::function<void()> on_supervisor_lost;
  std::function<void(const std::string& line)> on_note;
};

class Generation {
 public:
  struct Setting {
    const NodePlan& plan;
    const UniqueFd& key;
    NodeOutput& output;
    WardenClient& warden;
    int progress_columns = 0;  // as in AgentSettings
    std::string checkpoint;    // as in Handles
  };
  // `channel`: to the generation's supervisor. `judges`: as in CauseSearch.
  Generation(boost::asio::io_context& io, Setting setting, Meeting meeting, bool judges,
             UniqueFd channel, GenerationEvents events);
  Generation(const Generation&) = delete;
  Generation& operator=(const Generation&) = delete;

  const Meeting& meeting() const { return meeting_; }
  const RankTable& ranks() const { return ranks_; }

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
  void ask(rendezvous::Question question) { search_.ask(question); }
  bool is_to_finish() const { return to_finish_; }
  bool is_finished() const { return finished_; }
  // To be called when the supervisor is dead: no rank will be reported any more.
  void forget_ranks() { ranks_.forget(); }

  const std::optional<rendezvous::Finding>& finding() const { return search_.finding(); }
  const std::vector<RankEnd>& ends() const { return search_.ends(); }

 private:
  Mpi mpi() const;
  void serve_mpi();
  void on_mpi_abort(int rank, int number);
  void judge_abort(int rank, int number);
  void judge_left(int rank);
  void tell_end(const Rank& rank, RankEnd end);
  bool is_starting() const;
  void start_some();
  void start_rank(Rank& rank, const LocalRank& where);
  void watch_start();
  void on_message(Message message);
  void on_not_started(Rank& rank, const Message& message);
  void on_exited(Rank& rank, int status);
  void judge(Rank& rank);
  void judge_mpi();

  boost::asio::io_context& io_;
  Setting set_;
  Meeting meeting_;
  bool judges_;
  GenerationEvents events_;
  ChannelClient supervisor_;
  boost::asio::steady_timer start_timer_;
  boost::asio::steady_timer abort_timer_;
  RankTable ranks_;
  CauseSearch search_;
  std::unique_ptr<MpiServer> mpi_;  // null: the ranks are no MPI processes
  std::size_t begun_ = 0;           // ranks that the supervisor was asked to start
  std::set<int> signals_sent_;
  std::optional<std::uint64_t> memory_kills_before_;
  bool stopping_ = false;
  bool to_finish_ = false;  // finish() was called
  bool finished_ = false;
};

// The generation that runs, and the one before it, whose pending handlers may still run.
class Generations {
 public:
  // Null: the nodes have not met for it yet.
  Generation* current() const { return current_.get(); }
  void begin(std::unique_ptr<Generation> next) { current_ = std::move(next); }
  void end() { previous_ = std::move(current_); }

 private:
  std::unique_ptr<Generation> current_;
  std::unique_ptr<Generation> previous_;
};

// Descriptor numbers that a process inherits: high enough that shell scripts do not use them.
inline constexpr int kKeyFd = 190;
inline constexpr int kLifelineFd = 191;
inline constexpr int kListenerFd = 192;  // dlrun-rendezvous only
inline constexpr int kRecorderFd = 193;
inline constexpr int kPmiFd = kListenerFd;  // ranks have no listener
inline constexpr int kHighestRankFd = kRecorderFd;

}  // namespace dl::launcher
