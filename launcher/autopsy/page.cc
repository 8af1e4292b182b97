#include "launcher/autopsy/autopsy.h"

#include <fmt/core.h>

#include <array>
#include <cmath>

#include "core/base/text/columns.h"
#include "launcher/autopsy/diagnosis.h"
#include "launcher/verdict/report.h"

namespace dl::launcher::autopsy {
namespace {

using collectives::record::GroupFacts;
using collectives::record::Operation;
using collectives::record::RankFacts;
using collectives::record::State;
using Row = std::array<std::string, 6>;

std::string state_of(const Membership& m) {
  const Operation* const o = m.current != nullptr ? m.current : m.last;
  if (o == nullptr) return "";
  const std::string time = duration(*m.rank, *o);
  std::string state;
  switch (o->state) {
    case State::kFinished:
      state = "over in";
      break;
    case State::kFailed:
      state = "failed after";
      break;
    case State::kStarted:
      state = "under way for";
      break;
    default:
      state = "queued for";
      break;
  }
  state += " " + (time.empty() ? "?" : time);
  if (!m.waits_for.empty()) state += ", waiting for " + rank_list(m.waits_for);
  if (!o->algorithm.empty()) state += fmt::format(" ({})", o->algorithm);
  return state;
}

// The wall clock and the ticks of a recorder are read one after the other, and a process may wait
// for a CPU in between.
constexpr double kClocksAgree = 0.1;  // seconds

// The error that broke a group first, by the clock of its own host. Ticks order what the wall
// clocks of one host's ranks cannot tell apart.
std::string first_error(const Case& from) {
  const RankFacts* first = nullptr;
  const GroupFacts* broken = nullptr;
  double earliest = 0;
  for (const RankFacts& rank : from.ranks) {
    for (const GroupFacts& group : rank.groups) {
      if (group.kind.empty()) continue;
      const double at = static_cast<double>(rank.copied_at_ns) * 1e-9 - group.broken.value_or(0);
      const bool by_ticks = first != nullptr && rank.host == first->host && group.broken &&
                            broken->broken && std::abs(at - earliest) < kClocksAgree;
      if (broken == nullptr || (by_ticks ? group.broken_at < broken->broken_at : at < earliest)) {
        first = &rank;
        broken = &group;
        earliest = at;
      }
    }
  }
  return broken == nullptr ? std::string()
                           : fmt::format("the first error, on rank {} ({}): {}", first->rank,
                                         broken->kind, broken->cause);
}

}  // namespace

std::vector<std::string> page(const Case& from) {
  if (from.ranks.empty()) {
    std::vector<std::string> lines = {
        "there is no flight recorder to read (programs that do not use dlrun's collectives keep "
        "none)"};
    for (const Unusable& file : from.unusable) {
      lines.push_back(fmt::format("  {}: {}", file.what, file.why));
    }
    return lines;
  }
  const Diagnosis diagnosis = diagnose(from);
  std::vector<std::string> lines = diagnosis.finding.lines;
  if (const std::string error = first_error(from); !error.empty()) lines.push_back(error);

  std::vector<Row> rows = {{"rank", "process", "which", "group", "last operation", "that is"}};
  auto member = diagnosis.members.begin();
  for (const RankFacts& rank : from.ranks) {
    Row row = {std::to_string(rank.rank), fmt::format("{}:{}", rank.host, rank.pid), fate(rank)};
    bool any = false;
    for (; member != diagnosis.members.end() && member->rank == &rank; ++member) {
      const Operation* const shown = member->current != nullptr ? member->current : member->last;
      row[3] = member->group->name;
      row[4] = shown != nullptr                  ? text(*shown)
               : member->group->last_called == 0 ? std::string("none yet")
                                                 : fmt::format("#{}", member->group->last_called);
      row[5] = state_of(*member);
      rows.push_back(row);
      row = {};
      any = true;
    }
    if (any) continue;
    row[3] = "-";
    row[4] = rank.opened ? "making its group" : "has not opened its recorder";
    rows.push_back(row);
  }
  lines.emplace_back();
  for (std::string& line : in_columns(rows)) lines.push_back(std::move(line));

  std::vector<std::string> notes;
  if (const std::vector<int> absent = from.absent(); !absent.empty()) {
    notes.push_back(fmt::format("nothing is here of {}: each node's dlrun keeps its own ranks",
                                rank_list(absent)));
  }
  for (const RankFacts& rank : from.ranks) {
    if (rank.truncated) notes.push_back(fmt::format("rank {}: the file is cut short", rank.rank));
    if (rank.dropped > 0) {
      notes.push_back(fmt::format("rank {}: {} operations found no room", rank.rank, rank.dropped));
    }
  }
  for (const Unusable& file : from.unusable) {
    notes.push_back(fmt::format("not read: {}: {}", file.what, file.why));
  }
  if (!notes.empty()) lines.emplace_back();
  lines.insert(lines.end(), notes.begin(), notes.end());
  return lines;
}

}  // namespace dl::launcher::autopsy
