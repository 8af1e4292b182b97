// Groups over shared memory on a system with too little of it.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <string>
#include <vector>

#include "collectives/init/init.h"
#include "core/base/error.h"
#include "core/base/sanitizers.h"
#include "tests/collectives/init/processes.h"
#include "tests/support/temp_dir.h"

namespace dl {
namespace {

using namespace std::chrono_literals;
using namespace tests;

void init_over_shared_memory(int rank, const std::string& directory) {
  init_process_group({.backend = "shm",
                      .init_method = "file://" + directory + "/meet",
                      .rank = rank,
                      .world_size = 2,
                      .timeout = 60s});
}

// The receiver has no free file number for the memory through which messages come.
TEST(SharedMemory, ADescriptorThatDoesNotArriveIsSaidAtOnce) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "UBSan opens a pipe to look at an object";
#endif
  const tests::TempDir directory;
  const auto exchange = [&](int rank) {
    init_over_shared_memory(rank, directory.path());
    if (rank == 1) {
      constexpr int kMost = 256;
      while (::open("/dev/null", O_RDONLY) < kMost) {
      }
      rlimit few{};
      ::getrlimit(RLIMIT_NOFILE, &few);
      few.rlim_cur = kMost;
      ::setrlimit(RLIMIT_NOFILE, &few);
    }
    try {
      // Rank 0 may send, and rank 1's group break, before rank 1's thread is back from the barrier.
      default_group()->barrier()->wait();
      float x = 1;
      if (rank == 0) {
        default_group()->send({.buffer = &x, .count = 1, .peer = 1})->wait();
        default_group()->barrier()->wait();
      } else {
        default_group()->recv({.buffer = &x, .count = 1, .peer = 0})->wait();
      }
    } catch (const Error& error) {
      return holds("did not arrive")(error.what());
    }
    return 2;
  };
  EXPECT_EQ(run_processes(2, exchange), (std::vector<int>{0, 0}));
}

// A control group with so much memory, for processes that write into its file `cgroup.procs`.
class MemoryLimit {
 public:
  explicit MemoryLimit(std::size_t bytes) {
    std::ifstream groups("/proc/self/cgroup");
    for (std::string line; std::getline(groups, line);) {
      const std::string own = line.substr(line.rfind(':') + 1);
      const bool is_v2 = line.starts_with("0::");
      if (!is_v2 && line.find(":memory:") == std::string::npos) continue;
      const std::string parent = is_v2 ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory";
      path_ = parent + own + "/dlrun-test-" + std::to_string(::getpid());
      if (::mkdir(path_.c_str(), 0755) != 0) continue;
      std::ofstream limit(path_ + (is_v2 ? "/memory.max" : "/memory.limit_in_bytes"), std::ios::in);
      if (limit << bytes << std::flush) return;
      ::rmdir(path_.c_str());
    }
    path_.clear();
  }
  MemoryLimit(const MemoryLimit&) = delete;
  MemoryLimit& operator=(const MemoryLimit&) = delete;
  ~MemoryLimit() { ::rmdir(path_.c_str()); }

  bool exists() const { return !path_.empty(); }
  bool enter() const {
    std::ofstream processes(path_ + "/cgroup.procs", std::ios::in);
    return static_cast<bool>(processes << 0 << std::flush);
  }

 private:
  std::string path_;
};

// The kernel would kill a rank that takes more.
TEST(SharedMemory, BeyondTheLimitOfAControlGroupIsAnError) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer takes much memory of its own";
#endif
  const MemoryLimit limit(128 * 1024 * 1024);
  if (!limit.exists()) GTEST_SKIP() << "no control group with a memory limit can be made here";
  const tests::TempDir directory;
  const auto allocate = [&](int rank) {
    if (!limit.enter()) return 2;
    init_over_shared_memory(rank, directory.path());
    try {
      default_group()->allocate_symmetric(256 * 1024 * 1024);
    } catch (const Error& error) {
      return holds("the memory limit of this process's control group")(error.what());
    }
    return 3;
  };
  EXPECT_EQ(run_processes(2, allocate), (std::vector<int>{0, 0}));
}

// Leaves this process so many bytes of address space.
void limit_address_space(std::size_t bytes) {
  std::size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  rlimit limit{};
  ::getrlimit(RLIMIT_AS, &limit);
  limit.rlim_cur = pages * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)) + bytes;
  ::setrlimit(RLIMIT_AS, &limit);
}

TEST(SharedMemory, BeyondTheLimitOfAddressSpaceNamesTheLimit) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer maps memory of its own";
#endif
  const tests::TempDir directory;
  const auto allocate = [&](int rank) {
    init_over_shared_memory(rank, directory.path());
    limit_address_space(16 * 1024 * 1024);
    try {
      default_group()->allocate_symmetric(32 * 1024 * 1024);
    } catch (const Error& error) {
      return holds("Cannot allocate memory; the limit (ulimit -v) is ")(error.what());
    }
    return 3;
  };
  EXPECT_EQ(run_processes(2, allocate), (std::vector<int>{0, 0}));
}

}  // namespace
}  // namespace dl
