#include "rendezvous/net/connect/race.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/log/log.h"
#include "core/base/system/machine/limits.h"
#include "rendezvous/net/handshake/proving.h"
#include "rendezvous/net/patience.h"
#include "rendezvous/net/socket/socket.h"

namespace dl::rendezvous {
namespace {

using namespace std::chrono_literals;

constexpr std::chrono::milliseconds kStagger = 250ms;
constexpr std::chrono::milliseconds kFirstRacePause = 10ms;
constexpr std::chrono::milliseconds kLongestRacePause = 500ms;
constexpr std::chrono::milliseconds kCheckEvery = 500ms;

// One address and the attempt to connect to it.
class Runner {
 public:
  Runner(Endpoint way, Deadline start, bool has_listened)
      : way_(std::move(way)), start_(start), has_listened_(has_listened) {}

  bool is_out() const noexcept { return is_idle() && start_.is_never(); }
  bool has_begun() const noexcept { return has_begun_; }
  bool is_connected() const noexcept { return proving_ != nullptr; }
  void start_now() { start_ = Deadline::after(0s); }
  ErrorKind kind() const noexcept { return kind_; }
  std::string text() const { return fmt::format("{} ({})", way_.text(), reason_); }

  // When it must run next if no event comes.
  Deadline next() const noexcept { return is_idle() ? start_ : Deadline::never(); }
  pollfd entry() const noexcept {
    return {.fd = proving_ ? proving_->fd() : connecting_.get(), .events = events_, .revents = 0};
  }

