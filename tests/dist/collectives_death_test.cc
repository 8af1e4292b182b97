// Promise P3 with real processes, for every operation: a rank that is killed inside it is named by
// all others at once, one that is stopped is named at the deadline, and if it continues afterwards
// it changes nothing that the others hold.
//
// Each operation runs round after round in a group and a thread of its own, so that one signal
// hits the victim inside all of them.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <new>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "collectives/init/init.h"
#include "core/base/error.h"
#include "core/base/sanitizers.h"
#include "tests/support/eventually.h"
#include "tests/support/temp_dir.h"

namespace dl {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using collectives::ProcessGroup;

// How much longer the ranks may take under ThreadSanitizer.
#if defined(__SANITIZE_THREAD__)
constexpr int kPatience = 5;
#else
constexpr int kPatience = 1;
#endif
constexpr int kMostRanks = 4;
constexpr int kVictim = 1;
constexpr std::size_t kMany = 30'000;   // elements a rank: more than a send may leave behind
constexpr std::size_t kHuge = 2 << 20;  // more than sockets hold: the signal comes amid a frame
constexpr std::size_t kCounts[kMostRanks] = {kMany, kMany / 2, kMany / 3, kMany};  // of v-variants

// One round. Both buffers have `elements`.
using Round = void (*)(ProcessGroup& group, float* in, float* out);
struct Operation {
  const char* name;
  Round round;
  std::size_t elements = kMostRanks * kMany;
};

std::span<const std::size_t> counts(const ProcessGroup& group) {
  return std::span(kCounts).first(static_cast<std::size_t>(group.size()));
}

// The victim with all others: `first` elements with rank 0, `rest` with each further one.
void exchange(ProcessGroup& group, float* in, float* out, std::size_t first, std::size_t rest) {
  std::vector<Ref<collectives::Work>> works;
  for (int peer = 0; peer < group.size(); ++peer) {
    if (peer == group.rank() || (peer != kVictim && group.rank() != kVictim)) continue;
    const int other = group.rank() == kVictim ? peer : group.rank();
    const std::size_t at = other == 0 ? 0 : first + static_cast<std::size_t>(other - 1) * rest;
    const std::size_t count = other == 0 ? first : rest;
    works.push_back(group.sendrecv({.buffer = in + at, .count = count, .peer = peer},
                                   {.buffer = out + at, .count = count, .peer = peer}));
  }
  for (const Ref<collectives::Work>& work : works) work->wait();
}

constexpr Operation kOperations[] = {
    {"all_reduce",
     [](auto& g, float* in, float* out) {
       g.all_reduce({.input = in, .output = out, .count = kMostRanks * kMany})->wait();
     }},
    {"all_reduce of 8 MB",
     [](auto& g, float* in, float* out) {
       g.all_reduce({.input = in, .output = out, .count = kHuge})->wait();
     },
     kHuge},
    {"all_reduce of 4 KB",
     [](auto& g, float* in, float* out) {
       g.all_reduce({.input = in, .output = out, .count = 1000})->wait();
     }},
    {"all_reduce of 8 B",
     [](auto& g, float* in, float* out) {
       g.all_reduce({.input = in, .output = out, .count = 2})->wait();
     }},
    {"broadcast",
     [](auto& g, float*, float* out) {
       g.broadcast({.buffer = out, .count = kMostRanks * kMany, .root = kVictim})->wait();
     }},
    {"broadcast of 8 MB",
     [](auto& g, float*, float* out) {
       g.broadcast({.buffer = out, .count = kHuge, .root = kVictim})->wait();
     },
     kHuge},
    {"broadcast of 8 B",
     [](auto& g, float*, float* out) {
       g.broadcast({.buffer = out, .count = 2, .root = kVictim})->wait();
     }},
    {"all_gather",
     [](auto& g, float* in, float* out) {
       g.all_gather({.input = in, .output = out, .count = kMany})->wait();
     }},
    {"reduce_scatter",
     [](auto& g, float* in, float* out) {
       g.reduce_scatter({.input = in, .output = out, .count = kMany})->wait();
     }},
    {"barrier", [](auto& g, float*, float*) { g.barrier()->wait(); }},
    {"send and recv", [](auto& g, float* in, float* out) { exchange(g, in, out, kMany, kMany); }},
    {"send and recv of 8 MB",
     [](auto& g, float* in, float* out) { exchange(g, in, out, kHuge, 2); }, kHuge + kMany},
    {"reduce",
     [](auto& g, float* in, float* out) {
       g.reduce({.input = in, .output = out, .count = kMostRanks * kMany, .root = kVictim})->wait();
     }},
    {"gather",
     [](auto& g, float* in, float* out) {
       g.gather({.input = in, .output = out, .count = kMany, .root = kVictim})->wait();
     }},
    {"scatter",
     [](auto& g, float* in, float* out) {
       g.scatter({.input = in, .output = out, .count = kMany, .root = kVictim})->wait();
     }},
    {"all_to_all",
     [](auto& g, float* in, float* out) {
       g.all_to_all({.input = in, .output = out, .count = kMany})->wait();
     }},
    {"all_gatherv",
     [](auto& g, float* in, float* out) {
       g.all_gatherv({.input = in, .output = out, .counts = counts(g)})->wait();
     }},
    {"reduce_scatterv",
     [](auto& g, float* in, float* out) {
       g.reduce_scatterv({.input = in, .output = out, .counts = counts(g)})->wait();
     }},
    {"gatherv",
     [](auto& g, float* in, float* out) {
       const std::size_t count = kCounts[g.rank()];
       g.gatherv({.input = in, .count = count, .output = out, .counts = counts(g), .root = kVictim})
           ->wait();
     }},
    {"scatterv",
     [](auto& g, float* in, float* out) {
       const std::size_t count = kCounts[g.rank()];
       g.scatterv(
            {.input = in, .counts = counts(g), .output = out, .count = count, .root = kVictim})
           ->wait();
     }},
    {"all_to_allv",
     [](auto& g, float* in, float* out) {
       const std::vector<std::size_t> each(static_cast<std::size_t>(g.size()), kMany);
       g.all_to_allv({.input = in, .send_counts = each, .output = out, .receive_counts = each})
           ->wait();
     }},
};
constexpr std::size_t kOperationCount = std::size(kOperations);

// What the ranks and the test tell each other; lives in shared memory.
struct Seat {
  std::atomic<int> rounds;    // finished
  std::atomic<int> kind;      // of the error that ended them, plus one
  std::atomic<int> ended_at;  // the test's clock then
  std::atomic<int> looked;    // 1: the buffers are as the error left them, 2: not
  char text[1024];
};
struct Board {
  // The test's clock: how often it has looked, which takes it kLook each time, and as much longer
  // as a loaded machine keeps everybody from running.
  std::atomic<int> looks;
  Seat seats[kMostRanks][kOperationCount];
  std::atomic<bool> look_again;
  // Of a group without the victim.
  std::atomic<int> rounds_wanted;
  std::atomic<int> rounds_without[kMostRanks];
};

constexpr auto kLook = 2ms;

// Whether no thread of the process has anything to do.
bool is_asleep(pid_t pid) {
  for (const auto& task :
       std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/task")) {
    std::ifstream file(task.path() / "stat");
    std::string text;
    std::getline(file, text);  // does not throw if the thread has ended
    const std::size_t name_end = text.rfind(") ");
    if (name_end != std::string::npos && text[name_end + 2] != 'S') return false;
  }
  return true;
}

class Job {
 public:
  // Forks the ranks: three, or with `hybrid` two on each of two nodes. Nothing in this process has
  // threads yet.
  Job(const std::string& backend, std::chrono::nanoseconds timeout)
      : backend_(backend), timeout_(timeout), size_(backend == "hybrid" ? kMostRanks : 3) {
    void* const at =
        ::mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) throw std::bad_alloc();
    board_ = new (at) Board();
    for (int rank = 0; rank < size_; ++rank) {
      const pid_t child = ::fork();
      if (child == 0) run(rank);
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
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  pid_t pid(int rank) const { return pids_[static_cast<std::size_t>(rank)]; }
  void kill(const std::vector<int>& ranks, int signal) {
    for (const int rank : ranks) ::kill(pid(rank), signal);
  }
  Seat& seat(int rank, std::size_t operation) { return board_->seats[rank][operation]; }
  void look_again() { board_->look_again.store(true); }
  int looks() const { return board_->looks.load(); }
  // All ranks except the victim run this many rounds; false if they do not reach that number.
  bool go_on_without(int rounds, std::chrono::milliseconds limit) {
    board_->rounds_wanted.store(rounds);
    return tests::eventually(limit, [&] {
      return std::ranges::all_of(
          others(), [&](int rank) { return board_->rounds_without[rank].load() >= rounds; });
    });
  }
  std::vector<int> ranks() const {
    std::vector<int> all = others();
    all.push_back(kVictim);
    return all;
  }
  std::vector<int> others() const {
    std::vector<int> all;
    for (int rank = 0; rank < size_; ++rank) {
      if (rank != kVictim) all.push_back(rank);
    }
    return all;
  }

  // True if all seats of these ranks satisfy it in time.
  bool all_come_to(const std::vector<int>& ranks, std::chrono::milliseconds limit,
                   const std::function<bool(const Seat&)>& condition) {
    const auto all_satisfy = [&] {
      board_->looks.fetch_add(1);
      return std::ranges::all_of(
          ranks, [&](int rank) { return std::ranges::all_of(board_->seats[rank], condition); });
    };
    return tests::eventually(limit, all_satisfy, kLook);
  }
  bool any_has_ended() const {
    return std::ranges::any_of(others(), [&](int rank) {
      return std::ranges::any_of(board_->seats[rank],
                                 [](const Seat& seat) { return seat.kind.load() != 0; });
    });
  }
  // What has not come to satisfy it, for a failure's text.
  std::string who_lacks(const std::vector<int>& ranks,
                        const std::function<bool(const Seat&)>& condition) {
    std::string all;
    for (const int rank : ranks) {
      for (std::size_t i = 0; i < kOperationCount; ++i) {
        if (condition(seat(rank, i))) continue;
        all += " rank " + std::to_string(rank) + " in " + kOperations[i].name + ": " +
               seat(rank, i).text + ";";
      }
    }
    return all;
  }

 private:
  [[noreturn]] void run(int rank) noexcept {
    if (backend_ == "hybrid") ::setenv("DLRUN_NODE_ID", rank < 2 ? "a" : "b", 1);
    init_process_group({.backend = backend_,
                        .init_method = "file://" + directory_.path() + "/meet",
                        .rank = rank,
                        .world_size = size_,
                        .timeout = 60s});
    std::vector<Ref<ProcessGroup>> groups;
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < kOperationCount; ++i) {
      groups.push_back(
          default_group()->split({.name = "op" + std::to_string(i), .timeout = timeout_}));
    }
    const Ref<ProcessGroup> without =
        default_group()->split({.color = rank == kVictim ? collectives::kNoColor : 0});
    for (std::size_t i = 0; i < kOperationCount; ++i) {
      threads.emplace_back([this, rank, i, &group = *groups[i]] { repeat(rank, i, group); });
    }
    if (without) repeat_when_wanted(rank, *without);
    for (;;) ::pause();  // the others must hear of the cause, not of this end
  }

