// A process that leaves its group and joins another one, again and again.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <string>
#include <vector>

#include "collectives/init/init.h"
#include "collectives/init/meeting.h"
#include "core/base/error.h"
#include "rendezvous/module/remote_store.h"
#include "rendezvous/net/connect/acceptor.h"
#include "rendezvous/net/handshake/job_key.h"
#include "tests/collectives/init/processes.h"
#include "tests/collectives/thrown.h"
#include "tests/support/free_port.h"
#include "tests/support/gate.h"
#include "tests/support/temp_dir.h"

namespace dl {
namespace {

using namespace std::chrono_literals;
using namespace tests;
using collectives::testing::Thrown;
using collectives::testing::thrown_by;

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

TEST(InitAgain, WorksWithRankZeroAsServer) {
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

// Rank 0 has left the init of group 'a', in which rank 1 still waits.
void look_in_which_init_a_rank_waits() {
  const auto deadline = detail::Deadline::after(60s);
  const std::string method = "tcp://127.0.0.1:" + std::to_string(tests::free_port());
  const auto meet = [&](int rank, const std::string& name) {
    return collectives::make_meeting(
        {.init_method = method, .name = name, .launch = {rank, 2, "the test"}}, deadline);
  };
  meet(0, "a")->joined();
  const auto late = meet(1, "a");
  const auto next = meet(0, "b");
  late->check_absent(0);
  next->check_absent(1);
  late->joined();
  next->check_absent(1);  // it may come now
  const auto other = meet(1, "c");
  EXPECT_EQ(thrown_by([&] { other->check_absent(0); }).kind, ErrorKind::kMismatch);
  const Thrown thrown = thrown_by([&] { next->check_absent(1); });
  EXPECT_EQ(thrown.kind, ErrorKind::kMismatch);
  EXPECT_EQ(thrown.rank, 1);
  EXPECT_EQ(thrown.text,
            "init of group 'b': rank 1 waits in the init of a group that it calls 'c'; give the "
            "group the same name on all ranks");
}

// In a process of its own: the tests below fork, and this one starts a server's threads.
TEST(InitAgain, LooksInWhichInitARankWaitsThatDoesNotCome) {
  EXPECT_EQ(run_processes(1,
                          [](int) {
                            look_in_which_init_a_rank_waits();
                            return ::testing::Test::HasFailure() ? 1 : 0;
                          }),
            (std::vector<int>{0}));
}

// Rank 1 comes when rank 0 has given up twice, so their tries have other numbers, and each try is
// shorter than the time for which one rank is ahead.
TEST(InitAgain, OfRanksThatTryAgainAndAgainMeet) {
  const tests::TempDir directory;
  rendezvous::JobKey::generate().write_file(directory.path() + "/key");
  const std::string method = "tcp://127.0.0.1:" + std::to_string(tests::free_port());
  const tests::Gate gate;
  EXPECT_EQ(run_processes(
                2,
                [&](int rank) {
                  ::setenv("DLRUN_KEY_FILE", (directory.path() + "/key").c_str(), 1);
                  if (rank == 1 && std::system(gate.wait().c_str()) != 0) return 3;
                  for (int tries = 1; tries <= 20; ++tries) {
                    try {
                      init_process_group(
                          {.init_method = method, .rank = rank, .world_size = 2, .timeout = 3s});
                      return sum_of_ranks(2);
                    } catch (const Error&) {
                      if (rank == 0 && tries == 2) gate.open();
                    }
                  }
                  return 4;
                }),
            (std::vector<int>{0, 0}));
}

// The others wait for rank 2, whose process comes as rank 1.
TEST(InitAgain, OfTwoProcessesAsOneRankIsToldToAll) {
  const tests::TempDir directory;
  rendezvous::JobKey::generate().write_file(directory.path() + "/key");
  for (const std::string& method : {"tcp://127.0.0.1:" + std::to_string(tests::free_port()),
                                    "file://" + directory.path() + "/meet"}) {
    EXPECT_EQ(run_processes(3,
                            [&](int process) {
                              ::setenv("DLRUN_KEY_FILE", (directory.path() + "/key").c_str(), 1);
                              const Thrown thrown = thrown_by([&] {
                                init_process_group({.init_method = method,
                                                    .rank = std::min(process, 1),
                                                    .world_size = 3,
                                                    .timeout = 60s});
                              });
                              const bool is_told =
                                  thrown.text.find(") have both come as rank 1;") !=
                                  std::string::npos;
                              if (!is_told) std::fprintf(stderr, "%s\n", thrown.text.c_str());
                              return is_told && thrown.kind == ErrorKind::kMismatch ? 0 : 5;
                            }),
              (std::vector<int>{0, 0, 0}))
        << method;
  }
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
      const auto store = rendezvous::serve_store(acceptor);
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

}  // namespace
}  // namespace dl
