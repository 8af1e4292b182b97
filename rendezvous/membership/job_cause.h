// JobCause: finds the first cause among the ranks of all nodes. FirstCause has the rule; JobCause
// sends its questions to the nodes.
//
// One thread at a time. Included by .cc files only, because messages are Protobuf's.
#pragma once

#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "rendezvous/first_cause/first_cause.h"
#include "rendezvous/membership/nodes/outbox.h"

namespace dl::rendezvous {

class JobCause {
 public:
  using Time = Deadline::Clock::time_point;

  // `hosts`: by rank.
  explicit JobCause(std::vector<std::string> hosts = {}, OnFailure on_failure = OnFailure::kStop)
      : ranks_(hosts.size()), first_cause_(std::move(hosts), on_failure) {}

  // True if the other ranks live on when one fails. found() is then for the end of the job.
  bool keeps() const { return first_cause_.on_failure() == OnFailure::kKeep; }

  // Facts that nodes report. After each of them, call found() and then ask().
  void failed(const dlrun::rendezvous::Failed& failed);
  void finished(const dlrun::rendezvous::Finished& finished);
  void waits(const dlrun::rendezvous::Waits& waits);
  // A node answers: `rank`, or with kAnyRank each of its ranks, is not about to end.
  void goes_on(NodeTable::Id from, int rank, const NodeTable& nodes);
  // If the answer to a question is overdue, counts the ranks of silent nodes as going on. Returns
  // true if there was such a question.
  bool end_late_question(Time now);

  struct Found {
    NodeTable::Id node;
    dlrun::rendezvous::Failed cause;
  };
  std::optional<Found> found(const NodeTable& nodes) const;
  bool awaits_answer() const { return first_cause_.question().has_value(); }
  // As in first_cause.h.
  std::string goes_on_without() const {
    return rendezvous::goes_on_without(first_cause_.ends(), ranks_);
  }
  std::string went_on_without() const { return rendezvous::went_on_without(first_cause_.ends()); }
  // Sends the next question of the rule, if there is one that was not sent yet.
  void ask(const NodeTable& nodes, Time now, Outbox& out);

 private:
  std::size_t ranks_;  // of the job
  FirstCause first_cause_;
  std::optional<Question> asked_;     // the last question
  Time answer_by_{};                  // at this time nodes without an answer count as going on
  std::set<NodeTable::Id> answered_;  // if all nodes were asked
};

}  // namespace dl::rendezvous
