#include "rendezvous/net/connect.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "core/base/error.h"
#include "core/base/log.h"
#include "rendezvous/net/patience.h"
#include "rendezvous/net/proving.h"
#include "rendezvous/net/socket.h"

namespace dl::rendezvous {
namespace {

using namespace std::chrono_literals;

constexpr std::chrono::milliseconds kFirstProofPause = 10ms;
constexpr std::chrono::milliseconds kLongestProofPause = 500ms;

// Until the handshake is over.
void prove_once(Proving& proving, Deadline deadline, int hangup_fd, const std::string& what,
                Patience& patience) {
  while (const short events = proving.go_on()) {
    DL_CHECK(!deadline.has_passed(), kTimeout,
             "{}: it took the connection and did not answer by the deadline", what);
    if (patience.should_speak()) {
      log::warning("{}: connected, and no answer for {} s", what, patience.waited().count());
    }
    poll_one(proving.fd(), events, patience.until(deadline), hangup_fd);
  }
}

}  // namespace

Connection connect_and_prove(const Endpoint& endpoint, const Hello& hello, const JobKey& key,
                             Deadline deadline, const ProveOptions& options) {
  const std::string what = fmt::format("connect to {} for '{}'", endpoint.text(), hello.purpose);
  Patience patience;
  std::chrono::milliseconds pause = kFirstProofPause;
  for (;;) {
    UniqueFd fd = connect_to(endpoint, deadline,
                             {.retry = options.retry,
                              .what_for = fmt::format("'{}'", hello.purpose),
                              .hangup_fd = options.hangup_fd});
    const std::string address = peer_address(fd.get()).text();
    Proving proving(std::move(fd), key, hello);
    prove_once(proving, deadline, options.hangup_fd, what, patience);
    if (proving.is_proved()) return {proving.release(), proving.peer(), address};
    const bool may_retry = proving.may_retry();
    if (!may_retry || !options.retry || deadline.has_passed()) {
      throw_error(may_retry && deadline.has_passed() ? ErrorKind::kTimeout : proving.kind(),
                  "{}: {}", what, proving.reason());
    }
    if (patience.should_speak()) {
      log::warning("{}: still trying after {} s: {}", what, patience.waited().count(),
                   proving.reason());
    }
    poll_one(-1, 0, Deadline::earlier(deadline, Deadline::after(pause)), options.hangup_fd);
    pause = std::min(pause * 2, kLongestProofPause);
  }
}

Connection prove(UniqueFd fd, const Hello& hello, const JobKey& key, Deadline deadline) {
  const std::string address = peer_address(fd.get()).text();
  const std::string what = fmt::format("connect to {} for '{}'", address, hello.purpose);
  Patience patience;
  Proving proving(std::move(fd), key, hello);
  prove_once(proving, deadline, -1, what, patience);
  if (!proving.is_proved()) throw_error(proving.kind(), "{}: {}", what, proving.reason());
  return {proving.release(), proving.peer(), address};
}

}  // namespace dl::rendezvous
