#include "launcher/autopsy/diagnosis.h"

#include <fmt/core.h>
#include <sys/wait.h>

#include <algorithm>
#include <limits>
#include <set>
#include <tuple>

#include "core/base/system/process/shell.h"
#include "launcher/verdict/report.h"

namespace dl::launcher::autopsy {
namespace {

using collectives::record::End;
using collectives::record::GroupFacts;
using collectives::record::Operation;
using collectives::record::RankFacts;
using collectives::record::State;
using Kind = Finding::Kind;

constexpr double kLeastWait = 1;  // seconds

// Two ranks' groups are one group if their keys are equal.
using GroupKey = std::tuple<std::string, std::uint64_t, int>;
GroupKey key_of(const GroupFacts& g) {
  return {g.name, g.generation, g.size};
}

std::string in_group(const GroupFacts& group) {
  return fmt::format(" of group '{}'", group.name);
}

// Whether two ranks have called one operation. The hash tells that even if only a part of it was
// kept.
bool agree(const Operation& a, const Operation& b) noexcept {
  const bool hashes = a.hash == 0 || b.hash == 0 || a.hash == b.hash;
  const bool known = a.hash != 0 && b.hash != 0;
  return hashes && a.op == b.op && a.dtype == b.dtype && a.reduce == b.reduce && a.root == b.root &&
         a.order == b.order && (known || a.count == b.count);
}

class Investigation {
 public:
  explicit Investigation(const Case& from) : case_(from) {
    for (const RankFacts& rank : from.ranks) add_memberships(rank);
    part_namesakes();
    for (Membership& member : members_) {
      if (is_brief(member)) {
        note_brief(member);
      } else {
        find_waits(member);
      }
    }
  }

  Diagnosis result() && {
    Finding finding;
    for (const auto rule : {&Investigation::died, &Investigation::mismatch, &Investigation::stopped,
                            &Investigation::behind, &Investigation::circle, &Investigation::slow}) {
      finding = (this->*rule)();
      if (finding.kind != Kind::kNothing) break;
    }
    if (finding.kind == Kind::kNothing) {
      finding.lines.push_back(
          members_.empty() ? "no rank has made a process group yet"
          : longest_ == nullptr
              ? "no rank waits for another: every operation that was called is over"
              : fmt::format("no rank has waited for long, the job moves: the longest wait is rank "
                            "{}'s, for {} in {}{}",
                            longest_->rank->rank, duration(*longest_->rank, *longest_->current),
                            text(*longest_->current), in_group(*longest_->group)));
    }
    return {std::move(members_), std::move(finding)};
  }

 private:
  void add_memberships(const RankFacts& rank) {
    // If a name was used several times, the last group counts.
    std::map<GroupKey, const GroupFacts*> latest;
    for (const GroupFacts& group : rank.groups) latest[key_of(group)] = &group;
    for (const GroupFacts& group : rank.groups) {
      if (latest[key_of(group)] != &group) continue;
      Membership member{.rank = &rank, .group = &group, .current = {}, .last = {}, .waits_for = {}};
      for (const Operation& o : rank.operations) {
        if (o.group != (group.number & 0xffff)) continue;
        if (o.state != State::kFinished && member.current == nullptr) member.current = &o;
        if (!o.is_message && o.sequence == group.last_called) member.last = &o;
      }
      groups_[key_of(group)].push_back(members_.size());
      members_.push_back(std::move(member));
    }
  }

  // split() with one name for all colors makes several groups of one name without a common rank.
  // Nothing tells which rank belongs to which group, so each member counts only for itself.
  void part_namesakes() {
    for (auto& [key, members] : groups_) {
      std::set<int> ranks;
      for (const std::size_t i : members) ranks.insert(members_[i].group->rank);
      if (ranks.size() < members.size()) namesakes_.insert(key);
    }
  }
  bool has_namesakes(const GroupFacts& group) const { return namesakes_.contains(key_of(group)); }

  // The member that has this rank in the group; null if its recorder was not read.
  const Membership* find_member(const GroupFacts& group, int rank_in_group) const {
    for (const std::size_t i : groups_.at(key_of(group))) {
      if (members_[i].group->rank == rank_in_group) return &members_[i];
    }
    return nullptr;
  }
  // The rank's number in the world; -1: not known.
  int world_rank(const GroupFacts& group, int rank_in_group) const {
    if (has_namesakes(group)) return -1;
    if (const Membership* member = find_member(group, rank_in_group)) return member->rank->rank;
    return group.size == case_.world_size() ? rank_in_group : -1;
  }

