// A soak: jobs of three ranks, over both of two nodes with two each, run random operations until
// one rank is killed at a random moment. Before that, in every other job, some rank is stopped for
// a while and goes on, which must disturb nothing; in every fourth the victim is stopped when it is
// killed.
//
//   soak SECONDS [SEED [BACKEND]]      without a backend: tcp, shm and hybrid in turns
//
// Three jobs run at a time, as most of one is waiting.
//
// Every other rank must end with an error that names the victim, within kHang, and with as many
// descriptors, threads and mapped segments as it began with; what arrives before must be right; and
// no process may be left. Prints a score; exit code 1 if it is not clean. The seed says which
// operations run and when the signals come; how far the ranks are by then is the machine's.
#include <dirent.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <new>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "collectives/init/init.h"
#include "core/base/error.h"
#include "core/base/system/process/fork.h"
#include "core/base/system/process/stopped.h"
#include "tests/chaos/operations.h"
#include "tests/chaos/soak_arguments.h"
#include "tests/support/eventually.h"
#include "tests/support/temp_dir.h"

namespace dl {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using collectives::ProcessGroup;

constexpr int kPlayers = 3;
constexpr int kMostRanks = 4;
constexpr auto kHang = 30s;

enum Fault : int { kNone, kWrongData, kLeak };

// What the ranks tell the program; lives in shared memory.
struct Board {
  std::atomic<std::uint64_t> done[kMostRanks];      // operations
  std::atomic<std::int64_t> failed_at[kMostRanks];  // nanoseconds of the steady clock; 0: not yet
  std::atomic<bool> over[kMostRanks];
  std::atomic<int> fault[kMostRanks];
  std::atomic<int> victim;
  char text[kMostRanks][1024];
};

// Of one player; lives in shared memory, and is read when that has ended.
struct Score {
  static constexpr std::size_t kMostNotices = 100'000;
  int kills = 0, pauses = 0;
  int hangs = 0, crashes = 0, misnamed = 0, wrong = 0, leaks = 0, left = 0, never_began = 0;
  std::uint64_t operations = 0;
  std::size_t notices = 0;
  double noticed_ms[kMostNotices];
  bool is_clean() const {
    return kills > 0 && hangs + crashes + misnamed + wrong + leaks + left + never_began == 0;
  }
  void add(const Score& other) {
    kills += other.kills, pauses += other.pauses;
    hangs += other.hangs, crashes += other.crashes;
    misnamed += other.misnamed, wrong += other.wrong, leaks += other.leaks, left += other.left;
    never_began += other.never_began, operations += other.operations;
    for (std::size_t i = 0; i < other.notices; ++i) notice(other.noticed_ms[i]);
  }
  void notice(double ms) {
    if (notices < kMostNotices) noticed_ms[notices++] = ms;
  }
};

std::size_t entries(const char* directory) {
  DIR* const open = ::opendir(directory);
  if (open == nullptr) return 0;
  std::size_t count = 0;
  while (::readdir(open) != nullptr) ++count;
  ::closedir(open);
  return count;
}

// Mappings of memory that dlrun has made for several processes.
std::size_t segments() {
  std::size_t count = 0;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    count += line.find("memfd:dlrun") != std::string::npos ? 1 : 0;
  }
  return count;
}

int ranks_of(const std::string& backend) {
  return backend == "hybrid" ? kMostRanks : 3;
}

[[noreturn]] void run(int rank, Board& board, const std::string& meet, const std::string& backend,
                      std::uint64_t seed) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const int ranks = ranks_of(backend);
  if (backend == "hybrid") ::setenv("DLRUN_NODE_ID", rank < ranks / 2 ? "a" : "b", 1);
  // A process keeps these for all of its groups, until it ends.
  watch_for_stops();
  ParentOnlyFds().add(STDIN_FILENO);
  const std::size_t descriptors = entries("/proc/self/fd");
  const std::size_t threads = entries("/proc/self/task");
  try {
    init_process_group({.backend = backend,
                        .init_method = "file://" + meet,
                        .rank = rank,
                        .world_size = ranks,
                        .timeout = 60s});
    tests::Operations operations(*default_group(), seed);
    for (;;) {
      if (!operations.next()) board.fault[rank].store(kWrongData);
      board.done[rank].fetch_add(1);
    }
  } catch (const std::exception& error) {
    std::strncpy(board.text[rank], error.what(), sizeof board.text[rank] - 1);
    board.failed_at[rank].store(Clock::now().time_since_epoch().count());
  }
  // The others must hear of the cause, not of this end.
  tests::eventually(kHang, [&] {
    for (int other = 0; other < ranks; ++other) {
      if (other != board.victim.load() && board.failed_at[other].load() == 0) return false;
    }
    return true;
  });
  destroy_process_group();
  const bool all_back = tests::eventually(kHang, [&] {
    // A sanitizer may have had one open while it was counted.
    return entries("/proc/self/fd") <= descriptors && entries("/proc/self/task") == threads &&
           segments() == 0;
  });
  if (!all_back) {
    board.fault[rank].store(kLeak);
    std::printf("rank %d: %zu descriptors (%zu before), %zu threads (%zu), %zu segments\n", rank,
                entries("/proc/self/fd"), descriptors, entries("/proc/self/task"), threads,
                segments());
  }
  board.over[rank].store(true);
  ::_exit(0);
}

