// The agent and the first cause: what the ranks of this node say on their lifelines and how they
// end, and what the rule of the first cause asks and finds.
#include <sys/socket.h>

#include <algorithm>
#include <string_view>

#include "launcher/job/agent.h"
#include "launcher/process/descendants.h"
#include "launcher/verdict/lost_peer.h"

namespace dl::launcher {

using rendezvous::kAnyRank;

void Agent::wait_for_lifeline(Rank& rank) {
  rank.lifeline->async_wait(boost::asio::posix::stream_descriptor::wait_read,
                            [this, &rank](const boost::system::error_code& error) {
                              if (error || rank.ended) return;
                              on_lifeline(rank);
                            });
}

void Agent::on_lifeline(Rank& rank) {
  char first;
  // Zero: the program has closed its end.
  const bool is_open = ::recv(rank.lifeline->native_handle(), &first, 1, MSG_PEEK) != 0;
  read_lifeline(rank);
  if (is_open) wait_for_lifeline(rank);
}

void Agent::read_lifeline(Rank& rank) {
  char packet[64 * 1024];
  ssize_t n;
  while ((n = ::recv(rank.lifeline->native_handle(), packet, sizeof packet, MSG_DONTWAIT)) > 0) {
    const std::string_view said(packet, static_cast<std::size_t>(n));
    if (auto failure = rendezvous::decode_peer_failure(said)) {
      if (!rank.follows) {
        rank.follows = std::move(failure);
      } else if (rank.follows->call.empty()) {
        rank.follows->call = failure->call;  // it has called it since
      }
    } else if (const auto waiting = rendezvous::decode_waiting(said)) {
      first_cause_.waits(rank_number(rank), *waiting);
      if (link_ && !link_over_) link_->waits(rank_number(rank), *waiting);
      act_on_first_cause();
    }
  }
}

void Agent::judge(Rank& rank) {
  // A rank speaks before it ends, so that its last word is here by now.
  read_lifeline(rank);
  rank.lifeline->close();
  rank.end.follows = rank.follows;
  if (rank.end.failed()) {
    rank.err->take_what_is_there();
    rank.end.lost_peer = !rank.end.follows && says_peer_was_lost(rank.err->tail());
  }
  first_cause_.ended(rank.end);
  if (link_ && !link_over_ && !rank.end.stopped) {
    const RankFacts facts = facts_of(rank);
    RankEnd end = rank.end;
    end.text = describe_end(facts, {plan_.host, meeting_->group_rank});
    for (const std::string& line : last_words(facts)) end.detail += line + "\n";
    link_->ended(end, end.rank - meeting_->first_rank);
  }
  act_on_first_cause();
}

void Agent::act_on_first_cause() {
  if (stopping_) return;
  if (first_cause_.finding()) {  // on several nodes: a rank of this one has failed on its own
    stop_ranks(SIGTERM);
    return;
  }
  // On several nodes the service asks.
  if (!link_ && first_cause_.question()) on_question(*first_cause_.question());
}

void Agent::on_question(rendezvous::Question question) {
  if (question_ == question) return;
  question_ = question;
  watch(question, question.patience,
        Clock::now() + std::max<std::chrono::milliseconds>(kMostEnding, question.patience));
  if (alive_ == 0) answer();
}

void Agent::watch(rendezvous::Question question, std::chrono::milliseconds time,
                  Clock::time_point latest) {
  watch_timer_.expires_after(time);
  watch_timer_.async_wait([this, question, latest](const boost::system::error_code& error) {
    if (error || stopping_ || question_ != question) return;
    const bool is_ending_now = std::any_of(ranks_.begin(), ranks_.end(), [&](const Rank& rank) {
      const bool is_meant = question.rank == kAnyRank || question.rank == rank_number(rank);
      return is_meant && rank.running && is_ending(rank.pid);
    });
    if (is_ending_now && Clock::now() < latest) {
      constexpr std::chrono::milliseconds kLook{20};
      watch(question, kLook, latest);
      return;
    }
    answer();
    finish_if_all_ended();
  });
}

void Agent::answer() {
  const int rank = question_->rank;
  question_.reset();
  if (link_) {
    if (!link_over_) link_->goes_on(rank);
    return;
  }
  first_cause_.goes_on(rank);
  act_on_first_cause();
}

}  // namespace dl::launcher
