// JobOutput: all that the frontend shows of a job. It owns dlrun's stdout and stderr, and writes
// the lines of each rank and dlrun's own sentences to them.
//
// Nothing here waits for a reader or a disk before the end. A reader that takes nothing for some
// seconds is reported on the other stream, and in the log.
//
// One thread; DiskThread and io_context must outlive it.
#pragma once

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "launcher/output/frame.h"
#include "launcher/output/job/last_wait.h"
#include "launcher/output/job/own_streams.h"
#include "launcher/output/job/reader_watch.h"
#include "launcher/output/job/shown_lines.h"
#include "launcher/output/logs/disk_thread.h"
#include "launcher/output/node_output.h"

namespace dl::launcher {

class JobOutput : public FrameTaker {
 public:
  using Clock = std::chrono::steady_clock;

  // `look` is called for a rank's stream when its first bytes come. `on_lost` is called if stdout
  // or stderr cannot be written any more.
  JobOutput(boost::asio::io_context& io, DiskThread& disk,
            std::function<LineLook(const StreamId&)> look, std::function<void(LostStream)> on_lost);

  // The node whose streams come here. It tells which ranks wait for a reader, and its log gets
  // dlrun's sentences. Null: no node any more.
  void show_node(NodeOutput* node);

  bool has_room(Stream stream) const override { return !streams_.of(stream).is_full(); }
  void when_room(Stream stream, std::function<void()> ready) override {
    streams_.of(stream).when_room(std::move(ready));
  }
  void take(const Frame& frame) override { lines_.take(frame); }

  // Shows a line of dlrun itself, given without "dlrun: " and the end of line.
  void say(const std::string& line);

  // As in ReaderWatch.
  std::vector<std::string> who_stands_still() const { return watch_.who_stands_still(); }

  const Sink& out() const { return streams_.out(); }

  // Writes the lines only to the node's log.
  void log(const std::vector<std::string>& lines);

  // The end, once the node's streams are drained. show() returns when `page` can be written after
  // them. finish() returns when readers and disk have everything. Both run the event loop. They
  // wait for readers without a limit until set_reader_deadline() sets one, and for a disk as long
  // as it takes bytes.
  void begin_finish();
  void show(const std::vector<std::string>& page);
  void finish();
  // To be called after finish().
  void say_last(const std::string& line);
  bool is_finishing() const { return wait_.has_begun(); }
  // As in LastWait, which begins with begin_finish().
  void set_reader_deadline(Clock::time_point deadline) { wait_.set_reader_deadline(deadline); }
  // The first stream of which finish() has lost bytes. The error is ETIME if set_reader_deadline()
  // ended the wait.
  const std::optional<LostStream>& lost() const { return lost_; }

 private:
  void on_broken(LostStream lost);
  // Writes to the log and to stderr, or to stdout if stderr is broken; never to `silent`.
  void say_beside(const Sink* silent, const std::string& line);
  bool has_logs() const { return node_ != nullptr && node_->has_logs(); }
  std::uint64_t behind(const Sink& sink) const;
  void run_until(const std::function<bool()>& over);
  bool is_shown(const Sink& sink) const;
  bool has_taken_all(const Sink& sink) const;
  void wait_for_sinks();
  std::string where_the_lost_are() const;
  void say_what_is_lost();

  boost::asio::io_context& io_;
  DiskThread& disk_;
  std::function<void(LostStream)> on_lost_;
  OwnStreams streams_;
  ShownLines lines_;
  ReaderWatch watch_;
  LastWait wait_;
  NodeOutput* node_ = nullptr;
  std::vector<std::string> page_;
  std::optional<LostStream> lost_;
};

}  // namespace dl::launcher
