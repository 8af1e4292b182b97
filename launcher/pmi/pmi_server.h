// PmiServer: serves PMI-1 to the ranks of one node, each over an inherited socket of its own
// (PMI_FD). MPI_Init of MPICH and its relatives then knows rank and size, and finds the other
// ranks.
//
// The io_context must outlive it.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "core/base/system/unique_fd.h"
#include "launcher/pmi/lines/line_socket.h"
#include "launcher/pmi/mpi_server.h"
#include "launcher/pmi/pmi_space.h"
#include "rendezvous/first_cause/first_cause.h"

namespace dl::launcher {

class PmiServer : public MpiServer {
 public:
  // A job on one node; `size` and `apps` as in PmiSpace. `others_go_on`: when a rank fails.
  PmiServer(boost::asio::io_context& io, int size, const std::vector<int>& apps, bool others_go_on,
            Events events);
  PmiServer(const PmiServer&) = delete;
  PmiServer& operator=(const PmiServer&) = delete;

  void when_ready(std::function<void()> start) override { start(); }
  Part add(int rank) override;
  bool ended(int rank) override;
  std::map<int, rendezvous::Waiting> waits() const override;
  void finish(std::function<void()> done) override;

 private:
  static constexpr std::chrono::seconds kSilence{5};
  static constexpr std::size_t kLongestLine = 4096;

  void take(int rank, std::string_view line);
  void send_all(const std::vector<PmiSpace::Line>& lines);
  void drop(int rank, const std::string& why);
  void watch_barrier();
  void watch_gone(int rank);
  LineSocket& of(int rank) { return *connections_.at(static_cast<std::size_t>(rank)); }

  boost::asio::io_context& io_;
  bool others_go_on_;
  Events events_;
  PmiSpace space_;
  std::set<int> ended_;
  std::vector<std::unique_ptr<LineSocket>> connections_;
  boost::asio::steady_timer timer_;
  boost::asio::steady_timer gone_timer_;
};

}  // namespace dl::launcher
