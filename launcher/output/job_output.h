// JobOutput: all that the front shows of a job. It owns dlrun's stdout and stderr, and writes the
// lines of each rank and dlrun's own sentences to them.
//
// Nothing here waits for a reader or a disk. A reader that takes nothing for kSilence is reported
// on the other stream, and in the log.
//
// One thread; DiskThread and io_context must outlive it.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcher/output/frame.h"
#include "launcher/output/lines/rank_lines.h"
#include "launcher/output/logs/disk_thread.h"
#include "launcher/output/node_output.h"
#include "launcher/output/sink.h"

namespace dl::launcher {

// One of dlrun's own streams that cannot be written any more.
struct LostStream {
  Stream stream = Stream::kOut;
  int error = 0;  // an errno value
};

class JobOutput : public FrameTaker {
 public:
  using Clock = std::chrono::steady_clock;

  // `look` is called for a rank's stream when its first bytes come. `on_lost` is called if stdout
  // or stderr cannot be written any more.
  JobOutput(boost::asio::io_context& io, DiskThread& disk,
            std::function<LineLook(const StreamId&)> look, std::function<void(LostStream)> on_lost);

  // The node whose streams come here. It tells which ranks wait for a reader, and its log gets
  // dlrun's sentences. Null: no node any more.
  void show_node(NodeOutput* node) { node_ = node; }

  bool has_room(Stream stream) const override { return !sink_of(stream).is_full(); }
  void when_room(Stream stream, std::function<void()> ready) override {
    sink_of(stream).when_room(std::move(ready));
  }
  void take(const Frame& frame) override;

  // Shows a line of dlrun itself, given without "dlrun: " and the end of line.
  void say(const std::string& line);

  // A sentence for each reader or disk that makes ranks stand still.
  std::vector<std::string> who_stands_still() const;

  const Sink& out() const { return out_; }

  // Writes the lines only to the node's log.
  void log(const std::vector<std::string>& lines);

  // The end, once the node's streams are drained. show() returns when `page` can be written after
  // them. finish() returns when readers and disk have everything. Both run the event loop. They
  // wait for readers without a limit until hurry_until() sets one, and for a disk as long as it
  // takes bytes.
  void begin_finish();
  void show(const std::vector<std::string>& page);
  void finish();
  // To be called after finish().
  void say_last(const std::string& line);
  bool is_finishing() const { return finishing_; }
  // Sets the deadline for the readers. If it has passed by the time of begin_finish(), they get a
  // second.
  void hurry_until(Clock::time_point deadline);
  // The first stream of which finish() has lost bytes. The error is ETIME if hurry_until() ended
  // the wait.
  const std::optional<LostStream>& lost() const { return lost_; }

 private:
  // Since when a reader has taken nothing; set once this was reported.
  using Announced = std::optional<Clock::time_point>;

  static constexpr std::chrono::seconds kSilence{5};
  static constexpr std::chrono::seconds kTick{1};
  static constexpr std::chrono::seconds kDiskPatience{10};

  void watch_rests();
  void on_broken(LostStream lost);
  Sink& err() { return own_err_ ? *own_err_ : out_; }
  const Sink& err() const { return own_err_ ? *own_err_ : out_; }
  const Sink& sink_of(Stream stream) const {
    return stream == Stream::kOut || !own_err_ ? out_ : *own_err_;
  }
  Sink& sink_of(Stream stream) { return stream == Stream::kOut ? out_ : err(); }
  std::vector<Stream> streams_of(const Sink& sink) const;
  std::string name_of(const Sink& sink) const;
  bool has_logs() const { return node_ != nullptr && node_->has_logs(); }
  void tick();
  void watch_reader(Sink& sink, Announced& announced);
  // Writes to the log and to stderr, or to stdout if stderr is broken; never to `silent`.
  void say_beside(const Sink* silent, const std::string& line);
  std::vector<int> ranks_standing_still(const Sink& sink) const;
  std::uint64_t behind(const Sink& sink) const;
  bool is_wanted(const Sink& sink) const;
  void run_until(const std::function<bool()>& over);
  bool readers_are_given_up() const;
  bool disk_is_given_up() const;
  bool is_shown(const Sink& sink) const;
  bool has_taken_all(const Sink& sink) const;
  void wait_for_sinks();
  std::string where_the_lost_are() const;
  void say_what_is_lost();

  boost::asio::io_context& io_;
  DiskThread& disk_;
  std::function<LineLook(const StreamId&)> look_;
  std::function<void(LostStream)> on_lost_;
  Sink out_;
  std::unique_ptr<Sink> own_err_;  // null: stdout and stderr are one file, and one Sink
  NodeOutput* node_ = nullptr;
  std::map<StreamId, RankLines> lines_;  // of streams that have not ended
  boost::asio::steady_timer rests_timer_;
  bool rests_are_watched_ = false;
  boost::asio::steady_timer timer_;
  Announced out_announced_, err_announced_;
  bool finishing_ = false;
  std::optional<Clock::time_point> deadline_;
  Clock::time_point finish_began_;
  std::vector<std::string> page_;
  std::optional<LostStream> lost_;
};

}  // namespace dl::launcher
