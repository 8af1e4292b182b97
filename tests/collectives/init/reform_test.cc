// reform(): ranks are processes, some of which are killed.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <chrono>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "collectives/init/init.h"
#include "collectives/init/make_group.h"
#include "core/base/error.h"
#include "tests/collectives/init/processes.h"
#include "tests/collectives/ranks.h"
#include "tests/support/temp_dir.h"

namespace dl {
namespace {

using namespace std::chrono_literals;
using namespace tests;
using collectives::ProcessGroup;
using collectives::testing::Thrown;
using collectives::testing::thrown_by;

constexpr auto kTime = 120s;
constexpr int kKilled = 128 + SIGKILL;

// Sums until the group breaks; 0 if every sum was right.
int sum_until_it_breaks(ProcessGroup& group) {
  std::vector<float> x(10000);
  try {
    for (;;) {
      x.assign(x.size(), 1);
      group.all_reduce({.input = x.data(), .output = x.data(), .count = x.size()})->wait();
      if (x.front() != static_cast<float>(group.size()) || x.back() != x.front()) return 3;
    }
  } catch (const Error&) {
    return group.error() ? 0 : 4;
  }
}

// Kills this process in a few milliseconds, anywhere in its operations.
void die_soon() {
  std::thread([] {
    ::usleep(static_cast<useconds_t>(std::random_device()() % 8000));
    ::kill(::getpid(), SIGKILL);
  }).detach();
}

struct Case {
  std::string backend;
  bool has_nodes = false;
};

class Reform : public ::testing::TestWithParam<Case> {
 protected:
  // As one of ranks on two nodes, if the case says so.
  void set_node(int rank) const {
    if (GetParam().has_nodes) ::setenv("DLRUN_NODE_ID", rank % 2 == 0 ? "a" : "b", 1);
  }
  Ref<ProcessGroup> make(int rank, int size, const UniqueId& id) const {
    return make_group(
        {.rank = rank, .size = size, .id = id, .backend = GetParam().backend, .timeout = kTime});
  }
};

// Four ranks, of which rank 0 is killed, then rank 2, then rank 3, in the middle of operations.
TEST_P(Reform, GoesOnWithTheRanksThatAreLeft) {
  constexpr std::array kVictims{0, 2, 3};
  const UniqueId id = make_unique_id();
  const auto body = [&](int rank) {
    set_node(rank);
    Ref<ProcessGroup> group = make(rank, 4, id);
    int left = 0b1111;
    for (std::size_t death = 0; death < kVictims.size(); ++death) {
      if (kVictims[death] == rank) {
        die_soon();
      }
      if (const int status = sum_until_it_breaks(*group)) return status;
      const Ref<ProcessGroup> old = group;
      group = reform(group);
      left &= ~(1 << kVictims[death]);
      if (group->size() != 3 - static_cast<int>(death)) return 5;
      if (group->rank() != std::popcount(static_cast<unsigned>(left & ((1 << rank) - 1)))) return 6;
      if (sum_once(*group, rank) != left) return 7;
      if (!old->error()) return 8;
    }
    return group->size() == 1 && group->name() == "group~3" ? 0 : 9;
  };
  EXPECT_EQ(run_processes(4, body), (std::vector<int>{kKilled, 0, kKilled, kKilled}));
}

TEST_P(Reform, OfAWholeGroupHasAllItsRanks) {
  const UniqueId id = make_unique_id();
  const auto body = [&](int rank) {
    set_node(rank);
    Ref<ProcessGroup> group = make(rank, 4, id);
    for (int i = 1; i <= 3; ++i) {
      group = reform(group);
      if (group->size() != 4 || group->rank() != rank) return 3;
      if (group->name() != "group~" + std::to_string(i)) return 4;
      if (sum_once(*group, rank) != 0b1111) return 5;
    }
    group->barrier()->wait();
    return 0;
  };
  EXPECT_EQ(run_processes(4, body), (std::vector<int>{0, 0, 0, 0}));
}

// The lowest ranks die one after the other inside of the call, so that the next one takes over.
TEST_P(Reform, GoesOnIfItsHostDies) {
  const UniqueId id = make_unique_id();
  const Meet made(5);
  const auto body = [&](int rank) {
    set_node(rank);
    Ref<ProcessGroup> group = make(rank, 5, id);
    made.arrive_and_wait();
    if (rank == 0) ::kill(::getpid(), SIGKILL);
    if (rank <= 2) die_soon();  // the host, in the call
    // A rank may also die when the group is made already.
    while (group->size() > 2) {
      group = reform(group);
      if (group->size() > 2) sum_until_it_breaks(*group);
    }
    return sum_once(*group, rank) == 0b11000 ? 0 : 7;
  };
  EXPECT_EQ(run_processes(5, body), (std::vector<int>{kKilled, kKilled, kKilled, 0, 0}));
}

TEST_P(Reform, NamesARankThatLivesAndDoesNotCall) {
  const UniqueId id = make_unique_id();
  const Meet tried(3);
  const auto body = [&](int rank) {
    set_node(rank);
    Ref<ProcessGroup> group = make(rank, 4, id);
    if (rank == 3) ::kill(::getpid(), SIGKILL);
    sum_until_it_breaks(*group);
    if (rank != 1) {
      const Thrown thrown = thrown_by([&] { reform(group, 300ms); });
      if (thrown.kind != ErrorKind::kTimeout) return 3;
      if (const int status = holds("rank 1 (")(thrown.text)) return status;
      if (thrown.text.find("rank 3 (") != std::string::npos) return 5;  // it is dead
      if (thrown.rank != 1) return 6;
    }
    tried.arrive_and_wait();
    group = reform(group);  // it may be called again
    return sum_once(*group, rank) == 0b0111 ? 0 : 4;
  };
  EXPECT_EQ(run_processes(4, body), (std::vector<int>{0, 0, 0, kKilled}));
}

INSTANTIATE_TEST_SUITE_P(Backends, Reform,
                         ::testing::Values(Case{"shm"}, Case{"tcp"}, Case{"hybrid"},
                                           Case{"auto", true}, Case{"tcp", true}),
                         [](const auto& tested) {
                           return tested.param.backend +
                                  (tested.param.has_nodes ? "OnTwoNodes" : "");
                         });

TEST(ReformDefaultGroup, ReplacesIt) {
  const tests::TempDir directory;
  const auto body = [&](int rank) {
    init_process_group({.init_method = "file://" + directory.path() + "/meet",
                        .rank = rank,
                        .world_size = 3,
                        .timeout = kTime});
    const Ref<ProcessGroup> old = default_group();
    if (rank == 0) ::kill(::getpid(), SIGKILL);
    sum_until_it_breaks(*old);
    const Ref<ProcessGroup> made = reform(old);
    if (default_group() != made || dl::rank() != rank - 1 || world_size() != 2) return 3;
    if (sum_once(*made, rank) != 0b110) return 4;
    const Thrown again = thrown_by([&] { reform(old); });
    if (holds("was re-formed already")(again.text) != 0) return 5;
    const Thrown part = thrown_by([&] { reform(made->split({.color = 0})); });
    if (holds("was made by split()")(part.text) != 0) return 6;
    destroy_process_group();
    return is_initialized() ? 7 : 0;
  };
  EXPECT_EQ(run_processes(3, body), (std::vector<int>{kKilled, 0, 0}));
}

TEST(ReformAlone, IsRefusedInAForkedChild) {
  const Ref<ProcessGroup> alone = make_group({});
  EXPECT_EQ(run_processes(1,
                          [&](int) {
                            const Thrown thrown = thrown_by([&] { reform(alone); });
                            return holds("is a child that it forked")(thrown.text);
                          }),
            std::vector<int>{0});
}

TEST(ReformAlone, MakesAGroupOfOne) {
  const Ref<ProcessGroup> alone = make_group({});
  const Ref<ProcessGroup> again = reform(reform(alone));
  EXPECT_EQ(again->size(), 1);
  EXPECT_EQ(again->name(), "group~2");
}

}  // namespace
}  // namespace dl
