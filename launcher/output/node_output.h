// NodeOutput: the output of the ranks of one node, on that node: their pipes, and the files under
// --log-dir.
//
//   DIR/latest -> <run>                     the run that began last
//   DIR/<run>/node_<n>.log                  dlrun's own lines on node n
//   DIR/<run>/attempt_<n>/<rank>/stdout.log, stderr.log; error.json, flight.rec after a failure
//
// Each generation has its own attempt_<n>. Nothing here waits for the frontend or a disk; a disk
// that takes nothing for kSilence is reported.
//
// One thread. FrameTaker, DiskThread and io_context must outlive it.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/base/system/unique_fd.h"
#include "launcher/output/frame.h"
#include "launcher/output/lines/rank_stream.h"
#include "launcher/output/logs/disk_thread.h"
#include "launcher/output/logs/log_file.h"

namespace dl::launcher {

class NodeOutput {
 public:
  using Clock = std::chrono::steady_clock;

  // `log_dir`: empty: no logs. `say` shows a sentence to the user.
  NodeOutput(boost::asio::io_context& io, DiskThread& disk, FrameTaker& frontend,
             std::string log_dir, std::function<void(std::string)> say);

  // Makes the folders and files of `ranks` for this attempt, then calls `ready` with the error ("":
  // none). Without logs it calls `ready` at once. Every stream of an earlier attempt must be
  // drained.
  void begin_attempt(int attempt, const std::string& run, int node, const std::vector<int>& ranks,
                     std::function<void(std::string)> ready);

  // Adds a stream of a rank, or of a helper (-1), whose pipe has this reading end. The object lives
  // at least until the second attempt after its own begins.
  RankStream& add(UniqueFd pipe, Stream stream, int rank);

  // To be called when every rank is dead: takes what is left in their pipes.
  void drain_ranks();
  // To be called when every writer is dead: takes what is left in all pipes.
  void drain();

  // Appends a line of dlrun's own to this node's log.
  void log(const std::string& line);
  // Runs `work` with the path of the attempt's folder on the disk's thread; `work` returns an error
  // or "", and `done` gets it. Does nothing without logs.
  void on_disk(std::function<std::string(const std::string& folder)> work,
               std::function<void(std::string)> done);
  bool has_logs() const { return !folder_.empty(); }
  // DIR/<run>
  const std::string& run_folder() const { return run_folder_; }

  // Ranks whose pipe is full because of this stream of the frontend; nullopt: because of the disk.
  std::vector<int> ranks_standing_still(std::optional<Stream> stream) const;
  // A sentence on how long ranks have stood still because of the disk; "": they do not.
  std::string disk_sentence() const;
  // True if a rank waits for room in this stream of the frontend, or its log is ahead of the
  // stream.
  bool wants(Stream stream) const;
  // Bytes that are logged and not sent yet.
  std::uint64_t behind(Stream stream) const;
  // Ranks whose logs are incomplete.
  const std::set<int>& broken_logs() const { return broken_logs_; }

 private:
  static constexpr std::chrono::seconds kSilence{5};
  static constexpr std::chrono::seconds kTick{1};

  void on_log_broken(StreamId id);
  void tick();
  void watch_disk();
  void forget_settled();

  boost::asio::io_context& io_;
  DiskThread& disk_;
  FrameTaker& frontend_;
  std::string log_dir_;
  std::function<void(std::string)> say_;
  int attempt_ = 0;
  std::string run_folder_;
  std::string folder_;
  std::unique_ptr<LogFile> own_log_;
  std::map<StreamId, std::unique_ptr<LogFile>> unused_logs_;
  std::vector<std::unique_ptr<RankStream>> streams_;
  boost::asio::steady_timer timer_;
  std::optional<Clock::time_point>
      disk_announced_;  // since when the disk took nothing, once reported
  std::set<int> broken_logs_;
  bool draining_ = false;
};

}  // namespace dl::launcher