  void repeat_when_wanted(int rank, ProcessGroup& group) {
    std::vector<float> x(kMany, 1.0f);
    for (;;) {
      if (board_->rounds_without[rank].load() >= board_->rounds_wanted.load()) {
        std::this_thread::sleep_for(2ms);
        continue;
      }
      group.all_reduce({.input = x.data(), .output = x.data(), .count = kMany})->wait();
      board_->rounds_without[rank].fetch_add(1);
    }
  }

  void repeat(int rank, std::size_t operation, ProcessGroup& group) {
    Seat& mine = seat(rank, operation);
    std::vector<float> in(kOperations[operation].elements, 1.0f);
    std::vector<float> out(kOperations[operation].elements, 2.0f);
    const auto note = [&](ErrorKind kind, const char* text) {
      std::strncpy(mine.text, text, sizeof mine.text - 1);
      mine.ended_at.store(board_->looks.load());
      mine.kind.store(static_cast<int>(kind) + 1);
    };
    try {
      for (;;) {
        kOperations[operation].round(group, in.data(), out.data());
        mine.rounds.fetch_add(1);
      }
    } catch (const Error& error) {
      note(error.kind(), error.what());
    } catch (const std::exception& error) {
      note(ErrorKind::kInternal, error.what());
    }
    // The buffers belong to the caller again.
    std::ranges::fill(in, -1.0f);
    std::ranges::fill(out, -2.0f);
    while (!board_->look_again.load()) std::this_thread::sleep_for(2ms);
    const bool intact = std::ranges::all_of(in, [](float x) { return x == -1.0f; }) &&
                        std::ranges::all_of(out, [](float x) { return x == -2.0f; });
    mine.looked.store(intact ? 1 : 2);
  }

