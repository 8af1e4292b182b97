// Ranks as processes of a test's own, and what they meet at.
#pragma once

#include <poll.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <bit>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "collectives/init/init.h"
#include "core/base/error.h"

namespace dl::tests {

// A T in memory that forked processes share, made before they are.
template <typename T>
class Shared {
 public:
  Shared() {
    void* const memory =
        ::mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw_errno(errno, "mmap");
    value_ = new (memory) T{};
  }
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;
  ~Shared() { ::munmap(value_, sizeof(T)); }
  T& operator*() const { return *value_; }
  T* operator->() const { return value_; }

 private:
  T* value_;
};

// What the processes of run_processes() know of each other. A bit a process.
struct Fates {
  std::atomic<std::uint64_t> all{0};
  std::atomic<std::uint64_t> ended{0};
};
inline Fates& fates() {
  static const Shared<Fates> shared;
  return *shared;
}
inline int& own_number() {
  static int number = -1;
  return number;
}

// Forks one process a rank before any thread or gRPC exists in this one; each runs `body` and ends
// with its status. Returns the statuses.
inline std::vector<int> run_processes(int size, const std::function<int(int rank)>& body) {
  fates().all.store((std::uint64_t{1} << size) - 1);
  fates().ended.store(0);
  std::vector<pid_t> children;
  for (int rank = 0; rank < size; ++rank) {
    const pid_t child = ::fork();
    if (child == 0) {
      own_number() = rank;
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
  // In the order in which they end, so that Meet hears of it. Other children are not this
  // function's.
  std::vector<int> statuses(children.size());
  std::vector<pollfd> ends;
  for (const pid_t child : children) {
    const auto fd = static_cast<int>(::syscall(SYS_pidfd_open, child, 0));
    if (fd < 0) throw_errno(errno, "pidfd_open");
    ends.push_back({fd, POLLIN, 0});
  }
  for (std::size_t left = children.size(); left > 0;) {
    ::poll(ends.data(), ends.size(), -1);
    for (std::size_t rank = 0; rank < ends.size(); ++rank) {
      if (ends[rank].fd < 0 || ends[rank].revents == 0) continue;
      int status = 0;
      ::waitpid(children[rank], &status, 0);
      statuses[rank] = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
      fates().ended.fetch_or(std::uint64_t{1} << rank);
      ::close(std::exchange(ends[rank].fd, -1));
      --left;
    }
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

// Each rank adds the bit of its number in the first group.
inline int sum_once(collectives::ProcessGroup& group, int first_rank) {
  int x = 1 << first_rank;
  group.all_reduce({.input = &x, .output = &x, .count = 1, .dtype = DType::kI32})->wait();
  return x;
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

// Lets processes of run_processes() go on when so many of them have come. Throws if too many have
// ended without coming.
class Meet {
 public:
  explicit Meet(int processes) : processes_(processes) {}

  void arrive() const { arrived_->fetch_or(std::uint64_t{1} << own_number()); }
  void arrive_and_wait() const {
    arrive();
    for (;;) {
      const std::uint64_t ended = fates().ended.load();  // what these did is seen below
      const std::uint64_t arrived = arrived_->load();
      if (std::popcount(arrived) >= processes_) return;
      const std::uint64_t lost = ended & ~arrived;
      DL_CHECK(std::popcount(fates().all.load() & ~lost) >= processes_, kPeerFailed,
               "process {} has ended before it came to where {} processes are to meet",
               std::countr_zero(lost), processes_);
      ::sched_yield();
    }
  }

 private:
  const int processes_;
  const Shared<std::atomic<std::uint64_t>> arrived_;
};

}  // namespace dl::tests
