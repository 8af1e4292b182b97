#include "collectives/shm/segment/links.h"

#include <poll.h>
#include <sys/resource.h>

#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <new>
#include <string>
#include <vector>

#include "collectives/join/making_wait.h"
#include "collectives/join/roster.h"
#include "collectives/shm/layout/layout.h"
#include "core/base/error.h"
#include "core/base/log/log.h"
#include "core/base/mutex.h"
#include "core/base/system/machine/limits.h"
#include "core/base/system/process/stopped.h"
#include "core/base/version.h"
#include "rendezvous/net/connect/acceptor.h"
#include "rendezvous/net/connect/connect.h"
#include "rendezvous/net/socket/local_socket.h"

namespace dl::collectives::shm {
namespace {

using rendezvous::Connection;

// Collects the connections that higher ranks make.
class Arrivals {
 public:
  Arrivals(const GroupOptions& options, Links& links) : options_(options), links_(links) {}

  void add(Connection connection) {
    rendezvous::check_same_user(connection.fd.get());
    const int rank = connection.peer.rank;
    DL_CHECK(rank > options_.rank && rank < options_.size, kMismatch,
             "{} may not connect to rank {} of group '{}' of {}", connection.peer.from,
             options_.rank, options_.name, options_.size);
    const Lock lock(mutex_);
    Links::Peer& peer = links_.peers[static_cast<std::size_t>(rank)];
    DL_CHECK(!peer.socket, kMismatch, "{} is connected already", connection.peer.from);
    peer.socket = std::move(connection.fd);
    changed_.notify_all();
  }

  // The higher ranks that are still missing at the deadline.
  std::vector<int> wait(Deadline deadline) {
    Lock lock(mutex_);
    std::vector<int> missing;
    changed_.wait_until(lock.native(), deadline.when(), [&]() DL_REQUIRES(mutex_) {
      missing.clear();
      for (int r = options_.rank + 1; r < options_.size; ++r) {
        if (!links_.peers[static_cast<std::size_t>(r)].socket) missing.push_back(r);
      }
      return missing.empty();
    });
    return missing;
  }

