// ReaderWatch: reports readers of dlrun's streams that take nothing, and which ranks stand still
// because of them.
//
// One thread; all constructor arguments must outlive it.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "launcher/output/job/own_streams.h"
#include "launcher/output/node_output.h"

namespace dl::launcher {

class ReaderWatch {
 public:
  using Clock = std::chrono::steady_clock;
  // How often it looks.
  static constexpr std::chrono::seconds kTick{1};

  // `say` gets a sentence, and the Sink on which it must not be shown.
  ReaderWatch(boost::asio::io_context& io, const OwnStreams& streams,
              std::function<void(const Sink* silent, const std::string& line)> say);

  // The node whose ranks write to the streams; null: no node any more.
  void show_node(const NodeOutput* node) { node_ = node; }
  // From now on dlrun's own end needs every stream.
  void begin_finish() { finishing_ = true; }

  // A sentence for each reader or disk that makes ranks stand still.
  std::vector<std::string> who_stands_still() const;

 private:
  void tick();
  void watch(const Sink& sink);
  std::string what_follows(const Sink& sink) const;
  std::vector<int> ranks_standing_still(const Sink& sink) const;
  bool is_wanted(const Sink& sink) const;

  const OwnStreams& streams_;
  std::function<void(const Sink*, const std::string&)> say_;
  const NodeOutput* node_ = nullptr;
  boost::asio::steady_timer timer_;
  // Since when a reader has taken nothing, once this was reported.
  std::map<const Sink*, Clock::time_point> announced_;
  bool finishing_ = false;
};

}  // namespace dl::launcher
