#include "collectives/tcp/mesh.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <condition_variable>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "collectives/tcp/tcp_group.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/version.h"
#include "rendezvous/net/acceptor.h"
#include "rendezvous/net/connect.h"
#include "rendezvous/net/patience.h"

namespace dl::collectives::tcp {
namespace {

using rendezvous::Connection;
using rendezvous::Endpoint;

// On one host two are as fast as four; a large group has many peers already.
constexpr int kLanes = 2;
constexpr int kLanesUpToRanks = 16;

// The key of a group that has none: no secret, but the same handshake with its checks.
rendezvous::JobKey open_key() {
  return rendezvous::JobKey::from_hex(std::string(2 * rendezvous::JobKey::kBytes, '0'));
}

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "localhost";
}

// What a rank writes into the store, one "name=value" a line.
struct Record {
  std::uint32_t version = kProtocolVersion;
  int size = 0;
  std::uint64_t generation = 0;
  int lanes = 0;
  std::string address{};
  Identity who{};

  std::string text() const {
    return fmt::format(
        "version={}\nsize={}\ngeneration={}\nlanes={}\naddress={}\nhost={}\npid={}\nnode={}\n",
        version, size, generation, lanes, address, who.host, who.pid, who.node);
  }
};

template <typename Number>
void read_number(std::string_view value, Number& number) {
  std::from_chars(value.data(), value.data() + value.size(), number);
}

// A later version may write more; what it has in common is enough to refuse it by name.
Record parse_record(std::string_view text, int rank) {
  Record record;
  record.version = 0;
  record.who.rank = rank;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    const std::size_t equals = line.find('=');
    if (equals == std::string_view::npos) continue;
    const std::string_view name = line.substr(0, equals);
    const std::string_view value = line.substr(equals + 1);
    if (name == "version") read_number(value, record.version);
    if (name == "size") read_number(value, record.size);
    if (name == "generation") read_number(value, record.generation);
    if (name == "lanes") read_number(value, record.lanes);
    if (name == "address") record.address = value;
    if (name == "host") record.who.host = value;
    if (name == "pid") read_number(value, record.who.pid);
    if (name == "node") record.who.node = value;
  }
  return record;
}

std::string listen_host(const TcpGroupOptions& options) {
  if (!options.key) return "127.0.0.1";
  if (!options.iface.empty()) return rendezvous::interface_addresses(options.iface).front().host();
  if (options.route_to.empty()) return "127.0.0.1";
  const Deadline deadline = Deadline::after(options.connect_timeout);
  const Endpoint towards{.host = options.route_to, .port = 9};
  return rendezvous::local_address_towards(rendezvous::resolve(towards, deadline).front()).host();
}

int lanes_of(const TcpGroupOptions& options) {
  if (options.lanes > 0) return options.lanes;
  return options.size <= kLanesUpToRanks ? kLanes : 1;
}

std::string data_purpose(const TcpGroupOptions& options, int lane) {
  return fmt::format("group/{}/data/{}", options.name, lane);
}

std::string side_purpose(const TcpGroupOptions& options) {
  return fmt::format("group/{}/side", options.name);
}

// Bytes to this host itself meet no narrow link. A congestion control that measures one and paces
// what it sends (BBR) makes them half as fast.
void hurry_if_local(int fd) {
  if (rendezvous::local_address(fd).host() != rendezvous::peer_address(fd).host()) return;
  constexpr std::string_view kUnpaced = "reno";  // every Linux has it, for every user
  static_cast<void>(
      ::setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, kUnpaced.data(), kUnpaced.size()));
}

// Collects the connections that ranks above this one make.
class Arrivals {
 public:
  Arrivals(const TcpGroupOptions& options, Mesh& mesh) : options_(options), mesh_(mesh) {
    for (int lane = 0; lane < lanes_of(options); ++lane)
      data_.push_back(data_purpose(options, lane));
  }

