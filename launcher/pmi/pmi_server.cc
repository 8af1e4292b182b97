#include "launcher/pmi/pmi_server.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

namespace dl::launcher {

PmiServer::PmiServer(boost::asio::io_context& io, int size, const std::vector<int>& apps,
                     bool others_go_on, Events events)
    : io_(io),
      others_go_on_(others_go_on),
      events_(std::move(events)),
      space_(size, apps),
      timer_(io),
      gone_timer_(io) {
  connections_.resize(static_cast<std::size_t>(size));
}

MpiServer::Part PmiServer::add(int rank) {
  LineSocketEnds ends = make_line_socket();
  connections_.at(static_cast<std::size_t>(rank)) = std::make_unique<LineSocket>(
      io_, std::move(ends.ours), kLongestLine,
      LineSocket::Events{.on_line = [this, rank](std::string_view line) { take(rank, line); },
                         .on_closed =
                             [this, rank](bool is_line_too_long) {
                               if (is_line_too_long) {
                                 drop(rank, fmt::format("its line is longer than {} bytes",
                                                        kLongestLine));
                               } else if (ended_.contains(rank) && space_.is_in_mpi(rank)) {
                                 events_.on_left(rank);
                               }
                             }});
  return {.fd = std::move(ends.theirs), .environment = {}};
}

bool PmiServer::ended(int rank) {
  // More than MPI sends in its start: a process that the rank has left may go on for ever.
  constexpr int kMostReads = 64;
  for (int i = 0; i < kMostReads && of(rank).is_open() && of(rank).read(); ++i) {
  }
  ended_.insert(rank);
  // If the connection is open, a process that the rank has left behind is in MPI, or may be.
  const bool was_in_mpi = space_.is_in_mpi(rank) && !of(rank).is_open();
  if (others_go_on_) {
    if (!space_.has_begun(rank) || was_in_mpi) watch_gone(rank);
    send_all(space_.leave(rank).lines);
    watch_barrier();
  }
  return was_in_mpi;
}

void PmiServer::take(int rank, std::string_view line) {
  const PmiSpace::Answer answer = space_.answer(rank, line);
  send_all(answer.lines);
  if (!answer.fault.empty()) drop(rank, answer.fault);
  if (answer.abort_code) events_.on_abort(rank, *answer.abort_code);
  watch_barrier();
  events_.on_line();
}

std::map<int, rendezvous::Waiting> PmiServer::waits() const {
  const std::vector<int> awaited = space_.awaited();
  const auto gone =
      std::ranges::find_if(awaited, [this](int rank) { return ended_.contains(rank); });
  std::map<int, rendezvous::Waiting> waits;
  if (gone == awaited.end()) return waits;
  const char* const call = space_.has_begun(*gone) ? "MPI_Init or MPI_Finalize" : "MPI_Init";
  for (const int rank : space_.waiting()) waits[rank] = {*gone, call};
  return waits;
}

void PmiServer::send_all(const std::vector<PmiSpace::Line>& lines) {
  for (const PmiSpace::Line& one : lines) of(one.rank).send(one.text);
}

void PmiServer::drop(int rank, const std::string& why) {
  of(rank).close();
  events_.on_note(fmt::format("rank {} is not served as an MPI process any more: {}", rank, why));
}

void PmiServer::watch_barrier() {
  if (space_.waiting().empty()) {
    timer_.cancel();
    return;
  }
  timer_.expires_after(kSilence);
  timer_.async_wait([this](const boost::system::error_code& error) {
    if (error) return;
    events_.on_note(waits_in_mpi(space_.waiting(), space_.awaited(), kSilence));
  });
}

// MPICH also waits in memory that the ranks share, and says nothing about it.
void PmiServer::watch_gone(int gone) {
  if (gone_timer_.expiry() > boost::asio::steady_timer::clock_type::now()) return;
  gone_timer_.expires_after(kSilence);
  gone_timer_.async_wait([this, gone](const boost::system::error_code& error) {
    if (error) return;
    std::vector<int> in_mpi;
    bool may_come = false;
    for (int rank = 0; rank < static_cast<int>(connections_.size()); ++rank) {
      if (ended_.contains(rank)) continue;
      if (space_.is_in_mpi(rank)) in_mpi.push_back(rank);
      if (!space_.has_begun(rank)) may_come = true;
    }
    if (!in_mpi.empty()) {
      events_.on_note(
          fmt::format("MPI_Init and MPI_Finalize of {} may wait for rank {} without an "
                      "end: MPICH waits in its shared memory, which dlrun does not see",
                      rendezvous::rank_list(in_mpi), gone));
    } else if (may_come) {
      watch_gone(gone);
    }
  });
}

void PmiServer::finish(std::function<void()> done) {
  timer_.cancel();
  gone_timer_.cancel();
  for (const std::string& file : space_.shared_files()) ::unlink(file.c_str());
  done();
}

}  // namespace dl::launcher
