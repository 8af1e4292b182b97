#include "launcher/output/logs/frame_logs.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "launcher/output/logs/log_folder.h"
#include "launcher/process/start/rank_files.h"

namespace dl::launcher {

FrameLogs::FrameLogs(DiskThread& disk, FrameTaker& next, Place place,
                     std::function<void(const std::string&)> say,
                     std::function<void(const std::string&)> fail)
    : disk_(disk),
      next_(next),
      place_(std::move(place)),
      say_(std::move(say)),
      fail_(std::move(fail)) {}

void FrameLogs::begin_attempt(int attempt, const std::vector<int>& ranks) {
  if (place_.log_dir.empty() || ranks.empty()) return;
  if (!begun_.emplace(attempt, ranks.front()).second) return;
  disk_.run(
      [place = place_, attempt, ranks] {
        return make_log_folder(place.log_dir, place.run, /*node=*/0, attempt,
                               /*with_own=*/false, ranks);
      },
      [this, attempt, ranks](LogFolder made) {
        if (!made.error.empty()) {
          fail_(made.error);
          return;
        }
        folders_[attempt] = made.attempt;
        for (std::size_t i = 0; i < made.ranks.size(); ++i) {
          for (const Stream stream : {Stream::kOut, Stream::kErr}) {
            const StreamId id{attempt, ranks[i], stream};
            UniqueFd& file = stream == Stream::kOut ? made.ranks[i].out : made.ranks[i].err;
            logs_[id] =
                std::make_unique<LogFile>(disk_, std::move(file), [this, id] { on_broken(id); });
          }
        }
        if (!made.no_link.empty()) say_(made.no_link);
        for (Waiting& one : std::exchange(waiting_, {})) {
          one.frame.bytes = one.bytes;
          take(one.frame);
        }
        on_room();
      });
}

bool FrameLogs::keep(int attempt, int rank, const std::string& name, const std::string& bytes) {
  const auto folder = folders_.find(attempt);
  if (folder == folders_.end()) return false;
  disk_.run([path = fmt::format("{}/{}/{}", folder->second, rank, name),
             bytes] { return write_file(path, bytes); },
            [this](const std::string& failed) {
              if (!failed.empty()) say_(failed);
            });
  return true;
}

LogFile* FrameLogs::full_log() const {
  const auto full =
      std::ranges::find_if(logs_, [](const auto& log) { return log.second->is_full(); });
  return full == logs_.end() ? nullptr : full->second.get();
}

void FrameLogs::when_room(Stream stream, std::function<void()> ready) {
  LogFile* const full = full_log();
  if (full == nullptr && waiting_.empty()) {
    next_.when_room(stream, std::move(ready));
    return;
  }
  for_disk_.push_back(std::move(ready));
  if (full != nullptr && for_disk_.size() == 1) full->when_room([this] { on_room(); });
}

void FrameLogs::on_room() {
  for (const auto& ready : std::exchange(for_disk_, {})) ready();
}

void FrameLogs::take(const Frame& frame) {
  if (!place_.log_dir.empty() && frame.id.rank >= 0) {
    const auto log = logs_.find(frame.id);
    if (log == logs_.end()) {
      waiting_.push_back({frame, std::string(frame.bytes)});
      return;
    }
    if (!frame.bytes.empty()) log->second->append(frame.bytes);
  }
  next_.take(frame);
}

// Reports only the first broken log, because a full disk breaks many.
void FrameLogs::on_broken(StreamId id) {
  if (std::exchange(said_broken_, true)) return;
  say_(fmt::format("the log of rank {} in {}/{} is incomplete: {}; the job goes on", id.rank,
                   place_.log_dir, place_.run, logs_.at(id)->error()));
}

}  // namespace dl::launcher
