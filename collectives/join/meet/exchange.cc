#include "collectives/join/meet/exchange.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "collectives/call/descriptor.h"
#include "collectives/join/making_wait.h"
#include "collectives/join/meet/absent.h"
#include "core/base/error.h"
#include "core/base/log/log.h"
#include "rendezvous/net/patience.h"
#include "rendezvous/net/socket/local_socket.h"
#include "rendezvous/net/socket/socket.h"
#include "rendezvous/net/wire.h"

namespace dl::collectives::meet {
namespace {

using rendezvous::WireReader;
using rendezvous::WireWriter;

// How long a host may take to say who is missing, or to read a frame.
constexpr std::chrono::seconds kAnswerTime{2};
// How long a host that has found a mismatch waits for the ranks that have not come. Once it has
// ended, they could not learn why.
constexpr std::chrono::seconds kMismatchGrace{1};

// Before the line in its frame: round, size, rank in the job, and the group's name with its length.
constexpr std::size_t kMostBefore = 16 + 256;

std::string text_of(std::span<const std::uint8_t> body) {
  return {body.begin(), body.end()};
}

std::span<const std::uint8_t> bytes_of(std::string_view text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

bool is_local(int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  return ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0 &&
         address.ss_family == AF_UNIX;
}

Cause cause_in_frame(const Frame& failure) {
  std::optional<Cause> cause = rendezvous::decode_cause(text_of(failure.body));
  DL_CHECK(cause, kParse, "the other side of an exchange sent a failure that is none");
  return std::move(*cause);
}

// True if the other side has closed the connection and sent nothing before.
bool is_over(int fd) {
  char byte = 0;
  const ssize_t n = ::recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
}

bool is_there(const FrameSocket* socket) {
  return socket != nullptr && !socket->has_ended() && !is_over(socket->fd());
}

// What came before the host did. Ranks that have given up meanwhile are no strangers, which an
// acceptor would log.
std::vector<rendezvous::Listener::Accepted> take_waiting(rendezvous::Listener& listener) {
  std::vector<rendezvous::Listener::Accepted> waiting;
  while (auto accepted = listener.accept()) {
    if (!is_over(accepted->fd.get())) waiting.push_back(std::move(*accepted));
  }
  return waiting;
}

// The longest table: a line of every rank, with its length.
std::size_t longest_table(int size) {
  return 8 + static_cast<std::size_t>(size) * (kLongestLine + 4);
}

std::vector<std::string> lines_of(std::span<const std::uint8_t> body, std::uint32_t round,
                                  int size) {
  WireReader reader(body);
  const auto its_round = reader.take<std::uint32_t>();
  const auto count = reader.take<std::uint32_t>();
  // The host may go on with fewer ranks than came.
  const bool fits = its_round == round && count > 0 && count <= static_cast<std::uint32_t>(size);
  std::vector<std::string> lines;
  for (std::uint32_t i = 0; fits && i < count; ++i) {
    const auto line = reader.take_bytes(reader.take<std::uint32_t>());
    lines.emplace_back(line.begin(), line.end());
  }
  DL_CHECK(fits && reader.ok_and_done(), kParse,
           "the host of an exchange sent a table that is none of round {}", round);
  return lines;
}

}  // namespace

Host::Host(ExchangeOptions options, std::vector<rendezvous::Listener> listeners)
    : options_(std::move(options)), guests_(static_cast<std::size_t>(options_.size)) {
  for (rendezvous::Listener& listener : listeners) {
    std::vector<rendezvous::Listener::Accepted> waiting = take_waiting(listener);
    auto acceptor = std::make_unique<rendezvous::Acceptor>(
        std::move(listener), options_.key, options_.hello, static_cast<std::size_t>(options_.size));
    acceptor->serve(options_.hello.purpose, options_.hello.generation,
                    [this](rendezvous::Connection connection) { add(std::move(connection)); });
    for (auto& accepted : waiting) acceptor->adopt(std::move(accepted));
    acceptors_.push_back(std::move(acceptor));
  }
}

void Host::add(rendezvous::Connection connection) {
  if (is_local(connection.fd.get())) rendezvous::check_same_user(connection.fd.get());
  const int rank = connection.peer.rank;
  auto socket = std::make_unique<FrameSocket>(std::move(connection.fd), kLongestLine + kMostBefore);
  const auto refuse = [&](const std::string& text) {
    const Cause cause{.kind = ErrorKind::kMismatch,
                      .blame = Blame::kMismatch,
                      .found_by = job_rank_of(options_, options_.rank),
                      .text = text};
    socket->send(Frame::Type::kFailure, bytes_of(encode(cause, kLongestLine)),
                 Deadline::after(kAnswerTime));
  };
  if (rank < 0 || rank >= options_.size) {
    return refuse(fmt::format("group '{}': {} is no other rank of the {} ranks that {} expects",
                              options_.group, connection.peer.from, options_.size,
                              options_.hello.from));
  }
  Seat& guest = guests_[static_cast<std::size_t>(rank)];
  // A guest that has left may come again.
  const bool is_free = rank != options_.rank && !is_there(guest.socket.get());
  const bool has_rival = guest.rival && is_there(guest.rival->socket.get());
  if (!is_free && (round_ > 0 || has_rival)) {
    const std::string& first = rank == options_.rank ? options_.hello.from : guest.from;
    return refuse(twice_text(options_.group, rank, first, connection.peer.from));
  }
  Seat come{.socket = std::move(socket), .from = connection.peer.from, .line = std::nullopt};
  if (is_free) {
    come.rival = std::move(guest.rival);
    guest = std::move(come);
  } else {
    guest.rival = std::make_unique<Seat>(std::move(come));
  }
}

void Host::look_at_rival(int rank) {
  Seat& first = guests_[static_cast<std::size_t>(rank)];
  if (!first.rival) return;
  const bool is_own = rank == options_.rank;
  if (!is_own && !is_there(first.socket.get())) {
    first = std::move(*std::unique_ptr<Seat>(std::move(first.rival)));
    return;
  }
  Seat& rival = *first.rival;
  if (!read(rank, rival).empty()) {
    first.rival.reset();
    return;
  }
  if (!rival.line || (!is_own && !first.line)) return;
  throw GroupError({.kind = ErrorKind::kMismatch,
                    .blame = Blame::kMismatch,
                    .rank = rival.in_job,
                    .found_by = is_own ? job_rank_of(options_, rank) : first.in_job,
                    .text = twice_text(options_.group, rank,
                                       is_own ? options_.hello.from : first.from, rival.from)});
}

std::string Host::read(int number, Seat& guest) {
  while (const std::optional<Frame> frame = guest.socket->next()) {
    WireReader reader(frame->body);
    if (frame->type == Frame::Type::kQuestion) {
      const Absent absent = absent_of(options_, missing());
      WireWriter body;
      body.put(static_cast<std::int32_t>(absent.first));
      body.put(static_cast<std::uint32_t>(absent.count));
      body.put_bytes(bytes_of(absent.list));
      guest.socket->send(Frame::Type::kMissing, body.bytes(), Deadline::after(kAnswerTime));
      continue;
    }
    if (frame->type == Frame::Type::kFailure) {
      guest.said = cause_in_frame(*frame);
      return guest.said->text;
    }
    const auto round = reader.take<std::uint32_t>();
    const auto size = reader.take<std::uint32_t>();
    const auto said_in_job = reader.take<std::int32_t>();
    const std::string group = text_of(reader.take_bytes(reader.take<std::uint32_t>()));
    const auto line = reader.take_rest();
    if (frame->type != Frame::Type::kLine || !reader.ok_and_done() || round != round_ ||
        guest.line) {
      return "it sent a frame that does not belong here";
    }
    guest.line.emplace(line.begin(), line.end());
    guest.in_job = said_in_job;
    const auto rank = static_cast<std::size_t>(number);
    if (rank < options_.job_ranks.size() && options_.job_ranks[rank] < 0 &&
        number != options_.rank) {
      options_.job_ranks[rank] = said_in_job;
    }
    const int in_job = job_rank_of(options_, number);
    if (size != static_cast<std::uint32_t>(options_.size)) {
      throw_mismatch(in_job,
                     "group '{}': {} has a world size of {}, {} has {}; start all ranks with the "
                     "same number",
                     options_.group, guest.from, size, options_.hello.from, options_.size);
    }
    if (group != options_.group) {
      throw_mismatch(in_job,
                     "group '{}': {} calls it '{}'; give the group the same name on all ranks",
                     options_.group, guest.from, group);
    }
  }
  return guest.socket->has_ended() ? "its connection has ended" : "";
}

std::vector<Host::Lost> Host::step(std::span<pollfd> others, Deadline until) {
  std::vector<pollfd> polled(others.begin(), others.end());
  for (const auto& acceptor : acceptors_) polled.push_back({acceptor->poll_fd(), POLLIN, 0});
  for (const Seat& guest : guests_) {
    polled.push_back({guest.socket ? guest.socket->fd() : -1, POLLIN, 0});
    if (guest.rival) polled.push_back({guest.rival->socket->fd(), POLLIN, 0});
  }
  if (::poll(polled.data(), polled.size(), until.poll_timeout()) < 0) {
    if (errno != EINTR) throw_errno(errno, "poll");
    for (pollfd& entry : others) entry.revents = 0;
    return {};
  }
  std::copy_n(polled.begin(), others.size(), others.begin());
  const auto* entry = polled.data() + others.size();
  for (const auto& acceptor : acceptors_) {
    if ((entry++)->revents != 0) acceptor->process();
  }
  std::vector<Lost> lost = std::exchange(lost_, {});
  for (int rank = 0; rank < options_.size; ++rank) {
    Seat& guest = guests_[static_cast<std::size_t>(rank)];
    look_at_rival(rank);
    // Also a guest that has come just now.
    if (!guest.socket) continue;
    std::string why;
    try {
      why = read(rank, guest);
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::kMismatch) throw;
      why = error.what();
    }
    if (why.empty()) continue;
    lost.push_back({rank, fmt::format("{}: {}", guest.from, why), std::move(guest.said)});
    Seat left;
    left.has_left = true;
    left.rival = std::move(guest.rival);
    guest = std::move(left);
  }
  return lost;
}

std::vector<int> Host::missing() const {
  std::vector<int> absent;
  std::vector<int> left;
  for (int rank = 0; rank < options_.size; ++rank) {
    if (rank == options_.rank || at(rank).line || at(rank).is_excused) continue;
    (at(rank).has_left ? left : absent).push_back(rank);
  }
  return absent.empty() ? left : absent;
}

std::string Host::missing_text() const {
  return absent_of(options_, missing()).list;
}

void Host::publish(const std::vector<std::string>& lines, Deadline deadline) {
  WireWriter table;
  table.put(round_);
  table.put(static_cast<std::uint32_t>(lines.size()));
  for (const std::string& line : lines) {
    table.put(static_cast<std::uint32_t>(line.size()));
    table.put_bytes(bytes_of(line));
  }
  ++round_;
  for (Seat& guest : guests_) {
    guest.line.reset();
    if (guest.socket) guest.socket->send(Frame::Type::kTable, table.bytes(), deadline);
  }
}

void Host::fail(Cause cause) noexcept {
  try {
    if (cause.found_by < 0) cause.found_by = job_rank_of(options_, options_.rank);
    const std::string body = encode(cause, kLongestLine);
    for (std::size_t i = guests_.size(); i-- > 0;) {
      if (guests_[i].rival) guests_.push_back(std::move(*guests_[i].rival));
    }
    for (Seat& guest : guests_) {
      if (!guest.socket) continue;
      guest.socket->send(Frame::Type::kFailure, bytes_of(body), Deadline::after(kAnswerTime));
      ::shutdown(guest.socket->fd(), SHUT_WR);
    }
    // A connection that is closed before all has been read from it takes the failure along.
    const Deadline until = Deadline::after(kAnswerTime);
    for (Seat& guest : guests_) {
      while (guest.socket && !guest.socket->has_ended() && !until.has_passed()) {
        rendezvous::poll_one(guest.socket->fd(), POLLIN, until, -1);
        while (guest.socket->next()) {
        }
      }
      guest = {};
    }
  } catch (const std::exception& error) {
    log::warning("group '{}': the other ranks are not told why it is not made: {}", options_.group,
                 error.what());
  }
}

void Host::narrow(const std::vector<int>& ranks) {
  std::vector<Seat> kept;
  std::vector<std::string> names;
  std::vector<int> job_ranks;
  int self = -1;
  for (const int rank : ranks) {
    const auto i = static_cast<std::size_t>(rank);
    if (rank == options_.rank) self = static_cast<int>(kept.size());
    Seat& seat = guests_[i];
    kept.push_back({std::move(seat.socket), std::move(seat.from), std::move(seat.line)});
    if (i < options_.names.size()) names.push_back(std::move(options_.names[i]));
    if (i < options_.job_ranks.size()) job_ranks.push_back(options_.job_ranks[i]);
  }
  guests_ = std::move(kept);
  options_.rank = self;
  options_.size = static_cast<int>(guests_.size());
  options_.names = std::move(names);
  options_.job_ranks = std::move(job_ranks);
  for (const auto& acceptor : acceptors_) acceptor->forget(options_.hello.purpose);
}

void Host::throw_if_lost(const std::vector<Lost>& lost) const {
  if (lost.empty()) return;
  if (lost.front().said) throw GroupError(*lost.front().said);
  throw_blaming(job_rank_of(options_, lost.front().rank), Blame::kGone, ErrorKind::kPeerFailed,
                "group '{}': {} before the group was made; its own output may say why",
                options_.group, lost.front().why);
}

void Host::check() {
  try {
    throw_if_lost(step({}, Deadline::after({})));
  } catch (const Error&) {
    fail(cause_of(std::current_exception()));
    throw;
  }
}

std::vector<std::string> Host::all_gather(std::string_view line, Deadline deadline) {
  rendezvous::Patience patience;
  ToldWait told(options_.group);
  std::optional<Cause> mismatch;
  Deadline grace = Deadline::never();
  try {
    for (;;) {
      const std::vector<int> absent = missing();
      if (mismatch && (absent.empty() || grace.has_passed())) throw GroupError(*mismatch);
      if (absent.empty()) break;
      if (deadline.has_passed()) throw late_error(options_, absent);
      if (patience.should_warn()) {
        log::warning("group '{}': {} s waiting for {} to come", options_.group,
                     patience.waited().count(), missing_text());
      }
      Deadline until = Deadline::earlier(patience.until(deadline), grace);
      const int in_job = options_.tells_dlrun ? job_rank_of(options_, absent.front()) : -1;
      told.tell(in_job);
      if (in_job >= 0) until = Deadline::earlier(until, told.at());
      try {
        throw_if_lost(step({}, until));
      } catch (const GroupError& error) {
        if (error.kind() != ErrorKind::kMismatch) throw;
        if (mismatch) continue;
        mismatch = error.cause();
        grace = Deadline::earlier(deadline, Deadline::after(kMismatchGrace));
      }
    }
  } catch (const Error&) {
    fail(cause_of(std::current_exception()));
    throw;
  }
  std::vector<std::string> lines;
  for (int rank = 0; rank < options_.size; ++rank) {
    lines.push_back(rank == options_.rank ? std::string(line) : *at(rank).line);
  }
  publish(lines, deadline);
  return lines;
}

Guest::Guest(ExchangeOptions options, rendezvous::Connection host, UniqueFd gone_fd)
    : options_(std::move(options)),
      socket_(std::move(host.fd), std::max(longest_table(options_.size), 2 * kLongestLine)),
      host_(host.peer.from),
      host_in_job_(job_rank_of(options_, host.peer.rank)),
      gone_fd_(std::move(gone_fd)) {}

void Guest::lose_host() {
  is_host_gone_ = true;
  throw_blaming(host_in_job_, Blame::kGone, ErrorKind::kPeerFailed,
                "group '{}': {}, which collects the ranks' records, is gone before the group was "
                "made; its own output may say why",
                options_.group, host_);
}

void Guest::check() {
  while (const std::optional<Frame> frame = socket_.next()) {
    if (frame->type == Frame::Type::kFailure) throw GroupError(cause_in_frame(*frame));
  }
  pollfd entry{gone_fd_.get(), POLLIN, 0};
  if (socket_.has_ended() || ::poll(&entry, 1, 0) > 0) lose_host();
}

void Guest::give_up(const GroupError& error) {
  Cause cause = error.cause();
  cause.found_by = job_rank_of(options_, options_.rank);
  socket_.send(Frame::Type::kFailure, bytes_of(encode(cause, kLongestLine)),
               Deadline::after(kAnswerTime));
  throw error;
}

void Guest::ask(Deadline deadline) {
  if (!socket_.send(Frame::Type::kQuestion, {}, deadline)) lose_host();
}

std::vector<std::string> Guest::all_gather(std::string_view line, Deadline deadline) {
  DL_CHECK(line.size() <= kLongestLine, kInvalidArgument,
           "group '{}': a record of {} bytes, wanted at most {}", options_.group, line.size(),
           kLongestLine);
  WireWriter body;
  body.put(round_);
  body.put(static_cast<std::uint32_t>(options_.size));
  body.put(static_cast<std::int32_t>(job_rank_of(options_, options_.rank)));
  body.put(static_cast<std::uint32_t>(options_.group.size()));
  body.put_bytes(bytes_of(options_.group));
  body.put_bytes(bytes_of(line));
  if (!socket_.send(Frame::Type::kLine, body.bytes(), deadline)) lose_host();
  rendezvous::Patience patience;
  bool is_to_warn = false;
  int unanswered = 0;  // questions; only the answer to the last one ends the wait
  ToldWait told(options_.group);
  bool has_asked_to_tell = !options_.tells_dlrun;
  std::optional<Deadline> last;  // for the answer to the question who is missing
  for (;;) {
    while (const std::optional<Frame> frame = socket_.next()) {
      if (frame->type == Frame::Type::kFailure) throw GroupError(cause_in_frame(*frame));
      if (frame->type == Frame::Type::kTable) {
        std::vector<std::string> lines = lines_of(frame->body, round_, options_.size);
        ++round_;
        return lines;
      }
      if (frame->type != Frame::Type::kMissing) continue;
      --unanswered;
      WireReader reader(frame->body);
      Absent absent;
      absent.first = reader.take<std::int32_t>();
      absent.count = reader.take<std::uint32_t>();
      absent.list = text_of(reader.take_rest());
      if (absent.count == 0) continue;
      if (last && unanswered == 0) give_up(late_error(options_, absent));
      if (options_.tells_dlrun) told.tell(absent.first);
      if (!std::exchange(is_to_warn, false)) continue;
      log::warning("group '{}': {} s waiting for {} to come", options_.group,
                   patience.waited().count(), absent.list);
    }
    if (socket_.has_ended()) lose_host();
    if (last) {
      if (last->has_passed()) {
        throw_blaming(host_in_job_, Blame::kMissing, ErrorKind::kTimeout,
                      "group '{}': {} has come, but did not continue within {} s; is it stopped?",
                      options_.group, host_, seconds_text(options_.timeout));
      }
    } else if (deadline.has_passed()) {
      last = Deadline::after(kAnswerTime);
      ++unanswered;
      ask(*last);
    } else if (patience.should_warn()) {
      is_to_warn = true;
      ++unanswered;
      ask(deadline);
    } else if (!has_asked_to_tell && told.is_due()) {
      has_asked_to_tell = true;
      ++unanswered;
      ask(deadline);
    }
    pollfd entries[] = {{socket_.fd(), POLLIN, 0}, {gone_fd_.get(), POLLIN, 0}};
    Deadline until = last ? *last : patience.until(deadline);
    if (!has_asked_to_tell && !last) until = Deadline::earlier(until, told.at());
    if (::poll(entries, 2, until.poll_timeout()) > 0 && entries[0].revents == 0) lose_host();
  }
}

}  // namespace dl::collectives::meet
