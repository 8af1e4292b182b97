#include "launcher/frontend/job_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "rendezvous/first_cause/first_cause.h"

namespace dl::launcher {
namespace {

double seconds(std::chrono::steady_clock::duration time) {
  return std::chrono::duration<double>(time).count();
}

}  // namespace

void JobState::log(JobEvent event) {
  if (events_.size() == kMostEvents) events_.pop_front();
  events_.push_back(std::move(event));
}

void JobState::attempt_began(int attempt, const std::vector<int>& ranks, Time now) {
  const bool is_new = ranks_.empty() || attempt != attempt_;
  if (is_new) ranks_.clear();
  for (const int rank : ranks) ranks_.emplace_back().rank = rank;
  std::ranges::sort(ranks_, {}, &RankStatus::rank);
  if (!is_new) return;
  attempt_ = attempt;
  began_ = now;
  log({.time = now, .what = JobEvent::What::kAttemptBegan, .attempt = attempt, .text = {}});
}

void JobState::rank_changed(const RankNews& news, Time now) {
  const auto found = std::ranges::find(ranks_, news.rank, &RankStatus::rank);
  if (found == ranks_.end()) return;
  const bool starts = news.what == RankNews::What::kStarted;
  found->is = starts ? RankStatus::Is::kRunning : RankStatus::Is::kEnded;
  found->pid = news.pid;
  found->status = news.status;
  log({.time = now,
       .what = starts ? JobEvent::What::kRankStarted : JobEvent::What::kRankEnded,
       .attempt = attempt_,
       .rank = news.rank,
       .pid = news.pid,
       .status = news.status,
       .text = {}});
}

void JobState::attempt_ended(const Verdict& verdict, Time now) {
  log({.time = now,
       .what = JobEvent::What::kAttemptEnded,
       .attempt = verdict.attempt,
       .status = verdict.exit_code,
       .text = verdict.page.empty() ? std::string() : verdict.page.front()});
}

std::vector<std::string> JobState::page(Time now) const {
  std::vector<std::string> lines;
  for (const JobEvent& event : events_) {
    if (event.what != JobEvent::What::kAttemptEnded || event.attempt == attempt_) continue;
    lines.push_back(fmt::format("attempt {} ended {:.1f} s ago: {}", event.attempt,
                                seconds(now - event.time), event.text));
  }
  if (ranks_.empty()) return lines;
  std::vector<std::string> parts;
  constexpr std::pair<RankStatus::Is, std::pair<const char*, const char*>> kWords[] = {
      {RankStatus::Is::kBeingStarted, {"is being started", "are being started"}},
      {RankStatus::Is::kRunning, {"runs", "run"}},
      {RankStatus::Is::kEnded, {"has ended", "have ended"}}};
  for (const auto& [is, words] : kWords) {
    std::vector<int> ranks;
    for (const RankStatus& rank : ranks_) {
      if (rank.is == is) ranks.push_back(rank.rank);
    }
    if (ranks.empty()) continue;
    parts.push_back(fmt::format("{} {}", rendezvous::rank_list(ranks),
                                ranks.size() == 1 ? words.first : words.second));
  }
  lines.push_back(fmt::format("attempt {}, which began {:.1f} s ago: {}", attempt_,
                              seconds(now - began_), fmt::join(parts, "; ")));
  return lines;
}

}  // namespace dl::launcher
