#include "rendezvous/membership/job_cause.h"

#include <sys/wait.h>

#include <algorithm>
#include <chrono>

namespace dl::rendezvous {
namespace {

namespace pb = dlrun::rendezvous;

// Time for a node to answer, beyond the time in the question. A rank that is ending may take this
// long, and a node may be silent.
constexpr std::chrono::seconds kAnswerTime{20};

RankEnd end_from(const pb::Failed& failed) {
  RankEnd end{.rank = failed.rank(),
              .pid = failed.pid(),
              .status = failed.signal() != 0 ? failed.signal() : failed.exit_code() << 8,
              .lost_peer = failed.lost_peer(),
              .text = failed.text(),
              .detail = failed.detail()};
  if (!failed.has_follows()) return end;
  const pb::Follows& follows = failed.follows();
  PeerFailure& failure = end.follows.emplace();
  failure.cause.blame = blame_of(follows.blame()).value_or(Blame::kBroke);
  failure.cause.rank = follows.rank();
  failure.cause.found_by = follows.found_by();
  failure.cause.operation = follows.operation();
  failure.cause.text = follows.text();
  failure.call = follows.call();
  return end;
}

}  // namespace

void JobCause::failed(const pb::Failed& failed) {
  first_cause_.ended(end_from(failed));
}

void JobCause::finished(const pb::Finished& finished) {
  first_cause_.ended({.rank = finished.rank(),
                      .pid = finished.pid(),
                      .text = finished.text(),
                      .detail = finished.detail()});
}

void JobCause::waits(const pb::Waits& waits) {
  first_cause_.waits(waits.rank(), {.rank = waits.for_rank(), .operation = waits.operation()});
}

void JobCause::goes_on(NodeTable::Id from, int rank, const NodeTable& nodes) {
  if (rank == kAnyRank) {
    answered_.insert(from);
    if (answered_.size() < nodes.members().size()) return;
  }
  first_cause_.goes_on(rank);
}

bool JobCause::end_late_question(Time now) {
  if (!asked_ || first_cause_.question() != asked_ || now < answer_by_) return false;
  first_cause_.goes_on(asked_->rank);
  return true;
}

std::optional<JobCause::Found> JobCause::found(const NodeTable& nodes) const {
  const std::optional<Finding>& found = first_cause_.finding();
  if (!found) return std::nullopt;
  const auto end = std::find_if(first_cause_.ends().begin(), first_cause_.ends().end(),
                                [&](const RankEnd& e) { return e.rank == found->rank; });
  const NodeTable::Id node = nodes.member_of(found->rank);
  pb::Failed cause;
  cause.set_rank(found->rank);
  cause.set_local_rank(nodes.at(node).local_rank_of(found->rank));
  cause.set_exit_code(found->exit_code);
  std::string detail;
  for (const std::string& note : found->notes) detail += note + "\n";
  cause.set_text(found->headline);
  if (end != first_cause_.ends().end()) {
    cause.set_pid(end->pid);
    if (WIFSIGNALED(end->status)) {
      cause.set_exit_code(0);
      cause.set_signal(WTERMSIG(end->status));
    }
    if (found->headline.empty()) cause.set_text(end->text + found->clause);
    detail += end->detail;
  }
  cause.set_detail(detail);
  return Found{node, std::move(cause)};
}

void JobCause::ask(const NodeTable& nodes, Time now, Outbox& out) {
  const std::optional<Question>& question = first_cause_.question();
  if (!question || question == asked_) return;
  asked_ = question;
  answered_.clear();
  answer_by_ = now + question->patience + kAnswerTime;
  Outgoing look{.to = 0, .message = {}};
  look.message.mutable_look()->set_rank(question->rank);
  look.message.mutable_look()->set_milliseconds(static_cast<int>(question->patience.count()));
  for (const NodeTable::Id member : nodes.members()) {
    if (question->rank != kAnyRank && member != nodes.member_of(question->rank)) continue;
    look.to = member;
    out.push_back(look);
  }
}

}  // namespace dl::rendezvous
