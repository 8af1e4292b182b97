// spawn_probe CASE [WORD...]: a program that spawns ranks, for spawn_test.
#include <fmt/core.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <stdexcept>
#include <string>

#include "collectives/init.h"
#include "collectives/spawn.h"
#include "core/base/error.h"

namespace {

// One write a line, so that the lines of processes that share a pipe do not mix.
void say(const std::string& line) {
  fmt::print("{}\n", line);
  std::fflush(stdout);
}

int sum_of_ranks(int rank) {
  dl::init_process_group();
  float sum = static_cast<float>(rank + 1);
  dl::default_group()->all_reduce({.input = &sum, .output = &sum, .count = 1})->wait();
  dl::destroy_process_group();
  return static_cast<int>(sum);
}

// Rank 1 does `fail`; the others wait for it in a collective.
template <typename Fail>
void one_fails(const Fail& fail) {
  try {
    dl::spawn(
        [&](int rank) {
          dl::init_process_group();
          if (rank == 1) fail();
          dl::default_group()->barrier({})->wait();
        },
        3);
  } catch (const dl::SpawnError& error) {
    say(fmt::format("caught rank {} exit code {} {}: {}", error.rank(), error.exit_code(),
                    dl::name_of(error.kind()), error.what()));
  }
}

int run(const std::string& what, const std::string& word) {
  if (what == "sum") {
    if (!dl::is_spawned()) say("first " + word);
    dl::spawn([&](int rank) { say(fmt::format("{} {} sum {}", word, rank, sum_of_ranks(rank))); },
              3);
    say("between");
    dl::spawn([&](int rank) { say(fmt::format("second {} {}", rank, dl::is_spawned())); }, 2);
    say("last");
  } else if (what == "throw") {
    one_fails([] { throw std::runtime_error("no such data set"); });
  } else if (what == "throw-number") {
    one_fails([] { throw 7; });
  } else if (what == "kill") {
    one_fails([] { ::raise(SIGKILL); });
  } else if (what == "exit") {
    one_fails([] { ::_exit(5); });
  } else if (what == "uncaught") {
    dl::spawn([](int) { throw std::runtime_error("no such data set"); }, 1);
  } else if (what == "not-there") {
    if (!dl::is_spawned()) dl::spawn([](int) {}, 2);
  } else if (what == "nested") {
    dl::spawn([](int) { dl::spawn([](int) {}, 1); }, 1);
  } else if (what == "none") {
    dl::spawn([](int) {}, 0);
  } else if (what == "wait") {  // until something ends them
    dl::spawn(
        [](int rank) {
          say(fmt::format("up {}", rank));
          for (;;) ::pause();
        },
        2);
  } else {
    dl::spawn([](int rank) { say(fmt::format("rank {}", rank)); }, 2);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return run(argc > 1 ? argv[1] : "", argc > 2 ? argv[2] : "");
}
