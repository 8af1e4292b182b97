// What the other ranks hear of a rank that leaves while its program still holds the default group.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <semaphore>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "collectives/init/init.h"
#include "collectives/process/at_exit.h"
#include "core/base/error.h"
#include "core/base/sanitizers.h"
#include "tests/collectives/init/processes.h"
#include "tests/support/temp_dir.h"

namespace dl {
namespace {

using namespace std::chrono_literals;
using namespace tests;

// As a program would: older than whatever the group registers for the exit.
Ref<collectives::ProcessGroup>& kept() {
  static Ref<collectives::ProcessGroup> group;
  return group;
}

// Joins its thread when static objects are destroyed.
struct Joiner {
  Joiner() = default;
  ~Joiner() {
    if (thread.joinable()) thread.join();
  }
  Joiner(const Joiner&) = delete;
  Joiner& operator=(const Joiner&) = delete;
  std::thread thread;
};

Joiner& joiner() {
  static Joiner only;
  return only;
}

// Three ranks, of which the last keeps the default group and does `leave`. The others' statuses: 0
// if they hear in good time that it has left.
std::vector<int> run_leaving(const std::string& backend, const std::function<int(Meet&)>& leave) {
  const TempDir directory;
  Meet others_know(3);
  return run_processes(3, [&](int rank) {
    // Two nodes; the ranks of the first share memory in a hybrid group.
    if (backend == "hybrid") ::setenv("DLRUN_NODE_ID", rank == 2 ? "second" : "first", 1);
    kept();
    joiner();
    init_process_group({.backend = backend,
                        .init_method = "file://" + directory.path() + "/meet",
                        .rank = rank,
                        .world_size = 3,
                        .timeout = 60s});
    int status = sum_and_stay(3);
    if (status != 0) return status;
    if (rank == 2) {
      kept() = default_group();
      return leave(others_know);
    }
    try {
      default_group()->barrier()->wait();
      status = 10;
    } catch (const Error& error) {
      status = holds("rank 2 (")(error.what()) +
               holds(" has left group 'world' without calling it")(error.what());
    }
    others_know.arrive_and_wait();
    return status;
  });
}

class LeavingWithTheGroupKept : public testing::TestWithParam<const char*> {};

TEST_P(LeavingWithTheGroupKept, DestroyIsHeardWhileTheProcessGoesOn) {
  EXPECT_EQ(run_leaving(GetParam(),
                        [](Meet& others_know) {
                          destroy_process_group();
                          others_know.arrive_and_wait();
                          return 0;
                        }),
            (std::vector<int>{0, 0, 0}));
}

TEST_P(LeavingWithTheGroupKept, ExitAfterDestroyIsHeard) {
  EXPECT_EQ(run_leaving(GetParam(),
                        [](Meet& others_know) {
                          destroy_process_group();
                          others_know.arrive();
                          std::exit(0);
                          return 0;
                        }),
            (std::vector<int>{0, 0, 0}));
}

TEST_P(LeavingWithTheGroupKept, ExitWithoutDestroyIsHeard) {
  EXPECT_EQ(run_leaving(GetParam(),
                        [](Meet& others_know) {
                          others_know.arrive();
                          std::exit(0);
                          return 0;
                        }),
            (std::vector<int>{0, 0, 0}));
}

TEST_P(LeavingWithTheGroupKept, ItsCallsAreRefusedAfterDestroy) {
  EXPECT_EQ(run_leaving(GetParam(),
                        [](Meet& others_know) {
                          destroy_process_group();
                          others_know.arrive_and_wait();
                          const auto refused = [](const auto& call) {
                            try {
                              call();
                            } catch (const Error& error) {
                              return holds("group 'world' has ended with the group of init")(
                                  error.what());
                            }
                            return 1;
                          };
                          return refused([] { kept()->barrier()->wait(); }) +
                                 refused([] { kept()->split({.color = 0}); }) +
                                 refused([] { kept()->allocate_symmetric(4096); });
                        }),
            (std::vector<int>{0, 0, 0}));
}

// Three ranks, of which the last exits with code 3 in a second thread while its main thread calls
// one operation after another. The others' statuses: 0 if they hear that it has left.
std::vector<int> run_exit_in_a_thread(const std::string& backend, bool in_a_split_group) {
  const TempDir directory;
  return run_processes(3, [&](int rank) {
    if (backend == "hybrid") ::setenv("DLRUN_NODE_ID", rank == 2 ? "second" : "first", 1);
    kept();
    init_process_group({.backend = backend,
                        .init_method = "file://" + directory.path() + "/meet",
                        .rank = rank,
                        .world_size = 3,
                        .timeout = 60s});
    // The process destroys the split group during its exit, as nothing else holds it.
    if (in_a_split_group) kept() = default_group()->split({.color = 0});
    const Ref<collectives::ProcessGroup> held = in_a_split_group ? nullptr : default_group();
    collectives::ProcessGroup& group = in_a_split_group ? *kept() : *held;
    std::binary_semaphore is_under_way{0};
    std::thread leaver;
    if (rank == 2) {
      leaver = std::thread([&] {
        is_under_way.acquire();
        std::exit(3);
      });
    }
    std::vector<float> x(200000, 0.0F);
    try {
      for (int call = 0;; ++call) {
        if (call == 10) is_under_way.release();
        group.all_reduce({.input = x.data(), .output = x.data(), .count = x.size()})->wait();
      }
    } catch (const std::exception& error) {
      if (rank == 2) ::_exit(holds("nothing")(error.what()) + 10);
      return holds("rank 2 (")(error.what()) + holds(" has left group '")(error.what());
    }
  });
}

TEST_P(LeavingWithTheGroupKept, ExitInAThreadKeepsOthersOperations) {
  for (int run = 0; run < 5; ++run) {
    ASSERT_EQ(run_exit_in_a_thread(GetParam(), false), (std::vector<int>{0, 0, 3}));
  }
}

TEST_P(LeavingWithTheGroupKept, ExitInAThreadKeepsWhatOthersUse) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "this program's own race, which the group has to survive, is reported";
#endif
  for (int run = 0; run < 5; ++run) {
    ASSERT_EQ(run_exit_in_a_thread(GetParam(), true), (std::vector<int>{0, 0, 3}));
  }
}

// As run_leaving(); the last rank exits with code 4 while a thread that a static destructor joins
// calls barriers.
TEST_P(LeavingWithTheGroupKept, StaticDestructorMayJoinAThread) {
  EXPECT_EQ(run_leaving(GetParam(),
                        [](Meet& others_know) {
                          joiner().thread = std::thread([&others_know] {
                            others_know.arrive_and_wait();
                            try {
                              for (;;) kept()->barrier()->wait();
                            } catch (const Error&) {
                            }
                          });
                          std::exit(4);
                          return 0;
                        }),
            (std::vector<int>{0, 0, 4}));
}

// Three ranks. The last one sends what the first one does not receive, and returns without a wait.
TEST_P(LeavingWithTheGroupKept, ExitNamesASendThatIsNotReceived) {
  const std::string backend = GetParam();
  const TempDir directory;
  const std::string output = directory.path() + "/stderr";
  const std::vector<float> x(100'000, 1.0F);
  EXPECT_EQ(
      run_processes(3,
                    [&](int rank) {
                      if (backend == "hybrid") {
                        ::setenv("DLRUN_NODE_ID", rank == 2 ? "second" : "first", 1);
                      }
                      kept();
                      init_process_group({.backend = backend,
                                          .init_method = "file://" + directory.path() + "/m",
                                          .rank = rank,
                                          .world_size = 3,
                                          .timeout = 60s});
                      if (rank != 2) {
                        while ((fates().ended.load() & 4) == 0) ::sched_yield();
                        return 0;
                      }
                      if (std::freopen(output.c_str(), "w", stderr) == nullptr) return 9;
                      default_group()->send({.buffer = x.data(), .count = x.size(), .peer = 0});
                      std::exit(0);
                    }),
      (std::vector<int>{0, 0, 0}));
  std::ifstream file(output);
  const std::string said{std::istreambuf_iterator<char>(file), {}};
  EXPECT_THAT(said, testing::HasSubstr("send #1 (f32[100000]): rank 2 ("));
  EXPECT_THAT(said, testing::HasSubstr(") exits before it is over, waiting for rank 0 ("));
  EXPECT_THAT(said, testing::HasSubstr("call wait() on its Work before main returns"));
  EXPECT_EQ(std::ranges::count(said, '\n'), 1) << said;
}

TEST(AtExit, IsToldIfItIsMadeDuringExit) {
  // Its destructor runs after leave_all().
  struct MakesOne {
    ~MakesOne() {
      new collectives::AtExit([] { ::_exit(9); });
    }
  };
  EXPECT_EQ(run_processes(1,
                          [](int) {
                            static MakesOne last;
                            const collectives::AtExit first([] {});
                            std::exit(3);
                            return 0;
                          }),
            (std::vector<int>{9}));
}

TEST(AtExit, BlocksAThreadThatMakesOneDuringExit) {
  // Its destructor runs after leave_all(), and another thread then makes an AtExit.
  struct LetsGo {
    ~LetsGo() {
      exits->release();
      // The thread blocks, or goes on and ends the process with 8.
      const auto end = std::chrono::steady_clock::now() + 1s;
      while (std::chrono::steady_clock::now() < end) std::this_thread::yield();
    }
    std::binary_semaphore* exits;
  };
  EXPECT_EQ(run_processes(1,
                          [](int) {
                            static std::binary_semaphore exits{0};
                            static LetsGo last{&exits};
                            const collectives::AtExit first([] {});
                            std::thread([] {
                              exits.acquire();
                              new collectives::AtExit([] {});
                              ::_exit(8);
                            }).detach();
                            std::exit(3);
                            return 0;
                          }),
            (std::vector<int>{3}));
}

TEST(AtExit, AForkedChildOfAnExitingProcessHasAnExitOfItsOwn) {
  // Its destructor runs after leave_all().
  struct Forks {
    ~Forks() {
      const pid_t child = ::fork();
      if (child == 0) {
        std::thread([] {
          const collectives::AtExit own([] {});
          collectives::stay_if_exiting();
          ::_exit(6);
        }).join();
      }
      int status = 0;
      ::waitpid(child, &status, 0);
      ::_exit(WEXITSTATUS(status));
    }
  };
  EXPECT_EQ(run_processes(1,
                          [](int) {
                            static Forks last;
                            const collectives::AtExit first([] {});
                            std::exit(3);
                            return 0;
                          }),
            (std::vector<int>{6}));
}

TEST(AtExit, WarnsOfWhatItsFunctionThrows) {
  EXPECT_EQ(run_processes(1,
                          [](int) {
                            const collectives::AtExit number([] { throw 7; });
                            const collectives::AtExit error([] { throw std::runtime_error("x"); });
                            std::exit(3);
                            return 0;
                          }),
            (std::vector<int>{3}));
}

TEST(Meet, EndsIfAProcessHasEndedWithoutComing) {
  const Meet meet(3);
  EXPECT_EQ(run_processes(3,
                          [&](int process) {
                            if (process == 1) return 3;
                            try {
                              meet.arrive_and_wait();
                            } catch (const Error& error) {
                              return holds("process 1 has ended before it came")(error.what());
                            }
                            return 10;
                          }),
            (std::vector<int>{0, 3, 0}));
}

INSTANTIATE_TEST_SUITE_P(Backends, LeavingWithTheGroupKept, testing::Values("tcp", "shm", "hybrid"),
                         [](const auto& backend) { return std::string(backend.param); });

}  // namespace
}  // namespace dl