 private:
  const GroupOptions& options_;
  Mutex mutex_;
  Links& links_ DL_GUARDED_BY(mutex_);
  std::condition_variable changed_;
};

Segment make_own(const GroupOptions& options, bool is_oversubscribed) {
  Segment segment =
      options.segment ? options.segment->take(options.name) : Segment::make(kSegmentBytes);
  auto* const block = new (segment.data()) Block();
  block->is_oversubscribed = is_oversubscribed;
  block->cpu.store(-1, std::memory_order_relaxed);
  return segment;
}

Connection connect_to_peer(const GroupOptions& options, const Record& theirs,
                           const rendezvous::Hello& hello, const rendezvous::JobKey& key,
                           Deadline deadline) {
  try {
    return rendezvous::connect_local_and_prove(theirs.address, hello, key, deadline);
  } catch (const Error&) {
    check_still_making(options, theirs.who);  // its error says more
    throw;
  }
}

void send_segment(const GroupOptions& options, const Links::Peer& peer, int fd) {
  const Note note{.kind = Note::Kind::kSegment, .number = kProtocolVersion};
  DL_CHECK(rendezvous::send_passing(peer.socket.get(), std::as_bytes(std::span(&note, 1)), fd),
           kConnection, "group '{}': cannot pass a descriptor to {}: {}", options.name,
           peer.who.text(), std::strerror(errno));
}

Segment receive_segment(const GroupOptions& options, const Links::Peer& peer, Deadline deadline) {
  MakingWait wait(options, deadline, "share its memory");
  for (;;) {
    Note note;
    rendezvous::Received received =
        rendezvous::receive_passing(peer.socket.get(), std::as_writable_bytes(std::span(&note, 1)));
    DL_CHECK(!received.ended, kConnection,
             "group '{}': {} ended before it shared its memory; its own output may say why",
             options.name, peer.who.text());
    DL_CHECK(!received.lost_passed, kIo, "{}",
             text_of_lost_descriptor(options.name, peer.who, this_process(options)));
    if (received.bytes > 0) {
      DL_CHECK(received.bytes == sizeof note && note.kind == Note::Kind::kSegment &&
                   note.number == kProtocolVersion && received.passed,
               kMismatch,
               "group '{}': {} sent no segment of this version; install the same dlrun "
               "everywhere",
               options.name, peer.who.text());
      return Segment::map(std::move(received.passed), kSegmentBytes);
    }
    wait.check(peer.who);
    pollfd entry{.fd = peer.socket.get(), .events = POLLIN, .revents = 0};
    ::poll(&entry, 1, wait.until().poll_timeout());
  }
}

}  // namespace

std::string text_of_lost_descriptor(const std::string& group, const Identity& from,
                                    const Identity& self) {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  return fmt::format(
      "group '{}': a descriptor from {} did not arrive at {}, which has reached its limit of {} "
      "open "
      "files; raise the limit (ulimit -n)",
      group, from.text(), self.text(), limit.rlim_cur);
}

Links connect_links(const GroupOptions& options, bool is_oversubscribed) {
  watch_for_stops();
  // To listen and to accept, this rank's memory, one that arrives, and a connection to each peer.
  require_open_files(static_cast<std::uint64_t>(options.size - 1) + 5,
                     fmt::format("group '{}' of {} ranks", options.name, options.size));
  const Deadline deadline = connect_deadline(options);
  const rendezvous::JobKey key = options.key ? *options.key : open_key();
  const Identity self = this_process(options);
  const std::string purpose = "shm/" + options.name;
  const rendezvous::Hello hello{.job = options.job,
                                .generation = options.generation,
                                .purpose = purpose,
                                .from = self.text(),
                                .rank = options.rank};
  Links links{.rank = options.rank,
              .peers = std::vector<Links::Peer>(static_cast<std::size_t>(options.size))};
  Links::Peer& own = links.peers[static_cast<std::size_t>(options.rank)];
  own.who = self;
  own.segment = make_own(options, is_oversubscribed);

  Arrivals arrivals(options, links);
  rendezvous::Listener listener = rendezvous::listen_local();
  const std::string address = rendezvous::local_name(listener.fd());
  rendezvous::Acceptor acceptor(std::move(listener), key, hello,
                                static_cast<std::size_t>(options.size));
  acceptor.serve(purpose, options.generation,
                 [&arrivals](Connection connection) { arrivals.add(std::move(connection)); });
  acceptor.start();
  const RosterOptions roster = roster_of(options, purpose);
  const Record record{.version = kProtocolVersion,
                      .size = options.size,
                      .generation = options.generation,
                      .address = address,
                      .who = self};
  publish(roster, record, deadline);

  for (int r = 0; r < options.size; ++r) {
    if (r == options.rank) continue;
    Links::Peer& peer = links.peers[static_cast<std::size_t>(r)];
    const Record theirs = await_record(roster, record, r, deadline);
    peer.who = theirs.who;
    DL_CHECK(peer.who.node == self.node, kConnection,
             "group '{}': {} is on another node than {}; memory is shared within a node only, use "
             "the backend tcp",
             options.name, peer.who.text(), self.text());
    if (r > options.rank) continue;
    Connection connection = connect_to_peer(options, theirs, hello, key, deadline);
    DL_CHECK(connection.peer.rank == r, kMismatch,
             "group '{}': {} answered at the address of rank {}", options.name,
             connection.peer.from, r);
    peer.socket = std::move(connection.fd);
  }
  MakingWait wait(options, deadline, "connect");
  for (;;) {
    std::vector<const Identity*> missing;
    for (const int r : arrivals.wait(wait.until())) {
      missing.push_back(&links.peers[static_cast<std::size_t>(r)].who);
    }
    if (missing.empty()) break;
    wait.check(missing);
  }
  acceptor.forget(purpose);

  for (const Links::Peer& peer : links.peers) {
    if (peer.socket) send_segment(options, peer, own.segment.fd());
  }
  for (Links::Peer& peer : links.peers) {
    if (peer.socket) peer.segment = receive_segment(options, peer, deadline);
  }
  own.segment.close_fd();
  return links;
}

}  // namespace dl::collectives::shm
