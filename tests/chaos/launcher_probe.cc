// A rank for the launcher's tests: does one odd thing, told by its first argument.
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "core/base/env.h"
#include "rendezvous/net/handshake/job_key.h"
#include "rendezvous/net/lifeline.h"

namespace {

using dl::env::Var;

void say(const std::string& text) {
  [[maybe_unused]] const auto n = ::write(STDOUT_FILENO, text.data(), text.size());
}

// Says that it got SIGINT, and goes on.
int stubborn() {
  ::signal(SIGINT, [](int) { say("got it\n"); });
  say("ready\n");
  while (true) ::pause();
}

// Its group broke, as rank 1 did not do its part.
void say_broken() {
  dl::rendezvous::PeerFailure failure;
  failure.cause.blame = dl::rendezvous::Blame::kMissing;
  failure.cause.rank = 1;
  failure.cause.found_by = 0;
  failure.cause.operation = "all_reduce #3";
  failure.cause.text = "rank 1 is gone";
  dl::rendezvous::report_peer_failure(failure);
}

// Fails because of rank 1.
int follow() {
  say_broken();
  return 4;
}

// Hears of it, and goes on.
int late() {
  say_broken();
  say("told\n");
  while (true) ::pause();
}

// Three lines of 1 MB of its own digit, in pieces of 10 kB.
int long_lines() {
  const std::string piece(10'000, static_cast<char>('0' + dl::env::require_int(Var::kRank)));
  for (int line = 0; line < 3; ++line) {
    for (int i = 0; i < 100; ++i) say(piece);
    say("\n");
  }
  return 0;
}

// The key comes through the descriptor, or through the file if the descriptor is closed.
int key() {
  const std::string by_fd = dl::rendezvous::JobKey::from_environment().value().hex();
  ::close(static_cast<int>(dl::env::require_int(Var::kKeyFd)));
  const std::string by_file = dl::rendezvous::JobKey::from_environment().value().hex();
  say(by_fd == by_file ? "same\n" : "different\n");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  if (what == "stubborn") return stubborn();
  if (what == "follow") return follow();
  if (what == "late") return late();
  if (what == "long-lines") return long_lines();
  if (what == "key") return key();
  return 64;
}
