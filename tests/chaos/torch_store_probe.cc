// A rank that speaks to PyTorch's store at MASTER_ADDR:MASTER_PORT as PyTorch does, for the
// launcher's tests; what it does is its first argument.
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <string>

#include "core/base/env.h"
#include "core/base/error.h"
#include "rendezvous/net/socket/socket.h"
#include "tests/launcher/torch_store/wire.h"

namespace {

using namespace dl;
using env::Var;
using launcher::QueryKind;
namespace wire = launcher::wire;

// Ends at the test's limit if need be.
constexpr auto kPatience = std::chrono::minutes(5);

void say(const std::string& line) {
  [[maybe_unused]] const auto n = ::write(STDOUT_FILENO, (line + "\n").data(), line.size() + 1);
}

UniqueFd connect_to(const std::string& host) {
  const auto port = static_cast<std::uint16_t>(env::require_int(Var::kMasterPort));
  return rendezvous::connect_to({host, port}, rendezvous::Deadline::after(kPatience));
}

// As PyTorch's client: the store may be on a node that begins a little later.
UniqueFd connect_in_time(const std::string& host) {
  const rendezvous::Deadline deadline = rendezvous::Deadline::after(kPatience);
  while (true) {
    try {
      return connect_to(host);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kConnection || deadline.has_passed()) throw;
    }
    constexpr int kRetryMs = 20;
    ::poll(nullptr, 0, kRetryMs);
  }
}

class Client {
 public:
  Client() : fd_(connect_in_time(env::get(Var::kMasterAddr).value())) { send(wire::hello()); }

  void send(const std::string& bytes) {
    if (::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) !=
        static_cast<ssize_t>(bytes.size())) {
      throw_errno(errno, "send to the store");
    }
  }
  std::string receive(std::size_t size) {
    std::string bytes;
    while (bytes.size() < size) {
      rendezvous::poll_one(fd_.get(), POLLIN, rendezvous::Deadline::after(kPatience), -1);
      char piece[256];
      const ssize_t n = ::recv(fd_.get(), piece, std::min(sizeof piece, size - bytes.size()), 0);
      if (n < 0 && (errno == EAGAIN || errno == EINTR)) continue;
      if (n <= 0) throw_error(ErrorKind::kConnection, "the store is gone");
      bytes.append(piece, static_cast<std::size_t>(n));
    }
    return bytes;
  }
  void wait(const std::string& key) {
    send(wire::wait(key));
    receive(1);
  }
  std::string get(const std::string& key) {
    wait(key);
    send(wire::get(key));
    std::uint64_t size = 0;
    std::memcpy(&size, receive(sizeof size).data(), sizeof size);
    return receive(size);
  }
  std::int64_t add(const std::string& key, std::int64_t number) {
    send(wire::query(QueryKind::kAdd, wire::text(key) + wire::number(number)));
    std::int64_t sum = 0;
    std::memcpy(&sum, receive(sizeof sum).data(), sizeof sum);
    return sum;
  }

 private:
  UniqueFd fd_;
};

// All ranks count themselves, and wait for the last.
int meet() {
  Client store;
  if (store.add("/count", 1) == env::require_int(Var::kWorldSize)) {
    store.send(wire::set("/all", "here"));
  }
  say("all are " + store.get("/all"));
  return 0;
}

// Whether anybody listens on loopback.
int loopback() {
  const int code = meet();
  try {
    connect_to("127.0.0.1");
    say("somebody listens on loopback");
  } catch (const Error&) {
    say("nobody listens on loopback");
  }
  return code;
}

// Rank 0 leaves a key and dies; the others find it then, on the old connection and on a new one.
int outlive() {
  static int ends[2];
  if (::pipe(ends) != 0) return 1;
  ::signal(SIGTERM, [](int) { [[maybe_unused]] const auto n = ::write(ends[1], "x", 1); });
  Client store;
  if (env::require_int(Var::kRank) == 0) {
    store.send(wire::set("/left", "by rank 0"));
    store.wait("/all-heard");
    ::raise(SIGKILL);
  }
  store.get("/left");
  if (store.add("/heard", 1) == env::require_int(Var::kWorldSize) - 1) {
    store.send(wire::set("/all-heard", ""));
  }
  // dlrun has seen rank 0's death.
  rendezvous::poll_one(ends[0], POLLIN, rendezvous::Deadline::after(kPatience), -1);
  char byte;
  while (::read(ends[0], &byte, 1) < 0 && errno == EINTR) {
  }
  const std::string old = store.get("/left");
  Client anew;
  say("left " + old + ", and still " + anew.get("/left"));
  return 0;
}

// Serves something of its own at MASTER_PORT.
int listen() {
  rendezvous::Listener::bind(
      {.port = static_cast<std::uint16_t>(env::require_int(Var::kMasterPort))});
  say("listens");
  return 0;
}

// Rank 0 serves the others by itself, as it believes.
int own() {
  if (env::require_int(Var::kRank) == 0) {
    Client().add("/used", 1);
    return listen();
  }
  ::pause();
  return 0;
}

// Speaks HTTP.
int stranger() {
  const UniqueFd fd = connect_to(env::get(Var::kMasterAddr).value());
  constexpr std::string_view kText = "GET / HTTP/1.1\r\n\r\n";
  if (::send(fd.get(), kText.data(), kText.size(), MSG_NOSIGNAL) < 0) return 1;
  char byte;
  while (::recv(fd.get(), &byte, 1, 0) < 0 && errno == EAGAIN) {
    rendezvous::poll_one(fd.get(), POLLIN, rendezvous::Deadline::after(kPatience), -1);
  }
  return meet();
}

}  // namespace

int main(int, char** argv) {
  try {
    const std::string what = argv[1];
    if (what == "meet") return meet();
    if (what == "loopback") return loopback();
    if (what == "outlive") return outlive();
    if (what == "listen") return listen();
    if (what == "own") return own();
    if (what == "stranger") return stranger();
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
