#include "collectives/tcp/wire/mesh.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "collectives/join/making_wait.h"
#include "collectives/join/roster.h"
#include "core/base/error.h"
#include "core/base/log/log.h"
#include "core/base/mutex.h"
#include "core/base/system/machine/limits.h"
#include "core/base/system/process/stopped.h"
#include "core/base/version.h"
#include "rendezvous/net/connect/acceptor.h"
#include "rendezvous/net/connect/connect.h"
#include "rendezvous/net/connect/race.h"

namespace dl::collectives::tcp {
namespace {

using rendezvous::Connection;
using rendezvous::Endpoint;

// Lanes to each peer. On one host two are as fast as four. A large group has many peers already.
constexpr int kLanes = 2;
constexpr int kLanesUpToRanks = 16;

// More addresses are rarely of use, and each is tried while a group is made.
constexpr std::size_t kMostAddresses = 8;

// The address from which packets to `route_to` go out. Nullopt: there is no route, or packets stay
// on this host, as those to a host's own name do on Debian (127.0.1.1).
std::optional<rendezvous::Address> address_towards(const GroupOptions& options) {
  if (options.route_to.empty()) return std::nullopt;
  watch_for_stops();
  const Deadline deadline = connect_deadline(options);
  for (const rendezvous::Address& to :
       rendezvous::resolve({.host = options.route_to, .port = 9}, deadline)) {
    try {
      const rendezvous::Address from = rendezvous::local_address_towards(to);
      if (!from.is_loopback()) return from;
    } catch (const Error&) {
      continue;
    }
  }
  return std::nullopt;
}

// Addresses at which others may reach this rank, best first.
std::vector<std::string> listen_hosts(const GroupOptions& options) {
  constexpr const char* kLoopback = "127.0.0.1";
  std::vector<std::string> hosts;
  if (options.key && !options.iface.empty()) {
    for (const rendezvous::Address& address : rendezvous::interface_addresses(options.iface)) {
      hosts.push_back(address.host());
    }
  } else if (options.key && options.leaves_host) {
    if (const auto best = address_towards(options)) hosts.push_back(best->host());
    for (const rendezvous::Address& address : rendezvous::host_addresses()) {
      const std::string host = address.host();
      if (std::ranges::find(hosts, host) == hosts.end()) hosts.push_back(host);
    }
  }
  // Several nodes may be on one host, which may have no other address.
  if (hosts.empty()) hosts.emplace_back(kLoopback);
  hosts.resize(std::min(hosts.size(), kMostAddresses));
  return hosts;
}

// Leaves out an address on which this rank cannot listen, such as an IPv6 address that is not ready
// yet.
std::vector<rendezvous::Listener> listen(const GroupOptions& options) {
  std::vector<rendezvous::Listener> listeners;
  std::exception_ptr first;
  for (const std::string& host : listen_hosts(options)) {
    try {
      listeners.push_back(rendezvous::Listener::bind({.host = host}));
    } catch (const Error&) {
      if (!first) first = std::current_exception();
    }
  }
  if (listeners.empty()) std::rethrow_exception(first);
  return listeners;
}

std::vector<Endpoint> ways_of(const Record& record) {
  std::vector<Endpoint> ways;
  std::string_view rest = record.address;
  while (!rest.empty()) {
    const std::string_view word = rest.substr(0, rest.find(' '));
    ways.push_back(Endpoint::parse(word));
    rest.remove_prefix(std::min(rest.size(), word.size() + 1));
  }
  return ways;
}

int lanes_of(const GroupOptions& options) {
  if (options.lanes > 0) return options.lanes;
  return options.size <= kLanesUpToRanks ? kLanes : 1;
}

std::string data_purpose(const GroupOptions& options, int lane) {
  return fmt::format("group/{}/data/{}", options.name, lane);
}

std::string side_purpose(const GroupOptions& options) {
  return fmt::format("group/{}/side", options.name);
}

// Purpose of a connection that only tests whether an address can be reached.
std::string way_purpose(const GroupOptions& options) {
  return fmt::format("group/{}/way", options.name);
}

// Traffic within a host passes no bottleneck link. A congestion control that estimates one and
// paces its sending (BBR) halves the speed.
void hurry_if_local(int fd) {
  if (rendezvous::local_address(fd).host() != rendezvous::peer_address(fd).host()) return;
  constexpr std::string_view kUnpaced = "reno";  // every Linux has it, for every user
  static_cast<void>(
      ::setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, kUnpaced.data(), kUnpaced.size()));
}

// Collects the connections that higher ranks make.
class Arrivals {
 public:
  Arrivals(const GroupOptions& options, Mesh& mesh) : options_(options), mesh_(mesh) {
    for (int lane = 0; lane < lanes_of(options); ++lane)
      data_.push_back(data_purpose(options, lane));
  }

