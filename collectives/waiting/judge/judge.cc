#include "collectives/waiting/judge/judge.h"

#include <algorithm>

#include "core/base/system/process/stopped.h"

namespace dl::collectives {
namespace {

using Presence = PeerState::Presence;

const PeerState* find(std::span<const PeerState> others, const auto& is_it) {
  const auto found = std::ranges::find_if(others, is_it);
  return found == others.end() ? nullptr : &*found;
}

Blame blame_of(Presence presence) noexcept {
  switch (presence) {
    case Presence::kLeft:
      return Blame::kLeft;
    case Presence::kGone:
      return Blame::kGone;
    case Presence::kHere:
      break;
  }
  return Blame::kMissing;
}

Missing naming(const PeerState* first, std::string text) {
  Missing missing{.text = std::move(text)};
  if (first != nullptr) {
    missing.rank = first->who->rank;
    missing.blame = blame_of(first->presence);
    missing.in_job = first->who->in_job();
  }
  return missing;
}

// A list of ranks, each with what it has not done.
class Names {
 public:
  Names(const Descriptor& what, std::span<const PeerState> others, const WaitWords& words)
      : sequence_(what.sequence), others_(others), words_(words) {}

  std::string text() {
    const auto has_called = [this](const PeerState& p) { return p.last_called >= sequence_; };
    for (const PeerState& p : others_) {
      if (!has_called(p)) add(p, why_not_called(p));
    }
    add_if_none([&](const PeerState& p) { return p.contact == Contact::kSilent; },
                "which has called it and does not answer any more (stopped?)");
    add_if_none([&](const PeerState& p) { return !has_called(p); },
                "which has not answered yet whether it has called it");
    // All ranks answer. Name slow ranks only now, because a rank that waits for a silent one is
    // slow too.
    add_if_none([](const PeerState& p) { return p.is_needed; },
                "which has called it and is slow to do its part");
    return fmt::format("waiting for {}", names_.empty() ? words_.own : names_);
  }

 private:
  // Empty: it may have called the operation.
  std::string why_not_called(const PeerState& p) const {
    switch (p.contact) {
      case Contact::kSilent:
        return fmt::format("which does not answer ({})", words_.silent);
      case Contact::kSlow:
        return "which has not answered yet, as the line to it is slow";
      case Contact::kAnswers:
        break;
    }
    if (!p.has_told) return {};
    return p.last_called == 0
               ? std::string("which has not called it, nor anything before it")
               : fmt::format("which has not called it (its last call was #{})", p.last_called);
  }
  void add(const PeerState& p, std::string_view why) {
    if (why.empty()) return;
    names_ += fmt::format("{}{}, {}", names_.empty() ? "" : "; ", p.who->text(), why);
  }
  void add_if_none(const auto& is_meant, std::string_view why) {
    if (!names_.empty()) return;
    for (const PeerState& p : others_) {
      if (is_meant(p)) add(p, why);
    }
  }

  const std::uint64_t sequence_;
  const std::span<const PeerState> others_;
  const WaitWords words_;
  std::string names_;
};

}  // namespace

Missing missing_in(const Descriptor& collective, std::span<const PeerState> others,
                   const WaitWords& words) {
  // A silent rank first: a stopped one cannot say whether it has called the operation.
  const PeerState* first =
      find(others, [](const PeerState& p) { return p.contact == Contact::kSilent; });
  if (first == nullptr) {
    first = find(others, [&](const PeerState& p) { return p.last_called < collective.sequence; });
  }
  if (first == nullptr) first = find(others, [](const PeerState& p) { return p.is_needed; });
  return naming(first, Names(collective, others, words).text());
}

Missing missing_for(const Descriptor& message, int peer, std::span<const PeerState> others) {
  if (peer != kAnySource) {
    const PeerState* const p =
        find(others, [&](const PeerState& other) { return other.who->rank == peer; });
    if (p == nullptr) return {};
    return naming(p, missing_message_text(message, p->who->text(), p->contact == Contact::kSilent));
  }
  // The message may have been due from a rank that has left.
  std::vector<Identity> departed;
  const PeerState* first = nullptr;
  for (const PeerState& p : others) {
    if (p.presence == Presence::kHere) continue;
    if (first == nullptr) first = &p;
    departed.push_back(*p.who);
  }
  return naming(first, missing_sender_text(message, departed));
}

Missing missing_behind(const Descriptor& earlier, Missing missing) {
  missing.text = fmt::format("behind {}, which is {}", text(earlier), missing.text);
  missing.is_behind = true;
  return missing;
}

void Waiting::begin(Time now) noexcept {
  if (begin_) return;
  begin_ = now;
  stopped_before_ = stopped_time(now);
}

std::chrono::nanoseconds Waiting::waited(Time now) const noexcept {
  if (!begin_) return std::chrono::nanoseconds::zero();
  // A stop is seen by looks at the clock, so it may have begun a little before the wait.
  const std::chrono::nanoseconds ran = now - *begin_ - (stopped_time(now) - stopped_before_);
  return std::max(ran, std::chrono::nanoseconds::zero());
}

Judgement judge(Waiting& waiting, const Descriptor& what, Waiting::Time now,
                std::chrono::nanoseconds warn_after, const std::function<Missing()>& missing) {
  waiting.begin(now);
  const std::chrono::nanoseconds waited = waiting.waited(now);
  const std::chrono::nanoseconds timeout = waiting.timeout();
  Judgement judgement{.next = Waiting::Time::max()};
  const auto said = [&](const Missing& whom, std::string_view begin,
                        std::chrono::nanoseconds time) {
    return fmt::format("{}: {}{} s {}", whom.called.empty() ? text(what) : whom.called, begin,
                       seconds_text(time), whom.text);
  };
  if (waited >= timeout) {
    const Missing whom = missing();
    judgement.waits_for = whom.rank;
    judgement.failure =
        cause_about(what, ErrorKind::kTimeout, said(whom, "timed out after ", timeout), whom.blame,
                    whom.in_job);
    return judgement;
  }
  judgement.is_to_probe = waiting.probes.are_due(waited, now, timeout, warn_after);
  const bool is_to_warn = timeout > warn_after && !waiting.has_warned;
  if (is_to_warn && waited >= warn_after) {
    waiting.has_warned = true;
    const Missing whom = missing();
    judgement.waits_for = whom.rank;
    // The earlier operation warns.
    if (!whom.is_behind) judgement.warning = said(whom, "", warn_after);
  }
  std::chrono::nanoseconds left =
      std::min(timeout, waiting.probes.next(timeout, warn_after)) - waited;
  if (is_to_warn && !waiting.has_warned) left = std::min(left, warn_after - waited);
  if (left < Waiting::Time::max() - now) judgement.next = now + left;
  return judgement;
}

}  // namespace dl::collectives
