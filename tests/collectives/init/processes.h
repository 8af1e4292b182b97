// Ranks as processes of a test's own, and what they meet at.
#pragma once

#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <new>
#include <string>
#include <vector>

#include "collectives/init.h"
#include "core/base/error.h"

namespace dl::tests {

// Forks one process a rank before any thread or gRPC exists in this one; each runs `body` and ends
// with its status. Returns the statuses.
inline std::vector<int> run_processes(int size, const std::function<int(int rank)>& body) {
  std::vector<pid_t> children;
  for (int rank = 0; rank < size; ++rank) {
    const pid_t child = ::fork();
    if (child == 0) {
      int status = 125;
      try {
        status = body(rank);
      } catch (const std::exception& error) {
        fprintf(stderr, "rank %d: %s\n", rank, error.what());
      }
      ::_exit(status);
    }
    children.push_back(child);
  }
  std::vector<int> statuses;
  for (const pid_t child : children) {
    int status = 0;
    ::waitpid(child, &status, 0);
    statuses.push_back(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
  }
  return statuses;
}

// Sums 1, 2, ..., over the default group; 0 if that went well.
inline int sum_and_stay(int size) {
  if (world_size() != size) return 2;
  float x = static_cast<float>(rank() + 1);
  default_group()->all_reduce({.input = &x, .output = &x, .count = 1})->wait();
  return x == static_cast<float>(size * (size + 1) / 2) ? 0 : 3;
}

// sum_and_stay(), then leaves the default group.
inline int sum_of_ranks(int size) {
  const int status = sum_and_stay(size);
  if (status == 2) return status;
  destroy_process_group();
  return is_initialized() ? 3 : status;
}

inline void set_rank(int rank, int size) {
  ::setenv("RANK", std::to_string(rank).c_str(), 1);
  ::setenv("WORLD_SIZE", std::to_string(size).c_str(), 1);
}

// The status of a rank: 0 if it was told `text`.
inline std::function<int(const std::string&)> holds(const std::string& text) {
  return [text](const std::string& what) {
    if (what.find(text) != std::string::npos) return 0;
    fprintf(stderr, "%s\n", what.c_str());
    return 1;
  };
}

// Lets processes that were forked with it go on when all of them have come.
class Meet {
 public:
  explicit Meet(int processes) : missing_(map()) { missing_->store(processes); }
  Meet(const Meet&) = delete;
  Meet& operator=(const Meet&) = delete;
  ~Meet() { ::munmap(missing_, sizeof *missing_); }

  void arrive() const { missing_->fetch_sub(1); }
  void arrive_and_wait() const {
    arrive();
    while (missing_->load() > 0) ::sched_yield();
  }

 private:
  static std::atomic<int>* map() {
    void* const memory = ::mmap(nullptr, sizeof(std::atomic<int>), PROT_READ | PROT_WRITE,
                                MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw_errno(errno, "mmap");
    return new (memory) std::atomic<int>(0);
  }

  std::atomic<int>* missing_;
};

}  // namespace dl::tests