  const std::string backend_;
  const std::chrono::nanoseconds timeout_;
  const int size_;
  tests::TempDir directory_;
  Board* board_;
  std::vector<pid_t> pids_;
};

bool has_run(const Seat& seat) {
  return seat.rounds.load() >= 2;
}
bool has_ended(const Seat& seat) {
  return seat.kind.load() != 0;
}
bool has_looked(const Seat& seat) {
  return seat.looked.load() != 0;
}

// The seats of the ranks that are not the victim.
void for_each_other(Job& job, const std::function<void(const char* operation, Seat&)>& look) {
  for (const int rank : job.others()) {
    for (std::size_t i = 0; i < kOperationCount; ++i) look(kOperations[i].name, job.seat(rank, i));
  }
}

void expect_named(Job& job, const char* operation, const Seat& seat, ErrorKind kind) {
  EXPECT_EQ(static_cast<ErrorKind>(seat.kind.load() - 1), kind) << operation << ": " << seat.text;
  const std::string text = seat.text;
  const std::string victim = ", pid " + std::to_string(job.pid(kVictim)) + ")";
  EXPECT_NE(text.find("rank " + std::to_string(kVictim) + " ("), std::string::npos) << text;
  EXPECT_NE(text.find(victim), std::string::npos) << operation << ": " << text;
}

class Backends : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(All, Backends, ::testing::Values("tcp", "shm", "hybrid"),
                         [](const auto& backend) { return std::string(backend.param); });

TEST_P(Backends, NameADeadRankInEveryOperationWithinASecond) {
  Job job(GetParam(), 60s);
  ASSERT_TRUE(job.all_come_to(job.ranks(), kPatience * 60s, has_run))
      << job.who_lacks(job.ranks(), has_run);
  const int killed_at = job.looks();
  job.kill({kVictim}, SIGKILL);
  ASSERT_TRUE(job.all_come_to(job.others(), kPatience * 60s, has_ended))
      << job.who_lacks(job.others(), has_ended);
  std::vector<int> after;
  for_each_other(job, [&](const char* operation, const Seat& seat) {
    expect_named(job, operation, seat, ErrorKind::kPeerFailed);
    after.push_back(seat.ended_at.load() - killed_at);
  });
  // Of all of them the median, as a loaded machine may keep any one thread from running.
  std::ranges::sort(after);
  EXPECT_LT(after[after.size() / 2] * kLook, 1s);
}

// All backends at once: most of it is the wait for the deadline.
TEST(AStoppedRank, IsNamedBlocksNoOtherGroupAndWritesNoBuffer) {
  // Longer than a host may be silent: one whose rank does not read still answers.
  constexpr auto kTimeout = kPatience * 13s;
  Job jobs[] = {Job("tcp", kTimeout), Job("shm", kTimeout), Job("hybrid", kTimeout)};
  for (Job& job : jobs) {
    ASSERT_TRUE(job.all_come_to(job.ranks(), kPatience * 60s, has_run))
        << job.who_lacks(job.ranks(), has_run);
    // The others stand still until the victim has filled the sockets and waits, so that it stops
    // amid a frame, whose rest it sends when it goes on. If its threads never all sleep, it stops
    // at any point.
    job.kill(job.others(), SIGSTOP);
    tests::eventually(1s, [&] { return is_asleep(job.pid(kVictim)); });
    job.kill({kVictim}, SIGSTOP);
    job.kill(job.others(), SIGCONT);
    EXPECT_TRUE(job.go_on_without(5, kPatience * 60s)) << "a group waits for a rank of another one";
    EXPECT_FALSE(job.any_has_ended()) << "a group waited until the operations of another one ended";
  }
  for (Job& job : jobs) {
    ASSERT_TRUE(job.all_come_to(job.others(), kPatience * 90s, has_ended))
        << job.who_lacks(job.others(), has_ended);
    for_each_other(job, [&](const char* operation, const Seat& seat) {
      expect_named(job, operation, seat, ErrorKind::kTimeout);
      EXPECT_NE(std::string(seat.text).find("not answer"), std::string::npos)
          << operation << ": " << seat.text;
    });
    job.kill({kVictim}, SIGCONT);
    ASSERT_TRUE(job.all_come_to({kVictim}, kPatience * 60s, has_ended))
        << job.who_lacks({kVictim}, has_ended);
    job.look_again();
    ASSERT_TRUE(job.all_come_to(job.others(), kPatience * 60s, has_looked))
        << job.who_lacks(job.others(), has_looked);
    for_each_other(job, [&](const char* operation, const Seat& seat) {
      EXPECT_EQ(seat.looked.load(), 1) << operation << ": a stopped rank wrote after the error";
    });
  }
}

}  // namespace
}  // namespace dl