  // The recorders of a running job are copied one after another, and its ranks wait for each other
  // all the time. So a short wait says nothing.
  static bool is_brief(const Membership& member) {
    return member.rank->end == End::kRunning && member.current != nullptr &&
           waited(member) < kLeastWait;
  }
  // In seconds; infinite if the clocks do not tell.
  static double waited(const Membership& member) {
    if (!member.current->enqueued) return std::numeric_limits<double>::infinity();
    return *member.current->enqueued - member.rank->ended.value_or(0);
  }
  void note_brief(const Membership& member) {
    if (longest_ == nullptr || waited(member) > waited(*longest_)) longest_ = &member;
  }

  void find_waits(Membership& member) {
    const Operation* const current = member.current;
    if (current == nullptr) return;
    const GroupFacts& group = *member.group;
    if (!current->is_message && !has_namesakes(group)) {
      for (const std::size_t i : groups_.at(key_of(group))) {
        const Membership& other = members_[i];
        if (other.group->last_called < current->sequence) {
          member.waits_for.push_back(other.rank->rank);
        }
      }
      // If the group is the whole world, the ranks that have not made it are known.
      if (group.size == case_.world_size()) {
        for (const RankFacts& rank : case_.ranks) {
          if (find_member(group, rank.rank) == nullptr) member.waits_for.push_back(rank.rank);
        }
      }
    }
    if (!member.waits_for.empty() || current->waits_for < 0) return;
    const int named = world_rank(group, current->waits_for);
    if (named >= 0 && named != member.rank->rank) member.waits_for.push_back(named);
  }

  bool waits(int rank) const {
    return std::any_of(members_.begin(), members_.end(), [&](const Membership& m) {
      return m.rank->rank == rank && !m.waits_for.empty();
    });
  }
  std::set<int> waited_for() const {
    std::set<int> ranks;
    for (const Membership& m : members_) ranks.insert(m.waits_for.begin(), m.waits_for.end());
    return ranks;
  }

  // "ranks 0 and 2-3 waited for it in all_reduce #43 (...) of group 'world'", one line an
  // operation.
  void tell_who_waits(int culprit, Finding& finding) const {
    std::map<std::string, std::vector<int>> waiting;
    for (const Membership& m : members_) {
      if (m.rank->rank == culprit || m.current == nullptr) continue;
      if (std::count(m.waits_for.begin(), m.waits_for.end(), culprit) == 0) continue;
      waiting[text(*m.current) + in_group(*m.group)].push_back(m.rank->rank);
    }
    for (const auto& [operation, ranks] : waiting) {
      finding.lines.push_back(fmt::format("  {} waited for it in {}", rank_list(ranks), operation));
    }
  }

  // "in all_reduce #42 (...) of group 'world', for 0.31 s", or the last operation that it reached.
  std::string place_of(const RankFacts& rank) const {
    std::string reached;
    for (const Membership& m : members_) {
      if (m.rank != &rank) continue;
      if (m.current != nullptr) {
        const std::string time = duration(rank, *m.current);
        return fmt::format("in {}{}{}", text(*m.current), in_group(*m.group),
                           time.empty() ? "" : ", for " + time);
      }
      if (reached.empty() && m.group->last_called > 0) {
        reached = fmt::format(
            "after {}{}",
            m.last != nullptr ? text(*m.last) : fmt::format("operation #{}", m.group->last_called),
            in_group(*m.group));
      }
    }
    if (!reached.empty()) return reached;
    if (!rank.opened) {
      return "before it called init, if it is a program that uses dlrun's collectives";
    }
    return rank.groups.empty() ? "while its process group was being made"
                               : "before its first operation";
  }

