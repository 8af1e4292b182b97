// Promise P3 with real processes: a rank that is killed inside an operation is named by all others
// within 1 s, one that is stopped is named at the deadline.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "collectives/init.h"
#include "core/base/error.h"
#include "tests/support/temp_dir.h"

namespace dl {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
constexpr int kRanks = 3;

// What the ranks and the test tell each other; lives in shared memory.
struct Board {
  std::atomic<int> rounds[kRanks];             // operations that a rank has finished
  std::atomic<int> kind[kRanks];               // of the error that ended it, plus one
  std::atomic<std::int64_t> ended_at[kRanks];  // nanoseconds of the steady clock
  char text[kRanks][1024];
};

using Step = std::function<void(collectives::ProcessGroup&, std::vector<float>&)>;

class Job {
 public:
  // Forks the ranks; each repeats `step` until it throws. Nothing in this process has threads yet.
  Job(const std::string& backend, const Step& step, std::chrono::nanoseconds timeout)
      : backend_(backend),
        board_(static_cast<Board*>(::mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE,
                                          MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {
    for (int rank = 0; rank < kRanks; ++rank) {
      const pid_t child = ::fork();
      if (child == 0) run(rank, step, timeout);
      pids_.push_back(child);
    }
  }
  ~Job() {
    for (const pid_t pid : pids_) {
      ::kill(pid, SIGKILL);
      ::waitpid(pid, nullptr, 0);
    }
    ::munmap(board_, sizeof(Board));
  }

  pid_t pid(int rank) const { return pids_[static_cast<std::size_t>(rank)]; }
  Board& board() { return *board_; }

  bool all_have_done(int rounds) {
    return eventually(30s, [&] {
      for (const auto& done : board_->rounds) {
        if (done.load() < rounds) return false;
      }
      return true;
    });
  }
  bool has_ended(int rank, std::chrono::milliseconds limit) {
    return eventually(limit, [&] { return board_->kind[rank].load() != 0; });
  }
  ErrorKind kind(int rank) { return static_cast<ErrorKind>(board_->kind[rank].load() - 1); }
  std::string text(int rank) { return board_->text[rank]; }

 private:
  static bool eventually(std::chrono::milliseconds limit, const std::function<bool()>& condition) {
    const auto end = Clock::now() + limit;
    while (!condition()) {
      if (Clock::now() >= end) return false;
      std::this_thread::sleep_for(2ms);
    }
    return true;
  }

  [[noreturn]] void run(int rank, const Step& step, std::chrono::nanoseconds timeout) {
    try {
      init_process_group({.backend = backend_,
                          .init_method = "file://" + directory_.path() + "/meet",
                          .rank = rank,
                          .world_size = kRanks,
                          .timeout = timeout});
      std::vector<float> buffer(300'000);
      for (;;) {
        step(*default_group(), buffer);
        board_->rounds[rank].fetch_add(1);
      }
    } catch (const Error& error) {
      std::strncpy(board_->text[rank], error.what(), sizeof board_->text[rank] - 1);
      board_->ended_at[rank].store(Clock::now().time_since_epoch().count());
      board_->kind[rank].store(static_cast<int>(error.kind()) + 1);
    }
    for (;;) ::pause();  // the others must hear of the cause, not of this end
  }

  const std::string backend_;
  tests::TempDir directory_;
  Board* board_;
  std::vector<pid_t> pids_;
};

const std::pair<const char*, Step> kSteps[] = {
    {"all_reduce",
     [](auto& group, auto& x) {
       group.all_reduce({.input = x.data(), .output = x.data(), .count = x.size()})->wait();
     }},
    {"small all_reduce",
     [](auto& group, auto& x) {
       group.all_reduce({.input = x.data(), .output = x.data(), .count = 2})->wait();
     }},
    {"broadcast",
     [](auto& group, auto& x) {
       group.broadcast({.buffer = x.data(), .count = x.size()})->wait();
     }},
    {"all_gather",
     [](auto& group, auto& x) {
       group
           .all_gather({.input = x.data() + static_cast<std::size_t>(group.rank()) * 100'000,
                        .output = x.data(),
                        .count = 100'000})
           ->wait();
     }},
    {"reduce_scatter",
     [](auto& group, auto& x) {
       group
           .reduce_scatter({.input = x.data(),
                            .output = x.data() + static_cast<std::size_t>(group.rank()) * 100'000,
                            .count = 100'000})
           ->wait();
     }},
    {"barrier", [](auto& group, auto&) { group.barrier()->wait(); }}};

class Backends : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(All, Backends, ::testing::Values("tcp", "shm"),
                         [](const auto& backend) { return std::string(backend.param); });

TEST_P(Backends, NameADeadRankOnAllOthersWithinASecond) {
  for (const auto& [name, step] : kSteps) {
    Job job(GetParam(), step, 60s);
    ASSERT_TRUE(job.all_have_done(20)) << name;
    const auto killed_at = Clock::now();
    ::kill(job.pid(1), SIGKILL);
    for (const int rank : {0, 2}) {
      ASSERT_TRUE(job.has_ended(rank, 10s)) << name << ": rank " << rank << " hangs";
      const auto after = std::chrono::nanoseconds(job.board().ended_at[rank].load()) -
                         killed_at.time_since_epoch();
      EXPECT_LT(after, 1s) << name;
      EXPECT_EQ(job.kind(rank), ErrorKind::kPeerFailed) << name << ": " << job.text(rank);
      const std::string victim = ", pid " + std::to_string(job.pid(1)) + ")";
      EXPECT_NE(job.text(rank).find("rank 1 ("), std::string::npos) << job.text(rank);
      EXPECT_NE(job.text(rank).find(victim), std::string::npos) << job.text(rank);
    }
  }
}

TEST_P(Backends, NameAStoppedRankAtTheDeadline) {
  Job job(GetParam(), kSteps[0].second, 2s);
  ASSERT_TRUE(job.all_have_done(20));
  ::kill(job.pid(2), SIGSTOP);
  for (const int rank : {0, 1}) {
    ASSERT_TRUE(job.has_ended(rank, 15s)) << "rank " << rank << " hangs";
    EXPECT_EQ(job.kind(rank), ErrorKind::kTimeout) << job.text(rank);
    EXPECT_NE(job.text(rank).find("rank 2 ("), std::string::npos) << job.text(rank);
    EXPECT_NE(job.text(rank).find("does not answer"), std::string::npos) << job.text(rank);
    EXPECT_EQ(job.text(rank).find("rank 0 ("), std::string::npos) << job.text(rank);
    EXPECT_EQ(job.text(rank).find("rank 1 ("), std::string::npos) << job.text(rank);
  }
}

}  // namespace
}  // namespace dl
