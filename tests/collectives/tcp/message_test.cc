#include <gtest/gtest.h>

#include <algorithm>
#include <latch>
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

TEST(Messages, AnUnreceivedLargeMessageBlocksNoOther) {
  run_ranks(2, [](ProcessGroup& group) {
    const std::vector<int> large = numbers(100'000, 1);
    if (group.rank() == 0) {
      const Ref<Work> waiting = send(group, large, 1, 1);
      send(group, numbers(10, 2), 1, 2)->wait();
      waiting->wait();
    } else {
      EXPECT_EQ(receive(group, 10, 0, 2), numbers(10, 2));
      EXPECT_EQ(receive(group, large.size(), 0, 1), large);
    }
  });
}

TEST(Messages, OfAllSizesAndTagsFindTheirReceivesInAnyOrder) {
  constexpr std::size_t kCounts[] = {0, 1, 5, 6, 7, 100, 4'000, 16'384, 16'385, 40'000, 300'000};
  constexpr int kRounds = 40;
  run_ranks(3, [&](ProcessGroup& group) {
    // What rank `from` sends to `to` in a round, the same on both.
    const auto count = [&](int from, int to, int round) {
      return kCounts[static_cast<std::size_t>(from * 7 + to * 3 + round * round) %
                     std::size(kCounts)];
    };
    std::vector<std::vector<int>> in, out;
    std::vector<Ref<Work>> works;
    for (int peer = 0; peer < group.size(); ++peer) {
      if (peer == group.rank()) continue;
      for (int round = 0; round < kRounds; ++round) {
        out.push_back(numbers(count(group.rank(), peer, round), round));
        works.push_back(send(group, out.back(), peer, static_cast<std::uint32_t>(round)));
      }
      for (int k = 0; k < kRounds; ++k) {
        const int round = k * 7 % kRounds;
        in.emplace_back(count(peer, group.rank(), round));
        works.push_back(group.recv({.buffer = in.back().data(),
                                    .count = in.back().size(),
                                    .dtype = DType::kI32,
                                    .peer = peer,
                                    .tag = static_cast<std::uint32_t>(round)}));
      }
    }
    for (const Ref<Work>& work : works) work->wait();
    std::size_t next = 0;
    for (int peer = 0; peer < group.size(); ++peer) {
      if (peer == group.rank()) continue;
      for (int k = 0; k < kRounds; ++k) {
        const int round = k * 7 % kRounds;
        EXPECT_EQ(in[next++], numbers(count(peer, group.rank(), round), round));
      }
    }
    group.barrier()->wait();
  });
}

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

TEST(Messages, FromAnySourceSayWhoseTheyAre) {
  run_ranks(4, [](ProcessGroup& group) {
    // Small ones, that come unasked for, and large ones, that ask first.
    for (const std::size_t count : {10u, 50'000u}) {
      const auto tag = static_cast<std::uint32_t>(count);
      if (group.rank() != 0) {
        send(group, numbers(count, group.rank()), 0, tag)->wait();
        continue;
      }
      std::vector<int> seen;
      for (int k = 0; k < 3; ++k) {
        std::vector<int> x(count);
        const Ref<Work> work = group.recv({.buffer = x.data(),
                                           .count = count,
                                           .dtype = DType::kI32,
                                           .peer = kAnySource,
                                           .tag = tag});
        work->wait();
        const std::optional<int> from = work->source();
        ASSERT_TRUE(from.has_value());
        EXPECT_EQ(x, numbers(count, *from));
        seen.push_back(*from);
      }
      std::sort(seen.begin(), seen.end());
      EXPECT_EQ(seen, (std::vector<int>{1, 2, 3}));
    }
  });
}

TEST(Messages, AreTakenByTheOldestReceiveWhetherItNamesAPeerOrNot) {
  run_ranks(2, [](ProcessGroup& group) {
    if (group.rank() == 1) {
      group.barrier()->wait();
      for (const int first : {100, 200, 300}) send(group, numbers(10, first), 0)->wait();
      return;
    }
    std::vector<int> x[3] = {numbers(10, 0), numbers(10, 0), numbers(10, 0)};
    const auto post = [&](std::vector<int>& to, int peer) {
      return group.recv(
          {.buffer = to.data(), .count = to.size(), .dtype = DType::kI32, .peer = peer});
    };
    const Ref<Work> works[] = {post(x[0], kAnySource), post(x[1], 1), post(x[2], kAnySource)};
    group.barrier()->wait();
    for (const Ref<Work>& work : works) work->wait();
    for (int k = 0; k < 3; ++k) EXPECT_EQ(x[k], numbers(10, 100 * (k + 1)));
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

TEST(Messages, InABatchGoAllAtOnce) {
  run_ranks(3, [](ProcessGroup& group) {
    const std::size_t count = 100'000;
    std::vector<std::vector<int>> in(3), out(3);
    std::vector<PeerMessage> batch;
    for (int r = 0; r < 3; ++r) {
      const auto at = static_cast<std::size_t>(r);
      if (r == group.rank()) continue;
      out[at] = numbers(count, 10 * group.rank() + r);
      in[at].resize(count);
      // Sends first: if they ran one after the other, no rank would reach its receive.
      batch.emplace_back(
          SendOptions{.buffer = out[at].data(), .count = count, .dtype = DType::kI32, .peer = r});
      batch.emplace_back(
          RecvOptions{.buffer = in[at].data(), .count = count, .dtype = DType::kI32, .peer = r});
    }
    group.batch(batch)->wait();
    for (int r = 0; r < 3; ++r) {
      if (r == group.rank()) continue;
      EXPECT_EQ(in[static_cast<std::size_t>(r)], numbers(count, 10 * r + group.rank()));
    }
    group.batch({})->wait();
    batch.emplace_back(SendOptions{.buffer = out[0].data(), .count = 1, .peer = 3});
    EXPECT_EQ(thrown_by([&] { group.batch(batch); }).kind, ErrorKind::kInvalidArgument);
    group.barrier()->wait();
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
