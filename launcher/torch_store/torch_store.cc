#include "launcher/torch_store/torch_store.h"

#include <fmt/core.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <string_view>
#include <utility>

#include "core/base/error.h"

namespace dl::launcher {
namespace {

using boost::asio::posix::stream_descriptor;
using boost::system::error_code;

constexpr std::size_t kPiece = std::size_t{64}
                               << 10;  // read at one time, so that no client keeps others waiting
constexpr int kMostAccepts = 64;
// A client that owes this many bytes of answers is not read from.
constexpr std::size_t kMostUnsent = std::size_t{1} << 20;
constexpr int kMostSentences = 10;
constexpr std::chrono::milliseconds kPause{100};

}  // namespace

struct TorchStore::Connection {
  Connection(boost::asio::io_context& io, UniqueFd fd, const rendezvous::Address& address,
             TorchClient number)
      : socket(io, fd.release()), peer(address), id(number) {}

  stream_descriptor socket;
  rendezvous::Address peer;
  TorchClient id;
  QueryReader reader;
  std::size_t counted = 0;  // of reader.held(), in unread_
  std::string unsent;
  std::size_t sent = 0;  // of unsent
  bool waits_to_write = false;

  std::size_t owes() const { return unsent.size() - sent; }
};

std::size_t connections_for(int world_size) {
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0) throw_errno(errno, "getrlimit(RLIMIT_NOFILE)");
  // A rank has one connection, and one more for each clone() (NCCL's watchdog has some).
  const std::size_t wanted = 64 + 16 * static_cast<std::size_t>(world_size);
  return std::min<std::size_t>(wanted, std::max<rlim_t>(16, files.rlim_cur / 2));
}

TorchStore::Door::Door(boost::asio::io_context& io, rendezvous::Listener at)
    : listener(std::move(at)), events(io, listener.fd()), pause(io) {}

TorchStore::Door::~Door() {
  events.release();  // the listener's
}

TorchStore::TorchStore(boost::asio::io_context& io, std::vector<rendezvous::Listener> listeners,
                       TorchStoreOptions options)
    : io_(io), options_(std::move(options)), keys_(options_.keys) {
  for (rendezvous::Listener& listener : listeners) {
    doors_.push_back(std::make_unique<Door>(io, std::move(listener)));
    wait_for_clients(*doors_.back());
  }
}

TorchStore::~TorchStore() {
  *life_ = nullptr;
}

void TorchStore::wait_for_clients(Door& door) {
  door.events.async_wait(stream_descriptor::wait_read,
                         [life = life_, &door](const error_code& error) {
                           if (!error && *life != nullptr) (*life)->accept(door);
                         });
}

