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

class TcpGroup : public ::testing::TestWithParam<int> {};

TEST_P(TcpGroup, AllReduceOfEveryDTypeAndOperation) {
  const int size = GetParam();
  run_ranks(size, [size](ProcessGroup& group) {
    for (const DType dtype : kAllDTypes) {
      for (const ReduceOp op : kAllOps) {
        if (!allowed(dtype, op) || !exact(dtype, op, size)) continue;
        for (const std::size_t count : {0u, 1u, 3u, 1001u}) {
          for (const bool in_place : {false, true}) {
            Bytes input = filled(dtype, group.rank(), count);
            Bytes output(input.size());
            Bytes& result = in_place ? input : output;
            group
                .all_reduce({.input = input.data(),
                             .output = result.data(),
                             .count = count,
                             .dtype = dtype,
                             .op = op})
                ->wait();
            for (std::size_t i = 0; i < count; ++i) {
              ASSERT_EQ(get(result, dtype, i), rounded(dtype, expected(dtype, op, size, i)))
                  << short_name(dtype) << " " << name_of(op) << " count " << count << " at " << i;
            }
            if (!in_place) {
              ASSERT_EQ(input, filled(dtype, group.rank(), count));
            }
          }
        }
      }
    }
  });
}

// Above the direct exchange: ring, and the exchange of raw shares for bf16 and integer averages;
// cut into several slices, with odd counts that do not divide.
TEST_P(TcpGroup, AllReduceOfManySlices) {
  const int size = GetParam();
  run_ranks(size, [size](ProcessGroup& group) {
    struct Case {
      DType dtype;
      ReduceOp op;
      std::size_t count;
    };
    for (const auto& [dtype, op, count] :
         {Case{DType::kF32, ReduceOp::kSum, 300'007}, Case{DType::kF32, ReduceOp::kAvg, 600'011},
          Case{DType::kF64, ReduceOp::kMax, 50'001}, Case{DType::kBF16, ReduceOp::kSum, 400'001},
          Case{DType::kF16, ReduceOp::kAvg, 100'003}, Case{DType::kI32, ReduceOp::kAvg, 100'003},
          Case{DType::kU8, ReduceOp::kBxor, 700'001}}) {
      for (const bool in_place : {false, true}) {
        Bytes input = filled(dtype, group.rank(), count);
        Bytes output(input.size());
        Bytes& result = in_place ? input : output;
        group
            .all_reduce({.input = input.data(),
                         .output = result.data(),
                         .count = count,
                         .dtype = dtype,
                         .op = op})
            ->wait();
        for (std::size_t i = 0; i < count; i = next_look(i, count)) {
          ASSERT_EQ(get(result, dtype, i), rounded(dtype, expected(dtype, op, size, i)))
              << short_name(dtype) << " " << name_of(op) << " at " << i;
        }
      }
    }
  });
}

TEST_P(TcpGroup, BroadcastFromEveryRoot) {
  const int size = GetParam();
  run_ranks(size, [size](ProcessGroup& group) {
    for (int root = 0; root < size; ++root) {
      for (const std::size_t count : {0u, 1u, 1001u, 500'003u}) {
        Bytes buffer = filled(DType::kI32, group.rank(), count);
        group
            .broadcast(
                {.buffer = buffer.data(), .count = count, .dtype = DType::kI32, .root = root})
            ->wait();
        ASSERT_EQ(buffer, filled(DType::kI32, root, count))
            << "root " << root << " count " << count;
      }
    }
  });
}

TEST_P(TcpGroup, AllGatherInAndOutOfPlace) {
  const int size = GetParam();
  run_ranks(size, [size](ProcessGroup& group) {
    for (const std::size_t count : {0u, 1u, 1001u, 200'003u}) {
      for (const bool in_place : {false, true}) {
        const Bytes input = filled(DType::kF32, group.rank(), count);
        Bytes output(input.size() * static_cast<std::size_t>(size));
        std::byte* const own =
            output.data() + static_cast<std::size_t>(group.rank()) * input.size();
        if (in_place && count > 0) std::memcpy(own, input.data(), input.size());
        group
            .all_gather({.input = in_place ? own : input.data(),
                         .output = output.data(),
                         .count = count,
                         .dtype = DType::kF32})
            ->wait();
        for (int r = 0; r < size; ++r) {
          const auto begin = output.begin() + static_cast<std::ptrdiff_t>(input.size()) * r;
          ASSERT_EQ(Bytes(begin, begin + static_cast<std::ptrdiff_t>(input.size())),
                    filled(DType::kF32, r, count));
        }
      }
    }
  });
}

TEST_P(TcpGroup, ReduceScatterInAndOutOfPlace) {
  const int size = GetParam();
  run_ranks(size, [size](ProcessGroup& group) {
    struct Case {
      DType dtype;
      ReduceOp op;
      std::size_t count;
    };
    for (const auto& [dtype, op, count] :
         {Case{DType::kF32, ReduceOp::kSum, 0}, Case{DType::kF32, ReduceOp::kSum, 7},
          Case{DType::kF32, ReduceOp::kAvg, 150'001}, Case{DType::kBF16, ReduceOp::kAvg, 150'001},
          Case{DType::kI64, ReduceOp::kMin, 60'001}}) {
      for (const bool in_place : {false, true}) {
        const std::size_t part = count * size_of(dtype);
        Bytes input = filled(dtype, group.rank(), count * static_cast<std::size_t>(size));
        Bytes output(part);
        std::byte* const own = input.data() + static_cast<std::size_t>(group.rank()) * part;
        std::byte* const to = in_place ? own : output.data();
        group
            .reduce_scatter(
                {.input = input.data(), .output = to, .count = count, .dtype = dtype, .op = op})
            ->wait();
        if (count > 0) std::memcpy(output.data(), to, part);
        for (std::size_t i = 0; i < count; i = next_look(i, count)) {
          const std::size_t at = static_cast<std::size_t>(group.rank()) * count + i;
          ASSERT_EQ(get(output, dtype, i), rounded(dtype, expected(dtype, op, size, at)));
        }
      }
    }
  });
}

TEST_P(TcpGroup, NoRankLeavesABarrierBeforeAllHaveEntered) {
  const int size = GetParam();
  std::atomic<int> entered{0};
  run_ranks(size, [&](ProcessGroup& group) {
    for (int round = 1; round <= 20; ++round) {
      entered.fetch_add(1);
      group.barrier()->wait();
      ASSERT_GE(entered.load(), round * size);
      group.barrier()->wait();
    }
  });
}

TEST_P(TcpGroup, ResultsHaveTheSameBitsOnAllRanksAndRuns) {
  const int size = GetParam();
  std::mutex mutex;
  std::vector<Bytes> results;
  for (int run = 0; run < 2; ++run) {
    run_ranks(size, [&](ProcessGroup& group) {
      std::mt19937 random(static_cast<unsigned>(group.rank()));
      Bytes all;
      for (const std::size_t count : {1000u, 120'001u}) {
        for (const DType dtype : {DType::kF32, DType::kBF16}) {
          Bytes x(count * size_of(dtype));
          std::normal_distribution<double> normal;
          for (std::size_t i = 0; i < count; ++i) put(x, dtype, i, normal(random));
          // NaN and signed zeros must not depend on who sums, either.
          put(x, dtype, 0, group.rank() == 0 ? std::nan("") : 1);
          put(x, dtype, 1, group.rank() % 2 == 0 ? 0.0 : -0.0);
          group.all_reduce({.input = x.data(), .output = x.data(), .count = count, .dtype = dtype})
              ->wait();
          all.insert(all.end(), x.begin(), x.end());
          group
              .all_reduce({.input = x.data(),
                           .output = x.data(),
                           .count = count,
                           .dtype = dtype,
                           .op = ReduceOp::kMin})
              ->wait();
          all.insert(all.end(), x.begin(), x.end());
        }
      }
      const std::lock_guard lock(mutex);
      results.push_back(std::move(all));
    });
  }
  for (const Bytes& result : results) EXPECT_EQ(result, results.front());
}

// Also of what is no number: bytes at random hold NaN with every payload, infinities and denormals.
TEST_P(TcpGroup, EveryReductionHasTheSameBitsOnAllRanksAndRuns) {
  std::mutex mutex;
  std::vector<Bytes> results;
  for (int run = 0; run < 2; ++run) {
    run_ranks(GetParam(), [&](ProcessGroup& group) {
      std::mt19937 random(static_cast<unsigned>(group.rank()));
      Bytes all;
      for (const std::size_t count : {5u, 700u, 20'011u}) {
        for (const DType dtype : kAllDTypes) {
          for (const ReduceOp op : kAllOps) {
            if (!allowed(dtype, op)) continue;
            Bytes x(count * size_of(dtype));
            std::ranges::generate(x, [&] { return static_cast<std::byte>(random() >> 24); });
            group
                .all_reduce({.input = x.data(),
                             .output = x.data(),
                             .count = count,
                             .dtype = dtype,
                             .op = op})
                ->wait();
            all.insert(all.end(), x.begin(), x.end());
          }
        }
      }
      const std::lock_guard lock(mutex);
      results.push_back(std::move(all));
    });
  }
  for (const Bytes& result : results) EXPECT_EQ(result, results.front());
}

TEST_P(TcpGroup, AsynchronousOperationsMayBeWaitedForInAnyOrder) {
  const int size = GetParam();
  run_ranks(size, [size](ProcessGroup& group) {
    constexpr std::size_t kOperations = 24;
    std::vector<Bytes> buffers;
    std::vector<Ref<Work>> works;
    const auto count = [](std::size_t k) { return k % 3 == 0 ? 150'001 : 10 * k + 1; };
    for (std::size_t k = 0; k < kOperations; ++k) {
      buffers.push_back(filled(DType::kF32, group.rank(), count(k), k));
      works.push_back(group.all_reduce({.input = buffers.back().data(),
                                        .output = buffers.back().data(),
                                        .count = count(k),
                                        .dtype = DType::kF32}));
    }
    for (std::size_t k = kOperations; k-- > 0;) {
      works[k]->synchronize();
      EXPECT_TRUE(works[k]->is_completed());
      EXPECT_LE(works[k]->completed_at().value(), std::chrono::steady_clock::now());
      EXPECT_EQ(works[k]->error(), nullptr);
      for (std::size_t i = 0; i < count(k); i = next_look(i, count(k))) {
        ASSERT_EQ(get(buffers[k], DType::kF32, i),
                  expected(DType::kF32, ReduceOp::kSum, size, k + i));
      }
    }
  });
}

TEST_P(TcpGroup, ADroppedWorkStillHappens) {
  const int size = GetParam();
  run_ranks(size, [size](ProcessGroup& group) {
    Bytes x = filled(DType::kF32, group.rank(), 100'000);
    group.all_reduce({.input = x.data(), .output = x.data(), .count = 100'000});
    group.barrier()->wait();
    for (std::size_t i = 0; i < 100'000; ++i) {
      ASSERT_EQ(get(x, DType::kF32, i), expected(DType::kF32, ReduceOp::kSum, size, i));
    }
  });
}

// Whatever the operation, the size or an element's place: one order of additions.
TEST_P(TcpGroup, TreeOrderIsTheSameForEveryOperationAndSize) {
  const int size = GetParam();
  constexpr std::size_t kEach = 40'003;
  const std::size_t count = kEach * static_cast<std::size_t>(size);
  std::vector<std::vector<float>> shares;
  std::vector<const void*> pointers;
  for (int rank = 0; rank < size; ++rank) {
    std::mt19937 random(static_cast<unsigned>(rank));
    std::uniform_real_distribution<float> numbers(-1, 1);
    std::vector<float>& share = shares.emplace_back(count);
    for (float& x : share) x = numbers(random);
  }
  for (const auto& share : shares) pointers.push_back(share.data());
  std::vector<float> wanted(count);
  combine(DType::kF32, ReduceOp::kSum, wanted.data(), pointers, count, Order::kTree);
  run_ranks(size, [&](ProcessGroup& group) {
    const CallOptions tree{.order = Order::kTree};
    const auto rank = static_cast<std::size_t>(group.rank());
    const std::vector<float>& mine = shares[rank];
    std::vector<float> all = mine;
    group.all_reduce({.input = all.data(), .output = all.data(), .count = count, .call = tree})
        ->wait();
    EXPECT_TRUE(all == wanted);
    std::vector<float> few(mine.begin() + 100, mine.begin() + 117);
    group
        .all_reduce({.input = few.data(), .output = few.data(), .count = few.size(), .call = tree})
        ->wait();
    EXPECT_TRUE(std::equal(few.begin(), few.end(), wanted.begin() + 100));
    std::vector<float> part(kEach);
    const auto* const wanted_part = wanted.data() + rank * kEach;
    group
        .reduce_scatter({.input = mine.data(), .output = part.data(), .count = kEach, .call = tree})
        ->wait();
    EXPECT_TRUE(std::equal(part.begin(), part.end(), wanted_part));
    std::ranges::fill(part, 0.0f);
    const std::vector<std::size_t> counts(static_cast<std::size_t>(size), kEach);
    group
        .reduce_scatterv(
            {.input = mine.data(), .output = part.data(), .counts = counts, .call = tree})
        ->wait();
    EXPECT_TRUE(std::equal(part.begin(), part.end(), wanted_part));
    std::vector<float> root(count);
    group.reduce({.input = mine.data(), .output = root.data(), .count = count, .call = tree})
        ->wait();
    EXPECT_TRUE(rank != 0 || root == wanted);
  });
}

INSTANTIATE_TEST_SUITE_P(Sizes, TcpGroup, ::testing::Values(1, 2, 3, 4, 5, 8));

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
  std::array<Ref<RefCounted>, kRanks> engines;
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
  std::array<Ref<RefCounted>, 2> engines{make_tcp_engine(), make_tcp_engine()};
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
