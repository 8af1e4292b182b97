#include "launcher/agent/evidence/evidence.h"

#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <set>
#include <span>

#include "collectives/record/snapshot.h"
#include "launcher/agent/evidence/process_facts.h"
#include "launcher/autopsy/autopsy.h"
#include "launcher/autopsy/case.h"
#include "launcher/process/start/rank_files.h"

namespace dl::launcher {

Evidence::Evidence(const Generations& generations, NodeOutput& output,
                   std::function<void(const std::string&)> say)
    : generations_(generations), output_(output), say_(std::move(say)) {}

std::vector<std::pair<int, std::string>> Evidence::error_files() const {
  const Generation* const generation = generations_.current();
  if (generation == nullptr) return {};
  return generation->ranks().error_files();
}

std::vector<RecorderCopy> Evidence::recorders(int cause) const {
  const Generation* const generation = generations_.current();
  if (generation == nullptr) return {};
  std::vector<RecorderCopy> copies = generation->ranks().copy_recorders(cause);
  if (std::ranges::none_of(copies, &RecorderCopy::was_opened)) copies.clear();
  return copies;
}

void Evidence::keep_error_files() {
  if (!output_.has_logs()) return;
  for (const auto& [rank, text] : error_files()) {
    output_.on_disk(
        [text, rank](const std::string& folder) {
          return write_file(fmt::format("{}/{}/error.json", folder, rank), text);
        },
        [this](const std::string& failed) {
          if (!failed.empty()) say_(failed);
        });
  }
}

void Evidence::keep_recorders(int cause) {
  if (!output_.has_logs() || keeps_recorders_) return;
  auto copies = std::make_shared<std::vector<RecorderCopy>>(recorders(cause));
  if (copies->empty()) return;
  keeps_recorders_ = true;
  output_.on_disk(
      [copies](const std::string& folder) {
        for (const RecorderCopy& copy : *copies) {
          std::string failed =
              collectives::record::write_snapshot(*copy.memory, folder, copy.memory->header.rank);
          if (!failed.empty()) return failed;
        }
        return std::string();
      },
      [this](const std::string& failed) {
        keeps_recorders_ = false;
        say_(failed.empty() ? fmt::format("  the last operations of each rank: dlrun autopsy {}",
                                          output_.run_folder())
                            : fmt::format("a flight recorder could not be kept: {}", failed));
      });
}

void Evidence::report_waits() const {
  const Generation* const generation = generations_.current();
  if (generation == nullptr) return;
  for (const std::string& line : generation->ranks().waits()) say_(line);
}

bool Evidence::report(int cause) const {
  const Generation* const generation = generations_.current();
  if (generation == nullptr) return false;
  const RankTable& ranks = generation->ranks();
  const std::vector<RecorderCopy> copies = ranks.copy_recorders(cause);
  autopsy::Case found;
  std::set<int> told;
  for (const RecorderCopy& copy : copies) {
    const int rank = copy.memory->header.rank;
    found.add(std::as_bytes(std::span(copy.memory.get(), 1)), fmt::format("rank {}", rank));
    if (copy.was_opened) told.insert(rank);
  }
  if (!told.empty()) {
    for (const std::string& line : autopsy::page(found)) say_(line);
  }
  report_waits();
  const std::vector<int> starting = ranks.being_started();
  if (!starting.empty()) {
    say_(fmt::format("{} {} being started", rank_list(starting),
                     starting.size() == 1 ? "is" : "are"));
  }
  std::vector<RankProcess> others;
  for (const Rank& rank : ranks) {
    if (rank.running && !told.contains(rank.number)) others.push_back({rank.number, rank.pid});
  }
  if (others.empty()) return !told.empty() || !starting.empty();
  say_(copies.empty() ? "there are no flight recorders, as DLRUN_RECORDER is off; the kernel says:"
       : told.empty() ? "no rank has opened its flight recorder: the program does not use dlrun's "
                        "collectives, or has not come to init yet; the kernel says:"
                      : "of the ranks that have not opened their recorder the kernel says:");
  for (const std::string& line : process_facts(others)) {
    say_(line.empty() ? line : "  " + line);
  }
  return true;
}

}  // namespace dl::launcher
