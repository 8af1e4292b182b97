#include "launcher/agent/generation/cause_search.h"

#include <algorithm>
#include <utility>

#include "launcher/process/descendants.h"

namespace dl::launcher {
namespace {

// The longest time that a rank may take to end when another rank blames it: the kernel closes its
// connections long before it has freed a GPU's memory.
constexpr std::chrono::seconds kMostEnding{10};

}  // namespace

CauseSearch::CauseSearch(boost::asio::io_context& io, const RankTable& ranks, bool judges,
                         rendezvous::OnFailure on_failure, Events events)
    : ranks_(ranks),
      judges_(judges),
      events_(std::move(events)),
      timer_(io),
      first_cause_({}, on_failure) {}

std::map<int, rendezvous::Waiting> CauseSearch::mpi_waits(
    std::map<int, rendezvous::Waiting> waits) {
  std::map<int, rendezvous::Waiting> changes;
  for (const auto& [rank, waiting] : mpi_waits_) {
    if (!waits.contains(rank)) changes[rank] = {};
  }
  for (const auto& [rank, waiting] : waits) {
    const auto known = mpi_waits_.find(rank);
    if (known == mpi_waits_.end() || known->second.rank != waiting.rank) changes[rank] = waiting;
  }
  for (const auto& [rank, waiting] : changes) first_cause_.waits(rank, waiting);
  mpi_waits_ = std::move(waits);
  return changes;
}

void CauseSearch::settle() {
  if (stopped_) return;
  if (first_cause_.finding()) {
    events_.on_found();
  } else if (judges_ && first_cause_.question()) {
    ask(*first_cause_.question());
  }
}

void CauseSearch::ask(rendezvous::Question question) {
  if (question_ == question) return;
  question_ = question;
  watch(question, question.patience,
        Clock::now() + std::max<std::chrono::milliseconds>(kMostEnding, question.patience));
  if (!ranks_.is_any_alive()) answer();
}

void CauseSearch::watch(rendezvous::Question question, std::chrono::milliseconds time,
                        Clock::time_point latest) {
  timer_.expires_after(time);
  timer_.async_wait([this, question, latest](const boost::system::error_code& error) {
    if (error || stopped_ || question_ != question) return;
    if (is_ending_now(question) && Clock::now() < latest) {
      constexpr std::chrono::milliseconds kLook{20};
      watch(question, kLook, latest);
      return;
    }
    answer();
    events_.on_answered();
  });
}

bool CauseSearch::is_ending_now(const rendezvous::Question& question) const {
  return std::ranges::any_of(ranks_, [&](const Rank& rank) {
    const bool is_meant = question.rank == rendezvous::kAnyRank || question.rank == rank.number;
    return is_meant && rank.running && is_ending(rank.pid);
  });
}

void CauseSearch::answer() {
  const int rank = question_->rank;
  question_.reset();
  if (!judges_) {
    events_.on_goes_on(rank);
    return;
  }
  first_cause_.goes_on(rank);
  settle();
}

void CauseSearch::answer_all() {
  while (question_) answer();
}

}  // namespace dl::launcher
