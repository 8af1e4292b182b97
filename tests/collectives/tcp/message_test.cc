#include <gtest/gtest.h>

#include <algorithm>
#include <latch>
#include <numeric>

#include "tests/collectives/conformance/messages.h"
#include "tests/collectives/ranks.h"

namespace dl::collectives {
namespace {

using namespace testing;

TEST(Messages, ArriveAfterTheirSenderHasLeft) {
  rendezvous::MemoryStore store;
  std::latch left(1);
  run_threads(2, [&](int rank) {
    Ref<ProcessGroup> group = join_group(store, rank, 2);
    if (rank == 0) {
      for (int k = 0; k < 3; ++k) send(*group, numbers(5'000, k), 1)->wait();
      group = nullptr;
      left.count_down();
    } else {
      left.wait();
      for (int k = 0; k < 3; ++k) EXPECT_EQ(receive(*group, 5'000, 0), numbers(5'000, k));
      const Thrown thrown = thrown_by([&] { receive(*group, 1, 0); });
      EXPECT_EQ(thrown.kind, ErrorKind::kPeerFailed);
    }
  });
}

TEST(Messages, ALargeSendWithoutAReceiveTimesOut) {
  run_ranks(2, [](ProcessGroup& group) {
    if (group.rank() == 0) {
      const std::vector<int> x = numbers(100'000, 0);
      const Thrown thrown = thrown_by([&] {
        group
            .send({.buffer = x.data(),
                   .count = x.size(),
                   .dtype = DType::kI32,
                   .peer = 1,
                   .tag = 4,
                   .call = {.timeout = 200ms}})
            ->wait();
      });
      EXPECT_EQ(thrown.kind, ErrorKind::kTimeout);
      EXPECT_NE(thrown.text.find("which has not received it (tag 4)"), std::string::npos)
          << thrown.text;
    } else {
      EXPECT_EQ(thrown_by([&] { group.barrier()->wait(); }).kind, ErrorKind::kTimeout);
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

TEST(Messages, FromAnySourceEndWithTheDeadlineOrWithTheLastPeer) {
  run_ranks(3, [](ProcessGroup& group) {
    if (group.rank() == 2) return;
    if (group.rank() == 1) {
      send(group, numbers(1, 7), 0)->wait();
      return;
    }
    int x = 0;
    const auto receive_any = [&] {
      group.recv({.buffer = &x, .count = 1, .dtype = DType::kI32, .peer = kAnySource})->wait();
    };
    receive_any();
    EXPECT_EQ(x, 7);
    const Thrown thrown = thrown_by(receive_any);
    EXPECT_EQ(thrown.kind, ErrorKind::kPeerFailed);
    EXPECT_NE(thrown.text.find("has left group 'world'"), std::string::npos) << thrown.text;
  });
  run_ranks(2, [](ProcessGroup& group) {
    int x = 0;
    const Thrown thrown = thrown_by([&] {
      group
          .recv({.buffer = &x,
                 .count = 1,
                 .dtype = DType::kI32,
                 .peer = kAnySource,
                 .tag = 6,
                 .call = {.timeout = 200ms}})
          ->wait();
    });
    EXPECT_EQ(thrown.kind, ErrorKind::kTimeout);
    EXPECT_NE(thrown.text.find("waiting for any rank to send it (tag 6)"), std::string::npos)
        << thrown.text;
  });
}

// The others leave at the same moment: what the one has sent is still taken when none is left.
TEST(Messages, FromAnySourceAreTakenWhenAllOthersHaveLeft) {
  for (int round = 0; round < 20; ++round) {
    run_ranks(3, [&](ProcessGroup& group) {
      const int x = round;
      int got = -1;
      const auto recv = [&](std::uint32_t tag) {
        return group.recv(
            {.buffer = &got, .count = 1, .dtype = DType::kI32, .peer = kAnySource, .tag = tag});
      };
      const auto send = [&](int peer, std::uint32_t tag) {
        group.send({.buffer = &x, .count = 1, .dtype = DType::kI32, .peer = peer, .tag = tag})
            ->wait();
      };
      // Both begin to leave when this rank has asked.
      if (group.rank() == 0) {
        const Ref<Work> last = recv(1);
        send(1, 0);
        send(2, 0);
        last->wait();
        EXPECT_EQ(got, round);
      } else {
        recv(0)->wait();
        if (group.rank() == 2) send(0, 1);
      }
    });
  }
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

TEST(Messages, AReceiveWithoutASendTimesOutAndNamesThePeer) {
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