  enum class Step : std::uint8_t { kOn, kFailed, kProved };
  Step go_on(bool is_ready, const Hello& hello, const JobKey& key) {
    if (is_idle()) {
      if (!start_.has_passed()) return Step::kOn;
      if (const int error = begin()) return lose(error);
    } else if (!is_ready) {
      return Step::kOn;
    }
    if (connecting_) {
      int error = 0;
      socklen_t size = sizeof error;
      if (::getsockopt(connecting_.get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0) error = errno;
      if (error != 0) return lose(error);
      if (peer_address(connecting_.get()).size() == 0) return Step::kOn;  // not yet
      // The socket has connected to itself, at a free port of this host (simultaneous open).
      if (local_address(connecting_.get()) == peer_address(connecting_.get())) {
        return lose(ECONNREFUSED);
      }
      tune_connection(connecting_.get());
      proving_ = std::make_unique<Proving>(std::move(connecting_), key, hello);
    }
    events_ = proving_->go_on();
    if (events_ != 0) return Step::kOn;
    if (proving_->is_proved()) return Step::kProved;
    return fail(proving_->kind(), proving_->reason(), proving_->may_retry());
  }
  const Hello& peer() const noexcept { return proving_->peer(); }
  Way take() {
    const std::string address = peer_address(proving_->fd()).text();
    return {way_, {proving_->release(), proving_->peer(), address}};
  }

  Step fail(ErrorKind kind, std::string reason, bool may_retry) {
    kind_ = kind;
    reason_ = std::move(reason);
    connecting_.reset();
    proving_.reset();
    start_ = may_retry ? Deadline::after(pause_) : Deadline::never();
    pause_ = std::min(pause_ * 2, kLongestRacePause);
    return Step::kFailed;
  }

 private:
  bool is_idle() const noexcept { return !connecting_ && !proving_; }
  Step lose(int error) {
    const bool is_final = is_out_of_files(error) || (has_listened_ && error == ECONNREFUSED);
    return fail(ErrorKind::kConnection, system_error_text(error), !is_final);
  }

  int begin() {
    has_begun_ = true;
    reason_ = "it does not answer";
    const Address address = resolve(way_, Deadline::after(5s)).front();
    connecting_.reset(::socket(address.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!connecting_) return errno;
    events_ = POLLOUT;
    const bool has_failed = ::connect(connecting_.get(), address.data(), address.size()) != 0;
    return has_failed && errno != EINPROGRESS && errno != EINTR ? errno : 0;
  }

  Endpoint way_;
  Deadline start_;  // of the next attempt; never: none
  bool has_listened_;
  std::chrono::milliseconds pause_ = kFirstRacePause;
  bool has_begun_ = false;
  UniqueFd connecting_;
  std::unique_ptr<Proving> proving_;
  short events_ = 0;
  ErrorKind kind_ = ErrorKind::kTimeout;
  std::string reason_ = "it was not tried";
};

std::string text(const std::vector<Runner>& runners) {
  std::string all;
  for (const Runner& runner : runners) all += (all.empty() ? "" : ", ") + runner.text();
  return all;
}

}  // namespace

Way connect_by_a_way(std::span<const Endpoint> ways, int rank, const std::string& who,
                     const Hello& hello, const JobKey& key, Deadline deadline,
                     const WayOptions& options) {
  std::vector<Runner> runners;
  for (const Endpoint& way : ways) {
    runners.emplace_back(way, Deadline::after(runners.size() * kStagger), options.has_listened);
  }
  const std::string what = fmt::format("connect to {} for '{}'", who, hello.purpose);
  std::vector<pollfd> entries(runners.size() + 1);
  Patience patience;
  Deadline look = Deadline::after(kCheckEvery);
  // A runner that need not begin, because another one is connected.
  const auto is_held = [&](const Runner& held) {
    return options.has_listened && !held.has_begun() &&
           std::ranges::any_of(runners, [](const Runner& r) { return r.is_connected(); });
  };
  for (;;) {
    for (std::size_t i = 0; i < runners.size(); ++i) {
      Runner& runner = runners[i];
      if (is_held(runner)) continue;
      Runner::Step step = runner.go_on(entries[i].revents != 0, hello, key);
      if (step == Runner::Step::kProved) {
        if (runner.peer().rank == rank) return runner.take();
        step = runner.fail(ErrorKind::kMismatch, runner.peer().from + " answers there", false);
      }
      if (step != Runner::Step::kFailed) continue;
      const auto waiting = std::find_if(runners.begin(), runners.end(),
                                        [](const Runner& r) { return !r.has_begun(); });
      if (waiting != runners.end()) waiting->start_now();
    }
    if (std::all_of(runners.begin(), runners.end(), [](const Runner& r) { return r.is_out(); })) {
      throw_error(runners.front().kind(), "{}: {}", what, text(runners));
    }
    DL_CHECK(!deadline.has_passed(), kTimeout, "{}: gave up at the deadline: {}", what,
             text(runners));
    if (patience.should_warn()) {
      log::warning("{}: still trying after {} s: {}", what, patience.waited().count(),
                   text(runners));
    }
    if (options.check && look.has_passed()) {
      options.check();
      look = Deadline::after(kCheckEvery);
    }
    Deadline until = patience.until(options.check ? Deadline::earlier(deadline, look) : deadline);
    for (std::size_t i = 0; i < runners.size(); ++i) {
      entries[i] = runners[i].entry();
      if (!is_held(runners[i])) until = Deadline::earlier(until, runners[i].next());
    }
    entries.back() = {.fd = options.gone_fd, .events = POLLIN, .revents = 0};
    if (::poll(entries.data(), entries.size(), until.poll_timeout()) < 0) {
      if (errno != EINTR) throw_errno(errno, "poll");
      for (pollfd& entry : entries) entry.revents = 0;
    }
    DL_CHECK(entries.back().revents == 0, kPeerFailed, "{}: its process has ended", what);
  }
}

Endpoint find_way(std::span<const Endpoint> ways, int rank, const std::string& who,
                  const Hello& hello, const JobKey& key, Deadline deadline,
                  const WayOptions& options) {
  return connect_by_a_way(ways, rank, who, hello, key, deadline, options).endpoint;
}

}  // namespace dl::rendezvous
