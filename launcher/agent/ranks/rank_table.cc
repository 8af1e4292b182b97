#include "launcher/agent/ranks/rank_table.h"

#include <fmt/core.h>

#include <algorithm>

#include "launcher/process/descendants.h"
#include "launcher/process/start/rank_files.h"

namespace dl::launcher {

RankFacts Rank::facts() const {
  RankFacts one;
  one.rank = number;
  one.pid = pid;
  one.started = pid > 0;
  one.ended = ended;
  one.ended_by = ended_by;
  one.ran = std::chrono::duration_cast<std::chrono::milliseconds>((ended ? stopped : Clock::now()) -
                                                                  started);
  one.end = end;
  one.memory_kills = memory_kills;
  if (err != nullptr) one.stderr_tail = err->tail();
  if (out != nullptr) one.stdout_tail = out->tail();
  one.error_file = error_file();
  return one;
}

std::string Rank::error_file() const {
  return error_memory ? read_file(path_of_descriptor(error_memory.get())) : std::string();
}

RankTable::RankTable(const std::vector<int>& numbers) : ranks_(numbers.size()) {
  for (std::size_t i = 0; i < numbers.size(); ++i) ranks_[i].number = numbers[i];
}

bool RankTable::is_any_alive() const {
  return !forgotten_ &&
         std::ranges::any_of(ranks_, [](const Rank& rank) { return rank.asked && !rank.ended; });
}

std::vector<RankFacts> RankTable::facts() const {
  std::vector<RankFacts> facts;
  for (const Rank& rank : ranks_) facts.push_back(rank.facts());
  return facts;
}

std::vector<int> RankTable::being_started() const {
  std::vector<int> ranks;
  for (const Rank& rank : ranks_) {
    if (rank.is_being_started()) ranks.push_back(rank.number);
  }
  return ranks;
}

std::vector<std::string> RankTable::waits() const {
  std::map<std::pair<int, std::string>, std::vector<int>> waiters;
  for (const Rank& rank : ranks_) {
    if (!rank.running || !rank.waits) continue;
    waiters[{rank.waits->rank, rank.waits->operation}].push_back(rank.number);
  }
  std::vector<std::string> lines;
  for (const auto& [wait, ranks] : waiters) {
    lines.push_back(fmt::format("{} {} for rank {} in {}", rank_list(ranks),
                                ranks.size() == 1 ? "waits" : "wait", wait.first, wait.second));
  }
  return lines;
}

std::map<pid_t, int> RankTable::by_pid() const {
  std::map<pid_t, int> ranks;
  for (const Rank& rank : ranks_) {
    if (rank.pid > 0) ranks[rank.pid] = rank.number;
  }
  return ranks;
}

std::vector<std::string> RankTable::who_is_left(
    const std::function<std::string(int rank)>& program_of) const {
  std::vector<std::string> left;
  for (const Rank& rank : ranks_) {
    if (rank.running) {
      left.push_back(
          fmt::format("rank {}, pid {}: {}", rank.number, rank.pid, why_it_stays(rank.pid)));
    } else if (rank.is_being_started()) {
      left.push_back(fmt::format("rank {}, which is not started yet: executing {} does not end",
                                 rank.number, program_of(rank.number)));
    }
  }
  return left;
}

std::vector<RecorderCopy> RankTable::copy_recorders(int cause) const {
  using collectives::record::End;
  std::vector<RecorderCopy> copies;
  for (const Rank& rank : ranks_) {
    if (!rank.recorder) continue;
    copies.push_back(
        copy_recorder(rank.recorder.get(), {.pid = rank.pid,
                                            .end = rank.ended      ? End::kEnded
                                                   : rank.running  ? End::kRunning
                                                   : rank.pid <= 0 ? End::kNotStarted
                                                                   : End::kUnknown,
                                            .status = rank.end.status,
                                            .ended_at = rank.ended_at,
                                            .fate = rank.ended ? fate_of(rank.facts()) : "",
                                            .was_stopped = rank.end.stopped,
                                            .is_cause = rank.ended && cause == rank.number}));
  }
  return copies;
}

std::vector<std::pair<int, std::string>> RankTable::error_files() const {
  std::vector<std::pair<int, std::string>> files;
  for (const Rank& rank : ranks_) {
    std::string text = rank.error_file();
    if (!text.empty()) files.emplace_back(rank.number, std::move(text));
  }
  return files;
}

}  // namespace dl::launcher
