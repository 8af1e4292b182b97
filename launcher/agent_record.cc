// The agent and the flight recorders of its ranks: kept after a failure, explained on request.
#include <fmt/core.h>

#include "collectives/record/snapshot.h"
#include "launcher/agent.h"
#include "launcher/autopsy/case.h"
#include "launcher/autopsy/page.h"

namespace dl::launcher {
namespace {

namespace record = collectives::record;

}  // namespace

std::vector<RecorderCopy> Agent::copy_recorders() const {
  std::vector<RecorderCopy> copies;
  const RankEnd* const cause = verdict_.cause();
  for (const Rank& rank : ranks_) {
    if (!rank.recorder) continue;
    copies.push_back(copy_recorder(
        rank.recorder.get(),
        {.pid = rank.pid,
         .end = rank.ended      ? record::End::kEnded
                : rank.running  ? record::End::kRunning
                : rank.pid <= 0 ? record::End::kNotStarted
                                : record::End::kUnknown,
         .status = rank.end.status,
         .ended_at = rank.ended_at,
         .was_stopped = rank.end.stopped,
         .is_cause = cause != nullptr && !cause->stopped && cause->rank == rank_number(rank)}));
  }
  return copies;
}

// Writes what a program of ours has recorded; of other programs there is nothing to keep.
void Agent::keep_recorders() {
  if (options_.log_dir.empty()) return;
  const std::vector<RecorderCopy> copies = copy_recorders();
  bool opened = false;
  for (const RecorderCopy& copy : copies) opened |= copy.was_opened;
  if (!opened) return;
  for (const RecorderCopy& copy : copies) {
    const std::string failed =
        record::write_snapshot(*copy.memory, options_.log_dir, copy.memory->header.rank);
    if (!failed.empty()) {
      say(fmt::format("a flight recorder could not be kept: {}", failed));
      return;
    }
  }
  say(fmt::format("  the last operations of each rank: dlrun autopsy {}", options_.log_dir));
}

// SIGUSR1: somebody wants to know where the job stands.
void Agent::on_request() {
  const std::vector<RecorderCopy> copies = copy_recorders();
  autopsy::Case found;
  for (const RecorderCopy& copy : copies) {
    found.add(std::as_bytes(std::span(copy.memory.get(), 1)),
              fmt::format("rank {}", copy.memory->header.rank));
  }
  if (copies.empty()) {
    say("there is no flight recorder to look at: DLRUN_RECORDER is off, or no rank runs");
    return;
  }
  for (const std::string& line : autopsy::page(found)) say(line);
  keep_recorders();
}

}  // namespace dl::launcher
