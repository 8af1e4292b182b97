// init_process_group as programs call it: one process a rank.
#include "collectives/init/init.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/log/log.h"
#include "core/base/system/machine/limits.h"
#include "core/device/cuda/module/module.h"
#include "rendezvous/net/handshake/job_key.h"
#include "tests/collectives/init/processes.h"
#include "tests/support/free_port.h"
#include "tests/support/no_threads.h"
#include "tests/support/stderr_lines.h"
#include "tests/support/temp_dir.h"

namespace dl {
namespace {

using namespace std::chrono_literals;
using namespace tests;

TEST(InitProcessGroup, AloneIsAWorldOfOne) {
  EXPECT_EQ(run_processes(1,
                          [](int) {
                            init_process_group();
                            return sum_of_ranks(1);
                          }),
            std::vector<int>{0});
}

TEST(InitProcessGroup, SaysWhichBackendsAreThere) {
  for (const std::string_view backend : {"auto", "tcp", "shm", "hybrid"}) {
    EXPECT_TRUE(is_backend_available(backend)) << backend;
  }
  EXPECT_TRUE(is_gloo_available());
  EXPECT_FALSE(is_backend_available("ucc"));
  EXPECT_FALSE(is_backend_available(""));
  EXPECT_EQ(is_mpi_available(), DLRUN_BUILT_WITH_MPI);
  EXPECT_TRUE(DLRUN_BUILT_WITH_NCCL || !is_nccl_available());
  EXPECT_EQ(is_backend_available("nccl"), is_nccl_available());
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

TEST(InitProcessGroup, NamesTheLimitIfTheRankGetsNoThread) {
  const tests::TempDir directory;
  const auto begin = [&](int rank) {
    const tests::NoThreads no_threads;
    try {
      init_process_group({.init_method = "file://" + directory.path() + "/meet",
                          .rank = rank,
                          .world_size = 2,
                          .timeout = 60s});
    } catch (const Error& error) {
      return holds(": no thread for it: " + spawn_error_text(EAGAIN))(error.what());
    }
    return 3;
  };
  EXPECT_EQ(run_processes(1, begin), std::vector<int>{0});
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

// As ranks without dlrun in two containers of one host.
TEST(AutoBackend, IsSharedMemoryOfOneKernelWhateverTheHostnames) {
  const auto renames = [](int rank) {
    const std::string name = "host" + std::to_string(rank);
    return ::unshare(CLONE_NEWUTS) == 0 && ::sethostname(name.data(), name.size()) == 0 ? 0 : 1;
  };
  if (run_processes(1, renames) != std::vector<int>{0}) {
    GTEST_SKIP() << "no hostname of one's own: unshare needs root, and a machine that allows it";
  }
  EXPECT_EQ(run_backends({}, renames, holds("shm")), (std::vector<int>{0, 0}));
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

TEST(AutoBackend, IsTcpForAllIfOneHasNoSharedMemory) {
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

// torchrun keeps the port that it tells its ranks.
TEST(InitProcessGroup, RefusesThePortOfTorchrunsStore) {
  EXPECT_EQ(run_processes(1,
                          [](int) {
                            set_rank(0, 2);
                            ::setenv("MASTER_ADDR", "127.0.0.1", 1);
                            ::setenv("MASTER_PORT", "29500", 1);
                            ::setenv("TORCHELASTIC_USE_AGENT_STORE", "True", 1);
                            try {
                              init_process_group();
                            } catch (const Error& error) {
                              return holds("torchrun's own store has port 29500")(error.what());
                            }
                            return 1;
                          }),
            std::vector<int>{0});
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
    // A late rank's answer does not count, but all ranks get the same one.
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
