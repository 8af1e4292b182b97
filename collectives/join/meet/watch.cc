#include "collectives/join/meet/watch.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "collectives/process/peer_process.h"
#include "core/base/deadline.h"
#include "core/base/error.h"
#include "rendezvous/net/socket/local_socket.h"
#include "rendezvous/net/socket/socket.h"

namespace dl::collectives::meet {

Ways ways_of(std::string_view address) {
  Ways ways;
  while (!address.empty()) {
    const std::string_view word = address.substr(0, address.find(' '));
    if (word.starts_with('@')) {
      ways.local = word.substr(1);
    } else {
      ways.hosts.push_back(rendezvous::Endpoint::parse(word));
    }
    address.remove_prefix(std::min(address.size(), word.size() + 1));
  }
  return ways;
}

Watch::Watch(const Identity& who, std::string_view address)
    : ways_(ways_of(address)), process_(watch_process(who)), is_gone_(has_ended(who)) {
  if (!is_gone_) probe();
}

// A refusal is final: a rank that listens no more never does again.
void Watch::probe() {
  probes_.clear();
  was_refused_ = false;
  if (!ways_.local.empty()) {
    try {
      probes_.push_back({rendezvous::connect_local(ways_.local, Deadline::after({})), true});
    } catch (const Error& error) {
      was_refused_ = error.kind() == ErrorKind::kConnection;
    }
  }
  for (const rendezvous::Endpoint& way : ways_.hosts) {
    const rendezvous::Address to = rendezvous::resolve(way, Deadline::never()).front();
    UniqueFd fd(::socket(to.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!fd) throw_errno(errno, "make a socket");
    if (::connect(fd.get(), to.data(), to.size()) == 0 || errno == EINPROGRESS) {
      probes_.push_back({std::move(fd), false});
    } else {
      was_refused_ = was_refused_ || errno == ECONNREFUSED;
    }
  }
  is_gone_ = probes_.empty() && was_refused_;
}

void Watch::add_to(std::vector<pollfd>& polled) const {
  polled.push_back({process_.get(), POLLIN, 0});
  for (const Probe& probe : probes_) {
    polled.push_back(
        {probe.fd.get(), static_cast<short>(probe.is_connected ? POLLIN : POLLOUT), 0});
  }
}

bool Watch::is_there(Probe& probe) {
  if (probe.is_connected) return false;  // it sends nothing before a hello, so it has ended
  int error = 0;
  socklen_t size = sizeof error;
  if (::getsockopt(probe.fd.get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0) error = errno;
  // A free port of this host may connect to itself.
  if (error == 0 &&
      rendezvous::local_address(probe.fd.get()) == rendezvous::peer_address(probe.fd.get())) {
    error = ECONNREFUSED;
  }
  was_refused_ = was_refused_ || error == ECONNREFUSED;
  probe.is_connected = error == 0;
  return probe.is_connected;
}

void Watch::react(std::span<const pollfd> polled) {
  if (polled.front().revents != 0) {
    is_gone_ = true;
    return;
  }
  bool has_lost = false;
  std::vector<Probe> left;
  for (std::size_t i = 0; i < probes_.size(); ++i) {
    const bool was_connected = probes_[i].is_connected;
    if (polled[i + 1].revents == 0 || is_there(probes_[i])) {
      left.push_back(std::move(probes_[i]));
    } else {
      has_lost = has_lost || was_connected;
    }
  }
  probes_ = std::move(left);
  if (has_lost) return probe();
  is_gone_ = probes_.empty() && was_refused_;
}

}  // namespace dl::collectives::meet
