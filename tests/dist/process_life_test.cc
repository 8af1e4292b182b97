// What happens to a process that is a rank: it forks, it exits without a word of goodbye, it is
// stopped. Ranks are processes that meet in a directory.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "collectives/init/init.h"
#include "collectives/tcp/traffic/peers.h"
#include "core/base/error.h"
#include "tests/support/free_port.h"
#include "tests/support/temp_dir.h"

namespace dl {
namespace {

using namespace std::chrono_literals;
using collectives::ProcessGroup;

constexpr int kRanks = 3;
constexpr int kVictim = 1;

// A pipe that carries a byte from one process to another, or the news of a process's end.
class Signal {
 public:
  Signal() {
    if (::pipe2(ends_.data(), O_CLOEXEC) != 0) throw_errno(errno, "pipe2");
  }
  ~Signal() {
    ::close(ends_[0]);
    close();
  }
  Signal(const Signal&) = delete;
  Signal& operator=(const Signal&) = delete;

  void give() const {
    const char byte = 1;
    if (::write(ends_[1], &byte, 1) != 1) throw_errno(errno, "write");
  }
  // True for a byte, false once all writers are gone.
  bool await() const {
    char byte = 0;
    ssize_t n = 0;
    while ((n = ::read(ends_[0], &byte, 1)) < 0 && errno == EINTR) {
    }
    return n == 1;
  }
  void close() {
    if (ends_[1] >= 0) ::close(ends_[1]);
    ends_[1] = -1;
  }
  int reading() const { return ends_[0]; }

