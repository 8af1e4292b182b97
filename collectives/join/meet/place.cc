#include "collectives/join/meet/place.h"

#include <fcntl.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <utility>

#include "collectives/join/meet/absent.h"
#include "collectives/join/meet/unique_id.h"
#include "collectives/join/meet/watch.h"
#include "collectives/join/roster.h"
#include "collectives/process/peer_process.h"
#include "core/base/error.h"
#include "core/base/log/log.h"
#include "rendezvous/net/connect/race.h"
#include "rendezvous/net/handshake/proving.h"
#include "rendezvous/net/patience.h"
#include "rendezvous/net/socket/local_socket.h"

namespace dl::collectives::meet {
namespace {

using rendezvous::Connection;
using rendezvous::JobKey;
using rendezvous::Listener;

// Before another try, if a host has too many handshakes at a time.
constexpr std::chrono::milliseconds kPause{2};

std::string_view take_word(std::string_view& text) {
  const std::string_view word = text.substr(0, text.find(' '));
  text.remove_prefix(std::min(text.size(), word.size() + 1));
  return word;
}

template <typename Number>
Number number_of(std::string_view word) {
  Number number{};
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  DL_CHECK(error == std::errc() && end == word.data() + word.size(), kParse,
           "reform: '{}' came, wanted a number", word);
  return number;
}

// Nullopt if the rank listens no more, or `gone_fd` becomes readable.
std::optional<Connection> dial_local(const std::string& name, const ExchangeOptions& options,
                                     int gone_fd, Deadline deadline) {
  for (;;) {
    UniqueFd fd;
    try {
      fd = rendezvous::connect_local(name, deadline);
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::kConnection) return std::nullopt;
      throw;
    }
    rendezvous::check_same_user(fd.get());
    rendezvous::Proving proving(std::move(fd), options.key, options.hello);
    while (const short events = proving.go_on()) {
      DL_CHECK(!deadline.has_passed(), kTimeout, "it does not answer");
      pollfd entries[] = {{proving.fd(), events, 0}, {gone_fd, POLLIN, 0}};
      if (::poll(entries, 2, deadline.poll_timeout()) > 0 && entries[1].revents != 0) {
        return std::nullopt;
      }
    }
    if (proving.is_proved()) return Connection{proving.release(), proving.peer(), "@" + name};
    if (!proving.may_retry()) throw Error(proving.kind(), proving.reason());
    ::poll(nullptr, 0, Deadline::earlier(deadline, Deadline::after(kPause)).poll_timeout());
  }
}

Listener duplicate(const Listener& listener) {
  UniqueFd fd(::fcntl(listener.fd(), F_DUPFD_CLOEXEC, 0));
  if (!fd) throw_errno(errno, "duplicate a listener");
  return Listener::from_fd(std::move(fd));
}

}  // namespace

Place::Place(const std::optional<JobKey>& key, const std::string& iface)
    : key_(key ? *key : open_key()), local_(rendezvous::listen_local()) {
  local_name_ = "@" + rendezvous::local_name(local_->fd());
  if (!key) return;
  Reachable reachable;
  try {
    reachable = listen_for_hosts(iface);
  } catch (const Error&) {
    return;  // ranks on one host need no port; others say why they have none
  }
  for (const rendezvous::Address& address : reachable.addresses) {
    hosts_names_ += hosts_names_.empty() ? "" : " ";
    hosts_names_ +=
        rendezvous::Endpoint{.host = address.host(), .port = reachable.listener->port()}.text();
  }
  hosts_.emplace(std::move(*reachable.listener));
}

std::string Place::address() const {
  if (!hosts_) return local_name_;
  return local_ ? fmt::format("{} {}", local_name_, hosts_names_) : hosts_names_;
}

void Place::settle(const std::string& group, rendezvous::Hello hello, std::vector<Member> members,
                   int self, bool leaves_host) {
  group_ = group;
  hello_ = std::move(hello);
  hello_.purpose = "reform/" + group;
  members_ = std::move(members);
  seat_ = self;
  seats_ = static_cast<int>(members_.size());
  hello_.rank = seat_;
  (leaves_host ? local_ : hosts_).reset();
  // Half of each place listens no more.
  for (Member& member : members_) {
    const std::size_t local_size = std::min(member.address.find(' '), member.address.size());
    const std::size_t hosts_begin = std::min(local_size + 1, member.address.size());
    member.address =
        leaves_host ? member.address.substr(hosts_begin) : member.address.substr(0, local_size);
  }
}

ExchangeOptions Place::exchange_options(std::chrono::nanoseconds timeout) const {
  ExchangeOptions options{.group = group_,
                          .rank = seat_,
                          .size = seats_,
                          .timeout = timeout,
                          .names = std::vector<std::string>(static_cast<std::size_t>(seats_)),
                          .job_ranks = std::vector<int>(static_cast<std::size_t>(seats_), -1),
                          .hint = "a rank that is not known to be dead must call reform() too",
                          .key = key_,
                          .hello = hello_};
  for (const Member& member : members_) {
    const auto seat = static_cast<std::size_t>(member.seat);
    options.names[seat] = member.who.text();
    options.job_ranks[seat] = member.who.in_job();
  }
  return options;
}