std::string threads_of(pid_t pid) {
  std::string threads;
  const std::string tasks = "/proc/" + std::to_string(pid) + "/task/";
  for (const auto& task : std::filesystem::directory_iterator(tasks)) {
    std::string name;
    std::string where;
    std::getline(std::ifstream(task.path() / "comm"), name);
    std::getline(std::ifstream(task.path() / "wchan"), where);
    threads += (threads.empty() ? "" : ", ") + name + " in " + where;
  }
  return threads;
}

// What a rank does that has not ended.
void print_hang(const Board& board, int rank, pid_t pid) {
  const bool waits = board.failed_at[rank].load() == 0;
  std::printf("rank %d hangs after the death of rank %d: %s; operations: %llu; threads: %s\n", rank,
              board.victim.load(), waits ? "it waits" : board.text[rank],
              static_cast<unsigned long long>(board.done[rank].load()), threads_of(pid).c_str());
}

void judge(Board& board, std::vector<pid_t>& pids, Clock::time_point killed_at, Score& score) {
  const int victim = board.victim.load();
  const std::string who = "rank " + std::to_string(victim) + " (";
  const std::string pid = ", pid " + std::to_string(pids[victim]) + ")";
  for (int rank = 0; rank < static_cast<int>(pids.size()); ++rank) {
    score.operations += board.done[rank].load();
    if (rank == victim) continue;
    int status = 0;
    const bool has_ended = tests::eventually(2 * kHang, [&] {
      if (pids[rank] > 0 && ::waitpid(pids[rank], &status, WNOHANG) == pids[rank]) pids[rank] = -1;
      return board.over[rank].load() || pids[rank] < 0;
    });
    if (status != 0) {
      ++score.crashes;
      std::printf("rank %d ends with status %#x after the death of rank %d\n", rank,
                  static_cast<unsigned>(status), victim);
      continue;
    }
    if (!has_ended || board.failed_at[rank].load() == 0) {
      ++score.hangs;
      print_hang(board, rank, pids[rank]);
      continue;
    }
    const std::chrono::duration<double, std::milli> noticed =
        std::chrono::nanoseconds(board.failed_at[rank].load()) - killed_at.time_since_epoch();
    score.notice(noticed.count());
    const std::string text = board.text[rank];
    if (noticed.count() < 0 || text.find(who) == std::string::npos ||
        text.find(pid) == std::string::npos) {
      ++score.misnamed;
      std::printf("rank %d does not name rank %d: %s\n", rank, victim, text.c_str());
    }
    if (board.fault[rank].load() == kWrongData) ++score.wrong;
    if (board.fault[rank].load() == kLeak) ++score.leaks;
  }
}

