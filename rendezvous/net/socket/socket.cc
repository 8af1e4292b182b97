#include "rendezvous/net/socket/socket.h"

#include <algorithm>
#include <chrono>

#include "core/base/error.h"
#include "core/base/log/log.h"
#include "rendezvous/net/patience.h"
#include "rendezvous/net/socket/attempt.h"

namespace dl::rendezvous {
namespace {

using namespace std::chrono_literals;

constexpr auto kFirstPause = 5ms;
constexpr auto kLongestPause = 200ms;
}  // namespace

UniqueFd connect_to(const Endpoint& endpoint, Deadline deadline, const ConnectOptions& options) {
  const std::string what = fmt::format("connect to {}{}{}", endpoint.text(),
                                       options.what_for.empty() ? "" : " for ", options.what_for);
  DL_CHECK(endpoint.port != 0, kInvalidArgument, "{}: port 0 is not a port to connect to", what);
  Patience patience;
  std::chrono::milliseconds pause = kFirstPause;
  Obstacle obstacle;
  for (;;) {
    if (UniqueFd fd = try_addresses(endpoint, deadline, options.hangup_fd, obstacle)) {
      tune_connection(fd.get());
      return fd;
    }
    if (!options.retry || obstacle.is_for_good) {
      const bool late = deadline.has_passed();
      throw_error(late ? ErrorKind::kTimeout : obstacle.kind, "{}: {}", what, obstacle.text);
    }
    if (patience.should_warn()) {
      log::warning("{}: still trying after {} s: {}", what, patience.waited().count(),
                   obstacle.text);
    }
    DL_CHECK(!deadline.has_passed(), kTimeout, "{}: {}{}", what,
             options.is_turn ? "" : "gave up at the deadline: ", obstacle.text);
    poll_one(-1, 0, Deadline::earlier(deadline, Deadline::after(pause)), options.hangup_fd);
    pause = std::min<std::chrono::milliseconds>(pause * 2, kLongestPause);
  }
}

}  // namespace dl::rendezvous