Place::Agreed Place::enter(const std::string& line) {
  std::string_view rest = line;
  const auto generation = number_of<std::uint64_t>(take_word(rest));
  Agreed agreed{.exchange = nullptr,
                .key = JobKey::from_hex(std::string(take_word(rest))),
                .generation = generation};
  std::vector<Member> members;
  agreed.rank = -1;
  while (!rest.empty()) {
    const int seat = number_of<int>(take_word(rest));
    const auto found = std::ranges::find(members_, seat, &Member::seat);
    DL_CHECK(found != members_.end(), kMismatch,
             "reform of group '{}': the others count rank {}, which this rank took for dead",
             group_, seat);
    if (seat == seat_) agreed.rank = static_cast<int>(members.size());
    members.push_back(*found);
  }
  DL_CHECK(agreed.rank >= 0 && generation > generation_, kMismatch,
           "reform of group '{}': the others went on without this rank", group_);
  agreed.size = static_cast<int>(members.size());
  members_ = std::move(members);
  generation_ = generation;
  return agreed;
}

std::optional<Connection> Place::dial(const Member& member, const ExchangeOptions& options,
                                      Deadline deadline) const {
  const Ways ways = ways_of(member.address);
  if (has_ended(member.who)) return std::nullopt;
  const UniqueFd process = watch_process(member.who);
  try {
    if (!ways.local.empty()) return dial_local(ways.local, options, process.get(), deadline);
    rendezvous::Way way = rendezvous::connect_by_a_way(
        ways.hosts, member.seat, member.who.text(), options.hello, options.key, deadline,
        {.has_listened = true, .gone_fd = process.get()});
    return std::move(way.connection);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kTimeout) {
      throw late_error(options, {member.seat});
    }
    const bool is_gone =
        error.kind() == ErrorKind::kConnection || error.kind() == ErrorKind::kPeerFailed;
    if (is_gone) return std::nullopt;
    throw;
  }
}

std::optional<Place::Agreed> Place::join(const Member& member, std::chrono::nanoseconds timeout,
                                         Deadline deadline) {
  const ExchangeOptions options = exchange_options(timeout);
  for (;;) {
    std::optional<Connection> connection = dial(member, options, deadline);
    if (!connection) return std::nullopt;
    auto guest =
        std::make_unique<Guest>(options, std::move(*connection), watch_process(member.who));
    try {
      const auto table = guest->all_gather(std::to_string(generation_), deadline);
      Agreed agreed = enter(table.front());
      guest->renumber(agreed.rank, agreed.size);
      agreed.exchange = std::move(guest);
      return agreed;
    } catch (const Error&) {
      // If the host lives, its call has failed, and it may call again.
      if (!guest->is_host_gone()) throw;
    }
  }
}

Place::Agreed Place::host(std::chrono::nanoseconds timeout, Deadline deadline) {
  std::vector<Listener> listeners;
  for (const auto& listener : {std::cref(local_), std::cref(hosts_)}) {
    if (listener.get()) listeners.push_back(duplicate(*listener.get()));
  }
  auto host = std::make_unique<Host>(exchange_options(timeout), std::move(listeners));
  for (int seat = 0; seat < seats_; ++seat) {
    if (std::ranges::find(members_, seat, &Member::seat) == members_.end()) host->excuse(seat);
  }
  std::vector<std::unique_ptr<Watch>> watches(members_.size());
  rendezvous::Patience patience;
  for (;;) {
    std::vector<std::pair<Watch*, std::size_t>> watched;  // and its first entry
    std::vector<pollfd> entries;
    for (std::size_t i = 0; i < members_.size(); ++i) {
      const Member& member = members_[i];
      if (member.seat == seat_ || host->line_of(member.seat)) continue;
      if (!watches[i]) watches[i] = std::make_unique<Watch>(member.who, member.address);
      if (watches[i]->is_gone()) {
        host->excuse(member.seat);
        continue;
      }
      watched.emplace_back(watches[i].get(), entries.size());
      watches[i]->add_to(entries);
    }
    if (watched.empty()) break;
    if (deadline.has_passed()) {
      const GroupError late = late_error(host->options(), host->missing());
      host->fail(late.cause());
      throw late;
    }
    if (patience.should_warn()) {
      log::warning("reform of group '{}': {} s waiting for {}", group_, patience.waited().count(),
                   host->missing_text());
    }
    host->step(entries, patience.until(deadline));  // a guest that has left may come again
    for (const auto& [watch, first] : watched) watch->react(std::span(entries).subspan(first));
  }
  std::uint64_t newest = generation_;
  std::vector<int> seats;
  for (const Member& member : members_) {
    const std::optional<std::string>& line = host->line_of(member.seat);
    if (line) newest = std::max(newest, number_of<std::uint64_t>(*line));
    if (line || member.seat == seat_) seats.push_back(member.seat);
  }
  std::string table = fmt::format("{} {}", newest + 1, JobKey::generate().hex());
  for (const int seat : seats) table += fmt::format(" {}", seat);
  host->publish({table}, deadline);
  host->narrow(seats);
  Agreed agreed = enter(table);
  agreed.exchange = std::move(host);
  return agreed;
}

Place::Agreed Place::agree(std::chrono::nanoseconds timeout, Deadline deadline) {
  const std::vector<Member> candidates = members_;  // in order of their seats
  for (const Member& member : candidates) {
    DL_CHECK(!member.address.empty(), kNotImplemented,
             "reform of group '{}': {} has no place at which other hosts find it; ranks on several "
             "hosts need a key, and an interface that exists",
             group_, member.who.text());
  }
  for (const Member& member : candidates) {
    if (member.seat == seat_) break;
    if (std::optional<Agreed> agreed = join(member, timeout, deadline)) return std::move(*agreed);
  }
  return host(timeout, deadline);
}

}  // namespace dl::collectives::meet
