// The whole TCP backend: N ranks as threads over real sockets, values compared with naive sums.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <memory>
#include <mutex>
#include <random>

#include "collectives/call/descriptor.h"
#include "collectives/reduce/reduce.h"
#include "tests/collectives/patterns.h"
#include "tests/collectives/ranks.h"

namespace dl::collectives {
namespace {

using namespace testing;

// A slice's connection says nothing about what it holds: any number of them gives the same bits.
TEST(TcpGroups, TheNumberOfLanesChangesNoBit) {
  constexpr std::size_t kCount = 700'001;  // some slices, the last one short
  std::mutex mutex;
  std::vector<std::vector<float>> results;
  for (const int lanes : {1, 2, 5}) {
    run_ranks(3,
              [&](ProcessGroup& group) {
                std::mt19937 random(static_cast<unsigned>(group.rank()));
                std::uniform_real_distribution<float> numbers(-1, 1);
                std::vector<float> x(kCount);
                for (float& value : x) value = numbers(random);
                group.all_reduce({.input = x.data(), .output = x.data(), .count = x.size()});
                group.barrier();
                group.broadcast({.buffer = x.data(), .count = x.size(), .root = 1})->wait();
                const std::lock_guard lock(mutex);
                results.push_back(std::move(x));
              },
              {.lanes = lanes});
  }
  ASSERT_EQ(results.size(), 9u);
  for (const std::vector<float>& result : results) EXPECT_TRUE(result == results.front());
}

TEST(Groups, SeveralAtOnceFromSeveralThreads) {
  constexpr int kRanks = 3;
  constexpr int kGroups = 3;
  rendezvous::MemoryStore store;
  std::array<Ref<TcpEngine>, kRanks> engines;
  for (auto& engine : engines) engine = make_tcp_engine();
  run_threads(kRanks * kGroups, [&](int thread) {
    const int rank = thread % kRanks;
    const Ref<ProcessGroup> group = join_group(store, rank, kRanks,
                                               {.name = "group" + std::to_string(thread / kRanks),
                                                .engine = engines[static_cast<std::size_t>(rank)]});
    for (int round = 0; round < 30; ++round) {
      const std::size_t count = round % 5 == 0 ? 100'001 : 17;
      Bytes x = filled(DType::kI32, rank, count);
      group
          ->all_reduce(
              {.input = x.data(), .output = x.data(), .count = count, .dtype = DType::kI32})
          ->wait();
      for (std::size_t i = 0; i < count; ++i) {
        ASSERT_EQ(get(x, DType::kI32, i), expected(DType::kI32, ReduceOp::kSum, kRanks, i));
      }
    }
  });
}

TEST(Groups, AnOperationStuckInOneDelaysNoOther) {
  rendezvous::MemoryStore store;
  std::array<Ref<TcpEngine>, 2> engines{make_tcp_engine(), make_tcp_engine()};
  run_threads(2, [&](int rank) {
    const auto join = [&](const char* name) {
      return join_group(store, rank, 2,
                        {.name = name, .engine = engines[static_cast<std::size_t>(rank)]});
    };
    const Ref<ProcessGroup> stuck = join("stuck");
    const Ref<ProcessGroup> free = join("free");
    Bytes x(1 << 20), y(1 << 20);
    Ref<Work> waiting;
    if (rank == 0)
      waiting = stuck->all_reduce({.input = x.data(), .output = x.data(), .count = 1 << 18});
    for (int round = 0; round < 20; ++round) {
      free->all_reduce({.input = y.data(), .output = y.data(), .count = 1 << 18})->wait();
    }
    if (rank == 0) {
      EXPECT_FALSE(waiting->is_completed());
      EXPECT_FALSE(waiting->completed_at());
    }
    free->barrier()->wait();
    if (rank == 1) {
      waiting = stuck->all_reduce({.input = x.data(), .output = x.data(), .count = 1 << 18});
    }
    waiting->wait();
  });
}

TEST(Groups, BadArgumentsAreRefusedBeforeAnythingIsSent) {
  run_ranks(2, [](ProcessGroup& group) {
    Bytes x(64);
    const auto all_reduce = [&](const void* in, void* out) {
      return thrown_by([&] { group.all_reduce({.input = in, .output = out, .count = 8}); });
    };
    EXPECT_EQ(all_reduce(nullptr, x.data()).kind, ErrorKind::kInvalidArgument);
    EXPECT_EQ(all_reduce(x.data(), x.data() + 4).kind, ErrorKind::kInvalidArgument);
    EXPECT_EQ(thrown_by([&] { group.broadcast({.buffer = x.data(), .count = 1, .root = 2}); }).text,
              "broadcast: root is 2, wanted a rank of this group, 0 to 1");
    EXPECT_EQ(thrown_by([&] {
                group.all_reduce(
                    {.input = x.data(), .output = x.data(), .count = 1, .op = ReduceOp::kBor});
              }).kind,
              ErrorKind::kDType);
    EXPECT_EQ(
        thrown_by([&] { group.send({.buffer = x.data(), .count = 1, .peer = group.rank()}); }).kind,
        ErrorKind::kInvalidArgument);
    EXPECT_EQ(thrown_by([&] {
                group.barrier({.call = {.stream = {.device = {.type = DeviceType::kCUDA}}}});
              }).kind,
              ErrorKind::kNotImplemented);
    group.barrier()->wait();  // and the group is still good
  });
}

class TcpPlans : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Sizes, TcpPlans, ::testing::Range(2, 6));

// Many slices each, so that both ends of a pair have more to send than sockets hold.
TEST_P(TcpPlans, AllReduceByEveryAlgorithmInAndOutOfPlace) {
  const int size = GetParam();
  constexpr std::size_t kCount = 800'003;
  for (const Algorithm algorithm : algorithms_of(OpKind::kAllReduce, false)) {
    const std::string name(name_of(algorithm));
    run_ranks(size,
              [&](ProcessGroup& group) {
                EXPECT_EQ(group.plan(), "default+all_reduce:" + name);
                for (const bool in_place : {false, true}) {
                  for (const std::size_t count : {std::size_t{3}, kCount}) {
                    Bytes input = filled(DType::kF32, group.rank(), count);
                    Bytes output(input.size());
                    Bytes& result = in_place ? input : output;
                    const Ref<Work> work = group.all_reduce(
                        {.input = input.data(), .output = result.data(), .count = count});
                    work->wait();
                    EXPECT_EQ(work->algorithm(), name);
                    for (std::size_t i = 0; i < count; i = next_look(i, count)) {
                      ASSERT_EQ(get(result, DType::kF32, i),
                                expected(DType::kF32, ReduceOp::kSum, size, i))
                          << name << " " << count << " at " << i;
                    }
                  }
                }
              },
              {.plan = with_algorithms({}, "all_reduce:" + name)});
  }
}

// A plan is rank 0's to bring: what the others bring is only compared with it.
TEST(TcpPlan, OfRank0CountsForAllAndForGroupsMadeOfTheirs) {
  rendezvous::MemoryStore store;
  run_threads(3, [&](int rank) {
    RankOptions options{.plan = with_algorithms({}, rank == 0 ? "ring" : "shares")};
    const Ref<ProcessGroup> group = join_group(store, rank, 3, options);
    EXPECT_EQ(group->plan(), "default+ring");
    const Ref<ProcessGroup> part = group->split({.color = rank % 2});
    EXPECT_EQ(part->plan(), rank % 2 == 0 ? "default+ring" : "");
    float value = 1;
    const Ref<Work> work = group->all_reduce({.input = &value, .output = &value, .count = 1});
    work->wait();
    EXPECT_EQ(work->algorithm(), "ring");
    EXPECT_EQ(value, 3);
  });
}

// A pattern of a prime length, so that no wrong place looks right.
constexpr std::size_t kLongCount = 2'254'857'831;  // 2.1 GiB of bytes
constexpr std::size_t kLongPeriod = 1'000'003;
std::vector<std::uint8_t> long_pattern(std::size_t factor) {
  std::vector<std::uint8_t> pattern(kLongPeriod);
  for (std::size_t i = 0; i < kLongPeriod; ++i) {
    pattern[i] = static_cast<std::uint8_t>((i + i / 251) * factor);
  }
  return pattern;
}
template <typename Use>
void for_each_period(std::uint8_t* x, const Use& use) {
  for (std::size_t at = 0; at < kLongCount; at += kLongPeriod) {
    use(x + at, std::min(kLongPeriod, kLongCount - at));
  }
}
void fill_long(std::uint8_t* x, std::size_t factor) {
  const std::vector<std::uint8_t> pattern = long_pattern(factor);
  for_each_period(x, [&](std::uint8_t* to, std::size_t n) { std::memcpy(to, pattern.data(), n); });
}
void expect_long(std::uint8_t* x, std::size_t factor) {
  const std::vector<std::uint8_t> pattern = long_pattern(factor);
  for_each_period(x, [&](const std::uint8_t* from, std::size_t n) {
    ASSERT_EQ(std::memcmp(from, pattern.data(), n), 0) << "from byte " << from - x;
  });
}

// 4.2 GiB of memory and more than a second: ./dev test-all.
TEST(LongCounts, AllReduceAndBroadcastOfMoreThanTwoGiB) {
  run_ranks(
      2,
      [](ProcessGroup& group) {
        const auto rank = static_cast<std::size_t>(group.rank());
        const auto x = std::make_unique_for_overwrite<std::uint8_t[]>(kLongCount);
        fill_long(x.get(), 3 + rank);
        group
            .all_reduce(
                {.input = x.get(), .output = x.get(), .count = kLongCount, .dtype = DType::kU8})
            ->wait();
        expect_long(x.get(), 7);
        if (rank == 1) fill_long(x.get(), 11);
        group.broadcast({.buffer = x.get(), .count = kLongCount, .dtype = DType::kU8, .root = 1})
            ->wait();
        expect_long(x.get(), 11);
      },
      {.timeout = 120s});
}

}  // namespace
}  // namespace dl::collectives
