// The CPUs of each rank, on machines in hwloc's notation.
#include "launcher/bind/binding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <set>

#include "core/base/error.h"
#include "core/base/system/machine/cpus.h"
#include "launcher/bind/drawing.h"
#include "launcher/plan/machine/machine.h"

namespace dl::launcher {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<int> first_cpus(int n) {
  std::vector<int> cpus(static_cast<std::size_t>(n));
  std::iota(cpus.begin(), cpus.end(), 0);
  return cpus;
}

// 2 sockets of 4 cores of 2 hardware threads: core c has CPUs 2c and 2c + 1, socket 1 begins with
// core 4.
Topology two_sockets() {
  return read_topology(first_cpus(16), "package:2 numa:1 core:4 pu:2");
}

std::string refused(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

std::vector<std::vector<int>> cpus_of(const std::vector<Binding>& bindings) {
  std::vector<std::vector<int>> cpus;
  for (const Binding& binding : bindings) cpus.push_back(binding.cpus);
  return cpus;
}

TEST(ReadTopology, FindsCoresSocketsAndNumaNodes) {
  const Topology machine = two_sockets();
  ASSERT_EQ(machine.cores.size(), 8U);
  EXPECT_THAT(machine.cores[5].cpus, ElementsAre(10, 11));
  EXPECT_EQ(machine.cores[3].socket, 0);
  EXPECT_EQ(machine.cores[4].socket, 1);
  EXPECT_EQ(machine.cores[4].numa_node, 1);
}

TEST(ReadTopology, LeavesOutWhatMayNotBeUsed) {
  const Topology machine = read_topology({1, 2, 3}, "package:2 numa:1 core:4 pu:2");
  ASSERT_EQ(machine.cores.size(), 2U);
  EXPECT_THAT(machine.cores[0].cpus, ElementsAre(1));
  EXPECT_THAT(machine.cores[1].cpus, ElementsAre(2, 3));
}

TEST(ReadTopology, OfThisMachineCoversItsCpus) {
  const std::vector<int> cpus = this_machine().cpus;
  std::multiset<int> seen;
  for (const Core& core : read_topology(cpus).cores)
    seen.insert(core.cpus.begin(), core.cpus.end());
  EXPECT_EQ(seen, std::multiset<int>(cpus.begin(), cpus.end()));
}

// GPUs 0 and 1 are near socket 1, and GPU 2 near socket 0.
std::vector<std::vector<int>> near_gpus(std::vector<int> sockets) {
  std::vector<std::vector<int>> near;
  for (const int socket : sockets) {
    std::vector<int> cpus(8);
    std::iota(cpus.begin(), cpus.end(), 8 * socket);
    near.push_back(cpus);
  }
  return near;
}

TEST(BindRanks, TakesTheCoresNearEachRanksGpu) {
  BindRequest request{.bind = Bind::kCore, .ranks = 3, .near = near_gpus({1, 1, 0})};
  // Four cores of a socket for two ranks: two threads, also for the rank that is alone.
  EXPECT_THAT(
      cpus_of(bind_ranks(two_sockets(), request)),
      ElementsAre(std::vector{8, 9, 10, 11}, std::vector{12, 13, 14, 15}, std::vector{0, 1, 2, 3}));
  request.bind = Bind::kEven;
  EXPECT_THAT(cpus_of(bind_ranks(two_sockets(), request)),
              ElementsAre(std::vector{8, 9, 10, 11}, std::vector{12, 13, 14, 15},
                          std::vector{0, 1, 2, 3, 4, 5, 6, 7}));
  for (const Bind bind : {Bind::kNuma, Bind::kSocket}) {
    request.bind = bind;
    const std::vector<Binding> bindings = bind_ranks(two_sockets(), request);
    EXPECT_EQ(bindings[0].cpus.front(), 8);
    EXPECT_EQ(bindings[1].cpus, bindings[0].cpus);
    EXPECT_EQ(bindings[2].cpus.front(), 0);
    EXPECT_EQ(bindings[0].threads, 2);
    EXPECT_EQ(bindings[2].threads, 4);
  }
}

TEST(BindRanks, GpusDoNotCountAgainstTheUsersOrderOrTooFewCores) {
  const auto with = [](BindRequest request) {
    const auto bound = cpus_of(bind_ranks(two_sockets(), request));
    request.near.clear();
    return bound == cpus_of(bind_ranks(two_sockets(), request)) ? "as without" : "near";
  };
  const BindRequest near{.bind = Bind::kCore, .ranks = 2, .near = near_gpus({1, 0})};
  EXPECT_STREQ(with(near), "near");
  BindRequest other = near;
  other.map_by = MapBy::kNuma;
  EXPECT_STREQ(with(other), "as without");
  // Three threads of two ranks do not fit a socket of four cores.
  other = near;
  other.near = near_gpus({1, 1});
  other.threads = 3;
  EXPECT_STREQ(with(other), "as without");
  other.threads = 2;
  EXPECT_STREQ(with(other), "near");
  // A GPU whose CPUs this process may not use, or of which nothing is known.
  other = near;
  other.near[1] = {100, 101};
  EXPECT_STREQ(with(other), "as without");
  other.near.pop_back();
  EXPECT_STREQ(with(other), "as without");
  // CPUs that are near two sets of GPUs.
  other = near;
  other.near[1] = {8, 9, 10, 11, 0, 1};
  std::ranges::sort(other.near[1]);
  EXPECT_STREQ(with(other), "as without");
}

TEST(BindRanks, CoreIsTheBooksMap) {
  const std::vector<Binding> bindings =
      bind_ranks(two_sockets(), {.bind = Bind::kCore, .ranks = 2, .threads = 3});
  EXPECT_THAT(cpus_of(bindings),
              ElementsAre(std::vector{0, 1, 2, 3, 4, 5}, std::vector{6, 7, 8, 9, 10, 11}));
  EXPECT_EQ(bindings[0].threads, 3);
  EXPECT_THAT(bindings[1].places,
              ElementsAre(std::vector{6, 7}, std::vector{8, 9}, std::vector{10, 11}));
}

TEST(BindRanks, CoreTakesAnEqualNumberOfThreadsByDefault) {
  const std::vector<Binding> bindings =
      bind_ranks(two_sockets(), {.bind = Bind::kCore, .ranks = 3});
  for (const Binding& binding : bindings) EXPECT_EQ(binding.threads, 2);
}

// No policy lets two ranks share a core while there are cores for all.
TEST(BindRanks, SharesNoCoreWhileThereAreEnough) {
  const std::pair<const char*, int> machines[] = {{"package:2 numa:1 core:4 pu:2", 16},
                                                  {"package:1 core:6 pu:2", 12},
                                                  {"package:4 numa:2 core:3 pu:4", 96},
                                                  {"core:5 pu:1", 5}};
  for (const auto& [machine, cpus] : machines) {
    const Topology topology = read_topology(first_cpus(cpus), machine);
    const int cores = static_cast<int>(topology.cores.size());
    for (int ranks = 1; ranks <= cores; ++ranks) {
      for (const Bind bind : {Bind::kCore, Bind::kEven}) {
        std::set<int> taken;
        for (const Binding& binding : bind_ranks(topology, {.bind = bind, .ranks = ranks})) {
          ASSERT_FALSE(binding.cpus.empty());
          for (const int cpu : binding.cpus) {
            EXPECT_TRUE(taken.insert(cpu).second) << machine << ", " << ranks << " ranks";
          }
          for (const Core& core : topology.cores) {
            const bool some = std::ranges::any_of(
                core.cpus, [&](int cpu) { return std::ranges::binary_search(binding.cpus, cpu); });
            const bool all = std::ranges::includes(binding.cpus, core.cpus);
            EXPECT_EQ(some, all) << machine << ", " << ranks << " ranks";
          }
        }
      }
    }
  }
}

TEST(BindRanks, EvenUsesAllCores) {
  const std::vector<Binding> bindings =
      bind_ranks(two_sockets(), {.bind = Bind::kEven, .ranks = 3});
  EXPECT_EQ(bindings[0].cpus.size() + bindings[1].cpus.size() + bindings[2].cpus.size(), 16U);
  EXPECT_EQ(bindings[0].threads, 2);
  EXPECT_EQ(bindings[2].threads, 3);
}

TEST(BindRanks, GivesHardwareThreadsToMoreRanksThanCores) {
  for (const Bind bind : {Bind::kCore, Bind::kEven}) {
    const std::vector<Binding> bindings = bind_ranks(two_sockets(), {.bind = bind, .ranks = 16});
    for (int i = 0; i < 16; ++i)
      EXPECT_THAT(bindings[static_cast<std::size_t>(i)].cpus, ElementsAre(i));
  }
  EXPECT_THAT(bind_ranks(two_sockets(), {.bind = Bind::kEven, .ranks = 32})[31].cpus,
              ElementsAre(15));
  EXPECT_THAT(refused([] { bind_ranks(two_sockets(), {.bind = Bind::kCore, .ranks = 17}); }),
              HasSubstr("17 ranks of 1 threads want 17 CPUs, and 16 can be used"));
}

TEST(BindRanks, SocketAndNumaGiveTheWholeDomain) {
  for (const Bind bind : {Bind::kSocket, Bind::kNuma}) {
    const std::vector<Binding> four = bind_ranks(two_sockets(), {.bind = bind, .ranks = 4});
    EXPECT_THAT(four[1].cpus, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
    EXPECT_THAT(four[2].cpus, ElementsAre(8, 9, 10, 11, 12, 13, 14, 15));
    EXPECT_EQ(four[0].threads, 2);
    EXPECT_TRUE(four[0].places.empty()) << "two ranks would pin their threads to one place";
    EXPECT_EQ(bind_ranks(two_sockets(), {.bind = bind, .ranks = 2})[1].places.size(), 4U);
  }
}

TEST(BindRanks, MapBySocketPutsNeighboursApart) {
  const BindRequest request{
      .bind = Bind::kCore, .map_by = MapBy::kSocket, .ranks = 4, .threads = 1};
  EXPECT_THAT(
      cpus_of(bind_ranks(two_sockets(), request)),
      ElementsAre(std::vector{0, 1}, std::vector{8, 9}, std::vector{2, 3}, std::vector{10, 11}));
}

TEST(BindRanks, WorksIfThreeCpusAreLeft) {
  const Topology machine = read_topology({0, 1, 6}, "package:2 numa:1 core:4 pu:2");
  EXPECT_THAT(cpus_of(bind_ranks(machine, {.bind = Bind::kEven, .ranks = 2})),
              ElementsAre(std::vector{0, 1}, std::vector{6}));
  EXPECT_THAT(cpus_of(bind_ranks(machine, {.bind = Bind::kEven, .ranks = 3})),
              ElementsAre(std::vector{0}, std::vector{1}, std::vector{6}));
}

TEST(DrawBindings, ShowsTheMachine) {
  const std::vector<Binding> bindings =
      bind_ranks(two_sockets(), {.bind = Bind::kCore, .ranks = 2, .threads = 3});
  EXPECT_THAT(draw_bindings(two_sockets(), bindings, "n1"),
              ElementsAre("bindings on n1: 2 sockets, 2 NUMA nodes, 8 cores, 16 CPUs",
                          "  socket 0, NUMA node 0",              //
                          "    core     0    1    2    3",        //
                          "    CPUs   0-1  2-3  4-5  6-7",        //
                          "    rank     0    0    0    1",        //
                          "  socket 1, NUMA node 1",              //
                          "    core     4      5      6      7",  //
                          "    CPUs   8-9  10-11  12-13  14-15",  //
                          "    rank     1      1      -      -"));
}

TEST(CpuList, IsReadAsItIsWritten) {
  for (const std::vector<int>& cpus :
       {std::vector<int>{0}, {0, 1, 2}, {3, 5, 6, 7, 20}, {0, 2, 4}}) {
    EXPECT_EQ(parse_cpu_list(cpu_list(cpus)), cpus);
  }
  for (const char* wrong :
       {"", "x", "1,", ",1", "3-1", "1-", "-1", "1,1", "5,2", "0-65536", "1 2"}) {
    EXPECT_TRUE(parse_cpu_list(wrong).empty()) << wrong;
  }
}

}  // namespace
}  // namespace dl::launcher
