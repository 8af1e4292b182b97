// The agent and the flight recorders of its ranks: kept after a failure, explained on request.
#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <set>

#include "collectives/record/snapshot.h"
#include "launcher/autopsy/case.h"
#include "launcher/autopsy/page.h"
#include "launcher/job/agent.h"
#include "launcher/job/process_facts.h"
#include "launcher/process/rank_files.h"

namespace dl::launcher {
namespace {

namespace record = collectives::record;

}  // namespace

std::vector<RecorderCopy> Agent::copy_recorders() const {
  std::vector<RecorderCopy> copies;
  int cause = -1;
  if (job_failure_) {
    cause = job_failure_->rank;
  } else if (first_cause_.finding()) {
    cause = first_cause_.finding()->rank;
  }
  for (const Rank& rank : ranks_) {
    if (!rank.recorder) continue;
    copies.push_back(
        copy_recorder(rank.recorder.get(), {.pid = rank.pid,
                                            .end = rank.ended      ? record::End::kEnded
                                                   : rank.running  ? record::End::kRunning
                                                   : rank.pid <= 0 ? record::End::kNotStarted
                                                                   : record::End::kUnknown,
                                            .status = rank.end.status,
                                            .ended_at = rank.ended_at,
                                            .was_stopped = rank.end.stopped,
                                            .is_cause = rank.ended && cause == rank_number(rank)}));
  }
  return copies;
}

// Writes what a program of ours has recorded; of other programs there is nothing to keep.
void Agent::keep_recorders() {
  if (!output_.has_logs() || keeps_recorders_) return;
  auto copies = std::make_shared<std::vector<RecorderCopy>>(copy_recorders());
  if (std::ranges::none_of(*copies, &RecorderCopy::was_opened)) return;
  keeps_recorders_ = true;
  output_.on_disk(
      [copies](const std::string& folder) {
        for (const RecorderCopy& copy : *copies) {
          std::string failed =
              record::write_snapshot(*copy.memory, folder, copy.memory->header.rank);
          if (!failed.empty()) return failed;
        }
        return std::string();
      },
      [this](const std::string& failed) {
        keeps_recorders_ = false;
        say(failed.empty() ? fmt::format("  the last operations of each rank: dlrun autopsy {}",
                                         output_.run_folder())
                           : fmt::format("a flight recorder could not be kept: {}", failed));
      });
}

void Agent::keep_error_files() {
  if (!output_.has_logs()) return;
  for (const Rank& rank : ranks_) {
    if (!rank.error_memory) continue;
    const std::string text = read_file(path_of_descriptor(rank.error_memory.get()));
    if (text.empty()) continue;
    output_.on_disk(
        [text, number = rank_number(rank)](const std::string& folder) {
          return write_file(fmt::format("{}/{}/error.json", folder, number), text);
        },
        [this](const std::string& failed) {
          if (!failed.empty()) say(failed);
        });
  }
}

// SIGUSR1: somebody wants to know where the job stands. Recorders tell of ranks that have opened
// one, the kernel of the others.
void Agent::on_request() {
  for (const std::string& line : output_.who_stands_still()) say(line);
  if (output_.is_finishing()) {
    say("all ranks have ended; what is left is to write their output");
    return;
  }
  const std::vector<RecorderCopy> copies = copy_recorders();
  autopsy::Case found;
  std::set<int> told;
  for (const RecorderCopy& copy : copies) {
    const int rank = copy.memory->header.rank;
    found.add(std::as_bytes(std::span(copy.memory.get(), 1)), fmt::format("rank {}", rank));
    if (copy.was_opened) told.insert(rank);
  }
  if (!told.empty()) {
    for (const std::string& line : autopsy::page(found)) say(line);
  }
  std::vector<int> starting;
  for (const Rank& rank : ranks_) {
    if (rank.asked && !rank.running && !rank.ended) starting.push_back(rank_number(rank));
  }
  if (!starting.empty()) {
    say(fmt::format("{} {} being started", rank_list(starting),
                    starting.size() == 1 ? "is" : "are"));
  }
  std::vector<RankProcess> others;
  for (const Rank& rank : ranks_) {
    if (rank.running && !told.contains(rank_number(rank))) {
      others.push_back({rank_number(rank), rank.pid});
    }
  }
  if (!others.empty()) {
    say(copies.empty() ? "there are no flight recorders, as DLRUN_RECORDER is off; the kernel says:"
        : told.empty() ? "no rank has opened its flight recorder: the program does not use dlrun's "
                         "collectives, or has not come to init_process_group; the kernel says:"
                       : "of the ranks that have not opened their recorder the kernel says:");
    for (const std::string& line : process_facts(others)) {
      say(line.empty() ? line : "  " + line);
    }
  } else if (told.empty() && starting.empty()) {
    say("no rank runs");
  }
  keep_recorders();
}

}  // namespace dl::launcher