  void add(Connection connection) {
    const int rank = connection.peer.rank;
    DL_CHECK(rank > options_.rank && rank < options_.size, kMismatch,
             "{} may not connect to rank {} of group '{}' of {}", connection.peer.from,
             options_.rank, options_.name, options_.size);
    const std::lock_guard lock(mutex_);
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

  // The ranks above that are still missing at the deadline.
  std::vector<int> wait(Deadline deadline) {
    std::unique_lock lock(mutex_);
    std::vector<int> missing;
    changed_.wait_until(lock, deadline.when(), [&] {
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
  const TcpGroupOptions& options_;
  Mesh& mesh_;
  std::vector<std::string> data_;  // purposes
  std::mutex mutex_;
  std::condition_variable changed_;
};

std::string key_of(const TcpGroupOptions& options, int rank) {
  return fmt::format("group/{}/{}", options.name, rank);
}

// Waits for a rank's record, and says for whom it waits.
Record await_record(const TcpGroupOptions& options, int rank, Deadline deadline) {
  rendezvous::Patience patience;
  for (;;) {
    const Deadline until = patience.until(deadline);
    try {
      return parse_record(options.store->get(key_of(options, rank), until), rank);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kTimeout) throw;
      DL_CHECK(!deadline.has_passed(), kTimeout,
               "group '{}': rank {} of {} has not come within {} s; is it started, with the same "
               "world size and the same store?",
               options.name, rank, options.size,
               std::chrono::duration_cast<std::chrono::seconds>(options.connect_timeout).count());
    }
    if (patience.should_speak()) {
      log::warning("group '{}': {} s waiting for rank {} of {} to come", options.name,
                   patience.waited().count(), rank, options.size);
    }
  }
}

void check_record(const TcpGroupOptions& options, const Identity& self, const Record& theirs) {
  const std::string them = theirs.who.text();
  DL_CHECK(
      theirs.version == kProtocolVersion, kMismatch,
      "group '{}': {} speaks protocol version {}, {} speaks {}; install the same dlrun everywhere",
      options.name, them, theirs.version, self.text(), kProtocolVersion);
  DL_CHECK(theirs.size == options.size, kMismatch,
           "group '{}': {} has a world size of {}, {} has {}; start all ranks with the same number",
           options.name, them, theirs.size, self.text(), options.size);
  DL_CHECK(theirs.generation == options.generation, kMismatch,
           "group '{}': {} belongs to generation {}, {} to {}", options.name, them,
           theirs.generation, self.text(), options.generation);
  DL_CHECK(theirs.lanes == lanes_of(options), kMismatch,
           "group '{}': {} wants {} sockets a peer for data, {} wants {}", options.name, them,
           theirs.lanes, self.text(), lanes_of(options));
  DL_CHECK(
      options.key || theirs.who.node == self.node, kInvalidArgument,
      "group '{}': {} is on another node than {}, and without a job key ranks talk over loopback "
      "only; start them with dlrun, or give all the same DLRUN_KEY_FILE",
      options.name, them, self.text());
}

}  // namespace

Mesh connect_mesh(const TcpGroupOptions& options) {
  const Deadline deadline = Deadline::after(options.connect_timeout);
  const rendezvous::JobKey key = options.key ? *options.key : open_key();
  Identity self{.rank = options.rank, .host = host_name(), .pid = static_cast<int>(::getpid())};
  self.node = options.node.empty() ? self.host : options.node;

  Mesh mesh{.rank = options.rank,
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
  rendezvous::Acceptor acceptor(rendezvous::Listener::bind({.host = listen_host(options)}), key,
                                hello);
  acceptor.serve(purpose, options.generation,
                 [&arrivals](Connection connection) { arrivals.add(std::move(connection)); });
  acceptor.start();
  const Record record{.size = options.size,
                      .generation = options.generation,
                      .lanes = lanes,
                      .address = acceptor.address().text(),
                      .who = self};
  options.store->set(key_of(options, options.rank), record.text(), deadline);

  for (int r = 0; r < options.size; ++r) {
    Mesh::Peer& peer = mesh.peers[static_cast<std::size_t>(r)];
    if (r == options.rank) {
      peer.who = self;
      continue;
    }
    const Record theirs = await_record(options, r, deadline);
    check_record(options, self, theirs);
    peer.who = theirs.who;
    if (r > options.rank) continue;
    const Endpoint endpoint = Endpoint::parse(theirs.address);
    for (int lane = 0; lane <= lanes; ++lane) {
      const bool is_side = lane == lanes;
      hello.purpose = is_side ? side_purpose(options) : data_purpose(options, lane);
      Connection connection = rendezvous::connect_and_prove(endpoint, hello, key, deadline);
      DL_CHECK(connection.peer.rank == r, kMismatch,
               "group '{}': {} answered at {}, where rank {} was said to be", options.name,
               connection.peer.from, theirs.address, r);
      (is_side ? peer.side : peer.data[static_cast<std::size_t>(lane)]) = std::move(connection.fd);
    }
  }
  rendezvous::Patience patience;
  for (;;) {
    const std::vector<int> missing = arrivals.wait(patience.until(deadline));
    if (missing.empty()) break;
    const Identity& first = mesh.peers[static_cast<std::size_t>(missing.front())].who;
    DL_CHECK(!deadline.has_passed(), kTimeout,
             "group '{}': {} did not connect within {} s ({} ranks missing)", options.name,
             first.text(),
             std::chrono::duration_cast<std::chrono::seconds>(options.connect_timeout).count(),
             missing.size());
    if (patience.should_speak()) {
      log::warning("group '{}': {} s waiting for {} to connect ({} ranks missing)", options.name,
                   patience.waited().count(), first.text(), missing.size());
    }
  }
  acceptor.forget(purpose);
  for (const Mesh::Peer& peer : mesh.peers) {
    if (!peer.side) continue;
    for (const UniqueFd& lane : peer.data) hurry_if_local(lane.get());
    hurry_if_local(peer.side.get());
  }
  return mesh;
}

}  // namespace dl::collectives::tcp
