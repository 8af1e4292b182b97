// PmiServer: serves PMI-1 to the ranks of one node, each over an inherited socket of its own
// (PMI_FD). MPI_Init of MPICH and its relatives then knows rank and size, and finds the other
// ranks.
//
// One thread; io_context must outlive it. It must not be destroyed inside one of its callbacks.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/base/system/unique_fd.h"
#include "launcher/pmi/pmi_space.h"
#include "rendezvous/first_cause/first_cause.h"

namespace dl::launcher {

class PmiServer {
 public:
  struct Events {
    // A sentence for the user, for example about a wait of more than kSilence in MPI_Init.
    std::function<void(const std::string&)> on_note;
    // The rank has called MPI_Abort, and waits for its end.
    std::function<void(int rank, int exit_code)> on_abort;
    // A rank has said something; waits() may have changed.
    std::function<void()> on_line;
  };
  PmiServer(boost::asio::io_context& io, int size, Events events);
  PmiServer(const PmiServer&) = delete;
  PmiServer& operator=(const PmiServer&) = delete;

  // Returns the rank's end of a new connection. Throws kIo.
  UniqueFd add(int rank);
  // Takes what the rank has sent before it ended. `others_go_on`: no barrier waits for it any more.
  void ended(int rank, bool others_go_on);

  // The ranks that wait in the start or the end of MPI for a rank for which `is_gone` returns true,
  // each with that rank and the name of the call. Such a wait has no end.
  std::map<int, rendezvous::Waiting> waits(const std::function<bool(int rank)>& is_gone) const;

 private:
  static constexpr std::chrono::seconds kSilence{5};
  static constexpr std::size_t kLongestLine = 4096;

  struct Connection {
    explicit Connection(boost::asio::io_context& io) : socket(io) {}
    boost::asio::posix::stream_descriptor socket;
    std::string unread;
    std::string unsent;
    bool writes = false;
  };

  void wait_for_lines(int rank);
  // Returns false if there is nothing to read, or the connection is closed.
  bool read(int rank);
  void take(int rank, std::string_view line);
  void send_all(const std::vector<PmiSpace::Line>& lines);
  void send(int rank, std::string_view text);
  void write(int rank);
  void drop(int rank, const std::string& why);
  void watch_barrier();
  Connection& of(int rank) { return *connections_.at(static_cast<std::size_t>(rank)); }

  boost::asio::io_context& io_;
  Events events_;
  PmiSpace space_;
  std::vector<std::unique_ptr<Connection>> connections_;
  boost::asio::steady_timer timer_;
};

}  // namespace dl::launcher
