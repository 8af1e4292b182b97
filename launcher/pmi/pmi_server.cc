#include "launcher/pmi/pmi_server.h"

#include <fmt/core.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <cerrno>

#include "core/base/error.h"

namespace dl::launcher {

PmiServer::PmiServer(boost::asio::io_context& io, int size, Events events)
    : io_(io), events_(std::move(events)), space_(size), timer_(io) {
  connections_.resize(static_cast<std::size_t>(size));
}

UniqueFd PmiServer::add(int rank) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    throw_errno(errno, "socketpair");
  }
  UniqueFd theirs(ends[1]);
  auto connection = std::make_unique<Connection>(io_);
  connection->socket.assign(ends[0]);
  connection->socket.non_blocking(true);
  connections_.at(static_cast<std::size_t>(rank)) = std::move(connection);
  wait_for_lines(rank);
  return theirs;
}

void PmiServer::wait_for_lines(int rank) {
  of(rank).socket.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                             [this, rank](const boost::system::error_code& error) {
                               if (error) return;
                               read(rank);
                               if (of(rank).socket.is_open()) wait_for_lines(rank);
                             });
}

void PmiServer::ended(int rank, bool others_go_on) {
  // More than MPI sends in its start: a process that the rank has left may go on for ever.
  constexpr int kMostReads = 64;
  for (int i = 0; i < kMostReads && of(rank).socket.is_open() && read(rank); ++i) {
  }
  if (!others_go_on) return;
  send_all(space_.leave(rank).lines);
  watch_barrier();
}

bool PmiServer::read(int rank) {
  Connection& from = of(rank);
  char bytes[4096];
  boost::system::error_code error;
  const std::size_t n = from.socket.read_some(boost::asio::buffer(bytes), error);
  if (error == boost::asio::error::would_block) return false;
  if (error) {  // the rank has ended, or has closed it
    from.socket.close();
    return false;
  }
  from.unread.append(bytes, n);
  std::size_t begin = 0;
  for (std::size_t end = 0; (end = from.unread.find('\n', begin)) != std::string::npos;
       begin = end + 1) {
    take(rank, std::string_view(from.unread).substr(begin, end - begin));
    if (!from.socket.is_open()) return false;
  }
  from.unread.erase(0, begin);
  if (from.unread.size() > kLongestLine) {
    drop(rank, fmt::format("its line is longer than {} bytes", kLongestLine));
    return false;
  }
  return true;
}

void PmiServer::take(int rank, std::string_view line) {
  const PmiSpace::Answer answer = space_.answer(rank, line);
  send_all(answer.lines);
  if (!answer.fault.empty()) drop(rank, answer.fault);
  if (answer.abort_code) events_.on_abort(rank, *answer.abort_code);
  watch_barrier();
  events_.on_line();
}

std::map<int, rendezvous::Waiting> PmiServer::waits(
    const std::function<bool(int rank)>& is_gone) const {
  const std::vector<int> awaited = space_.awaited();
  const auto gone = std::ranges::find_if(awaited, is_gone);
  std::map<int, rendezvous::Waiting> waits;
  if (gone == awaited.end()) return waits;
  const char* const call = space_.has_begun(*gone) ? "MPI_Init or MPI_Finalize" : "MPI_Init";
  for (const int rank : space_.waiting()) waits[rank] = {*gone, call};
  return waits;
}

void PmiServer::send_all(const std::vector<PmiSpace::Line>& lines) {
  for (const PmiSpace::Line& one : lines) send(one.rank, one.text);
}

void PmiServer::send(int rank, std::string_view text) {
  Connection& to = of(rank);
  if (!to.socket.is_open()) return;
  to.unsent += text;
  if (!to.writes) write(rank);
}

void PmiServer::write(int rank) {
  Connection& to = of(rank);
  boost::system::error_code error;
  const std::size_t n = to.socket.write_some(boost::asio::buffer(to.unsent), error);
  if (error && error != boost::asio::error::would_block) {
    to.socket.close();
    return;
  }
  to.unsent.erase(0, n);
  to.writes = !to.unsent.empty();
  if (!to.writes) return;
  to.socket.async_wait(boost::asio::posix::stream_descriptor::wait_write,
                       [this, rank](const boost::system::error_code& failed) {
                         if (!failed) write(rank);
                       });
}

void PmiServer::drop(int rank, const std::string& why) {
  of(rank).socket.close();
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
    const std::vector<int> waiting = space_.waiting();
    events_.on_note(fmt::format("{} {} in MPI's start or end for {}, after {} s",
                                rendezvous::rank_list(waiting),
                                waiting.size() == 1 ? "waits" : "wait",
                                rendezvous::rank_list(space_.awaited()), kSilence.count()));
  });
}

}  // namespace dl::launcher
