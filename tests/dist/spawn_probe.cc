// spawn_probe CASE [WORD...]: a program that spawns ranks, for spawn_test.
#include <fmt/core.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>

#include "collectives/init/init.h"
#include "collectives/init/spawn.h"
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

std::atomic<bool> looks_at_handlers{false};

bool has_report() {
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const std::string name = std::filesystem::read_symlink(entry, gone);
    if (name.find("dlrun-spawn") != std::string::npos) return true;
  }
  return false;
}

// Starts a program while spawn() waits for the ranks, which end when standard input does.
void show_inherited_descriptors() {
  std::thread other;
  if (!dl::is_spawned()) {
    other = std::thread([] {
      while (!has_report()) std::this_thread::yield();
      std::FILE* const listing = ::popen("ls -l /proc/self/fd", "r");
      char line[512];
      while (std::fgets(line, sizeof line, listing) != nullptr) std::fputs(line, stdout);
      ::pclose(listing);
      say("listed");
    });
  }
  dl::spawn(
      [](int) {
        char byte = 0;
        while (::read(STDIN_FILENO, &byte, 1) > 0) {
        }
      },
      1);
  other.join();
}

void end_by_default(int signal) {
  const rlimit no_core{};
  ::setrlimit(RLIMIT_CORE, &no_core);
  ::signal(signal, SIG_DFL);
}

int run(const std::string& what, const std::string& word) {
  if (what == "sum") {
    if (!dl::is_spawned()) say("first " + word);
    dl::spawn([&](int rank) { say(fmt::format("{} {} sum {}", word, rank, sum_of_ranks(rank))); },
              3);
    say("between");
    dl::spawn([&](int rank) { say(fmt::format("second {} {}", rank, dl::is_spawned())); }, 2);
    say("last");
  } else if (what == "results") {
    // The last one looks like a line of the report.
    const std::string texts[] = {"", "two\nlines\n", "failed 2 7\nno page"};
    const auto earlier = dl::spawn_for_results([](int) { return std::string("one"); }, 1);
    const auto results = dl::spawn_for_results([&](int rank) { return texts[rank]; }, 3);
    for (const std::string& text : texts) {
      say(fmt::format("{}", results.at(&text - texts) == text && earlier.at(0) == "one"));
    }
  } else if (what == "throw") {
    one_fails([] { throw std::runtime_error("no such data set"); });
  } else if (what == "throw-empty") {
    one_fails([] { throw std::out_of_range(""); });
  } else if (what == "throw-lines") {
    one_fails([] { throw std::runtime_error("\nno \"data\" set\n\tin C:\\a\x1b\nlast of them"); });
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
  } else if (what == "descriptors") {
    show_inherited_descriptors();
  } else if (what == "handlers") {
    if (!dl::is_spawned()) {
      for (const int signal : {SIGUSR1, SIGTERM, SIGINT}) ::signal(signal, [](int) {});
      ::signal(SIGHUP, SIG_IGN);
    }
    looks_at_handlers = true;
    dl::spawn([](int) {}, 1);
  } else if (what == "wait") {  // until something ends them
    end_by_default(SIGQUIT);
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

// In place of libc's: says what would run in this program's memory before dlrun does.
extern "C" int execve(const char* path, char* const argv[], char* const envp[]) noexcept {
  if (looks_at_handlers) {
    int handlers = 0;
    int ignored = 0;
    for (int signal = 1; signal < NSIG; ++signal) {
      struct sigaction action = {};
      if (::sigaction(signal, nullptr, &action) != 0) continue;
      if (action.sa_handler == SIG_IGN) ++ignored;
      if (action.sa_handler != SIG_IGN && action.sa_handler != SIG_DFL) ++handlers;
    }
    char text[] = "handlers 0 ignored 0\n";
    text[9] = static_cast<char>(text[9] + handlers);
    text[19] = static_cast<char>(text[19] + ignored);
    (void)!::write(STDOUT_FILENO, text, sizeof text - 1);
  }
  return static_cast<int>(::syscall(SYS_execve, path, argv, envp));
}

int main(int argc, char** argv) {
  return run(argc > 1 ? argv[1] : "", argc > 2 ? argv[2] : "");
}