void TorchStore::accept(Door& door) {
  try {
    for (int i = 0; i < kMostAccepts; ++i) {
      std::optional<rendezvous::Listener::Accepted> accepted = door.listener.accept();
      if (!accepted) break;
      const int on = 1;
      ::setsockopt(accepted->fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
      ::setsockopt(accepted->fd.get(), SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
      if (connections_.size() >= options_.most_connections) make_room();
      if (connections_.size() >= options_.most_connections) {
        say(fmt::format("refused a connection from {}: it has {}, and at most so many",
                        accepted->peer.text(), connections_.size()));
        continue;
      }
      const TorchClient id = ++last_id_;
      connections_[id] =
          std::make_unique<Connection>(io_, std::move(accepted->fd), accepted->peer, id);
      wait_to_read(id);
    }
  } catch (const Error& error) {  // no descriptors left: some may come back
    say(fmt::format("cannot take a connection now: {}", error.what()));
    door.pause.expires_after(kPause);
    door.pause.async_wait([life = life_, &door](const error_code& ended) {
      if (!ended && *life != nullptr) (*life)->accept(door);
    });
    return;
  }
  wait_for_clients(door);
}

// PyTorch's clients validate themselves at once, so the oldest client that has not is a stranger.
void TorchStore::make_room() {
  const auto stranger =
      std::find_if(connections_.begin(), connections_.end(),
                   [](const auto& entry) { return !entry.second->reader.is_validated(); });
  if (stranger != connections_.end()) {
    close(stranger->first, "it has not validated itself, and others want its place");
  }
}

void TorchStore::wait_to_read(TorchClient id) {
  Connection* const connection = find(id);
  connection->socket.async_wait(stream_descriptor::wait_read,
                                [life = life_, id](const error_code& error) {
                                  if (!error && *life != nullptr) (*life)->read(id);
                                });
}

void TorchStore::read(TorchClient id) {
  Connection* const connection = find(id);
  if (connection == nullptr) return;
  std::array<char, kPiece> piece;
  const ssize_t n = ::recv(connection->socket.native_handle(), piece.data(), piece.size(), 0);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
    wait_to_read(id);
    return;
  }
  if (n <= 0) {  // its end, or its host's
    close(id);
    return;
  }
  connection->reader.feed({piece.data(), static_cast<std::size_t>(n)});
  carry_out(id);
}

// Executes the complete queries as long as their client takes the answers, then waits for more.
void TorchStore::carry_out(TorchClient id) {
  std::vector<TorchReply> replies;
  while (Connection* const connection = find(id)) {
    if (connection->owes() > kMostUnsent) return;  // write() goes on
    std::optional<Query> query = connection->reader.next();
    unread_ +=
        connection->reader.held() - std::exchange(connection->counted, connection->reader.held());
    if (!connection->reader.error().empty()) {
      // A dlrun tries again and again.
      if (connection->reader.is_of_dlrun() && std::exchange(said_dlrun_, true)) {
        close(id);
      } else {
        close(id, connection->reader.error());
      }
      return;
    }
    if (keys_.bytes() + unread_ + unsent_ > options_.keys.bytes + kMostQueryBytes) {
      close(id, fmt::format("the store holds {} bytes with what is under way",
                            keys_.bytes() + unread_ + unsent_));
      return;
    }
    if (!query) {
      wait_to_read(id);
      return;
    }
    was_used_ = true;
    replies.clear();
    const std::string why = keys_.apply(id, std::move(*query), replies);
    for (TorchReply& reply : replies) {
      if (Connection* const to = find(reply.to)) send(*to, std::move(reply.bytes));
    }
    if (!why.empty()) close(id, why);
  }
}

void TorchStore::send(Connection& to, std::string bytes) {
  unsent_ += bytes.size();
  if (to.unsent.empty()) {
    to.unsent = std::move(bytes);
  } else {
    to.unsent += bytes;
  }
  if (!to.waits_to_write) write(to);
}

bool TorchStore::write(Connection& connection) {
  while (connection.owes() > 0) {
    const ssize_t n =
        ::send(connection.socket.native_handle(), connection.unsent.data() + connection.sent,
               connection.owes(), MSG_NOSIGNAL);
    if (n >= 0) {
      connection.sent += static_cast<std::size_t>(n);
      unsent_ -= static_cast<std::size_t>(n);
      continue;
    }
    if (errno == EINTR) continue;
    if (errno != EAGAIN) {
      close(connection.id);
      return false;
    }
    if (connection.sent >= connection.owes()) {
      connection.unsent.erase(0, std::exchange(connection.sent, 0));
    }
    connection.waits_to_write = true;
    connection.socket.async_wait(
        stream_descriptor::wait_write, [life = life_, id = connection.id](const error_code& error) {
          if (error || *life == nullptr) return;
          Connection* const found = (*life)->find(id);
          if (found == nullptr) return;
          const bool was_full = found->owes() > kMostUnsent;
          found->waits_to_write = false;
          if ((*life)->write(*found) && was_full && found->owes() <= kMostUnsent) {
            (*life)->carry_out(id);
          }
        });
    return true;
  }
  connection.unsent.clear();
  connection.sent = 0;
  return true;
}

void TorchStore::close(TorchClient id) {
  const auto found = connections_.find(id);
  if (found == connections_.end()) return;
  keys_.leave(id);
  unsent_ -= found->second->owes();
  unread_ -= found->second->counted;
  connections_.erase(found);
}

void TorchStore::close(TorchClient id, const std::string& why) {
  const Connection* const connection = find(id);
  if (connection == nullptr) return;
  say(fmt::format("closed a connection from {}: {}", connection->peer.text(), why));
  close(id);
}

void TorchStore::say(const std::string& line) {
  if (said_ >= kMostSentences) return;
  ++said_;
  options_.say(fmt::format("PyTorch's store at {} {}{}", doors_.front()->listener.address().text(),
                           line, said_ == kMostSentences ? "; no more of this is said" : ""));
}

TorchStore::Connection* TorchStore::find(TorchClient id) {
  const auto found = connections_.find(id);
  return found == connections_.end() ? nullptr : found->second.get();
}

}  // namespace dl::launcher
