#include <gtest/gtest.h>

#include <numeric>

#include "tests/collectives/ranks.h"

namespace dl::collectives {
namespace {

using namespace testing;

std::vector<int> numbers(std::size_t count, int first) {
  std::vector<int> x(count);
  std::iota(x.begin(), x.end(), first);
  return x;
}

Ref<Work> send(ProcessGroup& group, const std::vector<int>& x, int peer, std::uint32_t tag = 0) {
  return group.send(
      {.buffer = x.data(), .count = x.size(), .dtype = DType::kI32, .peer = peer, .tag = tag});
}

std::vector<int> receive(ProcessGroup& group, std::size_t count, int peer, std::uint32_t tag = 0) {
  std::vector<int> x(count);
  group.recv({.buffer = x.data(), .count = count, .dtype = DType::kI32, .peer = peer, .tag = tag})
      ->wait();
  return x;
}

TEST(Messages, OfAnySizeArriveInOrder) {
  run_ranks(2, [](ProcessGroup& group) {
    for (const std::size_t count : {0u, 1u, 1000u, 16'384u, 16'385u, 1'000'003u}) {
      if (group.rank() == 0) {
        for (int k = 0; k < 3; ++k) send(group, numbers(count, k), 1)->wait();
      } else {
        for (int k = 0; k < 3; ++k) EXPECT_EQ(receive(group, count, 0), numbers(count, k));
      }
    }
  });
}

TEST(Messages, SmallSendReturnsWithoutAPostedReceive) {
  run_ranks(2, [](ProcessGroup& group) {
    // Both send first: with a send that waits for its receive this would never end.
    const int other = 1 - group.rank();
    const std::vector<int> x = numbers(64 * 1024 / 4, group.rank());
    send(group, x, other)->wait();
    EXPECT_EQ(receive(group, x.size(), other), numbers(x.size(), other));
  });
}

TEST(Messages, AreToldApartByTag) {
  run_ranks(2, [](ProcessGroup& group) {
    if (group.rank() == 0) {
      send(group, numbers(10, 100), 1, 7)->wait();
      send(group, numbers(10, 200), 1, 4'000'000'000)->wait();
      const std::vector<int> large = numbers(100'000, 300);
      send(group, large, 1, 9)->wait();
    } else {
      std::vector<int> large(100'000);
      const Ref<Work> early = group.recv({.buffer = large.data(),
                                          .count = large.size(),
                                          .dtype = DType::kI32,
                                          .peer = 0,
                                          .tag = 9});
      EXPECT_EQ(receive(group, 10, 0, 4'000'000'000), numbers(10, 200));
      EXPECT_EQ(receive(group, 10, 0, 7), numbers(10, 100));
      early->wait();
      EXPECT_EQ(large, numbers(100'000, 300));
    }
  });
}

TEST(Messages, UnexpectedOnesAreBoundedAndPushBack) {
  run_ranks(2, [](ProcessGroup& group) {
    const std::vector<int> x = numbers(10'000, 0);  // 40 kB: 26 of them fit the credit
    if (group.rank() == 0) {
      std::vector<Ref<Work>> works;
      for (int k = 0; k < 100; ++k) works.push_back(send(group, x, 1));
      group.barrier()->wait();
      EXPECT_TRUE(works.front()->is_completed());
      EXPECT_FALSE(works.back()->is_completed());
      group.barrier()->wait();
      for (const Ref<Work>& work : works) work->wait();
    } else {
      group.barrier()->wait();
      group.barrier()->wait();
      for (int k = 0; k < 100; ++k) ASSERT_EQ(receive(group, x.size(), 0), x);
    }
  });
}

TEST(Messages, AreNotHeldUpByACollectiveThatThePeerHasNotCalledYet) {
  run_ranks(2, [](ProcessGroup& group) {
    std::vector<float> x(1'000'000, 1.0f);
    const auto reduce = [&] {
      return group.all_reduce({.input = x.data(), .output = x.data(), .count = x.size()});
    };
    if (group.rank() == 0) {
      const Ref<Work> ahead = reduce();
      send(group, numbers(100'000, 5), 1)->wait();
      ahead->wait();
    } else {
      EXPECT_EQ(receive(group, 100'000, 0), numbers(100'000, 5));
      reduce()->wait();
    }
    EXPECT_EQ(x.back(), 2.0f);
  });
}

TEST(Messages, OfAnotherCountAreAnErrorThatQuotesBothSides) {
  run_ranks(2, [](ProcessGroup& group) {
    const Thrown thrown = thrown_by([&] {
      if (group.rank() == 0) {
        send(group, numbers(100'000, 0), 1, 3)->wait();
      } else {
        receive(group, 12, 0, 3);
      }
    });
    EXPECT_EQ(thrown.kind, ErrorKind::kMismatch);
    EXPECT_NE(thrown.text.find("recv with tag 3: rank 0 ("), std::string::npos) << thrown.text;
    EXPECT_NE(thrown.text.find("sent i32[100000], rank 1 ("), std::string::npos) << thrown.text;
    EXPECT_NE(thrown.text.find("expects i32[12]"), std::string::npos) << thrown.text;
  });
}

TEST(Messages, ReceiveThatNobodySendsEndsAtItsDeadlineAndNamesThePeer) {
  run_ranks(2, [](ProcessGroup& group) {
    if (group.rank() == 0) {
      int x = 0;
      const Thrown thrown = thrown_by([&] {
        group
            .recv({.buffer = &x,
                   .count = 1,
                   .dtype = DType::kI32,
                   .peer = 1,
                   .call = {.timeout = 200ms}})
            ->wait();
      });
      EXPECT_EQ(thrown.kind, ErrorKind::kTimeout);
      EXPECT_NE(thrown.text.find("waiting for rank 1 ("), std::string::npos) << thrown.text;
      EXPECT_NE(thrown.text.find("has not sent it"), std::string::npos) << thrown.text;
    } else {
      const Thrown thrown = thrown_by([&] { group.barrier()->wait(); });
      EXPECT_EQ(thrown.kind, ErrorKind::kTimeout);
    }
  });
}

}  // namespace
}  // namespace dl::collectives