  void add(Connection connection) {
    if (connection.peer.purpose == way_purpose(options_)) return;
    const int rank = connection.peer.rank;
    DL_CHECK(rank > options_.rank && rank < options_.size, kMismatch,
             "{} may not connect to rank {} of group '{}' of {}", connection.peer.from,
             options_.rank, options_.name, options_.size);
    const Lock lock(mutex_);
    Mesh::Peer& peer = mesh_.peers[static_cast<std::size_t>(rank)];
    UniqueFd* place = connection.peer.purpose == side_purpose(options_) ? &peer.side : nullptr;
    for (std::size_t lane = 0; lane < data_.size(); ++lane) {
      if (connection.peer.purpose == data_[lane]) place = &peer.data[lane];
    }
    DL_CHECK(place != nullptr, kMismatch, "{} connects for '{}', which group '{}' does not have",
             connection.peer.from, connection.peer.purpose, options_.name);
    DL_CHECK(!*place, kMismatch, "{} is connected already", connection.peer.from);
    *place = std::move(connection.fd);
    changed_.notify_all();
  }

  // The higher ranks that are still missing at the deadline.
  std::vector<int> wait(Deadline deadline) {
    Lock lock(mutex_);
    std::vector<int> missing;
    changed_.wait_until(lock.native(), deadline.when(), [&]() DL_REQUIRES(mutex_) {
      missing.clear();
      for (int r = options_.rank + 1; r < options_.size; ++r) {
        const Mesh::Peer& peer = mesh_.peers[static_cast<std::size_t>(r)];
        const bool all = std::ranges::all_of(peer.data, [](const UniqueFd& fd) { return !!fd; });
        if (!all || !peer.side) missing.push_back(r);
      }
      return missing.empty();
    });
    return missing;
  }

 private:
  const GroupOptions& options_;
  std::vector<std::string> data_;  // purposes
  Mutex mutex_;
  Mesh& mesh_ DL_GUARDED_BY(mutex_);
  std::condition_variable changed_;
};

// A rank that has exited refuses connections like one that does not listen yet, so check its
// process between tries.
Connection connect_to_peer(const GroupOptions& options, const Identity& who,
                           const Endpoint& endpoint, const rendezvous::Hello& hello,
                           const rendezvous::JobKey& key, Deadline deadline) {
  for (std::chrono::milliseconds turn = kAliveLook;; turn *= 2) {
    try {
      return rendezvous::connect_and_prove(endpoint, hello, key,
                                           Deadline::earlier(deadline, Deadline::after(turn)),
                                           {.acceptance = deadline});
    } catch (const Error& error) {
      check_still_making(options, who);
      if (error.kind() != ErrorKind::kTimeout || deadline.has_passed()) throw;
    }
  }
}

void check_node(const GroupOptions& options, const Identity& self, const Identity& theirs) {
  DL_CHECK(
      options.key || theirs.node == self.node, kInvalidArgument,
      "group '{}': {} is on another node than {}, and without a job key ranks talk over loopback "
      "only; start them with dlrun, or give all the same DLRUN_KEY_FILE",
      options.name, theirs.text(), self.text());
}

Plan plan_of_rank_0(const GroupOptions& options, const Record& theirs) {
  Plan plan = plan_of_line(theirs.plan, fmt::format("the plan of {}", theirs.who.text()));
  if (plan != options.plan) {
    log::warning("group '{}': this rank's plan '{}' differs from that of {}, '{}', which all use",
                 options.name, options.plan.name, theirs.who.text(), plan.name);
  }
  return plan;
}

}  // namespace

