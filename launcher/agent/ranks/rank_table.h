// RankTable: the ranks of one generation on this node, and what dlrun knows of each.
//
// One thread. A rank keeps its address for as long as its table lives.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/system/unique_fd.h"
#include "launcher/agent/ranks/rank_lifeline.h"
#include "launcher/agent/ranks/recorders.h"
#include "launcher/output/lines/rank_stream.h"
#include "launcher/verdict/report.h"
#include "rendezvous/net/lifeline.h"

namespace dl::launcher {

struct Rank {
  using Clock = std::chrono::steady_clock;

  int number = -1;  // in the job
  pid_t pid = -1;
  bool asked = false;    // the supervisor was asked to start it
  bool running = false;  // from the answer of the supervisor on
  bool ended = false;
  Clock::time_point started;
  Clock::time_point stopped;
  int ended_by = 0;  // dlrun's signal that ended it; 0: another reason
  RankEnd end;
  std::unique_ptr<RankLifeline> lifeline;     // null: not started
  std::optional<rendezvous::Waiting> waits;   // for a rank to come to a group
  UniqueFd error_memory;                      // TORCHELASTIC_ERROR_FILE
  UniqueFd recorder;                          // empty: recorders are off
  std::optional<std::uint64_t> memory_kills;  // see RankFacts
  std::uint64_t ended_at = 0;                 // in the recorder's ticks
  RankStream* out = nullptr;                  // of the NodeOutput; null: not started
  RankStream* err = nullptr;

  bool is_being_started() const { return asked && !running && !ended; }
  RankFacts facts() const;
  std::string error_file() const;  // its content; empty: it was not written
};

class RankTable {
 public:
  // `numbers`: of the ranks, by local rank.
  explicit RankTable(const std::vector<int>& numbers);

  std::size_t size() const { return ranks_.size(); }
  // By local rank.
  Rank& at(std::size_t local_rank) { return ranks_.at(local_rank); }
  auto begin() const { return ranks_.begin(); }
  auto end() const { return ranks_.end(); }

  // True if a rank runs or is being started.
  bool is_any_alive() const;
  // To be called when the supervisor is dead: no rank counts as alive any more.
  void forget() { forgotten_ = true; }

  std::vector<RankFacts> facts() const;
  std::vector<int> being_started() const;
  // "ranks 0-1 and 3 wait for rank 2 in the making of group 'world'": a line for each such wait.
  std::vector<std::string> waits() const;
  // The numbers of all ranks that were started, by process id.
  std::map<pid_t, int> by_pid() const;
  // A line for each rank that the kernel does not end, or does not start. `program_of`: the path of
  // a rank's program.
  std::vector<std::string> who_is_left(
      const std::function<std::string(int rank)>& program_of) const;
  // `cause`: the rank that is the first cause; -1: none.
  std::vector<RecorderCopy> copy_recorders(int cause) const;
  // Rank and content of each error file that is not empty.
  std::vector<std::pair<int, std::string>> error_files() const;

 private:
  bool forgotten_ = false;
  std::vector<Rank> ranks_;
};

}  // namespace dl::launcher
