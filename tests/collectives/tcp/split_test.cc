// New groups from one: who is in them, and that they leave each other alone.
#include <gtest/gtest.h>

#include <latch>

#include "collectives/api/purpose.h"
#include "collectives/compose/split_plan.h"
#include "collectives/join/roster.h"
#include "collectives/join/split.h"
#include "core/base/version.h"
#include "tests/collectives/ranks.h"

namespace dl::collectives {
namespace {

using namespace testing;

int sum(ProcessGroup& group, int x) {
  group.all_reduce({.input = &x, .output = &x, .count = 1, .dtype = DType::kI32})->wait();
  return x;
}

class Split : public ::testing::TestWithParam<int> {};

TEST_P(Split, ByColorInTheOrderOfTheKey) {
  const int size = GetParam();
  run_ranks(size, [size](ProcessGroup& group) {
    const int color = group.rank() % 2;
    // Backwards: the highest rank comes first.
    const Ref<ProcessGroup> half = group.split({.color = color, .key = -group.rank()});
    int members = 0, total = 0, above = 0;
    for (int r = color; r < size; r += 2) {
      ++members;
      total += r;
      above += r > group.rank() ? 1 : 0;
    }
    ASSERT_TRUE(half);
    EXPECT_EQ(half->size(), members);
    EXPECT_EQ(half->rank(), above);
    EXPECT_EQ(half->name(), "world.1." + std::to_string(color));
    EXPECT_EQ(sum(*half, group.rank()), total);
    // And the parent is as it was; a child can be split again.
    EXPECT_EQ(sum(group, 1), size);
    const Ref<ProcessGroup> same = half->split({.name = "again"});
    EXPECT_EQ(same->name(), "again");
    EXPECT_EQ(same->rank(), half->rank());
    EXPECT_EQ(sum(*same, 1), members);
  });
}

TEST_P(Split, TextsNameTheRanksOfTheJob) {
  const int size = GetParam();
  if (size < 3) GTEST_SKIP() << "nobody is renumbered";
  run_ranks(size, [](ProcessGroup& group) {
    const bool is_in = group.rank() != 0;
    const Ref<ProcessGroup> rest = group.split({.color = is_in ? 7 : kNoColor});
    if (!rest) return;
    // Its rank 0 is rank 1 of the job.
    if (rest->rank() == 0) return rest->abort("enough");
    const Thrown thrown = thrown_by([&] {
      for (;;) rest->barrier()->wait();
    });
    EXPECT_NE(thrown.text.find("was aborted by rank 1 (0 in the group, "), std::string::npos)
        << thrown.text;
  });
}

TEST_P(Split, WithoutAColorJoinsNone) {
  const int size = GetParam();
  run_ranks(size, [size](ProcessGroup& group) {
    const bool is_in = group.rank() != 0;
    const Ref<ProcessGroup> rest = group.split({.color = is_in ? 7 : kNoColor});
    EXPECT_EQ(static_cast<bool>(rest), is_in);
    if (rest) {
      EXPECT_EQ(sum(*rest, 1), size - 1);
    }
    EXPECT_EQ(sum(group, 1), size);
  });
}

INSTANTIATE_TEST_SUITE_P(Sizes, Split, ::testing::Values(1, 2, 3, 4, 6));

TEST(SplitGroups, AnErrorInOneLeavesTheOtherGood) {
  run_ranks(4, [](ProcessGroup& group) {
    const Ref<ProcessGroup> half = group.split({.color = group.rank() % 2});
    if (group.rank() == 1) half->abort("enough");
    if (group.rank() % 2 == 1) {
      EXPECT_EQ(thrown_by([&] {
                  for (;;) half->barrier()->wait();
                }).kind,
                ErrorKind::kAborted);
    } else {
      EXPECT_EQ(sum(*half, 1), 2);
    }
    EXPECT_EQ(sum(group, 1), 4);
  });
}

TEST(SplitGroups, ARankThatStandsStillInOneHoldsUpNoOther) {
  std::latch over(2);
  run_ranks(3, [&](ProcessGroup& group) {
    const Ref<ProcessGroup> stuck = group.split({});
    const Ref<ProcessGroup> pair = group.split({.color = group.rank() == 2 ? kNoColor : 0});
    std::vector<float> x(1 << 20, 1.0f), y(1 << 18, 1.0f);
    const auto start = [&] {
      return stuck->all_reduce({.input = x.data(), .output = x.data(), .count = x.size()});
    };
    if (group.rank() == 2) {
      over.wait();  // it has called nothing all the while
      start()->wait();
    } else {
      const Ref<Work> waiting = start();
      for (int round = 0; round < 20; ++round) {
        pair->all_reduce({.input = y.data(), .output = y.data(), .count = y.size()})->wait();
      }
      EXPECT_FALSE(waiting->is_completed());
      over.count_down();
      waiting->wait();
    }
    EXPECT_EQ(x.back(), 3.0f);
  });
}

TEST(SplitGroups, AFailureOnOneRankIsAnErrorOnTheOthersAtOnce) {
  std::latch over(2);
  run_ranks(2, [&](ProcessGroup& group) {
    const bool is_wrong = group.rank() == 0;
    const Thrown thrown = thrown_by([&] { group.split({.name = is_wrong ? "a/b" : "ab"}); });
    over.arrive_and_wait();
    EXPECT_EQ(thrown.kind, is_wrong ? ErrorKind::kInvalidArgument : ErrorKind::kAborted);
    EXPECT_NE(thrown.text.find("no '/', got \"a/b\""), std::string::npos) << thrown.text;
  });
}

// Rank 1 fails in the midst of making the new group: rank 0 waits for its connection, rank 2 finds
// that it does not listen.
TEST(SplitGroups, ARankThatCannotConnectIsAnErrorOnTheOthers) {
  const std::string backend = backend_under_test();
  if (backend == "hybrid") GTEST_SKIP() << "its inner groups connect in these ways";
  const bool is_shm = backend == "shm";
  std::latch over(3);
  run_ranks(3, [&](ProcessGroup& group) {
    const MakePart make = [&](const GroupOptions& part, const SplitPlan&, SplitStore&) {
      if (group.rank() != 1) return make_group(backend, part);
      const Record record{.version = kProtocolVersion,
                          .size = part.size,
                          .lanes = is_shm ? 0 : part.lanes,
                          .address = is_shm ? "nothing listens here" : "127.0.0.1:1",
                          .who = this_process(part)};
      publish(roster_of(part, (is_shm ? "shm/" : "group/") + part.name), record, Deadline::never());
      throw_error(ErrorKind::kIo, "no more sockets");
    };
    const GroupOptions how{.rank = group.rank(), .size = 3, .connect_timeout = 1h, .lanes = 1};
    const Thrown thrown = thrown_by([&] { split_group(group, {}, 0, how, 1, make); });
    over.arrive_and_wait();
    EXPECT_EQ(thrown.kind, group.rank() == 1 ? ErrorKind::kIo : ErrorKind::kAborted);
    EXPECT_NE(thrown.text.find("no more sockets"), std::string::npos) << thrown.text;
  });
}

// Rank 1 stops to take part after the lengths.
TEST(SplitGroups, TheirExchangesAreNamedAsTheSplit) {
  run_ranks(2, [](ProcessGroup& group) {
    const Thrown thrown = thrown_by([&] {
      if (group.rank() == 0) {
        all_gather_bytes_for(kForSplit, group, "a line");
      } else {
        const std::uint64_t length = 6;
        std::uint64_t lengths[2];
        start_for(
            kForSplit, group,
            AllGatherOptions{.input = &length, .output = lengths, .count = 1, .dtype = DType::kU64})
            ->wait();
      }
      for (;;) group.barrier()->wait();
    });
    EXPECT_EQ(thrown.kind, ErrorKind::kMismatch);
    EXPECT_NE(thrown.text.find("called split #2"), std::string::npos) << thrown.text;
    EXPECT_NE(thrown.text.find("called barrier #2"), std::string::npos) << thrown.text;
  });
}

TEST(SplitGroups, ANegativeColorIsRefused) {
  run_ranks(1, [](ProcessGroup& group) {
    EXPECT_EQ(thrown_by([&] { group.split({.color = -2}); }).text,
              "split: color is -2, wanted 0 or more, or kNoColor to join no group");
  });
}

}  // namespace
}  // namespace dl::collectives
