#include "rendezvous/net/connect/acceptor.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <exception>
#include <utility>

#include "core/base/error.h"
#include "core/base/log/log.h"
#include "core/base/system/machine/limits.h"
#include "core/base/system/machine/thread.h"

namespace dl::rendezvous {
namespace {

using namespace std::chrono_literals;

// Ids of epoll events; connections count from kFirstConnection.
constexpr std::uint64_t kListenerId = 0;
constexpr std::uint64_t kTimerId = 1;
constexpr std::uint64_t kWakeId = 2;
constexpr std::uint64_t kFirstConnection = 3;

// Without this pause, a process that has no descriptor left would try to accept in a busy loop.
constexpr auto kPauseAfterExhaustion = 100ms;
constexpr auto kLogWindow = 10s;
constexpr int kLinesPerWindow = 5;

}  // namespace

struct Acceptor::Pending {
  Pending(const JobKey& key, const Hello& self, HandshakeServer::Judge judge,
          Listener::Accepted accepted)
      : fd(std::move(accepted.fd)), peer(accepted.peer), handshake(key, self, std::move(judge)) {}

  UniqueFd fd;
  Address peer;
  Deadline deadline = Deadline::after(kHandshakeTime);
  HandshakeServer handshake;
  std::uint32_t events = EPOLLIN;
};

Acceptor::Acceptor(Listener listener, const JobKey& key, Hello self, std::size_t expected_peers)
    : most_pending_(kMostPendingHandshakes + expected_peers),
      listener_(std::move(listener)),
      key_(key),
      self_(std::move(self)),
      epoll_(::epoll_create1(EPOLL_CLOEXEC)),
      timer_(::timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC)),
      wake_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)),
      next_id_(kFirstConnection) {
  if (!epoll_ || !timer_ || !wake_) throw_errno(errno, "make the acceptor's descriptors");
  watch(EPOLL_CTL_ADD, listener_.fd(), EPOLLIN, kListenerId);
  watch(EPOLL_CTL_ADD, timer_.get(), EPOLLIN, kTimerId);
  watch(EPOLL_CTL_ADD, wake_.get(), EPOLLIN, kWakeId);
}

Acceptor::~Acceptor() {
  stop();
}

void Acceptor::stop() noexcept {
  if (!thread_.joinable()) return;
  stopping_.store(true, std::memory_order_release);
  started_.store(true, std::memory_order_release);
  started_.notify_one();
  const std::uint64_t one = 1;
  // An eventfd takes this write unless its count is about to overflow.
  [[maybe_unused]] const ssize_t written = ::write(wake_.get(), &one, sizeof one);
  thread_.join();
  pending_.clear();
}

void Acceptor::give_up_address() noexcept {
  stop();
  ::shutdown(listener_.fd(), SHUT_RDWR);  // for all copies of the descriptor, unlike close()
}

void Acceptor::serve(const std::string& purpose, std::uint64_t generation, Handler handler) {
  const std::lock_guard lock(routes_mutex_);
  const bool taken = std::any_of(routes_.begin(), routes_.end(),
                                 [&](const Route& route) { return route.purpose == purpose; });
  DL_CHECK(!taken, kInvalidArgument, "acceptor: '{}' is served already", purpose);
  routes_.push_back({purpose, generation, std::move(handler)});
}

void Acceptor::forget(const std::string& purpose) noexcept {
  const std::lock_guard lock(routes_mutex_);
  std::erase_if(routes_, [&](const Route& route) { return route.purpose == purpose; });
}

void Acceptor::prepare() {
  DL_CHECK(!thread_.joinable(), kInternal, "acceptor: prepared twice");
  thread_ = make_thread("acceptor", [this] { run(); });
}

void Acceptor::start() {
  DL_CHECK(!started_.load(std::memory_order_relaxed), kInternal, "acceptor: started twice");
  if (!thread_.joinable()) prepare();
  started_.store(true, std::memory_order_release);
  started_.notify_one();
}

void Acceptor::run() {
  started_.wait(false, std::memory_order_acquire);
  while (!stopping_.load(std::memory_order_acquire)) {
    pollfd entry{.fd = epoll_.get(), .events = POLLIN, .revents = 0};
    ::poll(&entry, 1, -1);
    try {
      process();
    } catch (const std::exception& error) {
      log::error("acceptor on {}: {}", address().text(), text_with_limits(error));
    }
  }
}

