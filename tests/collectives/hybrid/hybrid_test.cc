// What is special about groups on several nodes: the placement of ranks, the two ways of
// operations, and that both give the same results. The nodes are pretended. What every group
// promises is tested in tests/collectives/tcp with DLRUN_TEST_BACKEND=hybrid.
#include <gtest/gtest.h>

#include <algorithm>
#include <latch>
#include <random>
#include <span>

#include "collectives/hybrid/core.h"
#include "collectives/hybrid/route/places.h"
#include "tests/collectives/patterns.h"
#include "tests/collectives/ranks.h"
#include "tests/support/eventually.h"

namespace dl::collectives {
namespace {

using namespace testing;

// A letter a rank: its node.
using Layout = std::string;

std::vector<std::string> names_of(const Layout& layout) {
  std::vector<std::string> names;
  for (const char node : layout) names.emplace_back(1, node);
  return names;
}

void run_layout(const Layout& layout, const std::function<void(ProcessGroup&)>& body,
                std::chrono::nanoseconds timeout = 30s) {
  rendezvous::MemoryStore store;
  const int size = static_cast<int>(layout.size());
  run_threads(size, [&](int rank) {
    const Ref<ProcessGroup> group =
        make_hybrid_group({.rank = rank,
                           .size = size,
                           .store = &store,
                           .key = rendezvous::JobKey::from_hex(std::string(64, '1')),
                           .timeout = timeout,
                           .connect_timeout = 30s,
                           .node = names_of(layout)[static_cast<std::size_t>(rank)]});
    body(*group);
  });
}

TEST(Places, AreCountedByNode) {
  const hybrid::Places places = hybrid::places_of(names_of("aabba"));
  EXPECT_EQ(places.nodes, (std::vector<std::vector<int>>{{0, 1, 4}, {2, 3}}));
  EXPECT_EQ(places.node_of, (std::vector<int>{0, 0, 1, 1, 0}));
  EXPECT_EQ(places.index_of, (std::vector<int>{0, 1, 0, 1, 2}));
}

TEST(Places, OfEvenNodesAllCarry) {
  EXPECT_EQ(hybrid::places_of(names_of("aabb")).carriers(), 2);
  EXPECT_EQ(hybrid::places_of(names_of("abab")).carriers(), 2);
  EXPECT_EQ(hybrid::places_of(names_of("aab")).carriers(), 1);
  EXPECT_EQ(hybrid::places_of(names_of("ab")).carriers(), 1);
  EXPECT_TRUE(hybrid::places_of(names_of("aabb")).is_in_order);
  EXPECT_FALSE(hybrid::places_of(names_of("abab")).is_in_order);
  EXPECT_FALSE(hybrid::places_of(names_of("aab")).is_in_order);
}

class HybridGroup : public ::testing::TestWithParam<const char*> {
 protected:
  int size() const { return static_cast<int>(Layout(GetParam()).size()); }
};
INSTANTIATE_TEST_SUITE_P(Layouts, HybridGroup,
                         ::testing::Values("aa", "ab", "aab", "abab", "aabb", "aabbcc", "abbbac"),
                         [](const auto& layout) { return std::string(layout.param); });

// Several slices, the last of them short, and elements that cannot be shared out evenly.
constexpr std::size_t kCount = 500'009;

TEST_P(HybridGroup, AllReducesInSlices) {
  run_layout(GetParam(), [this](ProcessGroup& group) {
    EXPECT_EQ(group.backend(), "hybrid");
    for (const auto& [dtype, op] : {std::pair{DType::kF32, ReduceOp::kSum},
                                    {DType::kF64, ReduceOp::kAvg},
                                    {DType::kI32, ReduceOp::kMax}}) {
      const Bytes x = filled(dtype, group.rank(), kCount);
      Bytes y(x.size());
      const Ref<Work> work = group.all_reduce(
          {.input = x.data(), .output = y.data(), .count = kCount, .dtype = dtype, .op = op});
      EXPECT_EQ(work->algorithm(), "slices");
      work->wait();
      for (std::size_t i = 0; i < kCount; i = next_look(i, kCount)) {
        ASSERT_EQ(get(y, dtype, i), rounded(dtype, expected(dtype, op, size(), i)))
            << short_name(dtype) << " " << i;
      }
    }
  });
}

TEST_P(HybridGroup, BroadcastsInSlices) {
  run_layout(GetParam(), [this](ProcessGroup& group) {
    for (int root = 0; root < size(); ++root) {
      Bytes x = filled(DType::kF32, group.rank() == root ? root : 4, kCount);
      const Ref<Work> work = group.broadcast({.buffer = x.data(), .count = kCount, .root = root});
      EXPECT_EQ(work->algorithm(), "slices");
      work->wait();
      ASSERT_EQ(x, filled(DType::kF32, root, kCount)) << "from " << root;
    }
  });
}

TEST_P(HybridGroup, GathersAndScattersInAnyPlacementOfRanks) {
  constexpr std::size_t kEach = 70'001;
  run_layout(GetParam(), [this](ProcessGroup& group) {
    const auto ranks = static_cast<std::size_t>(size());
    const Bytes x = filled(DType::kF32, group.rank(), kEach);
    Bytes all(ranks * x.size());
    group.all_gather({.input = x.data(), .output = all.data(), .count = kEach})->wait();
    for (std::size_t r = 0; r < ranks; ++r) {
      for (std::size_t i = 0; i < kEach; i = next_look(i, kEach)) {
        ASSERT_EQ(get(all, DType::kF32, r * kEach + i),
                  element(DType::kF32, static_cast<int>(r), i));
      }
    }
    const Bytes whole = filled(DType::kF32, group.rank(), ranks * kEach);
    Bytes own(x.size());
    group
        .reduce_scatter(
            {.input = whole.data(), .output = own.data(), .count = kEach, .op = ReduceOp::kAvg})
        ->wait();
    for (std::size_t i = 0; i < kEach; i = next_look(i, kEach)) {
      const std::size_t at = static_cast<std::size_t>(group.rank()) * kEach + i;
      ASSERT_EQ(get(own, DType::kF32, i),
                rounded(DType::kF32, expected(DType::kF32, ReduceOp::kAvg, size(), at)));
    }
  });
}

// Some slices, also of what a rank carries.
constexpr std::size_t kFewer = 150'011;

TEST_P(HybridGroup, HaveTheSameBitsInSymmetricMemory) {
  run_layout(GetParam(), [this](ProcessGroup& group) {
    const auto ranks = static_cast<std::size_t>(size());
    const std::size_t each = kFewer / ranks;
    const Ref<SymmetricMemory> memory = group.allocate_symmetric(kFewer * sizeof(float));
    EXPECT_EQ(memory->is_shared(), Layout(GetParam()) != "ab") << memory->why_not();
    auto* const shared = reinterpret_cast<float*>(memory->data());
    const std::span<float> inside(shared, kFewer);
    std::mt19937 random(static_cast<unsigned>(group.rank()));
    std::uniform_real_distribution<float> numbers(-1, 1);
    std::vector<float> x(kFewer);
    for (float& value : x) value = numbers(random);
    const auto same = [&] { return std::ranges::equal(x, inside); };
    std::ranges::copy(x, shared);
    for (float* const at : {x.data(), shared}) {
      group.all_reduce({.input = at, .output = at, .count = kFewer, .op = ReduceOp::kAvg})->wait();
    }
    EXPECT_TRUE(same());
    for (float* const at : {x.data(), shared}) {
      const std::size_t own = static_cast<std::size_t>(group.rank()) * each;
      group.reduce_scatter({.input = at, .output = at + own, .count = each})->wait();
      group.all_gather({.input = at + own, .output = at, .count = each})->wait();
      group.broadcast({.buffer = at, .count = kFewer, .root = size() - 1})->wait();
    }
    EXPECT_TRUE(same());
  });
}

TEST(HybridGroups, MakeSymmetricMemoryOnAllNodesOrOnNone) {
  run_layout("aabbc", [](ProcessGroup& group) {
    const auto kind = [&](std::size_t bytes) {
      return thrown_by([&] { group.allocate_symmetric(bytes); }).kind;
    };
    EXPECT_EQ(kind(group.rank() == 1 ? 8192 : 4096), ErrorKind::kMismatch);
    EXPECT_EQ(kind(group.rank() >= 2 ? 8192 : 4096), ErrorKind::kMismatch);
    // More than there is, on two nodes only.
    EXPECT_EQ(kind(group.rank() == 4 ? 4096 : std::size_t{1} << 50), ErrorKind::kMismatch);
    EXPECT_TRUE(group.allocate_symmetric(4096)->is_shared());
    group.barrier()->wait();
  });
  run_layout("aabb", [](ProcessGroup& group) {
    EXPECT_EQ(thrown_by([&] { group.allocate_symmetric(std::size_t{1} << 50); }).kind,
              ErrorKind::kIo);
    group.barrier()->wait();
  });
}

// One rank calls ahead of the others and waits in another order, while they wait for each operation
// before they call the next.
TEST(HybridGroups, ARankMayBeSeveralOperationsAhead) {
  run_layout("aabb", [](ProcessGroup& group) {
    std::vector<std::vector<float>> buffers(6, std::vector<float>(300'000, 1.0f));
    std::vector<Ref<Work>> works;
    for (auto& x : buffers) {
      works.push_back(group.all_reduce({.input = x.data(), .output = x.data(), .count = x.size()}));
      if (group.rank() != 0) works.back()->wait();
    }
    for (auto work = works.rbegin(); work != works.rend(); ++work) (*work)->wait();
    for (const auto& x : buffers) EXPECT_EQ(x.back(), 4.0f);
  });
}

TEST(HybridGroups, ProgressWithoutAWaiter) {
  run_layout("aabb", [](ProcessGroup& group) {
    std::vector<float> x(300'000, 1.0f);
    const Ref<Work> work =
        group.all_reduce({.input = x.data(), .output = x.data(), .count = x.size()});
    ASSERT_TRUE(tests::eventually([&] { return work->is_completed(); }));
    EXPECT_EQ(work->error(), nullptr);
    EXPECT_TRUE(work->completed_at());
    EXPECT_EQ(x.back(), 4.0f);
  });
}

TEST(HybridGroups, PartIntoGroupsThatSuitTheirRanks) {
  run_layout("aabb", [](ProcessGroup& group) {
    const int rank = group.rank();
    const auto part = [&](int color) {
      const Ref<ProcessGroup> made = group.split({.color = color});
      std::vector<float> x(300'000, 1.0f);
      made->all_reduce({.input = x.data(), .output = x.data(), .count = x.size()})->wait();
      EXPECT_EQ(x.back(), static_cast<float>(made->size()));
      return std::string(made->backend());
    };
    EXPECT_EQ(part(0), "hybrid");
    EXPECT_EQ(part(rank / 2), "shm");
    EXPECT_EQ(part(rank % 2), "tcp");
    EXPECT_EQ(part(rank == 3 ? 1 : 0), rank == 3 ? "solo" : "hybrid");
    // Different kinds at once.
    EXPECT_EQ(part(rank == 1 ? 0 : rank < 3 ? 1 : 2), rank % 2 == 1 ? "solo" : "tcp");
  });
}

// The ranks of one node go by slices, the other's through the TCP group.
TEST(HybridGroups, FindADifferenceWhicheverWayTheCallsGo) {
  run_layout("aabb", [](ProcessGroup& group) {
    std::vector<float> x(300'000);
    const std::size_t count = group.rank() < 2 ? x.size() : 2;
    const Thrown thrown = thrown_by([&] {
      group.all_reduce({.input = x.data(), .output = x.data(), .count = count})->wait();
      for (;;) group.barrier()->wait();
    });
    EXPECT_EQ(thrown.kind, ErrorKind::kMismatch) << thrown.text;
    EXPECT_NE(thrown.text.find("f32[300000] sum"), std::string::npos) << thrown.text;
    EXPECT_NE(thrown.text.find("f32[2] sum"), std::string::npos) << thrown.text;
  });
}

TEST(HybridGroups, WaitForEverWithAnInfiniteTimeout) {
  const auto reduce = [](ProcessGroup& group) {
    std::vector<float> x(1 << 18, 1.F);
    group.all_reduce({.input = x.data(), .output = x.data(), .count = x.size()})->wait();
    EXPECT_EQ(x.front(), 4.F);
    group
        .all_reduce({.input = x.data(),
                     .output = x.data(),
                     .count = x.size(),
                     .call = {.timeout = std::chrono::nanoseconds::max() - 1ns}})
        ->wait();
    EXPECT_EQ(x.back(), 16.F);
  };
  run_layout("aabb", reduce, std::chrono::nanoseconds::max());
}

TEST(HybridStagger, BeginsAtTheDeadlineAndHasAnOrder) {
  for (const std::chrono::nanoseconds timeout : {100ms + 0ns, 1s + 0ns, 10s + 0ns, 600s + 0ns}) {
    const hybrid::Stagger stagger(timeout);
    std::chrono::nanoseconds last = timeout;
    for (const hybrid::Lane lane : {hybrid::Lane::kIn, hybrid::Lane::kCross, hybrid::Lane::kOut}) {
      // For one that begins at once, and for one that begins late.
      const std::chrono::nanoseconds late = timeout / 2;
      EXPECT_EQ(stagger.of(lane, timeout - late) + late, stagger.of(lane, timeout));
      EXPECT_EQ(stagger.of(lane, timeout), last + stagger.step);
      last += stagger.step;
      EXPECT_GT(stagger.of(lane, 0ns), 0ns);
    }
    EXPECT_LE(last, timeout + 50ms);
    EXPECT_LE(stagger.answer, timeout / 2);
  }
  const hybrid::Stagger never(std::chrono::nanoseconds::max());
  EXPECT_EQ(never.of(hybrid::Lane::kOut, Deadline::never().left()),
            std::chrono::nanoseconds::max());
}

TEST(HybridGroups, EndEverywhereIfOneRankGivesUp) {
  run_layout("aabb", [](ProcessGroup& group) {
    std::vector<float> x(300'000);
    const auto sum = [&] {
      group.all_reduce({.input = x.data(), .output = x.data(), .count = x.size()})->wait();
    };
    const Thrown thrown = thrown_by([&] {
      sum();
      if (group.rank() == 3) group.abort("out of disk");
      for (;;) sum();
    });
    EXPECT_EQ(thrown.kind, ErrorKind::kAborted) << thrown.text;
    EXPECT_NE(thrown.text.find("aborted by rank 3 ("), std::string::npos) << thrown.text;
    EXPECT_NE(thrown.text.find("out of disk"), std::string::npos) << thrown.text;
  });
}

}  // namespace
}  // namespace dl::collectives
