// All that comes out of a job: dlrun's stdout and stderr, what each rank writes to them, dlrun's
// own sentences, and the files under --log-dir:
//
//   DIR/latest -> <run>                     the run that began last
//   DIR/<run>/node_<n>.log                  what dlrun said on node n
//   DIR/<run>/attempt_<n>/<rank>/stdout.log, stderr.log; error.json, flight.rec after a failure
//
// Nothing here waits for a reader or a disk. One of them that takes nothing for kSilence is
// announced on the stream that is read, and in the log.
//
// One thread; io_context must outlive it.
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

#include "core/base/unique_fd.h"
#include "launcher/output/disk_thread.h"
#include "launcher/output/log_file.h"
#include "launcher/output/rank_output.h"
#include "launcher/output/sink.h"

namespace dl::launcher {

class JobOutput {
 public:
  using Clock = std::chrono::steady_clock;
  enum class Stream : std::uint8_t { kOut, kErr };

  // `log_dir`: empty: no logs. `on_lost`: stdout takes nothing any more, an errno value.
  JobOutput(boost::asio::io_context& io, std::string log_dir, std::function<void(int)> on_lost);

  // Makes the folders and files of `ranks`, calls `ready` with what went wrong ("": nothing) and
  // announces a disk that hangs. Without logs `ready` is called at once.
  void open_logs(const std::string& run, int node, const std::vector<int>& ranks,
                 std::function<void(std::string)> ready);

  // A stream of a rank, or of a helper (-1), from the pipe's reading end to where it is shown. The
  // object lives as long as this one.
  RankOutput& add(UniqueFd pipe, Stream stream, int rank, const std::string& prefix);

  // What dlrun itself says, without "dlrun: " and the end of line.
  void say(const std::string& line);

  // Work with the log folder (its path, DIR/<run>/attempt_0) on the disk's thread; `work` returns
  // what went wrong, and `done` gets it. Without logs nothing happens.
  void on_disk(std::function<std::string(const std::string& folder)> work,
               std::function<void(std::string)> done);
  bool has_logs() const { return !folder_.empty(); }
  // DIR/<run>
  const std::string& run_folder() const { return run_folder_; }

  // Which ranks stand still because of a reader or a disk, a sentence each; empty: none.
  std::vector<std::string> who_stands_still() const;

  const Sink& out() const { return out_; }

  // The end, once every writer is dead. drain() takes what is left in the pipes; show() returns
  // when `page` can be written behind it; finish() when readers and disk have all of it. They run
  // the event loop, and wait for readers without a limit until hurry_until() sets one, and for a
  // disk as long as it goes on taking bytes.
  void drain();
  void show(const std::vector<std::string>& page);
  void finish();
  bool is_finishing() const { return finishing_; }
  // The readers get until then, or a second where that is over by the time of drain().
  void hurry_until(Clock::time_point deadline);
  // Why finish() has lost some of stdout: an errno value, ETIME where hurry_until() ended the wait;
  // 0: it has not.
  int lost() const { return lost_; }

 private:
  struct Part {
    int rank;
    Stream stream;
    std::unique_ptr<RankOutput> output;
  };
  // Since when a reader or a disk has taken nothing; set when that has been said.
  using Announced = std::optional<Clock::time_point>;

  static constexpr std::chrono::seconds kSilence{5};
  static constexpr std::chrono::seconds kTick{1};
  static constexpr std::chrono::seconds kDiskPatience{10};

  Sink& err() { return own_err_ ? *own_err_ : out_; }
  Sink& sink_of(Stream stream) { return stream == Stream::kOut ? out_ : err(); }
  std::string name_of(const Sink& sink) const;
  void on_log_broken(int rank, Stream stream);
  void tick();
  void watch_reader(Sink& sink, Announced& announced);
  void watch_disk();
  // To the log, and to a stream that `silent` is not.
  void say_beside(const Sink* silent, const std::string& line);
  // `sink`: null: any.
  std::vector<int> ranks_standing_still(RankOutput::HeldBy holder, const Sink* sink) const;
  bool is_wanted(const Sink& sink) const;
  void run_until(const std::function<bool()>& over);
  bool readers_are_given_up() const;
  bool disk_is_given_up() const;
  bool is_shown(const Sink& sink) const;
  void say_what_is_lost();

  boost::asio::io_context& io_;
  std::string log_dir_;
  std::string run_folder_;
  std::string folder_;
  std::function<void(int)> on_lost_;
  DiskThread disk_;
  Sink out_;
  std::unique_ptr<Sink> own_err_;  // null: stdout and stderr are one file, and one Sink
  std::unique_ptr<LogFile> own_log_;
  std::map<std::pair<int, Stream>, std::unique_ptr<LogFile>> unused_logs_;
  std::vector<Part> parts_;
  boost::asio::steady_timer timer_;
  Announced out_announced_, err_announced_, disk_announced_;
  std::set<int> broken_logs_;  // ranks
  bool finishing_ = false;
  std::optional<Clock::time_point> deadline_;
  Clock::time_point drained_;
  std::vector<std::string> page_;
  int lost_ = 0;
};

}  // namespace dl::launcher
