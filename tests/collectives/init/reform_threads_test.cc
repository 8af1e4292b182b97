// reform() of ranks that are threads. reform_test.cc has ranks that are processes: a child that a
// program with threads has forked starts no thread under ThreadSanitizer.
#include <gtest/gtest.h>

#include <chrono>

#include "collectives/init/init.h"
#include "collectives/init/make_group.h"
#include "tests/collectives/init/processes.h"
#include "tests/collectives/ranks.h"

namespace dl {
namespace {

using namespace std::chrono_literals;
using namespace tests;
using collectives::ProcessGroup;
using collectives::testing::run_threads;

constexpr auto kTime = 120s;

TEST(ReformThreads, OfAWholeGroupHasAllItsRanks) {
  const UniqueId id = make_unique_id();
  run_threads(4, [&](int rank) {
    Ref<ProcessGroup> group = make_group({.rank = rank, .size = 4, .id = id, .timeout = kTime});
    for (int i = 1; i <= 3; ++i) {
      group = reform(group);
      EXPECT_EQ(group->rank(), rank);
      EXPECT_EQ(sum_once(*group, rank), 0b1111);
    }
  });
}

// Ranks on one host need no interface.
TEST(ReformThreads, GoesOnWithoutTheInterface) {
  const UniqueId id = make_unique_id();
  run_threads(2, [&](int rank) {
    Ref<ProcessGroup> group = make_group({.rank = rank,
                                          .size = 2,
                                          .id = id,
                                          .backend = "shm",
                                          .timeout = kTime,
                                          .iface = "nosuch0"});
    EXPECT_EQ(sum_once(*reform(group), rank), 0b11);
  });
}

// A rank that leaves the group counts as dead, though its process lives.
TEST(ReformThreads, GoesOnWithoutARankThatLeaves) {
  const UniqueId id = make_unique_id();
  run_threads(3, [&](int rank) {
    Ref<ProcessGroup> group = make_group({.rank = rank, .size = 3, .id = id, .timeout = kTime});
    if (rank == 1) return;
    group = reform(group);
    EXPECT_EQ(group->size(), 2);
    EXPECT_EQ(sum_once(*group, rank), 0b101);
  });
}

}  // namespace
}  // namespace dl