void play(std::uint64_t seed, const std::string& backend, Score& score) {
  const tests::TempDir directory;
  void* const at =
      ::mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) throw std::bad_alloc();
  auto& board = *new (at) Board();
  std::mt19937_64 random(seed);
  const int ranks = ranks_of(backend);
  const int victim = static_cast<int>(random() % static_cast<unsigned>(ranks));
  const auto draw_time = [&] { return std::chrono::microseconds(random() % 30'000); };
  const auto after = draw_time();
  const bool is_stopped = random() % 4 == 0;
  const bool pauses = random() % 2 == 0;
  const int paused = static_cast<int>(random() % static_cast<unsigned>(ranks));
  const auto until_pause = draw_time();
  const auto pause = draw_time();
  board.victim.store(victim);
  std::vector<pid_t> pids(static_cast<std::size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) {
    pids[rank] = ::fork();
    if (pids[rank] == 0) run(rank, board, directory.path() + "/meet", backend, seed);
  }
  const bool began = tests::eventually(60s, [&] {
    return std::all_of(board.done, board.done + ranks, [](auto& done) { return done.load() > 0; });
  });
  if (began) {
    if (pauses) {
      std::this_thread::sleep_for(until_pause);
      ::kill(pids[paused], SIGSTOP);
      std::this_thread::sleep_for(pause);
      ::kill(pids[paused], SIGCONT);
      ++score.pauses;
    }
    std::this_thread::sleep_for(after);
    if (is_stopped) {
      ::kill(pids[victim], SIGSTOP);
      std::this_thread::sleep_for(pause);
    }
    const auto killed_at = Clock::now();
    ::kill(pids[victim], SIGKILL);
    ++score.kills;
    judge(board, pids, killed_at, score);
  } else {
    ++score.never_began;
    std::printf("the ranks did not begin: %s\n", board.text[0]);
  }
  for (const pid_t pid : pids) {
    if (pid < 0) continue;
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
  }
  // What the ranks have started and left is this process's child now.
  if (::waitpid(-1, nullptr, WNOHANG) >= 0) ++score.left;
  ::munmap(at, sizeof(Board));
}

struct Shared {
  std::atomic<std::uint64_t> next_job;
  Score players[kPlayers];
  Score all;
};

[[noreturn]] void take_jobs(Shared& shared, Score& score, Clock::time_point end, std::uint64_t seed,
                            const std::vector<std::string>& backends) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  const std::size_t descriptors = entries("/proc/self/fd");
  while (Clock::now() < end) {
    const std::uint64_t job = shared.next_job.fetch_add(1);
    play(seed + job, backends[job % backends.size()], score);
  }
  if (entries("/proc/self/fd") != descriptors) ++score.leaks;
  std::fflush(stdout);
  ::_exit(0);
}

int soak(int seconds, std::uint64_t seed, const std::vector<std::string>& backends) {
  void* const at =
      ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) throw std::bad_alloc();
  auto& shared = *new (at) Shared();
  const auto end = Clock::now() + std::chrono::seconds(seconds);
  std::vector<pid_t> pids;
  for (Score& score : shared.players) {
    pids.push_back(::fork());
    if (pids.back() == 0) take_jobs(shared, score, end, seed, backends);
  }
  int broken = 0;
  for (const pid_t pid : pids) {
    int status = -1;
    broken += ::waitpid(pid, &status, 0) != pid || status != 0 ? 1 : 0;
  }
  Score& score = shared.all;
  for (const Score& player : shared.players) score.add(player);
  std::sort(score.noticed_ms, score.noticed_ms + score.notices);
  const auto percentile = [&](std::size_t p) {
    return score.notices == 0 ? 0 : score.noticed_ms[(score.notices - 1) * p / 100];
  };
  std::printf(
      "soak: seed %llu, %d kills (500 take %.0f s), %d pauses, %llu operations; %d hangs, %d "
      "crashes, %d that name another rank, %d wrong results, %d leaks of descriptors, threads or "
      "segments, %d processes left, %d jobs "
      "that did not begin; a death is noticed after %.1f ms (median), %.1f ms (99 %%), %.1f ms (at "
      "most)\n",
      static_cast<unsigned long long>(seed), score.kills,
      500.0 * seconds / std::max(score.kills, 1), score.pauses,
      static_cast<unsigned long long>(score.operations), score.hangs, score.crashes, score.misnamed,
      score.wrong, score.leaks, score.left, score.never_began, percentile(50), percentile(99),
      percentile(100));
  if (broken > 0) std::printf("soak: %d of its own processes failed\n", broken);
  return score.is_clean() && broken == 0 ? 0 : 1;
}

}  // namespace
}  // namespace dl

int main(int argc, char** argv) {
  const dl::tests::SoakArguments given(argc, argv, "soak SECONDS [SEED [BACKEND]]");
  const int seconds = given.seconds();
  const std::uint64_t seed = given.number_or(2, 1);
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  return dl::soak(seconds, seed,
                  given.has(3) ? std::vector<std::string>{given.text(3)}
                               : std::vector<std::string>{"tcp", "shm", "hybrid"});
}