void Acceptor::process() {
  std::array<epoll_event, 64> events;
  const int n = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), 0);
  for (int i = 0; i < n; ++i) {
    const std::uint64_t id = events[static_cast<std::size_t>(i)].data.u64;
    if (id == kListenerId) {
      accept_all();
    } else if (id == kTimerId || id == kWakeId) {
      std::uint64_t count = 0;
      // Reading resets the descriptor; the value does not matter, and EAGAIN is harmless.
      [[maybe_unused]] const ssize_t size =
          ::read(id == kTimerId ? timer_.get() : wake_.get(), &count, sizeof count);
    } else {
      drive_or_drop(id);
    }
  }
  expire();
  arm_timer();
}

void Acceptor::accept_all() {
  // Limit the number, so that a flood of new connections does not delay the accepted ones.
  for (std::size_t i = 0; i < kMostPendingHandshakes; ++i) {
    std::optional<Listener::Accepted> accepted;
    try {
      accepted = listener_.accept();
      if (!accepted) return;
      tune_connection(accepted->fd.get());
    } catch (const Error& error) {
      log_drop(error.what());
      if (accepted) continue;
      watch(EPOLL_CTL_MOD, listener_.fd(), 0, kListenerId);
      listening_ = false;
      resume_ = Deadline::after(kPauseAfterExhaustion);
      return;
    }
    begin(std::move(*accepted));
  }
}

void Acceptor::adopt(Listener::Accepted accepted) {
  tune_connection(accepted.fd.get());
  begin(std::move(accepted));
}

void Acceptor::begin(Listener::Accepted accepted) {
  if (pending_.size() >= most_pending_) {
    const std::uint64_t oldest = pending_.begin()->first;
    pending_.at(oldest)->handshake.refuse(Refusal::kBusy);
    finish(oldest);
  }
  const std::uint64_t id = next_id_++;
  const int fd = accepted.fd.get();
  pending_.emplace(
      id, std::make_unique<Pending>(
              key_, self_, [this](const Hello& peer) { return judge(peer); }, std::move(accepted)));
  watch(EPOLL_CTL_ADD, fd, EPOLLIN, id);
  drive_or_drop(id);
}

// A connection that cannot be served, for lack of memory for example, is dropped: otherwise its
// event would repeat for ever.
void Acceptor::drive_or_drop(std::uint64_t id) {
  try {
    drive(id);
  } catch (const std::exception& error) {
    pending_.erase(id);
    log_drop(fmt::format("dropped a connection: {}", text_with_limits(error)));
  }
}

void Acceptor::drive(std::uint64_t id) {
  const auto found = pending_.find(id);
  if (found == pending_.end()) return;
  Pending& pending = *found->second;
  HandshakeServer& handshake = pending.handshake;
  std::array<std::uint8_t, 1024> buffer;
  for (;;) {
    while (!handshake.output().empty()) {
      const std::span<const std::uint8_t> rest = handshake.output();
      const ssize_t n = ::send(pending.fd.get(), rest.data(), rest.size(), MSG_NOSIGNAL);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0 && errno == EAGAIN) {
        if (pending.events != EPOLLOUT) {
          pending.events = EPOLLOUT;
          watch(EPOLL_CTL_MOD, pending.fd.get(), pending.events, id);
        }
        return;
      }
      if (n < 0) return drop(id, fmt::format("lost ({})", std::strerror(errno)));
      handshake.sent(static_cast<std::size_t>(n));
    }
    if (handshake.state() != Handshake::State::kRunning) return finish(id);
    const ssize_t n =
        ::recv(pending.fd.get(), buffer.data(), std::min(handshake.wanted(), buffer.size()), 0);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) {
      if (pending.events != EPOLLIN) {
        pending.events = EPOLLIN;
        watch(EPOLL_CTL_MOD, pending.fd.get(), pending.events, id);
      }
      return;
    }
    if (n == 0) return drop(id, "it was closed before it had proved the job key");
    if (n < 0) return drop(id, fmt::format("lost ({})", std::strerror(errno)));
    handshake.feed(std::span(buffer).first(static_cast<std::size_t>(n)));
  }
}

