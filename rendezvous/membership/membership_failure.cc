// Membership's functions that end a generation by a failure: they find the first one and tell the
// nodes.
#include <fmt/format.h>
#include <sys/wait.h>

#include <algorithm>
#include <utility>

#include "rendezvous/membership/membership.h"

namespace dl::rendezvous {
namespace {

namespace pb = dlrun::rendezvous;

// Time for a rank's node to answer, beyond the time in the question: a rank that is ending may take
// this long, and a node may be silent.
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

void Membership::fail(NodeId id, pb::Failed cause, bool is_final, Time now, Outbox& out) {
  // A message about a generation that has ended, or before there is one, is ignored.
  if (!is_member(id)) return;
  const Node& node = nodes_.at(id);
  cause.set_group_rank(node.group_rank);
  cause.set_host(node.facts.host());
  const Restart restart = restarts_.decide(
      {.exit_code = cause.signal() != 0 ? 128 + cause.signal() : cause.exit_code(),
       // A job that was asked to save and end does not restart.
       .is_final = is_final || calls_.has_value(),
       .ran = std::chrono::duration_cast<std::chrono::milliseconds>(now - began_)});
  cause.set_again(restart.again);
  cause.set_delay_ms(static_cast<int>(restart.delay.count()));
  cause.set_restart(restart.number);
  cause.set_max_restarts(restarts_.most());
  for (const NodeId member : members_) {
    Outgoing message{.to = member, .message = {}};
    *message.message.mutable_failed() = cause;
    out.push_back(std::move(message));
  }
  end_generation();
  is_over_ = !restart.again;
}

// The other nodes wait for it, or are about to.
void Membership::fail_next(NodeId id, pb::Failed cause, Outbox& out) {
  const auto found = nodes_.find(id);
  if (found == nodes_.end() || number_ == 0 || is_over_) return;
  const auto before = previous_ranks_.find(found->second.facts.node_id());
  cause.set_group_rank(before == previous_ranks_.end() ? -1 : before->second);
  cause.set_host(found->second.facts.host());
  for (const auto& [other, node] : nodes_) {
    if (other == id) continue;
    Outgoing message{.to = other, .message = {}};
    *message.message.mutable_failed() = cause;
    out.push_back(std::move(message));
  }
  is_over_ = true;
}

Membership::NodeId Membership::node_of(int rank) const {
  const auto found = std::find_if(members_.begin(), members_.end(), [&](NodeId id) {
    return std::ranges::binary_search(nodes_.at(id).ranks, rank);
  });
  return found == members_.end() ? members_.front() : *found;
}

void Membership::rank_failed(NodeId id, const pb::Failed& failed, Time now, Outbox& out) {
  if (!is_member(id)) return;
  if (failed.rank() < 0) return fail(id, failed, /*is_final=*/true, now, out);
  first_cause_.ended(end_from(failed));
  settle(now, out);
}

void Membership::goes_on(NodeId id, int rank) {
  if (rank == kAnyRank) {
    answered_.insert(id);
    if (answered_.size() < members_.size()) return;
  }
  first_cause_.goes_on(rank);
}

void Membership::settle(Time now, Outbox& out) {
  if (const std::optional<Finding>& found = first_cause_.finding()) {
    const auto end = std::find_if(first_cause_.ends().begin(), first_cause_.ends().end(),
                                  [&](const RankEnd& e) { return e.rank == found->rank; });
    const NodeId node = node_of(found->rank);
    pb::Failed cause;
    cause.set_rank(found->rank);
    const std::vector<int>& ranks = nodes_.at(node).ranks;
    cause.set_local_rank(
        static_cast<int>(std::ranges::lower_bound(ranks, found->rank) - ranks.begin()));
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
    return fail(node, std::move(cause), /*is_final=*/false, now, out);
  }
  const std::optional<Question>& question = first_cause_.question();
  if (!question || question == asked_) return;
  asked_ = question;
  answered_.clear();
  answer_by_ = now + question->patience + kAnswerTime;
  Outgoing look{.to = 0, .message = {}};
  look.message.mutable_look()->set_rank(question->rank);
  look.message.mutable_look()->set_milliseconds(static_cast<int>(question->patience.count()));
  for (const NodeId member : members_) {
    if (question->rank != kAnyRank && member != node_of(question->rank)) continue;
    look.to = member;
    out.push_back(look);
  }
}

void Membership::lose(NodeId id, const std::string& text, int exit_code, Time now, Outbox& out) {
  const auto found = nodes_.find(id);
  if (found == nodes_.end()) return;
  pb::Failed cause;
  cause.set_rank(-1);
  cause.set_local_rank(-1);
  cause.set_pid(found->second.facts.pid());
  cause.set_exit_code(exit_code);
  cause.set_node_lost(true);
  cause.set_text(text);
  const std::size_t before = out.size();
  fail(id, std::move(cause), /*is_final=*/false, now, out);
  out.erase(std::remove_if(out.begin() + static_cast<std::ptrdiff_t>(before), out.end(),
                           [&](const Outgoing& message) { return message.to == id; }),
            out.end());
  forget(id);
}

Membership::Outbox Membership::on_lost(NodeId id, Time now) {
  Outbox out;
  look_at_clock(now, out);
  const auto found = nodes_.find(id);
  if (found == nodes_.end()) return out;
  const std::string name = name_of(found->second);
  const Silence& silence = options_.silence;
  const auto silent_for = std::chrono::round<std::chrono::seconds>(now - found->second.heard);
  std::string text;
  if (const auto stood = standstill_.recent(now, silence.standstill(), silence.dead_after)) {
    text =
        fmt::format("the rendezvous stood still for {} s, and {} gave it up", stood->count(), name);
  } else if (now - found->second.heard >= silence.named_after()) {
    // The system has closed the connection before the last heartbeat was too old.
    text = text_of_silence(id, fmt::format("no heartbeat for {} s", silent_for.count()));
  } else {
    text = fmt::format(
        "lost the connection to {}: it was closed or reset; its dlrun-rendezvous "
        "has ended, or something between them ends connections",
        name);
  }
  lose(id, text, 0, now, out);
  return out;
}

// Silence does not distinguish a dead host from a broken network.
std::string Membership::text_of_silence(NodeId id, const std::string& how) const {
  if (!is_member(id) || id == members_.front()) {
    return fmt::format("{} was lost: {}", name_of(nodes_.at(id)), how);
  }
  return fmt::format(
      "hosts {} and {} lost each other: {}; is the network between them up, and do both run?",
      label_of(nodes_.at(members_.front())), label_of(nodes_.at(id)), how);
}

}  // namespace dl::rendezvous
