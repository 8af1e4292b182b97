#include "launcher/output/node_output.h"

#include <fmt/core.h>

#include <algorithm>

#include "launcher/output/logs/log_folder.h"
#include "rendezvous/first_cause/first_cause.h"

namespace dl::launcher {
namespace {

using rendezvous::rank_list;

long seconds_since(NodeOutput::Clock::time_point begin) {
  return std::chrono::duration_cast<std::chrono::seconds>(NodeOutput::Clock::now() - begin).count();
}

}  // namespace

NodeOutput::NodeOutput(boost::asio::io_context& io, DiskThread& disk, FrameTaker& frontend,
                       std::string log_dir, std::function<void(std::string)> say)
    : io_(io),
      disk_(disk),
      frontend_(frontend),
      log_dir_(std::move(log_dir)),
      say_(std::move(say)),
      timer_(io) {
  if (!log_dir_.empty()) tick();
}

void NodeOutput::begin_attempt(int attempt, const std::string& run, int node,
                               const std::vector<int>& ranks,
                               std::function<void(std::string)> ready) {
  attempt_ = attempt;
  draining_ = false;
  forget_settled();
  if (log_dir_.empty()) {
    ready("");
    return;
  }
  disk_.run([log_dir = log_dir_, run, node, attempt, with_own = own_log_ == nullptr,
             ranks] { return make_log_folder(log_dir, run, node, attempt, with_own, ranks); },
            [this, ranks, ready = std::move(ready)](LogFolder made) {
              if (made.error.empty()) {
                run_folder_ = made.run;
                folder_ = made.attempt;
                if (made.own) {
                  own_log_ = std::make_unique<LogFile>(disk_, std::move(made.own), [this] {
                    say_(fmt::format("what dlrun says is not all in {}: {}", run_folder_,
                                     own_log_->error()));
                  });
                }
                unused_logs_.clear();
                for (std::size_t i = 0; i < ranks.size(); ++i) {
                  for (const Stream stream : {Stream::kOut, Stream::kErr}) {
                    const StreamId id{attempt_, ranks[i], stream};
                    UniqueFd& file = stream == Stream::kOut ? made.ranks[i].out : made.ranks[i].err;
                    unused_logs_[id] = std::make_unique<LogFile>(disk_, std::move(file),
                                                                 [this, id] { on_log_broken(id); });
                  }
                }
                if (!made.no_link.empty()) say_(made.no_link);
              }
              ready(made.error);
            });
}

RankStream& NodeOutput::add(UniqueFd pipe, Stream stream, int rank) {
  const StreamId id{attempt_, rank, stream};
  std::unique_ptr<LogFile> log;
  if (const auto found = unused_logs_.find(id); found != unused_logs_.end()) {
    log = std::move(found->second);
    unused_logs_.erase(found);
  }
  streams_.push_back(
      std::make_unique<RankStream>(io_, id, std::move(pipe), frontend_, std::move(log)));
  return *streams_.back();
}

// Destroys the streams of earlier attempts once the frontend has all their bytes.
void NodeOutput::forget_settled() {
  std::erase_if(streams_, [this](const std::unique_ptr<RankStream>& stream) {
    return stream->id().attempt + 1 < attempt_ && stream->is_settled();
  });
}

void NodeOutput::drain_ranks() {
  for (const auto& stream : streams_) {
    if (stream->id().rank >= 0) stream->drain();
  }
}

void NodeOutput::drain() {
  draining_ = true;
  for (const auto& stream : streams_) stream->drain();
}

void NodeOutput::log(const std::string& line) {
  if (own_log_) own_log_->append(line);
}

void NodeOutput::on_disk(std::function<std::string(const std::string& folder)> work,
                         std::function<void(std::string)> done) {
  if (!has_logs()) return;
  disk_.run([folder = folder_, work = std::move(work)] { return work(folder); }, std::move(done));
}

// Reports the first broken log at once, and all at the end, because a full disk breaks many.
void NodeOutput::on_log_broken(StreamId id) {
  const bool is_first = broken_logs_.empty();
  broken_logs_.insert(id.rank);
  if (!is_first) return;
  for (const auto& stream : streams_) {
    if (stream->id() != id) continue;
    const LogFile& log = *stream->log();
    say_(
        fmt::format("the log of rank {} in {} is incomplete: {} (its {} has {} bytes); the job "
                    "goes on",
                    id.rank, run_folder_, log.error(),
                    id.stream == Stream::kOut ? "stdout.log" : "stderr.log", log.written()));
  }
}

std::vector<int> NodeOutput::ranks_standing_still(std::optional<Stream> reader) const {
  const auto holder = reader ? RankStream::HeldBy::kReader : RankStream::HeldBy::kDisk;
  std::set<int> ranks;
  for (const auto& stream : streams_) {
    const StreamId& id = stream->id();
    if (id.rank >= 0 && stream->held_by() == holder && (!reader || id.stream == *reader) &&
        stream->is_standing_still()) {
      ranks.insert(id.rank);
    }
  }
  return {ranks.begin(), ranks.end()};
}

std::string NodeOutput::disk_sentence() const {
  const std::vector<int> ranks = ranks_standing_still(std::nullopt);
  const auto since = disk_.waits_since();
  // A shorter wait is normal.
  if (ranks.empty() || !since || Clock::now() - *since < kTick) return "";
  return fmt::format("{} {} still in a write: the disk of --log-dir {} has taken nothing for {} s",
                     rank_list(ranks), ranks.size() == 1 ? "stands" : "stand", log_dir_,
                     seconds_since(*since));
}

bool NodeOutput::wants(Stream stream) const {
  return std::ranges::any_of(streams_, [&](const auto& one) {
    return one->id().stream == stream &&
           (one->held_by() == RankStream::HeldBy::kReader || one->behind() > 0);
  });
}

std::uint64_t NodeOutput::behind(Stream stream) const {
  std::uint64_t bytes = 0;
  for (const auto& one : streams_) {
    if (one->id().stream == stream) bytes += one->behind();
  }
  return bytes;
}

void NodeOutput::tick() {
  timer_.expires_after(kTick);
  timer_.async_wait([this](const boost::system::error_code& error) {
    if (error) return;
    watch_disk();
    tick();
  });
}

void NodeOutput::watch_disk() {
  const auto since = disk_.waits_since();
  if (disk_announced_ && since != disk_announced_) {
    say_(fmt::format("the disk of --log-dir {} goes on, after {} s", log_dir_,
                     seconds_since(*disk_announced_)));
    disk_announced_.reset();
  }
  if (disk_announced_ || !since || Clock::now() - *since < kSilence) return;
  disk_announced_ = since;
  const std::vector<int> still = ranks_standing_still(std::nullopt);
  say_(fmt::format("the disk of --log-dir {} has taken nothing for {} s: {}", log_dir_,
                   seconds_since(*since),
                   draining_          ? "all ranks have ended, and dlrun waits for it"
                   : streams_.empty() ? "no rank is started before its log is there"
                   : still.empty()    ? "ranks stand still once some KiB of each wait for it"
                                   : fmt::format("{} {} still until it goes on", rank_list(still),
                                                 still.size() == 1 ? "stands" : "stand")));
}

}  // namespace dl::launcher
