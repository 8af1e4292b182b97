// A rank that hears of a failure completes what is complete on the rank that found it, and receives
// what had come before.
#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>

#include <atomic>
#include <csignal>
#include <thread>
#include <vector>

#include "collectives/tcp/core/engine.h"
#include "collectives/waiting/group_error.h"
#include "core/base/deadline.h"
#include "tests/collectives/ranks.h"
#include "tests/support/eventually.h"

namespace dl::collectives {
namespace {

using namespace testing;

Ref<Work> start_sum(ProcessGroup& group, std::vector<float>& x) {
  return group.all_reduce({.input = x.data(), .output = x.data(), .count = x.size()});
}

void expect_left(ProcessGroup& group, const std::string& who) {
  const Thrown thrown = thrown_by([&] { group.barrier()->wait(); });
  EXPECT_EQ(thrown.kind, ErrorKind::kPeerFailed) << thrown.text;
  EXPECT_NE(thrown.text.find(who), std::string::npos) << thrown.text;
}

// Waits for what must come; fails the test if it does not.
template <typename Condition>
void await(const Condition& condition) {
  EXPECT_TRUE(tests::eventually(tests::kPatience, condition, 0ms));
}

TEST(News, OfAFailureSparesWhatIsCompleteOnTheRankThatFoundIt) {
  // Between nodes nothing large is complete anywhere that a rank has not called.
  for (const std::size_t count : {1u, backend_under_test() == "hybrid" ? 1000u : 100'000u}) {
    std::atomic<int> has_heard{0};
    run_ranks(3, [&](ProcessGroup& group) {
      std::vector<float> x(count, 1.0f);
      start_sum(group, x)->wait();
      Ref<Work> second;
      if (group.rank() != 1) second = start_sum(group, x);
      if (group.rank() == 0) {
        group.fail(std::make_exception_ptr(GroupError({.kind = ErrorKind::kPeerFailed,
                                                       .blame = Blame::kGone,
                                                       .rank = 7,
                                                       .text = "rank 7 is gone"})),
                   2);
      }
      await([&] { return group.error() != nullptr; });
      has_heard.fetch_add(1);
      await([&] { return has_heard.load() == 3; });
      // It was not complete anywhere so far.
      if (!second) second = start_sum(group, x);
      second->wait();
      EXPECT_EQ(x.front(), 9.0f);
      EXPECT_EQ(x.back(), 9.0f);
      expect_left(group, "rank 7 is gone");
    });
  }
}

TEST(News, OfARankThatHasLeftEndsNothingThatItHadCompleted) {
  for (const std::size_t count : {1u, 1000u, 100'000u}) {
    for (int round = 0; round < 4; ++round) {
      run_ranks(4, [&](ProcessGroup& group) {
        std::vector<float> x(count, 1.0f);
        start_sum(group, x)->wait();
        start_sum(group, x)->wait();
        EXPECT_EQ(x.back(), 16.0f);
        if (group.rank() == round) return;
        expect_left(group, "rank " + std::to_string(round) + " (");
      });
    }
  }
}

// Nothing of a rank moves from stand_still() to go_on(). Over TCP the test holds the role of its
// engine; over shared memory its thread, which drives the operation for which it waits, is held in
// a signal handler.
class LateRank {
 public:
  const Ref<tcp::Engine>& engine() const noexcept { return engine_; }

  // On the rank's thread, before it waits.
  void stand_still() {
    if (!tests_shared_memory()) {
      holder_ = std::thread([this] {
        engine_->inspect([this](const tcp::Role&) {
          stands_.store(true);
          await([this] { return goes_on_.load(); });
        });
      });
      return;
    }
    held = this;
    struct sigaction hold{};
    hold.sa_handler = [](int) {
      held->stands_.store(true);
      await([] { return held->goes_on_.load(); });
    };
    ASSERT_EQ(::sigaction(SIGUSR1, &hold, nullptr), 0);
    holder_ = std::thread([thread = ::pthread_self()] {
      // If it comes before the thread waits, the progress thread goes on, and little is tested.
      for (int i = 0; i < 1000; ++i) ::sched_yield();
      ::pthread_kill(thread, SIGUSR1);
    });
  }
  void await_standstill() const {
    await([this] { return stands_.load(); });
  }
  void go_on() { goes_on_.store(true); }
  ~LateRank() { holder_.join(); }

 private:
  static inline LateRank* held = nullptr;
  const Ref<tcp::Engine> engine_ = make_ref<tcp::Engine>();
  std::atomic<bool> stands_{false};
  std::atomic<bool> goes_on_{false};
  std::thread holder_;
};

// Rank 2 stands still in a broadcast and a receive. Meanwhile the others complete the broadcast,
// rank 1 sends the message and leaves, and rank 0 fails because of that. All of it waits for
// rank 2.
TEST(News, ThatComesWithTheDataOfAnOperationDoesNotEndIt) {
  for (const std::size_t count : {1u, 5000u}) {
    rendezvous::MemoryStore store;
    LateRank late;
    std::atomic<ProcessGroup*> late_group{nullptr};
    run_threads(3, [&](int rank) {
      RankOptions options;
      if (rank == 2) options.engine = late.engine();
      Ref<ProcessGroup> group = join_group(store, rank, 3, options);
      std::vector<float> x(count, rank == 0 ? 3.0f : 0.0f);
      float message = rank == 1 ? 5.0f : 0.0f;
      const auto broadcast = [&] { return group->broadcast({.buffer = x.data(), .count = count}); };
      if (rank == 2) {
        const Ref<Work> got = group->recv({.buffer = &message, .count = 1, .peer = 1});
        const Ref<Work> copied = broadcast();
        late_group.store(group.get());
        late.stand_still();
        copied->wait();
        got->wait();
        EXPECT_EQ(x.back(), 3.0f);
        EXPECT_EQ(message, 5.0f);
        expect_left(*group, "rank 1 (");
        return;
      }
      late.await_standstill();
      if (rank == 1) group->send({.buffer = &message, .count = 1, .peer = 2})->wait();
      broadcast()->wait();
      if (rank == 1) return;
      expect_left(*group, "rank 1 (");
      group = nullptr;
      // Over shared memory another thread hears of it.
      if (tests_shared_memory()) await([&] { return late_group.load()->error() != nullptr; });
      late.go_on();
    });
  }
}

}  // namespace
}  // namespace dl::collectives
