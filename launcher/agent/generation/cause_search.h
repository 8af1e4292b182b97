// CauseSearch: finds the first cause among the ranks of this node (FirstCause has the rule), and
// looks whether a rank that another one blames is about to end.
//
// One thread. All constructor arguments must outlive it.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "launcher/agent/ranks/rank_table.h"
#include "rendezvous/first_cause/first_cause.h"

namespace dl::launcher {

class CauseSearch {
 public:
  struct Events {
    // The first cause is known. May be called more than once.
    std::function<void()> on_found;
    // The answer to ask() for a judge on another node: the rank is not about to end.
    std::function<void(int rank)> on_goes_on;
    // A question was answered because its time has passed.
    std::function<void()> on_answered;
  };
  // `judges`: this node decides for the job; if false, another node does and asks this one.
  CauseSearch(boost::asio::io_context& io, const RankTable& ranks, bool judges,
              rendezvous::OnFailure on_failure, Events events);

  // New facts; settle() then draws the conclusion.
  void ended(const RankEnd& end) { first_cause_.ended(end); }
  void waits(int rank, const rendezvous::Waiting& waiting) { first_cause_.waits(rank, waiting); }
  // All ranks that wait in MPI_Init or MPI_Finalize for a rank that has ended. Returns what has
  // changed: a rank that does not wait any more has a Waiting without a rank.
  std::map<int, rendezvous::Waiting> mpi_waits(std::map<int, rendezvous::Waiting> waits);
  void settle();

  // To be called when the judge of the whole job asks whether a rank is about to end.
  void ask(rendezvous::Question question);
  // To be called when no rank of this node is left that could still end.
  void answer_all();
  // Ends of ranks from now on say nothing about a cause.
  void stop() { stopped_ = true; }
  // To be called when no process of the generation is left.
  void cancel() { timer_.cancel(); }

  const std::optional<rendezvous::Finding>& finding() const { return first_cause_.finding(); }
  const std::vector<RankEnd>& ends() const { return first_cause_.ends(); }

 private:
  using Clock = std::chrono::steady_clock;

  void watch(rendezvous::Question question, std::chrono::milliseconds time,
             Clock::time_point latest);
  bool is_ending_now(const rendezvous::Question& question) const;
  void answer();

  const RankTable& ranks_;
  bool judges_;
  Events events_;
  boost::asio::steady_timer timer_;
  rendezvous::FirstCause first_cause_;  // of the job; on several nodes, of this node's ranks only
  std::optional<rendezvous::Question> question_;  // that is not answered yet
  std::map<int, rendezvous::Waiting> mpi_waits_;  // that first_cause_ has been told of
  bool stopped_ = false;
};

}  // namespace dl::launcher
