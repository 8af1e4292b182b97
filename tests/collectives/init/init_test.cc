// init_process_group as programs call it: one process a rank.
#include "collectives/init.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <new>
#include <string>
#include <vector>

#include "collectives/roster.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "core/device/cuda/module.h"
#include "rendezvous/file_store.h"
#include "rendezvous/grpc_store_server.h"
#include "rendezvous/net/acceptor.h"
#include "rendezvous/net/job_key.h"
#include "rendezvous/prefix_store.h"
#include "tests/support/free_port.h"
#include "tests/support/stderr_lines.h"
#include "tests/support/temp_dir.h"

namespace dl {
namespace {

using namespace std::chrono_literals;

// Forks one process a rank before any thread or gRPC exists in this one; each runs `body` and ends
// with its status. Returns the statuses.
std::vector<int> run_processes(int size, const std::function<int(int rank)>& body) {
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

// Sums 1, 2, ..., over the default group and leaves it.
int sum_of_ranks(int size) {
  if (world_size() != size) return 2;
  float x = static_cast<float>(rank() + 1);
  default_group()->all_reduce({.input = &x, .output = &x, .count = 1})->wait();
  destroy_process_group();
  return x == static_cast<float>(size * (size + 1) / 2) && !is_initialized() ? 0 : 3;
}

void set_rank(int rank, int size) {
  ::setenv("RANK", std::to_string(rank).c_str(), 1);
  ::setenv("WORLD_SIZE", std::to_string(size).c_str(), 1);
}

TEST(InitProcessGroup, AloneIsAWorldOfOne) {
  EXPECT_EQ(run_processes(1,
                          [](int) {
                            init_process_group();
                            return sum_of_ranks(1);
                          }),
            std::vector<int>{0});
}

TEST(InitProcessGroup, OverNcclWithoutAGpuIsOneSentence) {
  if (cuda::unavailable_reason().empty()) GTEST_SKIP() << "there is a GPU";
  try {
    init_process_group({.backend = "nccl"});
    FAIL() << "it began";
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_EQ(text.rfind("backend nccl: ", 0), 0u) << text;
    EXPECT_EQ(text.find('\n'), std::string::npos) << text;
  }
  EXPECT_FALSE(is_initialized());
}

TEST(InitProcessGroup, ByTheEnvironmentWithAKeyFile) {
  const tests::TempDir directory;
  rendezvous::JobKey::generate().write_file(directory.path() + "/key");
  const std::string port = std::to_string(tests::free_port());
  EXPECT_EQ(run_processes(3,
                          [&](int rank) {
                            set_rank(rank, 3);
                            ::setenv("MASTER_ADDR", "127.0.0.1", 1);
                            ::setenv("MASTER_PORT", port.c_str(), 1);
                            ::setenv("DLRUN_KEY_FILE", (directory.path() + "/key").c_str(), 1);
                            init_process_group();
                            return sum_of_ranks(3);
                          }),
            (std::vector<int>{0, 0, 0}));
}

TEST(InitProcessGroup, ByAddressWithoutAKeyOnLoopback) {
  const std::string method = "tcp://127.0.0.1:" + std::to_string(tests::free_port());
  EXPECT_EQ(
      run_processes(2,
                    [&](int rank) {
                      init_process_group(
                          {.init_method = method, .rank = rank, .world_size = 2, .timeout = 30s});
                      return sum_of_ranks(2);
                    }),
      (std::vector<int>{0, 0}));
}

TEST(InitProcessGroup, ByADirectory) {
  const tests::TempDir directory;
  const std::string method = "file://" + (directory.path() + "/meet");
  EXPECT_EQ(
      run_processes(2,
                    [&](int rank) {
                      init_process_group(
                          {.init_method = method, .rank = rank, .world_size = 2, .timeout = 30s});
                      return sum_of_ranks(2);
                    }),
      (std::vector<int>{0, 0}));
}

TEST(InitProcessGroup, ADirectoryIsLeftAsItWasAndOneOfAnEarlierRunRefused) {
  const tests::TempDir directory;
  const auto run = [&](const std::string& folder, bool says_goodbye) {
    return run_processes(2, [&](int rank) {
      try {
        init_process_group(
            {.init_method = "file://" + folder, .rank = rank, .world_size = 2, .timeout = 30s});
      } catch (const Error& error) {
        return std::string(error.what()).find("an earlier run") != std::string::npos ? 40 : 41;
      }
      return says_goodbye ? sum_of_ranks(2) : 0;
    });
  };
  const std::string own = directory.path() + "/meet";
  const std::string users = directory.path() + "/users";
  std::filesystem::create_directory(users);
  std::filesystem::permissions(users, std::filesystem::perms::owner_all);
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(run(own, true), (std::vector<int>{0, 0}));
    EXPECT_FALSE(std::filesystem::exists(own));
    EXPECT_EQ(run(users, true), (std::vector<int>{0, 0}));
    EXPECT_TRUE(std::filesystem::is_empty(users));
  }
  EXPECT_EQ(run(own, false), (std::vector<int>{0, 0}));
  EXPECT_EQ(run(own, true), (std::vector<int>{40, 40}));
}

// Inits, sums and destroys again and again, with another backend each time; whether every sum came.
int come_and_go(int rank, int size, int times, const std::string& method) {
  // Two nodes; the ranks of the first share memory in a hybrid group.
  ::setenv("DLRUN_NODE_ID", 2 * rank < size ? "first" : "second", 1);
  for (int i = 0; i < times; ++i) {
    const char* const backends[] = {"auto", "tcp", "hybrid"};
    init_process_group({.backend = backends[i % 3],
                        .init_method = method,
                        .rank = rank,
                        .world_size = size,
                        .timeout = 60s,
                        .name = i % 5 == 4 ? "other" : "world"});
    if (const int status = sum_of_ranks(size); status != 0) return status;
  }
  return 0;
}

TEST(InitAgain, WhereRankZeroServes) {
  const tests::TempDir directory;
  rendezvous::JobKey::generate().write_file(directory.path() + "/key");
  const std::string method = "tcp://127.0.0.1:" + std::to_string(tests::free_port());
  EXPECT_EQ(run_processes(3,
                          [&](int rank) {
                            ::setenv("DLRUN_KEY_FILE", (directory.path() + "/key").c_str(), 1);
                            return come_and_go(rank, 3, 50, method);
                          }),
            (std::vector<int>{0, 0, 0}));
}

TEST(InitAgain, ByTheEnvironment) {
  const tests::TempDir directory;
  rendezvous::JobKey::generate().write_file(directory.path() + "/key");
  const std::string port = std::to_string(tests::free_port());
  EXPECT_EQ(run_processes(3,
                          [&](int rank) {
                            ::setenv("MASTER_ADDR", "127.0.0.1", 1);
                            ::setenv("MASTER_PORT", port.c_str(), 1);
                            ::setenv("DLRUN_KEY_FILE", (directory.path() + "/key").c_str(), 1);
                            return come_and_go(rank, 3, 10, "env://");
                          }),
            (std::vector<int>{0, 0, 0}));
}

TEST(InitAgain, ByADirectory) {
  const tests::TempDir directory;
  const std::string meet = directory.path() + "/meet";
  EXPECT_EQ(run_processes(3, [&](int rank) { return come_and_go(rank, 3, 12, "file://" + meet); }),
            (std::vector<int>{0, 0, 0}));
  EXPECT_FALSE(std::filesystem::exists(meet));
}

// Serves a store as dlrun does, in a process of its own, until this object goes.
class StoreService {
 public:
  StoreService(const std::string& endpoint, const std::string& key_file) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) throw_errno(errno, "pipe2");
    child_ = ::fork();
    if (child_ == 0) {
      ::close(ends[1]);
      const rendezvous::Endpoint at = rendezvous::Endpoint::parse(endpoint);
      rendezvous::Acceptor acceptor(rendezvous::Listener::bind({.host = at.host, .port = at.port}),
                                    rendezvous::JobKey::from_file(key_file),
                                    {.job = "local", .from = "the service"});
      rendezvous::GrpcStoreServer server(acceptor);
      acceptor.start();
      char byte = 0;
      while (::read(ends[0], &byte, 1) < 0 && errno == EINTR) {
      }
      ::_exit(0);
    }
    ::close(ends[0]);
    lifeline_ = ends[1];
  }
  ~StoreService() {
    ::close(lifeline_);
    ::waitpid(child_, nullptr, 0);
  }
  StoreService(const StoreService&) = delete;
  StoreService& operator=(const StoreService&) = delete;