  Finding died() const {
    Finding finding;
    for (const RankFacts& rank : case_.ranks) {
      if (rank.end != End::kEnded || rank.was_stopped || rank.status == 0) continue;
      const bool knew = std::any_of(rank.groups.begin(), rank.groups.end(),
                                    [](const GroupFacts& g) { return !g.kind.empty(); });
      // If a rank gave up with its group, the group's error is not the cause.
      if (!WIFSIGNALED(rank.status) && (knew || !rank.is_cause)) continue;
      finding.culprits.push_back(rank.rank);
    }
    std::sort(finding.culprits.begin(), finding.culprits.end(), [&](int a, int b) {
      return std::pair(!case_.find(a)->is_cause, a) < std::pair(!case_.find(b)->is_cause, b);
    });
    for (const int culprit : finding.culprits) {
      const RankFacts& rank = *case_.find(culprit);
      finding.lines.push_back(fmt::format("{} {}, {}", who(rank), fate(rank), place_of(rank)));
      tell_who_waits(culprit, finding);
    }
    if (!finding.culprits.empty()) finding.kind = Kind::kDied;
    return finding;
  }

  Finding mismatch() const {
    for (const auto& [key, members] : groups_) {
      if (namesakes_.contains(key)) continue;
      // The calls of the ranks, by number.
      std::map<std::uint64_t, std::vector<std::pair<const RankFacts*, const Operation*>>> calls;
      for (const std::size_t i : members) {
        const Membership& m = members_[i];
        for (const Operation& o : m.rank->operations) {
          if (o.group == (m.group->number & 0xffff) && !o.is_message) {
            calls[o.sequence].emplace_back(m.rank, &o);
          }
        }
      }
      for (const auto& [sequence, called] : calls) {
        const bool same = std::all_of(called.begin(), called.end(), [&](const auto& call) {
          return agree(*call.second, *called.front().second);
        });
        if (!same) return tell_mismatch(*members_[members.front()].group, sequence, called);
      }
    }
    return {};
  }

  static Finding tell_mismatch(
      const GroupFacts& group, std::uint64_t sequence,
      const std::vector<std::pair<const RankFacts*, const Operation*>>& called) {
    std::map<std::string, std::vector<int>> sides;
    for (const auto& [rank, operation] : called) sides[text(*operation)].push_back(rank->rank);
    std::vector<std::pair<std::string, std::vector<int>>> by_size(sides.begin(), sides.end());
    // The smaller side is the likely culprit; if both sides are equal, neither is.
    std::sort(by_size.begin(), by_size.end(), [](const auto& a, const auto& b) {
      return std::pair(a.second.size(), a.first) < std::pair(b.second.size(), b.first);
    });
    Finding finding{.kind = Kind::kMismatch, .culprits = {}, .lines = {}};
    finding.lines.push_back(fmt::format(
        "the ranks of group '{}' called different things under number {}:", group.name, sequence));
    for (const auto& [operation, ranks] : by_size) {
      finding.lines.push_back(fmt::format("  {} called {}", rank_list(ranks), operation));
      const bool odd = ranks.size() < by_size.back().second.size() || by_size.size() == 1 ||
                       by_size.front().second.size() == by_size.back().second.size();
      if (odd) finding.culprits.insert(finding.culprits.end(), ranks.begin(), ranks.end());
    }
    return finding;
  }

  Finding stopped() const {
    Finding finding;
    bool all = true;
    for (const RankFacts& rank : case_.ranks) {
      const bool is_stopped = rank.process_state == 'T' || rank.process_state == 't';
      all = all && is_stopped;
      if (is_stopped) finding.culprits.push_back(rank.rank);
    }
    // If all are stopped, the whole job was stopped, and no rank is to blame.
    if (finding.culprits.empty() || all) return {};
    finding.kind = Kind::kStopped;
    for (const int culprit : finding.culprits) {
      const RankFacts& rank = *case_.find(culprit);
      finding.lines.push_back(
          fmt::format("{} is stopped, {}; `kill -CONT {}` lets it go on, a debugger may hold it",
                      who(rank), place_of(rank), rank.pid));
      tell_who_waits(culprit, finding);
    }
    return finding;
  }

  Finding behind() const {
    Finding finding;
    for (const int rank : waited_for()) {
      if (!waits(rank)) finding.culprits.push_back(rank);
    }
    if (finding.culprits.empty()) return {};
    finding.kind = Kind::kBehind;
    for (const int culprit : finding.culprits) {
      const RankFacts* const rank = case_.find(culprit);
      finding.lines.push_back(
          rank == nullptr
              ? fmt::format("rank {} is waited for, and its recorder is not here", culprit)
              : fmt::format("{} {}, {}", who(*rank), fate(*rank), place_of(*rank)));
      tell_who_waits(culprit, finding);
    }
    return finding;
  }

