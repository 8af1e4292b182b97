// The operations that all ranks take part in alike, compared with naive sums.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <random>

#include "collectives/call/descriptor.h"
#include "collectives/reduce/reduce.h"
#include "tests/collectives/conformance/conformance.h"
#include "tests/collectives/patterns.h"

namespace dl::collectives::testing {
namespace {

void expect_same_on_all_ranks(ProcessGroup& group, const Bytes& bytes) {
  Bytes first = bytes;
  group.broadcast({.buffer = first.data(), .count = first.size(), .dtype = DType::kU8})->wait();
  EXPECT_EQ(bytes, first);
}

TEST_P(Conformance, AllReduceOfEveryDTypeAndOperation) {
  const int size = Conformance::size();
  run([size](ProcessGroup& group) {
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
TEST_P(Conformance, AllReduceOfManySlices) {
  const int size = Conformance::size();
  run([size](ProcessGroup& group) {
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

TEST_P(Conformance, BroadcastFromEveryRoot) {
  const int size = Conformance::size();
  run([size](ProcessGroup& group) {
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

TEST_P(Conformance, AllGatherInAndOutOfPlace) {
  const int size = Conformance::size();
  run([size](ProcessGroup& group) {
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

TEST_P(Conformance, ReduceScatterInAndOutOfPlace) {
  const int size = Conformance::size();
  run([size](ProcessGroup& group) {
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

TEST_P(Conformance, NoRankLeavesABarrierBeforeAllHaveEntered) {
  if (!GetParam().backend.are_ranks_threads) GTEST_SKIP() << "the ranks share no counter";
  const int size = Conformance::size();
  std::atomic<int> entered{0};
  run([&](ProcessGroup& group) {
    for (int round = 1; round <= 20; ++round) {
      entered.fetch_add(1);
      group.barrier()->wait();
      ASSERT_GE(entered.load(), round * size);
      group.barrier()->wait();
    }
  });
}

TEST_P(Conformance, ResultsHaveTheSameBitsOnAllRanksAndRuns) {
  std::mutex mutex;
  std::vector<Bytes> results;
  for (int turn = 0; turn < 2; ++turn) {
    run([&](ProcessGroup& group) {
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
      expect_same_on_all_ranks(group, all);
      const std::lock_guard lock(mutex);
      results.push_back(std::move(all));
    });
  }
  for (const Bytes& result : results) EXPECT_EQ(result, results.front());
}

// Also of what is no number: bytes at random hold NaN with every payload, infinities and denormals.
TEST_P(Conformance, EveryReductionHasTheSameBitsOnAllRanksAndRuns) {
  std::mutex mutex;
  std::vector<Bytes> results;
  for (int turn = 0; turn < 2; ++turn) {
    run([&](ProcessGroup& group) {
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
      expect_same_on_all_ranks(group, all);
      const std::lock_guard lock(mutex);
      results.push_back(std::move(all));
    });
  }
  for (const Bytes& result : results) EXPECT_EQ(result, results.front());
}

TEST_P(Conformance, AsynchronousOperationsMayBeWaitedForInAnyOrder) {
  const int size = Conformance::size();
  run([size](ProcessGroup& group) {
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

TEST_P(Conformance, ADroppedWorkStillHappens) {
  const int size = Conformance::size();
  run([size](ProcessGroup& group) {
    Bytes x = filled(DType::kF32, group.rank(), 100'000);
    group.all_reduce({.input = x.data(), .output = x.data(), .count = 100'000});
    group.barrier()->wait();
    for (std::size_t i = 0; i < 100'000; ++i) {
      ASSERT_EQ(get(x, DType::kF32, i), expected(DType::kF32, ReduceOp::kSum, size, i));
    }
  });
}

// Whatever the operation, the size or an element's place: one order of additions.
TEST_P(Conformance, TreeOrderIsTheSameForEveryOperationAndSize) {
  const int size = Conformance::size();
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
  run([&](ProcessGroup& group) {
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

}  // namespace
}  // namespace dl::collectives::testing
