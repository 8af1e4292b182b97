// RankLifeline: the agent's end of a rank's lifeline (rendezvous/net/lifeline.h).
//
// One thread; io_context must outlive it. It must not be destroyed inside its own callback.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <functional>

#include "core/base/system/unique_fd.h"
#include "rendezvous/first_cause/peer_failures.h"
#include "rendezvous/net/lifeline.h"

namespace dl::launcher {

class RankLifeline {
 public:
  // `on_waiting` is called when the rank reports for which rank it waits.
  RankLifeline(boost::asio::io_context& io, UniqueFd end,
               std::function<void(const rendezvous::Waiting&)> on_waiting);
  RankLifeline(const RankLifeline&) = delete;
  RankLifeline& operator=(const RankLifeline&) = delete;

  // To be called when the rank has ended: takes its last reports, and closes.
  void close();
  // The failures that the rank has reported.
  const rendezvous::PeerFailures& failures() const { return failures_; }

 private:
  void wait();
  void on_readable();
  void read();

  boost::asio::posix::stream_descriptor end_;
  std::function<void(const rendezvous::Waiting&)> on_waiting_;
  rendezvous::PeerFailures failures_;
  bool closed_ = false;
};

}  // namespace dl::launcher
