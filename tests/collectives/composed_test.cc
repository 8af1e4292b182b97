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
