// What is made of a group's operations: custom reductions, coalesced calls, byte strings.
#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <latch>
#include <thread>
#include <vector>

#include "collectives/compose/coalesced.h"
#include "collectives/compose/custom_reduce.h"
#include "collectives/compose/objects.h"
#include "core/base/sanitizers.h"
#include "tests/collectives/patterns.h"
#include "tests/collectives/ranks.h"
#include "tests/support/eventually.h"

namespace dl::collectives {
namespace {

using namespace testing;

class Composed : public ::testing::TestWithParam<int> {};

TEST_P(Composed, PremultipliedSumTakesEveryRanksOwnFactor) {
  const int size = GetParam();
  run_ranks(size, [size](ProcessGroup& group) {
    const double factor = group.rank() + 1;
    double wanted = 0;
    for (int r = 0; r < size; ++r) wanted += 2.0 * (r + 1);
    for (const DType dtype : {DType::kF16, DType::kBF16, DType::kF32, DType::kF64}) {
      const auto ranks = static_cast<std::size_t>(size);
      const std::size_t count = 37;
      Bytes input(count * ranks * size_of(dtype));
      for (std::size_t i = 0; i < count * ranks; ++i) put(input, dtype, i, 2.0);
      const Bytes before = input;
      Bytes output(count * size_of(dtype));
      const auto is_right = [&](const Bytes& x) {
        for (std::size_t i = 0; i < count; ++i) {
          if (get(x, dtype, i) != wanted) return false;
        }
        return true;
      };
      premul_all_reduce(
          group, {.input = input.data(), .output = output.data(), .count = count, .dtype = dtype},
          factor)
          ->wait();
      EXPECT_TRUE(is_right(output)) << short_name(dtype);
      output = Bytes(output.size());
      premul_reduce_scatter(
          group, {.input = input.data(), .output = output.data(), .count = count, .dtype = dtype},
          factor)
          ->wait();
      EXPECT_TRUE(is_right(output)) << short_name(dtype);
      output = Bytes(output.size());
      premul_reduce(group,
                    {.input = input.data(),
                     .output = output.data(),
                     .count = count,
                     .dtype = dtype,
                     .root = size - 1},
                    factor)
          ->wait();
      EXPECT_EQ(is_right(output), group.rank() == size - 1) << short_name(dtype);
      EXPECT_EQ(input, before);
    }
    int x = 1;
    EXPECT_EQ(thrown_by([&] {
                premul_all_reduce(group,
                                  {.input = &x, .output = &x, .count = 1, .dtype = DType::kI32}, 2);
              }).text,
              "premul_all_reduce: a factor needs a floating dtype, got i32");
  });
}

// 2x2 integer matrices: associative and not commutative, so that the order shows.
using Matrix = std::array<std::int64_t, 4>;
Matrix matrix(int rank, std::size_t i) {
  return {1, rank + static_cast<std::int64_t>(i % 3), rank % 2, 1};
}
Matrix times(const Matrix& a, const Matrix& b) {
  return {a[0] * b[0] + a[1] * b[2], a[0] * b[1] + a[1] * b[3], a[2] * b[0] + a[3] * b[2],
          a[2] * b[1] + a[3] * b[3]};
}
Matrix product(int size, std::size_t i) {
  Matrix all = matrix(0, i);
  for (int r = 1; r < size; ++r) all = times(all, matrix(r, i));
  return all;
}
void multiply(const void* in, void* inout, std::size_t count) {
  const auto* const right = static_cast<const Matrix*>(in);
  auto* const left = static_cast<Matrix*>(inout);
  for (std::size_t i = 0; i < count; ++i) left[i] = times(left[i], right[i]);
}

TEST_P(Composed, UserDefinedReductionFoldsInRankOrder) {
  const int size = GetParam();
  run_ranks(size, [size](ProcessGroup& group) {
    for (const std::size_t count : {0u, 1u, 3000u}) {
      const auto rank = static_cast<std::size_t>(group.rank());
      std::vector<Matrix> input;
      for (std::size_t i = 0; i < count * static_cast<std::size_t>(size); ++i) {
        input.push_back(matrix(group.rank(), i));
      }
      std::vector<Matrix> output(count);
      UserReduceOptions options{.input = input.data(),
                                .output = output.data(),
                                .count = count,
                                .element_bytes = sizeof(Matrix),
                                .function = multiply};
      user_reduce_scatter(group, options)->wait();
      for (std::size_t i = 0; i < count; ++i) {
        ASSERT_EQ(output[i], product(size, rank * count + i));
      }
      user_reduce(group, options, 0)->wait();
      for (std::size_t i = 0; rank == 0 && i < count; ++i) ASSERT_EQ(output[i], product(size, i));
      options.output = input.data();  // in place
      user_all_reduce(group, options)->wait();
      for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(input[i], product(size, i));
    }
  });
}

TEST(UserReduction, ExceptionComesFromWaitAndLeavesTheGroupUsable) {
  run_ranks(2, [](ProcessGroup& group) {
    int x = 1;
    const Ref<Work> work = user_all_reduce(group, {.input = &x,
                                                   .output = &x,
                                                   .count = 1,
                                                   .element_bytes = sizeof x,
                                                   .function = [](const void*, void*, std::size_t) {
                                                     throw Error(ErrorKind::kInvalidArgument,
                                                                 "no sum of apples and pears");
                                                   }});
    EXPECT_EQ(thrown_by([&] { work->wait(); }).text, "no sum of apples and pears");
    EXPECT_EQ(thrown_by([&] { work->wait(); }).text, "no sum of apples and pears");
    group.barrier()->wait();
  });
}

TEST(UserReduction, OfMemoryOfAGpuIsRefusedBeforeAnythingIsSent) {
  run_ranks(2, [](ProcessGroup& group) {
    int x[2] = {1, 1};
    const UserReduceOptions options{.input = x,
                                    .output = x,
                                    .count = 1,
                                    .element_bytes = sizeof x[0],
                                    .function = [](const void*, void*, std::size_t) {},
                                    .call = {.stream = {.device = {DeviceType::kCUDA, 1}}}};
    const auto call = [&](int which) {
      if (which == 0) user_all_reduce(group, options);
      if (which == 1) user_reduce(group, options, 0);
      if (which == 2) user_reduce_scatter(group, options);
    };
    for (const int which : {0, 1, 2}) {
      const Thrown thrown = thrown_by([&] { call(which); });
      EXPECT_EQ(thrown.kind, ErrorKind::kNotImplemented);
      EXPECT_NE(thrown.text.find("sees CPU memory only, not cuda:1's"), std::string::npos);
    }
    group.barrier()->wait();
  });
}

TEST_P(Composed, CoalescedReductionsEqualSingleOnes) {
  const int size = GetParam();
  run_ranks(size, [size](ProcessGroup& group) {
    const std::size_t counts[] = {1, 0, 1000, 7, 30'001};
    std::vector<Bytes> inputs, outputs;
    std::vector<AllReduceOptions> parts;
    for (const std::size_t count : counts) {
      inputs.push_back(filled(DType::kF32, group.rank(), count));
      outputs.emplace_back(inputs.back().size());
    }
    for (std::size_t k = 0; k < std::size(counts); ++k) {
      const bool in_place = k % 2 == 0;
      parts.push_back({.input = inputs[k].data(),
                       .output = in_place ? inputs[k].data() : outputs[k].data(),
                       .count = counts[k]});
    }
    all_reduce_coalesced(group, parts)->wait();
    for (std::size_t k = 0; k < std::size(counts); ++k) {
      const Bytes& result = k % 2 == 0 ? inputs[k] : outputs[k];
      for (std::size_t i = 0; i < counts[k]; i = next_look(i, counts[k])) {
        ASSERT_EQ(get(result, DType::kF32, i), expected(DType::kF32, ReduceOp::kSum, size, i));
      }
    }
    all_reduce_coalesced(group, {})->wait();
    parts[2].dtype = DType::kI32;
    EXPECT_EQ(thrown_by([&] { all_reduce_coalesced(group, parts); }).kind,
              ErrorKind::kInvalidArgument);
  });
}

// Says when it is let go.
struct LetGo final : RefCounted {
  explicit LetGo(std::latch& latch) : gone(latch) {}
  ~LetGo() override { gone.count_down(); }
  std::latch& gone;
};

UserReduceOptions largest_of(const std::vector<int>& input, std::vector<int>& output) {
  return {.input = input.data(),
          .output = output.data(),
          .count = input.size(),
          .element_bytes = sizeof(int),
          .function = [](const void* in, void* inout, std::size_t count) {
            for (std::size_t i = 0; i < count; ++i) {
              int& best = static_cast<int*>(inout)[i];
              best = std::max(best, static_cast<const int*>(in)[i]);
            }
          }};
}

TEST_P(Composed, IsCompletedReportsTheOutputWithoutAWait) {
  const int size = GetParam();
  run_ranks(size, [size](ProcessGroup& group) {
    for (int round = 0; round < 20; ++round) {
      const std::vector<int> input(100, group.rank());
      std::vector<int> output(100, -1);
      const Ref<Work> work = user_all_reduce(group, largest_of(input, output));
      EXPECT_TRUE(tests::eventually([&] { return work->is_completed(); }));
      EXPECT_EQ(output.front(), size - 1);
      EXPECT_EQ(work->error(), nullptr);
      float a = 1, b = 2, sum_a = 0, sum_b = 0;
      const AllReduceOptions parts[] = {{.input = &a, .output = &sum_a, .count = 1},
                                        {.input = &b, .output = &sum_b, .count = 1}};
      const Ref<Work> both = all_reduce_coalesced(group, parts, {});
      EXPECT_TRUE(tests::eventually([&] { return both->is_completed(); }));
      EXPECT_EQ(sum_a, static_cast<float>(size));
      EXPECT_EQ(sum_b, static_cast<float>(2 * size));
    }
  });
}

TEST_P(Composed, WritesItsOutputThoughItIsDropped) {
  const int size = GetParam();
  run_ranks(size, [size](ProcessGroup& group) {
    std::latch written(2);
    const std::vector<int> input(100, group.rank());
    std::vector<int> output(100, -1);
    UserReduceOptions options = largest_of(input, output);
    options.call.keep_alive = make_ref<LetGo>(written);
    user_all_reduce(group, options);
    options.call.keep_alive = nullptr;
    float a = 1, sum = 0;
    const AllReduceOptions parts[] = {{.input = &a, .output = &sum, .count = 1}};
    all_reduce_coalesced(group, parts, {.keep_alive = make_ref<LetGo>(written)});
    // Owners go with later calls, which all ranks make.
    for (float all_are_written = 0; all_are_written == 0;) {
      all_are_written = written.try_wait() ? 1 : 0;
      group
          .all_reduce({.input = &all_are_written,
                       .output = &all_are_written,
                       .count = 1,
                       .op = ReduceOp::kMin})
          ->wait();
    }
    EXPECT_EQ(output.back(), size - 1);
    EXPECT_EQ(sum, static_cast<float>(size));
  });
}

TEST(Batches, SayWhereTheirMessagesCameFrom) {
  run_ranks(3, [](ProcessGroup& group) {
    const int next = (group.rank() + 1) % 3;
    const int before = (group.rank() + 2) % 3;
    float x = 1, y = 0, z = 0;
    const Ref<Work> both = group.sendrecv({.buffer = &x, .count = 1, .peer = next},
                                          {.buffer = &y, .count = 1, .peer = kAnySource});
    both->wait();
    EXPECT_EQ(both->source(), before);
    const PeerMessage messages[] = {
        SendOptions{.buffer = &x, .count = 1, .peer = next, .tag = 1},
        RecvOptions{.buffer = &y, .count = 1, .peer = kAnySource, .tag = 1},
        SendOptions{.buffer = &x, .count = 1, .peer = before, .tag = 2},
        RecvOptions{.buffer = &z, .count = 1, .peer = kAnySource, .tag = 2}};
    const Ref<Work> batch = group.batch(messages);
    batch->wait();
    EXPECT_EQ(batch->source_of(0), std::nullopt);
    EXPECT_EQ(batch->source_of(1), before);
    EXPECT_EQ(batch->source_of(3), next);
    EXPECT_EQ(batch->source_of(4), std::nullopt);
    EXPECT_EQ(batch->source(), before);
  });
}

TEST_P(Composed, ByteStringsOfAnyLengthFindTheirWay) {
  const int size = GetParam();
  run_ranks(size, [size](ProcessGroup& group) {
    const auto of = [](int rank) {
      return rank == 1 ? std::string()
                       : std::string(static_cast<std::size_t>(rank * 40'000 + 1),
                                     static_cast<char>('a' + rank)) +
                             '\0';
    };
    std::vector<std::string> wanted;
    for (int r = 0; r < size; ++r) wanted.push_back(of(r));
    EXPECT_EQ(all_gather_bytes(group, of(group.rank())), wanted);
    const int root = size - 1;
    const bool is_root = group.rank() == root;
    EXPECT_EQ(gather_bytes(group, of(group.rank()), root),
              is_root ? wanted : std::vector<std::string>());
    EXPECT_EQ(broadcast_bytes(group, is_root ? "news" : "not read", root), "news");
    EXPECT_EQ(broadcast_bytes(group, "", root), "");
    EXPECT_EQ(scatter_bytes(group, is_root ? wanted : std::vector<std::string>(), root),
              of(group.rank()));
  });
}

// Counts those that are alive.
struct Owner final : RefCounted {
  explicit Owner(std::atomic<int>& count) : alive(count) { ++alive; }
  ~Owner() override { --alive; }
  std::atomic<int>& alive;
};

TEST(CallOptions, OwnerIsReleasedWithTheGroupWithoutAWait) {
  std::atomic<int> alive = 0;
  run_ranks(2, [&](ProcessGroup& group) {
    std::vector<float> x(1000, 1.0f);
    const Ref<Work> work = group.all_reduce({.input = x.data(),
                                             .output = x.data(),
                                             .count = x.size(),
                                             .call = {.keep_alive = make_ref<Owner>(alive)}});
    EXPECT_TRUE(tests::eventually([&] { return work->is_completed(); }));
  });
  EXPECT_EQ(alive, 0);
}

TEST(CallOptions, ValuesOutsideTheirTypesAreRefusedBeforeTheStart) {
  run_ranks(2, [](ProcessGroup& group) {
    float x = 1;
    const auto refused = [&](const AllReduceOptions& options) {
      return thrown_by([&] { group.all_reduce(options)->wait(); });
    };
    const AllReduceOptions good{.input = &x, .output = &x, .count = 1};
    AllReduceOptions no_dtype = good, no_op = good, no_order = good, no_time = good;
    no_dtype.dtype = static_cast<DType>(77);
    no_op.op = static_cast<ReduceOp>(77);
    no_order.call.order = static_cast<Order>(7);
    no_time.call.timeout = std::chrono::seconds(-1);
    for (const AllReduceOptions& options : {no_dtype, no_op, no_order}) {
      const Thrown thrown = refused(options);
      EXPECT_EQ(thrown.kind, ErrorKind::kInvalidArgument) << thrown.text;
      EXPECT_NE(thrown.text.find("is not one of its type's values"), std::string::npos);
    }
    EXPECT_EQ(refused(no_time).text, "all_reduce: timeout is -1 s, wanted 0 or more");
    group.all_reduce(good)->wait();
    EXPECT_EQ(x, 2);
  });
}

// Whether both of two ranks often end an operation in less than half the time after which the
// group's thread continues an operation without a waiting caller, and a caller stops spinning: in
// ten of at most 2000 tries, as a busy machine may keep a rank from its processor.
bool is_often_fast(ProcessGroup& group, const std::function<void(Work&)>& end) {
  using Clock = std::chrono::steady_clock;
  float fast = 0;
  for (int i = 0; i < 2000 && fast < 10; ++i) {
    group.barrier()->wait();
    float x = 1;
    const Clock::time_point begin = Clock::now();
    end(*group.all_reduce({.input = &x, .output = &x, .count = 1}));
    float both_were = Clock::now() - begin < 500us ? 1 : 0;
    group.all_reduce({.input = &both_were, .output = &both_were, .count = 1, .op = ReduceOp::kMin})
        ->wait();
    fast += both_were;
  }
  return fast == 10;
}

TEST(Polling, MovesAnOperationOn) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer makes everything slow";
#endif
  run_ranks(2, [](ProcessGroup& group) {
    EXPECT_TRUE(is_often_fast(group, [](Work& work) {
      while (!work.is_completed()) std::this_thread::yield();
    }));
  });
}

TEST(Waiting, GivesItsProcessorToWhoWantsIt) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer makes everything slow";
#endif
  run_ranks(2, [](ProcessGroup& group) {
    cpu_set_t all{};
    ASSERT_EQ(::sched_getaffinity(0, sizeof all, &all), 0);
    int first = 0;
    while (!CPU_ISSET(first, &all)) ++first;
    cpu_set_t one{};
    CPU_SET(first, &one);
    // The group knows nothing of it, as of other programs.
    ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
    EXPECT_TRUE(is_often_fast(group, [](Work& work) { work.wait(); }));
  });
}

TEST(CallOptions, LetGoOfTheOwnerWithALaterCall) {
  run_ranks(2, [&](ProcessGroup& group) {
    std::atomic<int> alive = 0;
    std::vector<float> x(1000, 1.0f);
    group
        .all_reduce({.input = x.data(),
                     .output = x.data(),
                     .count = x.size(),
                     .call = {.keep_alive = make_ref<Owner>(alive)}})
        ->wait();
    for (int i = 0; i < 2; ++i) group.barrier()->wait();
    EXPECT_EQ(alive, 0);
  });
}

INSTANTIATE_TEST_SUITE_P(Sizes, Composed, ::testing::Values(1, 2, 3, 4, 5, 6));

TEST(MonitoredBarrier, NamesEveryRankThatHasNotCome) {
  std::latch over(4);
  run_ranks(4, [&](ProcessGroup& group) {
    if (group.rank() % 2 == 1) {
      // Never calls it, and gets the others' error.
      EXPECT_EQ(thrown_by([&] {
                  for (;;) group.recv({.peer = 0})->wait();
                }).kind,
                ErrorKind::kTimeout);
      over.arrive_and_wait();
      return;
    }
    const Thrown thrown = thrown_by([&] { monitored_barrier(group, 500ms); });
    over.arrive_and_wait();  // who leaves early is an error of its own to the others
    EXPECT_EQ(thrown.kind, ErrorKind::kTimeout);
    EXPECT_NE(thrown.text.find("rank 1 ("), std::string::npos) << thrown.text;
    EXPECT_NE(thrown.text.find("rank 3 ("), std::string::npos) << thrown.text;
  });
}

}  // namespace
}  // namespace dl::collectives