 private:
  std::array<int, 2> ends_{-1, -1};
};

struct Job {
  std::string backend = "auto";
  std::chrono::nanoseconds timeout = 60s;
  std::string init_method{};                // empty: a directory of its own
  std::function<void(int rank)> prepare{};  // before init_process_group()
};

// The ranks of one job, each a process; a body's value is its exit status, and it ends by exit().
class Ranks {
 public:
  Ranks(Job job, const std::function<int(ProcessGroup&, int rank)>& body) {
    if (job.init_method.empty()) job.init_method = "file://" + directory_.path() + "/meet";
    for (int rank = 0; rank < kRanks; ++rank) {
      const pid_t child = ::fork();
      if (child == 0) {
        // If the backend is "hybrid", ranks 0 and 1 share a node, and rank 2 has its own.
        if (job.backend == "hybrid") ::setenv("DLRUN_NODE_ID", rank < 2 ? "first" : "second", 1);
        ::exit(run(job, rank, body));
      }
      pids_.push_back(child);
    }
  }
  ~Ranks() {
    for (int rank = 0; rank < kRanks; ++rank) {
      if (pid(rank) < 0) continue;
      ::kill(pid(rank), SIGKILL);
      status(rank);
    }
  }
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  pid_t pid(int rank) const { return pids_[static_cast<std::size_t>(rank)]; }
  // Waits for its end; 128 + n for a signal n.
  int status(int rank) {
    int status = 0;
    while (::waitpid(pid(rank), &status, 0) < 0 && errno == EINTR) {
    }
    pids_[static_cast<std::size_t>(rank)] = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  void stop_all() const {
    for (const pid_t pid : pids_) ::kill(pid, SIGSTOP);
    int status = 0;
    for (const pid_t pid : pids_) ::waitpid(pid, &status, WUNTRACED);
  }
  void continue_all() const {
    for (const pid_t pid : pids_) ::kill(pid, SIGCONT);
  }

 private:
  static int run(const Job& job, int rank,
                 const std::function<int(ProcessGroup&, int rank)>& body) {
    try {
      if (job.prepare) job.prepare(rank);
      init_process_group({.backend = job.backend,
                          .init_method = job.init_method,
                          .rank = rank,
                          .world_size = kRanks,
                          .timeout = job.timeout});
      return body(*default_group(), rank);
    } catch (const std::exception& error) {
      fprintf(stderr, "rank %d: %s\n", rank, error.what());
      return 125;
    }
  }

  const tests::TempDir directory_;
  std::vector<pid_t> pids_;
};

// Sums over all ranks some times; false if a sum is wrong.
bool works(ProcessGroup& group, int times = 20,
           std::optional<std::chrono::nanoseconds> timeout = {}) {
  std::vector<float> x(10'000);
  for (int i = 0; i < times; ++i) {
    std::fill(x.begin(), x.end(), 1.F);
    group
        .all_reduce({.input = x.data(),
                     .output = x.data(),
                     .count = x.size(),
                     .call = {.timeout = timeout}})
        ->wait();
    if (x.front() != kRanks || x.back() != kRanks) return false;
  }
  return true;
}

// What a call throws.
std::string said_by(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

bool is_for_the_parent(const std::string& text) {
  const bool is = text.find("is a child that it forked") != std::string::npos &&
                  text.find("rank 1 (") != std::string::npos;
  if (!is) fprintf(stderr, "a child was told '%s'\n", text.c_str());
  return is;
}

class AForkedChild : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(, AForkedChild, ::testing::Values("shm", "tcp", "hybrid"),
                         [](const auto& one) { return std::string(one.param); });

// What a child does with its parent's group: each line has broken it on all ranks, or hung.
int misuse(ProcessGroup& group, const Ref<collectives::Work>& under_way) {
  float x = 1;
  const auto reduce = [&] { group.all_reduce({.input = &x, .output = &x, .count = 1})->wait(); };
  if (!is_for_the_parent(said_by(reduce))) return 1;
  if (!is_for_the_parent(said_by([&] { group.barrier()->wait(); }))) return 2;
  if (!is_for_the_parent(said_by([&] { group.send({.buffer = &x, .count = 1, .peer = 0}); }))) {
    return 3;
  }
  if (!is_for_the_parent(said_by([&] { under_way->wait(); }))) return 4;
  if (!under_way->is_completed() || under_way->error() == nullptr) return 5;
  if (!is_for_the_parent(said_by([&] { group.split({.color = 0}); }))) return 6;
  if (!is_for_the_parent(said_by([&] { group.allocate_symmetric(4096); }))) return 7;
  group.abort("a child has nothing to say");
  if (group.gone_rank() != nullptr || group.error() == nullptr) return 8;
  if (is_initialized() || group.rank() != kVictim) return 9;
  if (said_by([] { init_process_group(); }).find("a child that a rank has forked") ==
      std::string::npos) {
    return 10;
  }
  std::ifstream maps("/proc/self/maps");
  const std::string all{std::istreambuf_iterator<char>(maps), {}};
  if (all.find("dlrun-shm") != std::string::npos) return 11;
  destroy_process_group();
  return 0;
}

TEST_P(AForkedChild, MayNotUseItsParentsGroup) {
  Ranks ranks({.backend = GetParam()}, [](ProcessGroup& group, int rank) {
    if (!works(group)) return 1;
    Ref<ProcessGroup> part = group.split({.color = 0});
    Ref<collectives::SymmetricMemory> memory = group.allocate_symmetric(1 << 16);
    if (rank == kVictim) {
      float x = 0;
      Ref<collectives::Work> under_way =
          group.recv({.buffer = &x, .count = 1, .peer = 0, .tag = 7});
      const pid_t child = ::fork();
      if (child == 0) {
        const int status = misuse(group, under_way);
        part = nullptr;
        memory = nullptr;
        under_way = nullptr;
        ::exit(status);  // as a program ends, with all that runs then
      }
      int status = -1;
      ::waitpid(child, &status, 0);
      if (status != 0) return 10 + WEXITSTATUS(status);
      group.barrier()->wait();
      under_way->wait();
      if (x != 42) return 2;
    } else {
      group.barrier()->wait();
      const float x = 42;
      if (rank == 0) group.send({.buffer = &x, .count = 1, .peer = kVictim, .tag = 7})->wait();
    }
    return works(group) && works(*part) ? 0 : 3;
  });
  for (int rank = 0; rank < kRanks; ++rank) EXPECT_EQ(ranks.status(rank), 0) << "rank " << rank;
}

// Runs until its end of the pipe closes; returns its pid.
using Start = pid_t (*)(int until);

pid_t by_fork(int until) {
  const pid_t child = ::fork();
  if (child != 0) return child;
  char byte = 0;
  while (::read(until, &byte, 1) < 0 && errno == EINTR) {
  }
  ::_exit(0);
}

// Without the handlers of fork(): what is left is that the peers see its parent's end.
pid_t by_clone(int until) {
  const auto child =
      static_cast<pid_t>(::syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, 0));
  if (child != 0) return child;
  char byte = 0;
  while (::syscall(SYS_read, until, &byte, 1) < 0 && errno == EINTR) {
  }
  ::syscall(SYS_exit_group, 0);
  return 0;
}

pid_t by_spawn(int until) {
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, until, 0);
  char program[] = "cat";
  char* const arguments[] = {program, nullptr};
  pid_t child = -1;
  if (::posix_spawnp(&child, program, &actions, nullptr, arguments, environ) != 0) child = -1;
  ::posix_spawn_file_actions_destroy(&actions);
  return child;
}

pid_t by_fork_and_exec(int until) {
  const pid_t child = ::fork();
  if (child != 0) return child;
  ::dup2(until, 0);
  ::execlp("cat", "cat", nullptr);
  ::_exit(127);
}

TEST_P(AForkedChild, DoesNotHideItsParentsEnd) {
  for (const Start start : {&by_fork, &by_clone, &by_spawn, &by_fork_and_exec}) {
    Signal until_the_end;
    Ranks ranks({.backend = GetParam(), .timeout = 30s}, [&](ProcessGroup& group, int rank) {
      until_the_end.close();
      if (rank == kVictim) {
        if (!works(group, 3)) return 1;
        if (start(until_the_end.reading()) < 0) return 2;
        ::raise(SIGKILL);
      }
      // Some may still be in the last sum when others have heard of the end.
      const std::string text = said_by([&] {
        works(group, 3);
        for (;;) group.barrier()->wait();
      });
      // Not a timeout: the child lives until both ranks have ended.
      // Only a child made behind fork()'s back keeps the connection.
      const std::string how = start == &by_clone ? "open, but its process has ended" : "";
      if (text.find("rank 1 (") != std::string::npos &&
          text.find("timed out") == std::string::npos &&
          text.find(" is gone (its connection is " + how) != std::string::npos &&
          text.find("); its own output may say why") != std::string::npos) {
        return 0;
      }
      fprintf(stderr, "rank %d: %s\n", rank, text.c_str());
      return 3;
    });
    EXPECT_EQ(ranks.status(kVictim), 128 + SIGKILL);
    EXPECT_EQ(ranks.status(0), 0);
    EXPECT_EQ(ranks.status(2), 0);
  }
}

// system() and popen(), and what a data loader does: children that come and go amid operations.
TEST_P(AForkedChild, ComesAndGoesWhileItsParentGoesOn) {
  Ranks ranks({.backend = GetParam()}, [](ProcessGroup& group, int) {
    for (int i = 0; i < 5; ++i) {
      std::thread meanwhile([] {
        if (::system("true") != 0) ::abort();
        FILE* const pipe = ::popen("echo x", "r");
        if (pipe == nullptr || ::fgetc(pipe) != 'x') ::abort();
        ::pclose(pipe);
        const pid_t worker = ::fork();
        if (worker == 0) ::_exit(0);
        ::waitpid(worker, nullptr, 0);
      });
      const bool good = works(group);
      meanwhile.join();
      if (!good) return 1;
    }
    return 0;
  });
  for (int rank = 0; rank < kRanks; ++rank) EXPECT_EQ(ranks.status(rank), 0) << "rank " << rank;
}

class AnExit : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(, AnExit, ::testing::Values("shm", "tcp", "hybrid"),
                         [](const auto& one) { return std::string(one.param); });

// Rank 1 has done its part, and its process is gone, when rank 2 comes. (In a shm group every rank
// has a part in every collective to its end; what a rank has sent is all that can outlive it.)
TEST_P(AnExit, WithoutDestroyingTheGroupIsAGoodbye) {
  Signal others_go_on;
  Ranks ranks({.backend = GetParam(), .timeout = 30s}, [&](ProcessGroup& group, int rank) {
    if (!works(group, 3)) return 1;
    std::vector<float> sent(10'000, static_cast<float>(rank));
    std::vector<float> all(kRanks * sent.size());
    if (rank == kVictim) {
      for (std::uint32_t tag = 0; tag < 8; ++tag) {
        group.send({.buffer = sent.data(), .count = sent.size(), .peer = 0, .tag = tag});
      }
    }
    if (rank == 2) others_go_on.await();
    if (group.backend() != "shm") {
      group.gather({.input = sent.data(), .output = all.data(), .count = sent.size()})->wait();
      if (rank == 0 && (all.front() != 0 || all[sent.size()] != 1 || all.back() != 2)) return 2;
    }
    if (rank != 0) return 0;
    others_go_on.await();
    for (std::uint32_t tag = 0; tag < 8; ++tag) {
      std::fill(sent.begin(), sent.end(), 0.F);
      group.recv({.buffer = sent.data(), .count = sent.size(), .peer = kVictim, .tag = tag})
          ->wait();
      if (sent.front() != 1 || sent.back() != 1) return 3;
    }
    return 0;
  });
  EXPECT_EQ(ranks.status(kVictim), 0);
  // Until a rank that had not said goodbye would be blamed.
  std::this_thread::sleep_for(2 * collectives::tcp::kGoneGrace);
  others_go_on.give();
  others_go_on.give();
  EXPECT_EQ(ranks.status(0), 0);
  EXPECT_EQ(ranks.status(2), 0);
}

// Without the handlers of exit() nothing is said, and what its kernel sends is all that comes.
TEST_P(AnExit, WithoutAGoodbyeDoesNotFailCompletedCollectives) {
  if (GetParam() == std::string("shm")) GTEST_SKIP() << "every rank has a part in it to its end";
  Signal others_go_on;
  Ranks ranks({.backend = GetParam(), .timeout = 30s}, [&](ProcessGroup& group, int rank) {
    if (!works(group, 3)) return 1;
    std::vector<float> sent(1000, static_cast<float>(rank));
    std::vector<float> all(kRanks * sent.size());
    if (rank == 2) others_go_on.await();
    group.gather({.input = sent.data(), .output = all.data(), .count = sent.size()})->wait();
    if (rank == kVictim) ::_exit(0);
    return rank != 0 || (all[sent.size()] == 1 && all.back() == 2) ? 0 : 2;
  });
  EXPECT_EQ(ranks.status(kVictim), 0);
  // Until a rank that is still needed would be blamed.
  std::this_thread::sleep_for(2 * collectives::tcp::kGoneGrace);
  others_go_on.give();
  EXPECT_EQ(ranks.status(0), 0);
  EXPECT_EQ(ranks.status(2), 0);
}

TEST_P(AnExit, IsAnErrorToThoseThatNeedTheRank) {
  Ranks ranks({.backend = GetParam(), .timeout = 30s}, [](ProcessGroup& group, int rank) {
    if (rank == kVictim) return works(group, 3) ? 7 : 1;
    // Some may still be in the last sum when others have heard of it.
    const std::string text = said_by([&] {
      works(group, 3);
      group.barrier()->wait();
    });
    const bool is_named = text.find("rank 1 (") != std::string::npos &&
                          text.find("has left group") != std::string::npos;
    if (!is_named) fprintf(stderr, "rank %d: %s\n", rank, text.c_str());
    return is_named ? 0 : 2;
  });
  EXPECT_EQ(ranks.status(kVictim), 7);
  EXPECT_EQ(ranks.status(0), 0);
  EXPECT_EQ(ranks.status(2), 0);
}

// All ranks are stopped for longer than their timeout while they wait, as by Ctrl-Z and fg: in
// operations of every backend, and for a rank that has not come to init_process_group() yet.
TEST(AStop, IsNoTimeThatARankHasWaited) {
  constexpr auto kTimeout = 5s;
  constexpr auto kStop = 5500ms;
  Signal waiting;
  Signal late_ranks_come;
  const auto is_late = [&](int rank) {
    if (rank == kVictim) {
      late_ranks_come.await();
    } else {
      waiting.give();
    }
  };
  const auto in_an_operation = [&](ProcessGroup& group, int rank) {
    is_late(rank);
    return works(group, 1, kTimeout) ? 0 : 1;
  };
  const auto after_init = [](ProcessGroup& group, int) { return works(group, 1) ? 0 : 1; };
  std::vector<std::unique_ptr<Ranks>> jobs;
  for (const char* const backend : {"shm", "tcp", "hybrid"}) {
    jobs.push_back(std::make_unique<Ranks>(Job{.backend = backend}, in_an_operation));
  }
  const std::string served = "tcp://127.0.0.1:" + std::to_string(tests::free_port());
  for (const std::string& method : {std::string(), served}) {
    jobs.push_back(std::make_unique<Ranks>(
        Job{.timeout = kTimeout, .init_method = method, .prepare = is_late}, after_init));
  }
  for (std::size_t i = 0; i < jobs.size() * (kRanks - 1); ++i) waiting.await();
  for (const auto& job : jobs) job->stop_all();
  // How long a stop lasts is what this is about.
  ::poll(nullptr, 0, static_cast<int>(std::chrono::milliseconds(kStop).count()));
  for (const auto& job : jobs) job->continue_all();
  for (std::size_t i = 0; i < jobs.size(); ++i) late_ranks_come.give();
  for (const auto& job : jobs) {
    for (int rank = 0; rank < kRanks; ++rank) EXPECT_EQ(job->status(rank), 0) << "rank " << rank;
  }
}

}  // namespace
}  // namespace dl
