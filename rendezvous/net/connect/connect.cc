#include "rendezvous/net/connect/connect.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <string>
#include <utility>

#include "core/base/error.h"
#include "core/base/log/log.h"
#include "rendezvous/net/handshake/proving.h"
#include "rendezvous/net/patience.h"
#include "rendezvous/net/socket/local_socket.h"
#include "rendezvous/net/socket/socket.h"

namespace dl::rendezvous {
namespace {

using namespace std::chrono_literals;

constexpr std::chrono::milliseconds kFirstProofPause = 10ms;
constexpr std::chrono::milliseconds kLongestProofPause = 500ms;

// Runs the handshake to its end.
void prove_once(Proving& proving, Deadline deadline, const ProveOptions& options,
                const std::string& what, Patience& patience) {
  while (const short events = proving.go_on()) {
    if (proving.has_proved_itself()) deadline = options.acceptance.value_or(deadline);
    DL_CHECK(!deadline.has_passed(), kTimeout, "{}: it took the connection and {}", what,
             options.is_turn ? "does not answer" : "did not answer by the deadline");
    if (patience.should_warn()) {
      log::warning("{}: connected, and no answer for {} s", what, patience.waited().count());
    }
    poll_one(proving.fd(), events, patience.until(deadline), options.hangup_fd);
  }
}

// `connect` returns a connected socket, or throws.
Connection prove_until(const std::function<UniqueFd()>& connect, const Hello& hello,
                       const JobKey& key, Deadline deadline, const ProveOptions& options,
                       const std::string& what) {
  Patience patience;
  std::chrono::milliseconds pause = kFirstProofPause;
  for (;;) {
    UniqueFd fd = connect();
    const std::string address = peer_address(fd.get()).text();
    Proving proving(std::move(fd), key, hello);
    prove_once(proving, deadline, options, what, patience);
    if (proving.is_proved()) return {proving.release(), proving.peer(), address};
    const bool may_retry = proving.may_retry();
    if (!may_retry || !options.retry || deadline.has_passed()) {
      throw_error(may_retry && deadline.has_passed() ? ErrorKind::kTimeout : proving.kind(),
                  "{}: {}", what, proving.reason());
    }
    if (patience.should_warn()) {
      log::warning("{}: still trying after {} s: {}", what, patience.waited().count(),
                   proving.reason());
    }
    poll_one(-1, 0, Deadline::earlier(deadline, Deadline::after(pause)), options.hangup_fd);
    pause = std::min(pause * 2, kLongestProofPause);
  }
}

}  // namespace

Connection connect_and_prove(const Endpoint& endpoint, const Hello& hello, const JobKey& key,
                             Deadline deadline, const ProveOptions& options) {
  const std::string goal =
      options.goal.empty() ? fmt::format("'{}'", hello.purpose) : std::string(options.goal);
  const auto connect = [&] {
    return connect_to(endpoint, deadline,
                      {.retry = options.retry,
                       .what_for = goal,
                       .hangup_fd = options.hangup_fd,
                       .is_turn = options.is_turn});
  };
  return prove_until(connect, hello, key, deadline, options,
                     fmt::format("connect to {} for {}", endpoint.text(), goal));
}

Connection connect_local_and_prove(std::string_view name, const Hello& hello, const JobKey& key,
                                   Deadline deadline) {
  const auto connect = [&] {
    UniqueFd fd = connect_local(name, deadline);
    check_same_user(fd.get());
    return fd;
  };
  return prove_until(connect, hello, key, deadline, {},
                     fmt::format("connect to the local socket @{} for '{}'", name, hello.purpose));
}

void prepare_to_prove() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> result;
  unsigned int size = 0;
  ::HMAC(::EVP_sha256(), "", 0, result.data(), 0, result.data(), &size);
}

}  // namespace dl::rendezvous