  Finding circle() const {
    const std::set<int> needed = waited_for();
    if (needed.empty()) return {};
    Finding finding{.kind = Kind::kCircle, .culprits = {}, .lines = {}};
    finding.lines.push_back("ranks wait for each other in a circle:");
    for (const Membership& m : members_) {
      if (m.waits_for.empty()) continue;
      if (finding.culprits.empty() || finding.culprits.back() != m.rank->rank) {
        finding.culprits.push_back(m.rank->rank);
      }
      finding.lines.push_back(fmt::format("  rank {} waited in {}{} for {}", m.rank->rank,
                                          text(*m.current), in_group(*m.group),
                                          rank_list(m.waits_for)));
    }
    finding.lines.push_back(
        "  all ranks must make the calls of all their groups in one order, and each send needs its "
        "recv");
    return finding;
  }

  Finding slow() const {
    for (const Membership& m : members_) {
      if (m.current == nullptr || is_brief(m)) continue;
      Finding finding{.kind = Kind::kSlow, .culprits = {}, .lines = {}};
      const std::string time = duration(*m.rank, *m.current);
      finding.lines.push_back(
          fmt::format("every rank that is here has called {}{}, and it was not over after {}; its "
                      "data was under way",
                      text(*m.current), in_group(*m.group), time.empty() ? "some time" : time));
      return finding;
    }
    return {};
  }

  const Case& case_;
  std::vector<Membership> members_;
  std::map<GroupKey, std::vector<std::size_t>> groups_;
  std::set<GroupKey> namesakes_;
  const Membership* longest_ = nullptr;  // of the waits that are too brief to say anything
};

std::string seconds(double time) {
  return time < 0.001 ? fmt::format("{:.0f} us", time * 1e6) : fmt::format("{:.3g} s", time);
}

}  // namespace

std::string_view name_of(Finding::Kind kind) noexcept {
  switch (kind) {
    case Kind::kNothing:
      return "nothing";
    case Kind::kDied:
      return "died";
    case Kind::kMismatch:
      return "mismatch";
    case Kind::kStopped:
      return "stopped";
    case Kind::kBehind:
      return "behind";
    case Kind::kCircle:
      return "circle";
    case Kind::kSlow:
      return "slow";
  }
  return "nothing";
}

Diagnosis diagnose(const Case& from) {
  return Investigation(from).result();
}

std::string text(const Operation& o) {
  std::string text = fmt::format("{} #{}", o.op, o.sequence);
  if (o.op == "barrier") return text;
  text += fmt::format(" ({}[{}]", o.dtype, o.count);
  if (o.is_message) return text + fmt::format(", tag {})", static_cast<std::uint32_t>(o.root));
  if (o.op.find("reduce") != std::string::npos) text += " " + o.reduce;
  if (o.root >= 0) text += fmt::format(", root {}", o.root);
  if (o.order != 0) text += ", tree order";
  return text + ")";
}

std::string who(const RankFacts& rank) {
  return fmt::format("rank {} ({}, pid {})", rank.rank, rank.host, rank.pid);
}

std::string fate(const RankFacts& rank) {
  switch (rank.end) {
    case End::kEnded:
      if (!rank.fate.empty()) return rank.fate;
      return rank.was_stopped ? "was ended by dlrun" : how_it_ended(rank.status);
    case End::kRunning:
      return rank.process_state == 'T' || rank.process_state == 't' ? "is stopped" : "runs";
    case End::kNotStarted:
      return "was not started";
    case End::kUnknown:
      break;
  }
  return "was there when its recorder was written";
}

std::string duration(const RankFacts& rank, const Operation& o) {
  if (!o.enqueued) return {};
  // Seconds before the copy: a dead rank's operation was under way until its death.
  const double until = o.is_over() ? o.ended.value_or(0) : rank.ended.value_or(0);
  return *o.enqueued < until ? std::string() : seconds(*o.enqueued - until);
}

}  // namespace dl::launcher::autopsy
