// A soak of reform(): jobs of four ranks sum without end, over each backend in turns. A rank is
// killed with SIGKILL at a random moment; the others re-form the group, check its ranks and its
// sum, and go on. Two ranks of each job are killed.
//
//   reform_soak KILLS [SEED [BACKEND]]
//
// Prints how long the others needed after the last of them had called reform(), and ends with 1 if
// a rank hangs, or anything is wrong.
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>
#include <random>
#include <string>
#include <vector>

#include "collectives/init/init.h"
#include "collectives/init/make_group.h"
#include "core/base/error.h"

namespace dl {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int kRanks = 4;
constexpr std::size_t kDeaths = 2;  // of a job
constexpr std::chrono::seconds kTime{60};
constexpr std::chrono::seconds kHang{90};

// What the ranks of a job tell their parent.
struct Told {
  struct Rank {
    std::atomic<Clock::rep> called{0}, returned{0};
  };
  std::array<std::array<Rank, kRanks>, kDeaths + 1> of;  // by generation
};

[[noreturn]] void run_rank(int rank, const UniqueId& id, const std::string& backend, Told& told) {
  try {
    if (backend == "hybrid") ::setenv("DLRUN_NODE_ID", rank % 2 == 0 ? "a" : "b", 1);
    Ref<collectives::ProcessGroup> group =
        make_group({.rank = rank, .size = kRanks, .id = id, .backend = backend, .timeout = kTime});
    for (std::size_t generation = 0;; ++generation) {
      int ranks = 1 << rank;
      group->all_reduce({.input = &ranks, .output = &ranks, .count = 1, .dtype = DType::kI32})
          ->wait();
      if (std::popcount(static_cast<unsigned>(ranks)) != group->size()) ::_exit(3);
      if (group->size() != kRanks - static_cast<int>(generation)) ::_exit(4);
      told.of[generation][static_cast<std::size_t>(rank)].returned =
          Clock::now().time_since_epoch().count();
      try {
        std::vector<float> x(20000);
        for (;;) {
          x.assign(x.size(), 1);
          group->all_reduce({.input = x.data(), .output = x.data(), .count = x.size()})->wait();
          if (x.front() != static_cast<float>(group->size()) || x.back() != x.front()) ::_exit(5);
        }
      } catch (const Error&) {
        if (!group->error()) ::_exit(6);
      }
      if (generation == kDeaths) ::_exit(7);  // no further rank was killed
      told.of[generation + 1][static_cast<std::size_t>(rank)].called =
          Clock::now().time_since_epoch().count();
      group = reform(group);
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rank %d of a job over %s: %s\n", rank, backend.c_str(), error.what());
  }
  ::_exit(2);
}

struct Score {
  int kills = 0, hangs = 0, wrong = 0;
  std::vector<double> milliseconds{};
};

// Waits until the others have the group of this generation. Returns false if they do not.
bool await_generation(const Told& told, std::size_t generation, unsigned alive,
                      const std::array<pid_t, kRanks>& pids, Score& score) {
  for (const auto until = Clock::now() + kHang;;) {
    bool have_all = true;
    for (int rank = 0; rank < kRanks; ++rank) {
      if ((alive >> rank & 1) == 0) continue;
      have_all = have_all && told.of[generation][static_cast<std::size_t>(rank)].returned != 0;
      int status = 0;
      if (::waitpid(pids[static_cast<std::size_t>(rank)], &status, WNOHANG) != 0) {
        std::fprintf(stderr, "rank %d ended with %d\n", rank, status);
        ++score.wrong;
        return false;
      }
    }
    if (have_all) return true;
    if (Clock::now() > until) {
      std::fprintf(stderr, "generation %zu is not made after %lld s\n", generation,
                   static_cast<long long>(kHang.count()));
      ++score.hangs;
      return false;
    }
    ::poll(nullptr, 0, 1);
  }
}

void run_job(const std::string& backend, std::mt19937_64& random, Score& score) {
  void* const memory =
      ::mmap(nullptr, sizeof(Told), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw_errno(errno, "mmap");
  auto* const told = new (memory) Told{};
  const UniqueId id = make_unique_id();
  std::array<pid_t, kRanks> pids{};
  for (int rank = 0; rank < kRanks; ++rank) {
    pids[static_cast<std::size_t>(rank)] = ::fork();
    if (pids[static_cast<std::size_t>(rank)] == 0) run_rank(rank, id, backend, *told);
  }
  collectives::meet::forget_id(id);  // rank 0 has its own
  unsigned alive = (1U << kRanks) - 1;
  for (std::size_t death = 0; await_generation(*told, death, alive, pids, score); ++death) {
    if (death > 0) {
      Clock::rep called = 0, returned = 0;
      for (const Told::Rank& rank : told->of[death]) {
        called = std::max(called, rank.called.load());
        returned = std::max(returned, rank.returned.load());
      }
      score.milliseconds.push_back(
          std::chrono::duration<double, std::milli>(Clock::duration(returned - called)).count());
    }
    if (death == kDeaths) break;
    ::usleep(static_cast<useconds_t>(random() % 20000));
    int victim = static_cast<int>(random() % kRanks);
    while ((alive >> victim & 1) == 0) victim = (victim + 1) % kRanks;
    ::kill(pids[static_cast<std::size_t>(victim)], SIGKILL);
    ::waitpid(pids[static_cast<std::size_t>(victim)], nullptr, 0);
    alive &= ~(1U << victim);
    ++score.kills;
  }
  for (int rank = 0; rank < kRanks; ++rank) {
    if ((alive >> rank & 1) == 0) continue;
    ::kill(pids[static_cast<std::size_t>(rank)], SIGKILL);
    ::waitpid(pids[static_cast<std::size_t>(rank)], nullptr, 0);
  }
  ::munmap(memory, sizeof(Told));
}

int run(int kills, std::uint64_t seed, const std::string& only) {
  const std::vector<std::string> backends =
      only.empty() ? std::vector<std::string>{"shm", "tcp", "hybrid"} : std::vector{only};
  std::mt19937_64 random(seed);
  Score score;
  for (std::size_t job = 0; score.kills < kills && score.hangs + score.wrong < 10; ++job) {
    run_job(backends[job % backends.size()], random, score);
  }
  std::ranges::sort(score.milliseconds);
  const std::size_t count = score.milliseconds.size();
  std::printf("seed %llu: %d kills, %zu reforms, %d hangs, %d wrong",
              static_cast<unsigned long long>(seed), score.kills, count, score.hangs, score.wrong);
  if (count > 0) {
    std::printf("; after the last call: median %.2f ms, 95 %% %.2f ms, max %.2f ms",
                score.milliseconds[count / 2], score.milliseconds[count * 95 / 100],
                score.milliseconds.back());
  }
  std::printf("\n");
  return score.hangs + score.wrong == 0 && count > 0 ? 0 : 1;
}

}  // namespace
}  // namespace dl

int main(int argc, char** argv) {
  if (argc < 2 || argc > 4) {
    std::fprintf(stderr, "usage: reform_soak KILLS [SEED [BACKEND]]\n");
    return 2;
  }
  const std::uint64_t seed = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1;
  return dl::run(std::atoi(argv[1]), seed, argc > 3 ? argv[3] : "");
}
