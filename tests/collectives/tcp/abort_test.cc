// What an abort ends, and what it must leave alone: operations that the rank that aborts has
// completed, since its program is past them.
#include <gtest/gtest.h>

#include <vector>

#include "tests/collectives/ranks.h"

namespace dl::collectives {
namespace {

using namespace testing;

void sum_of_ones(ProcessGroup& group, std::size_t count) {
  std::vector<float> x(count, 1.0f);
  group.all_reduce({.input = x.data(), .output = x.data(), .count = count})->wait();
  EXPECT_EQ(x.back(), static_cast<float>(group.size()));
}

// The group's first cause, sooner or later.
void expect_aborted(ProcessGroup& group) {
  const Thrown thrown = thrown_by([&] {
    for (;;) group.barrier()->wait();
  });
  EXPECT_EQ(thrown.kind, ErrorKind::kAborted) << thrown.text;
  EXPECT_NE(thrown.text.find("loss is NaN"), std::string::npos) << thrown.text;
}

TEST(Abort, LeavesAloneWhatTheRankThatAbortsHasCompleted) {
  for (const std::size_t count : {1u, 1000u, 100'000u}) {
    for (int round = 0; round < 6; ++round) {
      run_ranks(4, [&](ProcessGroup& group) {
        sum_of_ones(group, count);
        sum_of_ones(group, count);
        if (group.rank() == round % 4) group.abort("loss is NaN");
        expect_aborted(group);
      });
    }
  }
}

// The one that aborts leaves at once.
TEST(Abort, LeavesAloneWhatIsCompleteOnARankThatGoes) {
  for (int round = 0; round < 6; ++round) {
    run_ranks(3, [&](ProcessGroup& group) {
      sum_of_ones(group, 50'000);
      if (group.rank() == 0) {
        group.abort("loss is NaN");
      } else {
        expect_aborted(group);
      }
    });
  }
}

// The root of a broadcast is done long before the others: its bytes wait in the connections.
TEST(Abort, LeavesAloneABroadcastThatIsCompleteOnItsRoot) {
  for (int round = 0; round < 8; ++round) {
    run_ranks(4, [&](ProcessGroup& group) {
      const int root = round % 4;
      std::vector<float> x(200'000, group.rank() == root ? 3.0f : 0.0f);
      std::vector<float> sums(150'000, 1.0f);
      const auto broadcast = [&] {
        return group.broadcast({.buffer = x.data(), .count = x.size(), .root = root});
      };
      if (group.rank() == root) {
        group.all_reduce({.input = sums.data(), .output = sums.data(), .count = sums.size()})
            ->wait();
        broadcast()->wait();
        group.abort("loss is NaN");
      } else {
        // One after the other, and the second without waiting for the first.
        const Ref<Work> sum =
            group.all_reduce({.input = sums.data(), .output = sums.data(), .count = sums.size()});
        const Ref<Work> copy = broadcast();
        copy->wait();
        sum->wait();
        EXPECT_EQ(x.front(), 3.0f);
        EXPECT_EQ(x.back(), 3.0f);
        EXPECT_EQ(sums.back(), 4.0f);
      }
      expect_aborted(group);
    });
  }
}

// What the rank that aborts has called and not completed ends everywhere, the rest does not.
TEST(Abort, EndsOnlyWhatIsBehindTheLastCompleteOperation) {
  for (int round = 0; round < 6; ++round) {
    run_ranks(4, [&](ProcessGroup& group) {
      const int who = round % 4;
      std::vector<float> x(120'000, 1.0f);
      std::vector<float> y(120'000, 1.0f);
      const auto sum = [&](std::vector<float>& of) {
        return group.all_reduce({.input = of.data(), .output = of.data(), .count = of.size()});
      };
      const Ref<Work> first = sum(x);
      if (group.rank() == who) {
        // No other rank can complete it before the rank that never calls it.
        first->wait();
        group.abort("loss is NaN");
      } else {
        // A late rank has heard of the abort before it calls.
        const Thrown thrown = thrown_by([&] { sum(y)->wait(); });
        EXPECT_EQ(thrown.kind, ErrorKind::kAborted) << thrown.text;
        first->wait();
      }
      EXPECT_EQ(x.back(), 4.0f);
      expect_aborted(group);
    });
  }
}

TEST(Abort, LeavesAloneAMessageThatHasLeft) {
  for (int round = 0; round < 6; ++round) {
    run_ranks(3, [&](ProcessGroup& group) {
      std::vector<int> x(5000, 7);
      if (group.rank() == 0) {
        group.barrier()->wait();
        group.send({.buffer = x.data(), .count = x.size(), .dtype = DType::kI32, .peer = 1})
            ->wait();
        group.abort("loss is NaN");
      } else if (group.rank() == 1) {
        std::vector<int> got(x.size());
        const Ref<Work> message = group.recv(
            {.buffer = got.data(), .count = got.size(), .dtype = DType::kI32, .peer = 0});
        group.barrier()->wait();
        message->wait();
        EXPECT_EQ(got, x);
      } else {
        group.barrier()->wait();
      }
      expect_aborted(group);
    });
  }
}

}  // namespace
}  // namespace dl::collectives
