#include "collectives/bench/operation/bare_ring.h"

#include <poll.h>
#include <sched.h>
#include <sys/random.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <vector>

#include "collectives/bench/machine/machine.h"
#include "core/base/deadline.h"
#include "core/base/error.h"
#include "rendezvous/net/socket/socket.h"

namespace dl::collectives::bench {
namespace {

using Clock = std::chrono::steady_clock;

// Bytes of one send() or recv(): as much as fits into a core's cache.
constexpr std::size_t kSlice = std::size_t{256} << 10;

// A rank's port, and the password that its neighbour must send. The ranks exchange them over the
// group, whose members are authenticated.
struct Door {
  std::array<std::uint8_t, 16> password{};
  std::uint16_t port = 0;
};

bool wait_for(int fd, short events, Deadline deadline) {
  pollfd poll_fd{.fd = fd, .events = events, .revents = 0};
  return ::poll(&poll_fd, 1, deadline.poll_timeout()) > 0;
}

// Accepts the first connection that sends the password, and drops others.
UniqueFd let_in(rendezvous::Listener& listener, const Door& door, int left, Deadline deadline) {
  constexpr std::chrono::seconds kPatience{5};  // for a stranger to send a password
  for (;;) {
    DL_CHECK(!deadline.has_passed(), kTimeout, "floor: rank {} did not connect in time", left);
    wait_for(listener.fd(), POLLIN, deadline);
    auto accepted = listener.accept();
    if (!accepted) continue;
    const Deadline soon = Deadline::earlier(deadline, Deadline::after(kPatience));
    std::array<std::uint8_t, 16> said{};
    std::size_t have = 0;
    while (have < said.size() && wait_for(accepted->fd.get(), POLLIN, soon)) {
      const ssize_t n = ::recv(accepted->fd.get(), said.data() + have, said.size() - have, 0);
      if (n <= 0) break;
      have += static_cast<std::size_t>(n);
    }
    if (have == said.size() && said == door.password) return std::move(accepted->fd);
  }
}

// True if bytes moved; false if the socket would block.
bool moved(ssize_t n, std::size_t& done, const char* what, int peer) {
  if (n > 0) {
    done += static_cast<std::size_t>(n);
    return true;
  }
  DL_CHECK(n < 0, kConnection, "floor: rank {} closed its socket", peer);
  if (errno == EAGAIN || errno == EINTR) return false;
  throw_errno(errno, fmt::format("floor: {} rank {}", what, peer));
}

class Done final : public Work {
 public:
  void wait(Stream) override {}
  void synchronize(std::optional<std::chrono::nanoseconds>) override {}
  bool is_completed() const noexcept override { return true; }
  std::exception_ptr error() const noexcept override { return nullptr; }
  std::string_view algorithm() const noexcept override { return "sockets"; }
};

}  // namespace

BareRing::BareRing(ProcessGroup& group, std::chrono::nanoseconds timeout)
    : rank_(group.rank()), size_(group.size()), timeout_(timeout) {
  DL_CHECK(group.backend() == "tcp" && size_ > 1, kInvalidArgument,
           "floor exchanges bytes over TCP sockets, and the group is a {} group of {}; run it with "
           "--backend tcp on two ranks or more",
           group.backend(), size_);
  const Deadline deadline = Deadline::after(timeout);
  const std::vector<RankInfo> who = gather_ranks(group);
  const auto on_my_host = [&](const RankInfo& each) {
    return each.host == who[static_cast<std::size_t>(rank_)].host;
  };
  const auto local = std::count_if(who.begin(), who.end(), on_my_host);
  const bool one_host = local == size_;
  policy_ = wait_policy(static_cast<int>(local));

  auto listener = rendezvous::Listener::bind({.host = one_host ? "127.0.0.1" : std::string()});
  Door mine{.port = listener.port()};
  if (::getrandom(mine.password.data(), mine.password.size(), 0) < 0) {
    throw_errno(errno, "floor: getrandom");
  }
  std::vector<Door> doors(static_cast<std::size_t>(size_));
  group
      .all_gather(
          {.input = &mine, .output = doors.data(), .count = sizeof mine, .dtype = DType::kU8})
      ->wait();

  const auto right = static_cast<std::size_t>((rank_ + 1) % size_);
  right_ = rendezvous::connect_to(
      {.host = one_host ? "127.0.0.1" : who[right].host.data(), .port = doors[right].port},
      deadline, {.what_for = "dlbench floor"});
  // A new connection's buffer takes these few bytes at once.
  const auto& password = doors[right].password;
  const ssize_t sent = ::send(right_.get(), password.data(), password.size(), MSG_NOSIGNAL);
  if (sent < 0) throw_errno(errno, fmt::format("floor: send to rank {}", right));
  left_ = let_in(listener, mine, (rank_ + size_ - 1) % size_, deadline);
}

Ref<Work> BareRing::exchange(const TimedCall& call) {
  const std::size_t bytes = call.count * size_of(call.dtype);
  const auto ranks = static_cast<std::size_t>(size_);
  const std::size_t total = 2 * (ranks - 1) * bytes / ranks;
  const int right = (rank_ + 1) % size_;
  const int left = (rank_ + size_ - 1) % size_;
  const Deadline deadline = Deadline::after(timeout_);
  std::size_t sent = 0;
  std::size_t received = 0;
  const auto piece = [&](std::size_t done) {
    return std::min({kSlice, bytes - done % bytes, total - done});
  };
  Clock::time_point last_move = Clock::now();
  while (sent < total || received < total) {
    bool any = false;
    if (sent < total) {
      any |= moved(::send(right_.get(), call.input + sent % bytes, piece(sent), MSG_NOSIGNAL), sent,
                   "send to", right);
    }
    if (received < total) {
      any |= moved(::recv(left_.get(), call.output + received % bytes, piece(received), 0),
                   received, "receive from", left);
    }
    const Clock::time_point now = Clock::now();
    if (any) {
      last_move = now;
      continue;
    }
    DL_CHECK(now < deadline.when(), kTimeout,
             "floor: after {:.3f} s rank {} had sent {} of {} bytes, and rank {} had taken {}",
             std::chrono::duration<double>(timeout_).count(), left, received, total, right, sent);
    if (now - last_move < policy_.spin) {
      if (policy_.yields) ::sched_yield();
      continue;
    }
    std::array<pollfd, 2> both{
        pollfd{.fd = sent < total ? right_.get() : -1, .events = POLLOUT, .revents = 0},
        pollfd{.fd = received < total ? left_.get() : -1, .events = POLLIN, .revents = 0}};
    ::poll(both.data(), both.size(), deadline.poll_timeout());
  }
  return make_ref<Done>();
}

}  // namespace dl::collectives::bench