Mesh connect_mesh(const GroupOptions& options) {
  constexpr std::uint64_t kToListen = 4;
  const std::uint64_t peers = static_cast<std::uint64_t>(options.size) - 1;
  const std::uint64_t sockets = static_cast<std::uint64_t>(lanes_of(options)) + 1;
  require_open_files(peers * sockets + kToListen,
                     fmt::format("group '{}' of {} ranks", options.name, options.size));
  const Deadline deadline = connect_deadline(options);
  const rendezvous::JobKey key = options.key ? *options.key : open_key();
  const Identity self = this_process(options);
  const RosterOptions roster = roster_of(options, "group/" + options.name);

  Mesh mesh{.rank = options.rank,
            .plan = options.plan,
            .peers = std::vector<Mesh::Peer>(static_cast<std::size_t>(options.size))};
  const int lanes = lanes_of(options);
  for (int r = 0; r < options.size; ++r) {
    if (r != options.rank) {
      mesh.peers[static_cast<std::size_t>(r)].data.resize(static_cast<std::size_t>(lanes));
    }
  }
  const std::string purpose = "group/" + options.name;
  rendezvous::Hello hello{.job = options.job,
                          .generation = options.generation,
                          .purpose = purpose,
                          .from = self.text(),
                          .rank = options.rank};
  Arrivals arrivals(options, mesh);
  std::vector<std::unique_ptr<rendezvous::Acceptor>> acceptors;
  std::string addresses;
  for (rendezvous::Listener& listener : listen(options)) {
    auto acceptor = std::make_unique<rendezvous::Acceptor>(std::move(listener), key, hello,
                                                           static_cast<std::size_t>(options.size));
    acceptor->serve(purpose, options.generation,
                    [&arrivals](Connection connection) { arrivals.add(std::move(connection)); });
    acceptor->start();
    if (!addresses.empty()) addresses += ' ';
    addresses += acceptor->address().text();
    acceptors.push_back(std::move(acceptor));
  }
  const Record record{.version = kProtocolVersion,
                      .size = options.size,
                      .generation = options.generation,
                      .lanes = lanes,
                      .address = addresses,
                      .plan = to_line(options.plan),
                      .who = self};
  publish(roster, record, deadline);

  for (int r = 0; r < options.size; ++r) {
    Mesh::Peer& peer = mesh.peers[static_cast<std::size_t>(r)];
    if (r == options.rank) {
      peer.who = self;
      continue;
    }
    const Record theirs = await_record(roster, record, r, deadline);
    check_node(options, self, theirs.who);
    peer.who = theirs.who;
    if (r == 0) mesh.plan = plan_of_rank_0(options, theirs);
    if (r > options.rank) continue;
    const std::vector<Endpoint> ways = ways_of(theirs);
    hello.purpose = way_purpose(options);
    const Endpoint endpoint =
        ways.size() == 1
            ? ways.front()
            : rendezvous::find_way(ways, r, theirs.who.text(), hello, key, deadline,
                                   {.check = [&] { check_still_making(options, theirs.who); }});
    for (int lane = 0; lane <= lanes; ++lane) {
      const bool is_side = lane == lanes;
      hello.purpose = is_side ? side_purpose(options) : data_purpose(options, lane);
      Connection connection = connect_to_peer(options, theirs.who, endpoint, hello, key, deadline);
      DL_CHECK(connection.peer.rank == r, kMismatch,
               "group '{}': {} answered at {}, the address of rank {}", options.name,
               connection.peer.from, endpoint.text(), r);
      (is_side ? peer.side : peer.data[static_cast<std::size_t>(lane)]) = std::move(connection.fd);
    }
  }
  MakingWait wait(options, deadline, "connect");
  for (;;) {
    std::vector<const Identity*> missing;
    for (const int r : arrivals.wait(wait.until())) {
      missing.push_back(&mesh.peers[static_cast<std::size_t>(r)].who);
    }
    if (missing.empty()) break;
    wait.check(missing);
  }
  for (const auto& acceptor : acceptors) acceptor->forget(purpose);
  for (const Mesh::Peer& peer : mesh.peers) {
    if (!peer.side) continue;
    for (const UniqueFd& lane : peer.data) hurry_if_local(lane.get());
    hurry_if_local(peer.side.get());
  }
  return mesh;
}

}  // namespace dl::collectives::tcp
