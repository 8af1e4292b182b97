// Messages between two ranks.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "tests/collectives/conformance/conformance.h"
#include "tests/collectives/conformance/messages.h"
#include "tests/collectives/thrown.h"

namespace dl::collectives::testing {
namespace {

TEST_P(MessageConformance, OfAnySizeArriveInOrder) {
  run(2, [](ProcessGroup& group) {
    for (const std::size_t count : {0u, 1u, 1000u, 16'384u, 16'385u, 1'000'003u}) {
      if (group.rank() == 0) {
        for (int k = 0; k < 3; ++k) send(group, numbers(count, k), 1)->wait();
      } else {
        for (int k = 0; k < 3; ++k) EXPECT_EQ(receive(group, count, 0), numbers(count, k));
      }
    }
  });
}

TEST_P(MessageConformance, SmallSendReturnsWithoutAPostedReceive) {
  run(2, [](ProcessGroup& group) {
    // Both send first: with a send that waits for its receive this would never end.
    const int other = 1 - group.rank();
    const std::vector<int> x = numbers(64 * 1024 / 4, group.rank());
    send(group, x, other)->wait();
    EXPECT_EQ(receive(group, x.size(), other), numbers(x.size(), other));
  });
}

TEST_P(MessageConformance, AreToldApartByTag) {
  run(2, [](ProcessGroup& group) {
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

TEST_P(MessageConformance, AnUnreceivedLargeMessageBlocksNoOther) {
  run(2, [](ProcessGroup& group) {
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

TEST_P(MessageConformance, FindTheirReceivesInAnyOrder) {
  constexpr std::size_t kCounts[] = {0, 1, 5, 6, 7, 100, 4'000, 16'384, 16'385, 40'000, 300'000};
  constexpr int kRounds = 40;
  run(3, [&](ProcessGroup& group) {
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

TEST_P(MessageConformance, PassACollectiveThatThePeerHasNotCalled) {
  if (!GetParam().collectives_return) GTEST_SKIP() << "a collective blocks its caller";
  run(2, [](ProcessGroup& group) {
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

TEST_P(MessageConformance, FromAnySourceSayWhoseTheyAre) {
  run(3, [](ProcessGroup& group) {
    // Small ones, that come unasked for, and large ones, that ask first.
    for (const std::size_t count : {10u, 50'000u}) {
      const auto tag = static_cast<std::uint32_t>(count);
      if (group.rank() != 0) {
        send(group, numbers(count, group.rank()), 0, tag)->wait();
        continue;
      }
      std::vector<int> seen;
      for (int k = 0; k < 2; ++k) {
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
      EXPECT_EQ(seen, (std::vector<int>{1, 2}));
    }
  });
}

TEST_P(MessageConformance, GoToTheOldestReceiveThatTakesThem) {
  run(2, [](ProcessGroup& group) {
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

TEST_P(MessageConformance, InABatchGoAllAtOnce) {
  run(3, [](ProcessGroup& group) {
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

TEST_P(MessageConformance, SayWhereTheirMessagesCameFrom) {
  run(3, [](ProcessGroup& group) {
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

}  // namespace
}  // namespace dl::collectives::testing
