// What happens when ranks disagree, stay away, give up or vanish: every rank gets one error that
// names the cause, and gets it again at every later call.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <latch>
#include <mutex>
#include <thread>
#include <utility>

#include "collectives/tcp/core/engine.h"
#include "collectives/tcp/group.h"
#include "core/base/system/unique_fd.h"
#include "rendezvous/net/lifeline.h"
#include "rendezvous/net/socket/socket.h"
#include "tests/collectives/ranks.h"
#include "tests/support/eventually.h"

namespace dl::collectives {
namespace {

using namespace testing;
using ::testing::Test;
using Clock = std::chrono::steady_clock;

// Every rank runs `call`, which must throw; afterwards every rank's group is broken for good.
std::vector<Thrown> all_thrown(int size, const std::function<void(ProcessGroup&)>& call,
                               std::chrono::nanoseconds timeout = 30s) {
  std::vector<Thrown> thrown(static_cast<std::size_t>(size));
  std::latch over(size);
  run_ranks(size,
            [&](ProcessGroup& group) {
              Thrown& mine = thrown[static_cast<std::size_t>(group.rank())];
              // A rank that completes before the other side's error arrives sees the error in its
              // next calls.
              mine = thrown_by([&] {
                call(group);
                for (;;) group.barrier()->wait();
              });
              over.arrive_and_wait();
              const Thrown later = thrown_by([&] { group.barrier(); });
              EXPECT_EQ(later.kind, mine.kind);
              EXPECT_EQ(later.text, mine.text);
              EXPECT_NE(group.error(), nullptr);
            },
            {.timeout = timeout});
  return thrown;
}

void expect_all(const std::vector<Thrown>& thrown, ErrorKind kind,
                const std::vector<std::string>& quotes) {
  for (const Thrown& each : thrown) {
    EXPECT_EQ(each.kind, kind) << each.text;
    for (const std::string& quote : quotes) {
      EXPECT_NE(each.text.find(quote), std::string::npos)
          << "no '" << quote << "' in: " << each.text;
    }
  }
}

Ref<Work> all_reduce(ProcessGroup& group, std::size_t count, DType dtype = DType::kF32,
                     ReduceOp op = ReduceOp::kSum) {
  thread_local std::vector<double> buffer(1 << 18);
  return group.all_reduce(
      {.input = buffer.data(), .output = buffer.data(), .count = count, .dtype = dtype, .op = op});
}

TEST(Mismatch, OfCountQuotesBothSidesOnBoth) {
  const auto thrown = all_thrown(
      2, [](ProcessGroup& group) { all_reduce(group, group.rank() == 0 ? 1024 : 1000)->wait(); });
  expect_all(thrown, ErrorKind::kMismatch,
             {"all_reduce #1: rank ", "f32[1000] sum", "f32[1024] sum", "are the models the same"});
}

// Rank 1 makes a call that consists of exchanges of the group's own.
TEST(Mismatch, OfACallThatExchangesFirstNamesThatCall) {
  using Make = std::function<void(ProcessGroup&)>;
  const std::pair<std::string, Make> calls[] = {
      {"allocate #1", [](ProcessGroup& group) { group.allocate_symmetric(4096); }},
      {"register #1",
       [](ProcessGroup& group) {
         const Ref<SymmetricMemory> memory = make_ordinary_memory(4096, "it is for a test");
         group.register_symmetric(memory->data(), 4096, memory);
       }},
      {"split #1", [](ProcessGroup& group) { group.split({}); }}};
  for (const auto& [name, make] : calls) {
    const auto thrown = all_thrown(4, [&](ProcessGroup& group) {
      if (group.rank() == 1) return make(group);
      all_reduce(group, 8)->wait();
    });
    expect_all(thrown, ErrorKind::kMismatch, {"called " + name, "all_reduce #1 (f32[8] sum)"});
  }
}

TEST(Mismatch, OfTheSizeOfSymmetricMemoryLeavesTheGroupUsable) {
  run_ranks(4, [](ProcessGroup& group) {
    const Thrown thrown =
        thrown_by([&] { group.allocate_symmetric(group.rank() == 1 ? 5000 : 4096); });
    EXPECT_EQ(thrown.kind, ErrorKind::kMismatch) << thrown.text;
    EXPECT_NE(thrown.text.find(" wants 5000"), std::string::npos) << thrown.text;
    EXPECT_EQ(group.allocate_symmetric(4096)->bytes(), 4096u);
    group.barrier()->wait();
  });
}

TEST(Mismatch, OfALargeCount) {
  const auto thrown = all_thrown(3, [](ProcessGroup& group) {
    all_reduce(group, group.rank() == 2 ? 200'000 : 200'001)->wait();
  });
  expect_all(thrown, ErrorKind::kMismatch, {"f32[200000]", "f32[200001]"});
}

TEST(Mismatch, OfDType) {
  const auto thrown = all_thrown(2, [](ProcessGroup& group) {
    all_reduce(group, 64, group.rank() == 0 ? DType::kF32 : DType::kI32)->wait();
  });
  expect_all(thrown, ErrorKind::kMismatch, {"f32[64]", "i32[64]"});
}

TEST(Mismatch, OfReduction) {
  const auto thrown = all_thrown(2, [](ProcessGroup& group) {
    all_reduce(group, 64, DType::kF32, group.rank() == 0 ? ReduceOp::kSum : ReduceOp::kMax)->wait();
  });
  expect_all(thrown, ErrorKind::kMismatch, {"f32[64] sum", "f32[64] max"});
}

TEST(Mismatch, OfRoot) {
  for (const std::size_t count : {4u, 100'000u}) {
    for (const int size : {2, 3}) {
      const auto thrown = all_thrown(size, [&](ProcessGroup& group) {
        std::vector<float> x(count);
        group.broadcast({.buffer = x.data(), .count = count, .root = group.rank() == 0 ? 0 : 1})
            ->wait();
      });
      expect_all(thrown, ErrorKind::kMismatch, {"from root 0", "from root 1"});
    }
  }
}

TEST(Mismatch, OfOperation) {
  const auto thrown = all_thrown(3, [](ProcessGroup& group) {
    if (group.rank() == 1) {
      group.barrier()->wait();
    } else {
      all_reduce(group, 16)->wait();
    }
  });
  expect_all(thrown, ErrorKind::kMismatch,
             {"called barrier #1", "called all_reduce #1 (f32[16] sum)", "in the same order"});
}

TEST(Mismatch, OfOrder) {
  const auto thrown = all_thrown(2, [](ProcessGroup& group) {
    Ref<Work> first = group.rank() == 0 ? all_reduce(group, 10) : all_reduce(group, 20);
    Ref<Work> second = group.rank() == 0 ? all_reduce(group, 20) : all_reduce(group, 10);
    second->wait();
    first->wait();
  });
  expect_all(thrown, ErrorKind::kMismatch, {"all_reduce #1", "f32[10]", "f32[20]"});
}

// Rank 2 has called it, with a later deadline, before rank 0 does.
TEST(Deadline, NamesWhoIsMissingOnEveryRank) {
  std::latch called(1);
  std::latch over(3);
  const auto body = [&](ProcessGroup& group) {
    if (group.rank() == 1) {
      over.arrive_and_wait();  // it never calls
      const Thrown thrown = thrown_by([&] { group.barrier()->wait(); });
      EXPECT_EQ(thrown.kind, ErrorKind::kTimeout);
      return;
    }
    std::vector<float> x(10);
    const auto reduce = [&](std::chrono::nanoseconds timeout) {
      return group.all_reduce(
          {.input = x.data(), .output = x.data(), .count = 10, .call = {.timeout = timeout}});
    };
    const Clock::time_point begin = Clock::now();  // before rank 0 calls it
    Thrown thrown;
    if (group.rank() == 2) {
      const Ref<Work> work = reduce(30s);
      called.count_down();
      thrown = thrown_by([&] { work->wait(); });
    } else {
      called.wait();
      thrown = thrown_by([&] { reduce(600ms)->wait(); });
    }
    EXPECT_EQ(thrown.kind, ErrorKind::kTimeout);
    EXPECT_GE(Clock::now() - begin, 600ms);
    EXPECT_NE(
        thrown.text.find("all_reduce #1 (f32[10] sum): timed out after 0.6 s waiting for rank 1 ("),
        std::string::npos)
        << thrown.text;
    // One that the machine has kept from answering for so long is as good as stopped.
    EXPECT_TRUE(thrown.text.find("which has not called it") != std::string::npos ||
                thrown.text.find("which does not answer") != std::string::npos)
        << thrown.text;
    EXPECT_EQ(thrown.text.find("rank 2"), std::string::npos) << thrown.text;
    EXPECT_EQ(thrown.text.find("rank 0"), std::string::npos) << thrown.text;
    over.arrive_and_wait();
  };
  run_ranks(3, body, {.warn_after = kAskAtOnce});
}

// A rank that comes late, but in time, must find the others waiting.
TEST(Deadline, IsWaitedForToItsEnd) {
  for (const std::chrono::nanoseconds timeout : {400ms + 0ns, 2500ms + 0ns}) {
    std::latch over(2);
    run_ranks(2, [&](ProcessGroup& group) {
      if (group.rank() == 0) {
        std::vector<float> x(300'000);
        const Clock::time_point begin = Clock::now();
        const Thrown thrown = thrown_by([&] {
          group
              .all_reduce({.input = x.data(),
                           .output = x.data(),
                           .count = x.size(),
                           .call = {.timeout = timeout}})
              ->wait();
        });
        const auto took = Clock::now() - begin;
        EXPECT_EQ(thrown.kind, ErrorKind::kTimeout) << thrown.text;
        EXPECT_GE(took, timeout);
        RecordProperty("overrun_us", std::to_string((took - timeout) / 1us));
      }
      over.arrive_and_wait();
    });
  }
}

TEST(Deadline, OfTheGroupHoldsIfACallGivesNone) {
  const auto thrown = all_thrown(
      2,
      [](ProcessGroup& group) {
        if (group.rank() == 0) all_reduce(group, 10)->wait();
        EXPECT_TRUE(tests::eventually([&] { return group.error() != nullptr; }));
      },
      200ms);
  expect_all(thrown, ErrorKind::kTimeout, {"waiting for rank 1 ("});
}

// All have passed a barrier and three of them are inside the operation: only the one that stays
// away is named. Repeated, since no other rank may keep the caller from throwing.
TEST(Synchronize, WithATimeoutNamesTheMissingRankOnly) {
  std::latch called(3);
  std::latch timed_out(3);
  run_ranks(4, [&](ProcessGroup& group) {
    std::vector<float> large(200'000);
    std::vector<float> small(10);
    const auto sum = [&](std::vector<float>& x) {
      return group.all_reduce({.input = x.data(), .output = x.data(), .count = x.size()});
    };
    group.barrier()->wait();
    if (group.rank() == 2) {
      timed_out.wait();
      sum(large)->wait();
      sum(small)->wait();
      return;
    }
    const Ref<Work> first = sum(large);
    const Ref<Work> second = sum(small);
    called.arrive_and_wait();
    for (int i = 0; i < 8; ++i) {
      const Thrown thrown = thrown_by([&] { second->synchronize(20ms); });
      EXPECT_EQ(thrown.kind, ErrorKind::kTimeout);
      EXPECT_NE(thrown.text.find("still running after 0.02 s, "), std::string::npos) << thrown.text;
      EXPECT_EQ(thrown.text.find("after 0 s"), std::string::npos) << thrown.text;
      EXPECT_EQ(thrown.text.find("nor anything before it"), std::string::npos) << thrown.text;
      for (int rank = 0; rank < 4; ++rank) {
        // One that the machine kept from answering is not accused of anything.
        const std::size_t named = thrown.text.find("rank " + std::to_string(rank) + " (");
        if (rank == 2 || named == std::string::npos) continue;
        EXPECT_EQ(thrown.text.find("has not called it", named), std::string::npos) << thrown.text;
      }
    }
    timed_out.count_down();
    first->wait();
    second->wait();
  });
}

TEST(Synchronize, WithATimeoutThrowsAndLeavesTheOperationUnderWay) {
  run_ranks(2, [](ProcessGroup& group) {
    if (group.rank() == 0) {
      const Ref<Work> work = all_reduce(group, 10);
      const Thrown thrown = thrown_by([&] { work->synchronize(50ms); });
      EXPECT_EQ(thrown.kind, ErrorKind::kTimeout);
      EXPECT_NE(thrown.text.find("rank 1 ("), std::string::npos) << thrown.text;
      EXPECT_NE(thrown.text.find("which has not called it"), std::string::npos) << thrown.text;
      EXPECT_FALSE(work->is_completed());
      int go = 1;
      group.send({.buffer = &go, .count = 1, .dtype = DType::kI32, .peer = 1})->wait();
      work->wait();
      EXPECT_EQ(work->error(), nullptr);
    } else {
      int go = 0;
      group.recv({.buffer = &go, .count = 1, .dtype = DType::kI32, .peer = 0})->wait();
      all_reduce(group, 10)->wait();
    }
  });
}

TEST(Abort, EndsEveryRankWithTheReason) {
  const auto thrown = all_thrown(3, [](ProcessGroup& group) {
    if (group.rank() == 2) group.abort("loss is NaN at step 7");
    all_reduce(group, 100'000)->wait();
  });
  expect_all(thrown, ErrorKind::kAborted, {"aborted by rank 2 (", "loss is NaN at step 7"});
}

TEST(Abort, IsReportedToTheAgentByAllRanks) {
  int line[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, line), 0);
  const UniqueFd ours(line[0]);
  const UniqueFd theirs(line[1]);
  ::setenv("DLRUN_LIFELINE_FD", std::to_string(theirs.get()).c_str(), 1);
  all_thrown(2, [](ProcessGroup& group) {
    if (group.rank() == 1) group.abort("out of disk");
    all_reduce(group, 100)->wait();
  });
  ::unsetenv("DLRUN_LIFELINE_FD");
  std::array<char, 8192> packet{};
  const auto receive = [&] {
    return ::recv(ours.get(), packet.data(), packet.size(), MSG_DONTWAIT);
  };
  const ssize_t size = receive();
  ASSERT_GT(size, 0);
  const auto report =
      rendezvous::decode_peer_failure({packet.data(), static_cast<std::size_t>(size)});
  ASSERT_TRUE(report);
  EXPECT_EQ(report->cause.rank, 1);
  EXPECT_EQ(report->cause.found_by, 1);
  EXPECT_EQ(report->cause.blame, rendezvous::Blame::kBroke);
  EXPECT_EQ(report->cause.kind, ErrorKind::kAborted);
  EXPECT_NE(report->cause.text.find("out of disk"), std::string::npos) << report->cause.text;
  // A hybrid group and the group of all its ranks may both report.
  const char* const backend = std::getenv("DLRUN_TEST_BACKEND");
  int more = 0;
  while (receive() > 0) ++more;
  EXPECT_GE(more, 1) << "the rank that aborts reports it too, or the rank that hears of it does";
  EXPECT_LE(more, backend != nullptr && std::string(backend) == "hybrid" ? 3 : 1);
}

// dlrun names the rank that differs from most, so it must know the call of every rank.
TEST(Mismatch, ReportsTheCallOfARankThatHasHeardOfItBefore) {
  int line[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, line), 0);
  const UniqueFd ours(line[0]);
  const UniqueFd theirs(line[1]);
  ::setenv("DLRUN_LIFELINE_FD", std::to_string(theirs.get()).c_str(), 1);
  all_thrown(3, [](ProcessGroup& group) {
    if (group.rank() == 0) return group.barrier()->wait();
    if (group.rank() == 1) return all_reduce(group, 100)->wait();
    EXPECT_TRUE(tests::eventually([&] { return group.error() != nullptr; }));
    std::vector<float> x(21);
    std::vector<float> y(7);
    group.scatter({.input = x.data(), .output = y.data(), .count = 7, .root = 2})->wait();
  });
  ::unsetenv("DLRUN_LIFELINE_FD");
  std::string calls;
  std::array<char, 8192> packet{};
  for (;;) {
    const ssize_t size = ::recv(ours.get(), packet.data(), packet.size(), MSG_DONTWAIT);
    if (size <= 0) break;
    const auto report =
        rendezvous::decode_peer_failure({packet.data(), static_cast<std::size_t>(size)});
    ASSERT_TRUE(report);
    calls += report->call + "\n";
  }
  EXPECT_NE(calls.find("barrier #1"), std::string::npos) << calls;
  EXPECT_NE(calls.find("all_reduce #1 (f32[100] sum)"), std::string::npos) << calls;
  EXPECT_NE(calls.find("scatter #1 (f32[7] from root 2)"), std::string::npos) << calls;
}

TEST(Leaving, UnderAnOperationIsAnErrorOnTheOthersAtOnce) {
  run_ranks(
      3,
      [](ProcessGroup& group) {
        if (group.rank() == 1) return;
        const Thrown thrown = thrown_by([&] { all_reduce(group, 100'000)->wait(); });
        EXPECT_EQ(thrown.kind, ErrorKind::kPeerFailed);
        EXPECT_NE(thrown.text.find("rank 1 ("), std::string::npos) << thrown.text;
        EXPECT_NE(thrown.text.find("has left group 'world' without calling it"), std::string::npos)
            << thrown.text;
      },
      {.timeout = 120s});
}

TEST(Leaving, AfterTheLastOperationIsNoError) {
  // The root completes as soon as its child has the bytes, and leaves; the last in the chain starts
  // after it.
  for (int round = 0; round < 10; ++round) {
    std::latch root_has_started(1);
    run_ranks(3, [&](ProcessGroup& group) {
      std::vector<float> x(50'000, group.rank() == 0 ? 3.0f : 0.0f);
      if (group.rank() == 2) root_has_started.wait();
      const Ref<Work> work = group.broadcast({.buffer = x.data(), .count = x.size(), .root = 0});
      if (group.rank() == 0) root_has_started.count_down();
      EXPECT_NO_THROW(work->wait());
      EXPECT_EQ(x.back(), 3.0f);
    });
  }
}

TEST(Leaving, WithOwnOperationsUnderWayEndsThemEverywhere) {
  std::mutex mutex;
  std::vector<Thrown> thrown;
  run_ranks(2, [&](ProcessGroup& group) {
    std::vector<float> x(1000);
    if (group.rank() == 1) {
      all_reduce(group, 100)->wait();
      group.recv({.buffer = x.data(), .count = 1000, .peer = 0});  // dropped, and then the group
      return;
    }
    const Thrown mine = thrown_by([&] {
      all_reduce(group, 100)->wait();
      group.recv({.buffer = x.data(), .count = 1000, .peer = 1})->wait();
    });
    const std::lock_guard lock(mutex);
    thrown.push_back(mine);
  });
  expect_all(thrown, ErrorKind::kAborted, {"rank 1 (", "destroyed group 'world'"});
}

// What connects `size` ranks, as socket pairs in this process, before groups are made of it.
std::vector<tcp::Mesh> connected(int size, std::size_t lanes) {
  std::vector<tcp::Mesh> meshes(static_cast<std::size_t>(size));
  for (int rank = 0; rank < size; ++rank) {
    tcp::Mesh& mesh = meshes[static_cast<std::size_t>(rank)];
    mesh.rank = rank;
    mesh.peers.resize(static_cast<std::size_t>(size));
    for (int r = 0; r < size; ++r) {
      mesh.peers[static_cast<std::size_t>(r)].who = {.rank = r, .host = "here", .pid = 100 + r};
    }
  }
  for (std::size_t a = 0; a < meshes.size(); ++a) {
    for (std::size_t b = 0; b < a; ++b) {
      for (std::size_t i = 0; i <= lanes; ++i) {
        int ends[2];
        EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
        tcp::Mesh::Peer& at_a = meshes[a].peers[b];
        tcp::Mesh::Peer& at_b = meshes[b].peers[a];
        if (i == lanes) {
          at_a.side = UniqueFd(ends[0]);
          at_b.side = UniqueFd(ends[1]);
        } else {
          at_a.data.emplace_back(ends[0]);
          at_b.data.emplace_back(ends[1]);
        }
      }
    }
  }
  return meshes;
}

Ref<ProcessGroup> group_over(tcp::Mesh mesh) {
  return make_ref<tcp::Group>(make_ref<tcp::Engine>(), std::move(mesh),
                              GroupOptions{.timeout = 30s});
}

// The lane that rank 0 reads next stays whole, and its peer stays alive: only writing fails.
TEST(Links, OneOfSeveralLanesThatBreaksIsAnErrorOnBothSides) {
  std::vector<tcp::Mesh> meshes = connected(2, 3);
  const UniqueFd victim(::dup(meshes[0].peers[1].data[1].get()));
  run_threads(2, [&](int rank) {
    const auto group = group_over(std::move(meshes[static_cast<std::size_t>(rank)]));
    if (rank == 0) ::shutdown(victim.get(), SHUT_WR);
    const Thrown thrown = thrown_by([&] {
      for (;;) all_reduce(*group, 1 << 18)->wait();
    });
    EXPECT_EQ(thrown.kind, ErrorKind::kPeerFailed);
    EXPECT_NE(thrown.text.find("connection"), std::string::npos) << thrown.text;
  });
}

// How many files the epolls of this process watch. A socket that was closed without being taken out
// stays there as long as another process has it.
int watched_files() {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fdinfo")) {
    std::ifstream file(entry.path());
    for (std::string line; std::getline(file, line);) count += line.starts_with("tfd:") ? 1 : 0;
  }
  return count;
}

// A child of fork() keeps the sockets open; their events must not reach links that are gone.
TEST(Links, ThatAChildHoldsAreForgottenWithTheirGroup) {
  const Ref<tcp::Engine> engines[] = {make_ref<tcp::Engine>(), make_ref<tcp::Engine>()};
  const int watched_before = watched_files();
  std::vector<UniqueFd> childs;
  for (int round = 0; round < 3; ++round) {
    std::vector<tcp::Mesh> meshes = connected(2, 1);
    childs.emplace_back(::dup(meshes[0].peers[1].side.get()));
    childs.emplace_back(::dup(meshes[0].peers[1].data[0].get()));
    run_threads(2, [&](int rank) {
      const auto r = static_cast<std::size_t>(rank);
      const Ref<ProcessGroup> group =
          make_ref<tcp::Group>(engines[r], std::move(meshes[r]), GroupOptions{.timeout = 30s});
      for (int i = 0; i < 20; ++i) group->barrier()->wait();
    });
    EXPECT_TRUE(tests::eventually([&] { return watched_files() <= watched_before; }));
  }
}

// Rank 0 gives up and leaves at once; its message reaches rank 1 only, and no rank notices its end.
TEST(Abort, IsForwardedByARankThatHasHeardIt) {
  constexpr int kRanks = 4;
  std::vector<tcp::Mesh> meshes = connected(kRanks, 1);
  std::vector<UniqueFd> open;  // the far ends of links on which nothing ever comes
  const auto silence = [&](UniqueFd& fd) {
    int ends[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    open.push_back(std::exchange(fd, UniqueFd(ends[0])));
    open.emplace_back(ends[1]);
  };
  for (std::size_t far : {2u, 3u}) {
    silence(meshes[far].peers[0].side);
    silence(meshes[far].peers[0].data[0]);
  }
  std::vector<Thrown> thrown(kRanks);
  std::latch over(kRanks - 1);
  run_threads(kRanks, [&](int rank) {
    const Ref<ProcessGroup> group = group_over(std::move(meshes[static_cast<std::size_t>(rank)]));
    Thrown& mine = thrown[static_cast<std::size_t>(rank)];
    if (rank == 0) group->abort("loss is NaN at step 7");
    mine = thrown_by([&] { all_reduce(*group, 100'000)->wait(); });
    if (rank > 0) over.arrive_and_wait();
  });
  expect_all(thrown, ErrorKind::kAborted, {"aborted by rank 0 (", "loss is NaN at step 7"});
}

TEST(JoiningAGroup, ChecksTheWorldSize) {
  rendezvous::MemoryStore store;
  run_threads(2, [&](int rank) {
    const Thrown thrown = thrown_by([&] {
      make_tcp_group({.rank = rank, .size = 2 + rank, .store = &store, .connect_timeout = 20s});
    });
    EXPECT_EQ(thrown.kind, ErrorKind::kMismatch);
    EXPECT_NE(thrown.text.find("has a world size of"), std::string::npos) << thrown.text;
  });
}

TEST(JoiningAGroup, ChecksTheNumberOfLanes) {
  rendezvous::MemoryStore store;
  run_threads(2, [&](int rank) {
    const Thrown thrown =
        thrown_by([&] { join_group(store, rank, 2, {.lanes = rank == 0 ? 1 : 3}); });
    EXPECT_EQ(thrown.kind, ErrorKind::kMismatch);
    EXPECT_NE(thrown.text.find("wants 3"), std::string::npos) << thrown.text;
    EXPECT_NE(thrown.text.find("wants 1"), std::string::npos) << thrown.text;
  });
}

TEST(JoiningAGroup, ChecksTheGeneration) {
  rendezvous::MemoryStore store;
  run_threads(2, [&](int rank) {
    const Thrown thrown = thrown_by([&] {
      make_tcp_group({.rank = rank,
                      .size = 2,
                      .store = &store,
                      .generation = static_cast<std::uint64_t>(rank),
                      .connect_timeout = 20s});
    });
    EXPECT_EQ(thrown.kind, ErrorKind::kMismatch);
    EXPECT_NE(thrown.text.find("belongs to generation"), std::string::npos) << thrown.text;
  });
}

TEST(JoiningAGroup, NamesWhoHasNotCome) {
  rendezvous::MemoryStore store;
  const Thrown thrown = thrown_by(
      [&] { make_tcp_group({.rank = 0, .size = 2, .store = &store, .connect_timeout = 100ms}); });
  EXPECT_EQ(thrown.kind, ErrorKind::kTimeout);
  EXPECT_NE(thrown.text.find("rank 1 of 2 has not come"), std::string::npos) << thrown.text;
}

TEST(JoiningAGroup, IsNotDisturbedByGarbageOnTheDataPort) {
  rendezvous::MemoryStore store;
  std::latch garbage_is_there(1);
  std::thread stranger([&] {
    const Deadline deadline = Deadline::after(20s);
    const std::string record = store.get("group/world/0", deadline);
    const std::size_t begin = record.find("address=") + 8;
    const auto endpoint =
        rendezvous::Endpoint::parse(record.substr(begin, record.find('\n', begin) - begin));
    const UniqueFd silent = rendezvous::connect_to(endpoint, deadline);
    const UniqueFd loud = rendezvous::connect_to(endpoint, deadline);
    const std::string garbage(5000, '\x7f');
    static_cast<void>(::send(loud.get(), garbage.data(), garbage.size(), MSG_NOSIGNAL));
    garbage_is_there.count_down();
  });
  run_threads(2, [&](int rank) {
    if (rank == 1) garbage_is_there.wait();
    const Ref<ProcessGroup> group = join_group(store, rank, 2);
    float sum = static_cast<float>(rank + 1);
    group->all_reduce({.input = &sum, .output = &sum, .count = 1})->wait();
    EXPECT_EQ(sum, 3.0f);
    EXPECT_EQ(group->error(), nullptr);
  });
  stranger.join();
}

TEST(JoiningAGroup, WithAnotherKeyIsRefused) {
  expect_strangers_refused(make_tcp_group);
}

TEST(JoiningAGroup, WithoutAKeyAcrossNodesIsRefusedInOneSentence) {
  rendezvous::MemoryStore store;
  run_threads(2, [&](int rank) {
    const Thrown thrown = thrown_by([&] {
      make_tcp_group({.rank = rank,
                      .size = 2,
                      .store = &store,
                      .connect_timeout = 20s,
                      .node = "node" + std::to_string(rank)});
    });
    EXPECT_EQ(thrown.kind, ErrorKind::kInvalidArgument);
    EXPECT_NE(thrown.text.find("without a job key"), std::string::npos) << thrown.text;
  });
}

// The progress thread falls asleep while the caller adds the first group and drives it: whatever
// the order, one of them must look at the clock. No byte ever arrives.
TEST(Engine, SeesTheDeadlineOfAFirstGroupHoweverItFellAsleep) {
  const Ref<tcp::Engine> engine = make_ref<tcp::Engine>();
  for (int round = 0; round < 300; ++round) {
    std::array<std::array<int, 2>, 2> ends{};
    for (auto& pair : ends) {
      ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair.data()),
                0);
    }
    UniqueFd theirs[] = {UniqueFd(ends[0][1]), UniqueFd(ends[1][1])};
    tcp::Mesh mesh{.rank = 0, .peers = std::vector<tcp::Mesh::Peer>(2)};
    mesh.peers[0].who = {.rank = 0, .host = "here", .pid = 1};
    mesh.peers[1].who = {.rank = 1, .host = "there", .pid = 2};
    mesh.peers[1].data.emplace_back(ends[0][0]);
    mesh.peers[1].side = UniqueFd(ends[1][0]);
    const Ref<ProcessGroup> group =
        make_ref<tcp::Group>(engine, std::move(mesh), GroupOptions{.timeout = 2ms});
    float x = 1;
    try {
      group->all_reduce({.input = &x, .output = &x, .count = 1})->synchronize();
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kTimeout) << error.what();
    }
    for (UniqueFd& fd : theirs) fd.reset();
  }
}

// Callers that come back soon keep the progress thread parked, but not from what they leave to it.
TEST(Engine, DrivesAnOperationWithoutAWaiter) {
  run_ranks(2, [](ProcessGroup& group) {
    std::vector<float> x(300'000, 1);
    for (int round = 1; round <= 20; ++round) {
      for (int i = 0; i < 10; ++i) group.barrier()->wait();
      const Ref<Work> work =
          group.all_reduce({.input = x.data(), .output = x.data(), .count = x.size()});
      const Deadline deadline = Deadline::after(30s);
      while (!work->is_completed() && !deadline.has_passed()) std::this_thread::yield();
      ASSERT_TRUE(work->is_completed()) << "round " << round;
      ASSERT_EQ(x.back(), static_cast<float>(1 << round));
    }
  });
}

}  // namespace
}  // namespace dl::collectives