 private:
  pid_t child_ = -1;
  int lifeline_ = -1;
};

TEST(InitAgain, AtTheJobsServiceAndFromOneProgramToTheNext) {
  const tests::TempDir directory;
  const std::string key = directory.path() + "/key";
  rendezvous::JobKey::generate().write_file(key);
  const std::string endpoint = "127.0.0.1:" + std::to_string(tests::free_port());
  const StoreService service(endpoint, key);
  EXPECT_EQ(run_processes(3,
                          [&](int rank) {
                            ::setenv("DLRUN_STORE", endpoint.c_str(), 1);
                            ::setenv("DLRUN_KEY_FILE", key.c_str(), 1);
                            for (int program = 0; program < 3; ++program) {
                              const std::vector<int> statuses = run_processes(
                                  1, [&](int) { return come_and_go(rank, 3, 17, "env://"); });
                              if (statuses != std::vector<int>{0}) return 1;
                            }
                            return 0;
                          }),
            (std::vector<int>{0, 0, 0}));
}

std::function<int(const std::string&)> holds(const std::string& text) {
  return [text](const std::string& what) {
    if (what.find(text) != std::string::npos) return 0;
    fprintf(stderr, "%s\n", what.c_str());
    return 1;
  };
}

// What init_process_group() says to a rank of three that meets in `directory`; "" if it goes well.
std::string said_to(int rank, const std::string& directory, std::chrono::nanoseconds timeout) {
  try {
    init_process_group({.init_method = "file://" + directory + "/meet",
                        .rank = rank,
                        .world_size = 3,
                        .timeout = timeout});
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// Lets processes that were forked with it go on when all of them have come.
class Meet {
 public:
  explicit Meet(int processes) : missing_(map()) { missing_->store(processes); }
  Meet(const Meet&) = delete;
  Meet& operator=(const Meet&) = delete;
  ~Meet() { ::munmap(missing_, sizeof *missing_); }

  void arrive_and_wait() const {
    missing_->fetch_sub(1);
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

TEST(InitInADirectory, NamesARankThatDoesNotCome) {
  // Both worlds at once: processes 0 to 2 are the ranks of the first.
  constexpr std::array kMissing = {0, 2};
  const std::array<tests::TempDir, 2> directories;
  const Meet meet(4);
  const std::vector<int> statuses = run_processes(6, [&](int process) {
    const auto world = static_cast<std::size_t>(process / 3);
    const int rank = process % 3;
    if (rank == kMissing[world]) return 0;
    meet.arrive_and_wait();
    const std::string said = said_to(rank, directories[world].path(), 3s);
    if (said.find(fmt::format("rank {} of 3 has not come within 3 s", kMissing[world])) !=
        std::string::npos) {
      return 1;
    }
    // The other rank's time was over a little earlier, and its process has ended.
    return holds("is gone before the group was made")(said) == 0 ? 2 : 3;
  });
  for (std::size_t first = 0; first < statuses.size(); first += 3) {
    const std::vector<int> world(statuses.begin() + static_cast<std::ptrdiff_t>(first),
                                 statuses.begin() + static_cast<std::ptrdiff_t>(first + 3));
    EXPECT_THAT(world, testing::Contains(1));
    EXPECT_THAT(world, testing::Each(testing::Lt(3)));
  }
}

// Rank 2 does not come, so that nobody goes on; rank 1 has come, and is killed or stopped.
TEST(InitInADirectory, NamesARankThatIsKilledThere) {
  const tests::TempDir directory;
  const pid_t victim = ::fork();
  if (victim == 0) {
    said_to(1, directory.path(), 60s);
    ::_exit(0);
  }
  EXPECT_EQ(run_processes(1,
                          [&](int) {
                            rendezvous::FileStore store(directory.path() + "/meet");
                            store.get("gen0/init/world/1/here/1", Deadline::after(60s));
                            ::kill(victim, SIGKILL);
                            // In good time before its own deadline.
                            return holds("is gone before the group was made")(
                                said_to(0, directory.path(), 60s));
                          }),
            std::vector<int>{0});
  ::waitpid(victim, nullptr, 0);
}

TEST(InitInADirectory, NamesARankThatIsStoppedThere) {
  const tests::TempDir directory;
  const pid_t victim = ::fork();
  if (victim == 0) {
    rendezvous::FileStore store(directory.path() + "/meet");
    rendezvous::PrefixStore place(store, "gen0/init/world/1/");
    collectives::say_here({.store = &place, .rank = 1, .size = 3}, Deadline::after(60s));
    ::raise(SIGSTOP);
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(victim, &status, WUNTRACED);
  EXPECT_TRUE(WIFSTOPPED(status));
  EXPECT_EQ(run_processes(1,
                          [&](int) {
                            return holds("has come, and did not go on within 1 s (stopped?)")(
                                said_to(0, directory.path(), 1s));
                          }),
            std::vector<int>{0});
  ::kill(victim, SIGKILL);
  ::waitpid(victim, nullptr, 0);
}

TEST(InitProcessGroup, AgreementTakesAnyPatience) {
  const std::string method = "tcp://127.0.0.1:" + std::to_string(tests::free_port());
  EXPECT_EQ(
      run_processes(2,
                    [&](int rank) {
                      init_process_group(
                          {.init_method = method, .rank = rank, .world_size = 2, .timeout = 30s});
                      const auto answer = agree("a", true, std::chrono::nanoseconds::max());
                      default_group()->barrier()->wait();
                      return answer.flag && answer.missing.empty() ? 0 : 1;
                    }),
      (std::vector<int>{0, 0}));
}

// Every rank joins by a directory with `options`, after `prepare`; its status is what `check` says.
std::vector<int> run_backends(const ProcessGroupOptions& options,
                              const std::function<void(int rank)>& prepare,
                              const std::function<int(const std::string& backend)>& check) {
  const tests::TempDir directory;
  return run_processes(2, [&](int rank) {
    prepare(rank);
    ProcessGroupOptions own = options;
    own.init_method = "file://" + directory.path() + "/meet";
    own.rank = rank;
    own.world_size = 2;
    own.timeout = 30s;
    try {
      init_process_group(own);
    } catch (const Error& error) {
      return check(error.what());
    }
    const std::string backend(default_group()->backend());
    const int status = sum_of_ranks(2);
    return status != 0 ? status : check(backend);
  });
}

// Whatever this process would reserve is more than it may.
void forbid_memory() {
  const rlimit most{.rlim_cur = 1 << 20, .rlim_max = 1 << 20};
  ::setrlimit(RLIMIT_FSIZE, &most);
}

TEST(AutoBackend, IsSharedMemoryOnOneNode) {
  EXPECT_EQ(run_backends({}, [](int) {}, holds("shm")), (std::vector<int>{0, 0}));
}

TEST(AutoBackend, IsTcpBetweenNodes) {
  const auto two_nodes = [](int rank) {
    ::setenv("DLRUN_NODE_ID", std::to_string(rank).c_str(), 1);
  };
  EXPECT_EQ(run_backends({}, two_nodes, holds("tcp")), (std::vector<int>{0, 0}));
  EXPECT_EQ(run_backends({.backend = "shm"}, two_nodes, holds("rank 1 (")),
            (std::vector<int>{0, 0}));
}

TEST(AutoBackend, IsWhatTheEnvironmentNames) {
  const auto by_tcp = [](int) { ::setenv("DLRUN_BACKEND", "tcp", 1); };
  EXPECT_EQ(run_backends({}, by_tcp, holds("tcp")), (std::vector<int>{0, 0}));
  EXPECT_EQ(run_backends({.backend = "shm"}, by_tcp, holds("shm")), (std::vector<int>{0, 0}));
}

TEST(InitProcessGroup, SaysWhichPlanCounts) {
  tests::StderrLines said;
  const auto aloud = [](int) {
    ::setenv("DLRUN_PLAN", "default", 1);
    log::set_level(log::Level::kInfo);
  };
  EXPECT_EQ(run_backends({.backend = "tcp"}, aloud, holds("tcp")), (std::vector<int>{0, 0}));
  EXPECT_NE(said.line_with("group 'world' of 2 ranks over tcp: plan 'default' picks algorithms"),
            "");
}

TEST(AutoBackend, IsTcpForAllWhereOneHasNoMemoryToShare) {
  const auto one_without = [](int rank) {
    if (rank == 1) forbid_memory();
  };
  EXPECT_EQ(run_backends({}, one_without, holds("tcp")), (std::vector<int>{0, 0}));
  EXPECT_EQ(run_backends({.backend = "shm"}, one_without,
                         holds("the limit of a file (ulimit -f) is 1048576 bytes")),
            (std::vector<int>{0, 0}));
}

TEST(AutoBackend, InAnotherNetworkNamespaceIsRefusedByName) {
  const auto unshares = [](int) { return ::unshare(CLONE_NEWNET) == 0 ? 0 : 1; };
  if (run_processes(1, unshares) != std::vector<int>{0}) {
    GTEST_SKIP() << "no network namespaces: unshare needs root, and a machine that allows it";
  }
  const auto one_elsewhere = [](int rank) {
    if (rank == 1) ::unshare(CLONE_NEWNET);
  };
  EXPECT_EQ(run_backends({.backend = "shm"}, one_elsewhere, holds("another network namespace")),
            (std::vector<int>{0, 0}));
}

TEST(ADifferentBackendOnOneRank, IsAnErrorThatQuotesBoth) {
  const auto differ = [](int rank) {
    if (rank == 1) ::setenv("DLRUN_BACKEND", "tcp", 1);
  };
  EXPECT_EQ(run_backends({}, differ, holds("was asked for the backend tcp, rank 0 (")),
            (std::vector<int>{0, 0}));
}

// Runs `options` in a process of its own and compares what is thrown.
void expect_refused(const ProcessGroupOptions& options, const std::string& text) {
  EXPECT_EQ(run_processes(1,
                          [&](int) {
                            try {
                              init_process_group(options);
                            } catch (const Error& error) {
                              if (std::string(error.what()).find(text) != std::string::npos)
                                return 0;
                              fprintf(stderr, "%s\n", error.what());
                            }
                            return 1;
                          }),
            std::vector<int>{0})
      << text;
}

TEST(InitProcessGroup, RefusesInOneSentence) {
  expect_refused({.backend = "gloo"},
                 "backend is 'gloo', wanted auto, tcp, shm, hybrid, mpi or nccl");
  expect_refused({.init_method = "udp://x", .rank = 0, .world_size = 2},
                 "init method is 'udp://x', wanted env://, tcp://host:port or file:///directory");
  expect_refused({.rank = 0, .world_size = 2},
                 "MASTER_ADDR is not set; start the program with dlrun");
  expect_refused({.init_method = "tcp://192.0.2.1:29500", .rank = 0, .world_size = 2},
                 "there is no job key, and 192.0.2.1:29500 is not a loopback address");
}

TEST(InitProcessGroup, TwiceIsAnError) {
  EXPECT_EQ(run_processes(1,
                          [](int) {
                            init_process_group();
                            try {
                              init_process_group();
                            } catch (const Error&) {
                              return 0;
                            }
                            return 1;
                          }),
            std::vector<int>{0});
}

TEST(AgreeOfTheJob, AnswersWithABrokenGroupAndARankThatIsGone) {
  const tests::TempDir directory;
  const std::vector<int> statuses = run_processes(3, [&](int rank) {
    init_process_group({.init_method = "file://" + directory.path() + "/meet",
                        .rank = rank,
                        .world_size = 3,
                        .timeout = 60s});
    if (!agree("all", true, 60s).flag) return 2;
    if (rank == 2) return 0;  // without a word
    try {
      for (;;) default_group()->barrier()->wait();
    } catch (const Error&) {
    }
    // Whoever is late has no say; but all hear the same.
    const collectives::Agreement answer = agree("step 1", true, 300ms);
    if (!answer.flag || answer.missing.empty() || answer.missing.back() != 2) return 3;
    return 10 + static_cast<int>(answer.missing.size());
  });
  EXPECT_EQ(statuses[2], 0);
  EXPECT_GE(statuses[0], 11);
  EXPECT_EQ(statuses[1], statuses[0]);
}

}  // namespace
}  // namespace dl