// Ends a finished handshake, after its output was sent.
void Acceptor::finish(std::uint64_t id) {
  const auto found = pending_.find(id);
  Pending& pending = *found->second;
  HandshakeServer& handshake = pending.handshake;
  if (handshake.state() != Handshake::State::kProved) {
    // Try once to send a refusal that was made just now. The connection ends in any case.
    const std::span<const std::uint8_t> rest = handshake.output();
    if (!rest.empty()) ::send(pending.fd.get(), rest.data(), rest.size(), MSG_NOSIGNAL);
    const bool told =
        handshake.refusal() != Refusal::kMalformed && handshake.refusal() != Refusal::kBusy;
    if (!told) return drop(id, handshake.reason());
    log_drop(
        fmt::format("refused a connection from {}: {}", pending.peer.text(), handshake.reason()));
    pending_.erase(found);
    return;
  }
  Connection connection{std::move(pending.fd), handshake.peer(), pending.peer.text()};
  pending_.erase(found);
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, connection.fd.get(), nullptr);
  hand_over(std::move(connection));
}

void Acceptor::hand_over(Connection connection) {
  const std::string who = fmt::format("{} ({})", connection.peer.from, connection.address);
  try {
    const std::lock_guard lock(routes_mutex_);
    if (Route* route = find_route(connection.peer.purpose)) {
      // A copy, because the handler may call forget() for itself.
      const Handler handler = route->handler;
      handler(std::move(connection));
    }
  } catch (const std::exception& error) {
    log_drop(fmt::format("closed the connection of {}: {}", who, text_with_limits(error)));
  }
}

void Acceptor::drop(std::uint64_t id, const std::string& why) {
  const auto found = pending_.find(id);
  log_drop(fmt::format("dropped a connection from {}: {}", found->second->peer.text(), why));
  pending_.erase(found);
}

void Acceptor::expire() {
  while (!pending_.empty() && pending_.begin()->second->deadline.has_passed()) {
    drop(pending_.begin()->first,
         fmt::format("it did not prove the job key within {} s", kHandshakeTime.count()));
  }
  if (!listening_ && resume_.has_passed()) {
    listening_ = true;
    resume_ = Deadline::never();
    watch(EPOLL_CTL_MOD, listener_.fd(), EPOLLIN, kListenerId);
  }
}

void Acceptor::arm_timer() {
  Deadline next = resume_;
  if (!pending_.empty()) next = Deadline::earlier(next, pending_.begin()->second->deadline);
  itimerspec spec{};
  if (!next.is_never()) {
    // A span of zero would disarm the timer.
    const auto left = std::max(next.left(), std::chrono::nanoseconds(1));
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(left);
    spec.it_value.tv_sec = seconds.count();
    spec.it_value.tv_nsec = (left - seconds).count();
  }
  if (::timerfd_settime(timer_.get(), 0, &spec, nullptr) != 0) {
    throw_errno(errno, "set the acceptor's timer");
  }
}

void Acceptor::watch(int operation, int fd, std::uint32_t events, std::uint64_t id) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = id;
  if (::epoll_ctl(epoll_.get(), operation, fd, &event) != 0) throw_errno(errno, "epoll_ctl");
}

Acceptor::Route* Acceptor::find_route(const std::string& purpose) {
  Route* best = nullptr;
  for (Route& route : routes_) {
    const bool fits =
        purpose.starts_with(route.purpose) &&
        (purpose.size() == route.purpose.size() || purpose[route.purpose.size()] == '/');
    if (fits && (best == nullptr || route.purpose.size() > best->purpose.size())) best = &route;
  }
  return best;
}

Verdict Acceptor::judge(const Hello& peer) {
  const std::lock_guard lock(routes_mutex_);
  const Route* route = find_route(peer.purpose);
  if (route == nullptr) return {.refusal = Refusal::kUnknownPurpose};
  if (route->generation != kAnyGeneration && route->generation != peer.generation) {
    return {.refusal = Refusal::kWrongGeneration, .generation = route->generation};
  }
  return {};
}

void Acceptor::log_drop(const std::string& line) {
  if (log_window_.has_passed()) {
    if (not_logged_ > 0) {
      log::warning("acceptor on {}: and {} more in the last {} s", address().text(), not_logged_,
                   kLogWindow.count());
    }
    log_window_ = Deadline::after(kLogWindow);
    logged_ = 0;
    not_logged_ = 0;
  }
  if (logged_ < kLinesPerWindow) {
    ++logged_;
    log::warning("acceptor on {}: {}", address().text(), line);
  } else {
    ++not_logged_;
  }
}

}  // namespace dl::rendezvous
