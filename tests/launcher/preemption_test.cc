// The agreement at which call the ranks save.
#include "launcher/preempt/preemption.h"

#include <gmock/gmock.h>

#include <array>
#include <cstdint>
#include <set>
#include <tuple>
#include <vector>

namespace dl::launcher {
namespace {

using Outcome = Preemption::Outcome;
using testing::HasSubstr;

TEST(Preemption, OneRequestCounts) {
  Preemption one;
  EXPECT_FALSE(one.is_requested());
  EXPECT_TRUE(one.request("SIGTERM"));
  EXPECT_FALSE(one.request("SIGUSR2"));
  EXPECT_EQ(one.why(), "SIGTERM");
}

TEST(Preemption, AnEndIsJudgedByTheRanksThatHadCalled) {
  struct Case {
    bool agreed;
    std::vector<RankCalls> ranks;
    Outcome outcome;
  };
  const std::vector<Case> cases = {
      {false, {{0, 7}, {1, 7}}, Outcome::kNone},
      {true, {{0, 9}, {1, 9}}, Outcome::kSaved},
      {true, {{0, 10}, {1, 9}}, Outcome::kSaved},
      {true, {{0, 8}, {1, 8}}, Outcome::kNone},  // they were done with training
      {true, {{0, 9}, {1, 8}}, Outcome::kPartly},
      {true, {{0, 9}, {1, 0}}, Outcome::kPartly},
      {true, {}, Outcome::kSaved},  // all its ranks have failed, and those of other nodes go on
  };
  for (const Case& one : cases) {
    Preemption preemption;
    preemption.request("SIGTERM");
    if (one.agreed) preemption.agree(9);
    EXPECT_EQ(preemption.outcome(one.ranks), one.outcome) << &one - cases.data();
  }
}

TEST(Preemption, NamesWhoHasNotCome) {
  Preemption preemption;
  preemption.request("SIGTERM");
  preemption.agree(9);
  const std::vector<RankCalls> ranks = {{4, 9}, {5, 0}, {6, 8}};
  EXPECT_EQ(preemption.complaint(ranks),
            "not saved: rank 5 has never called should_checkpoint(), rank 6 made 8 of 9 calls "
            "of should_checkpoint()");
}

// Every interleaving of two ranks on two nodes whose steps need each other, and of two agents: each
// rank takes three calls, each call is a store and a load, and a rank's next step begins when the
// other one has come to its call. All return true at the same call, and none gets stuck.
class Model {
 public:
  void explore() { visit(State()); }
  int ends() const { return ends_; }
  const std::set<int>& calls_of_saving() const { return calls_of_saving_; }

 private:
  static constexpr int kSteps = 3;
  static constexpr int kNone = -1;
  struct State {
    // For each rank: steps finished, calls stored, whether its load is next, whether it waits for
    // the answer, at which call it returned true.
    std::array<std::int8_t, 2> calls{}, loads{}, waits{}, saved{kNone, kNone};
    std::array<std::int8_t, 2> requested{}, said{kNone, kNone};  // of a node
    std::int8_t answer = kNone;
    bool operator<(const State& o) const {
      return std::tie(calls, loads, waits, saved, requested, said, answer) <
             std::tie(o.calls, o.loads, o.waits, o.saved, o.requested, o.said, o.answer);
    }
  };

  void visit(const State& state) {
    if (!seen_.insert(state).second) return;
    bool moved = false;
    for (std::size_t r = 0; r < 2; ++r) {
      State next = state;
      const std::size_t other = 1 - r;
      if (state.saved[r] != kNone) {
        // over
      } else if (state.waits[r]) {
        if (state.answer == kNone) continue;
        next.waits[r] = 0;
        EXPECT_LE(state.calls[r], state.answer) << "a rank is beyond the call";
        if (state.calls[r] >= state.answer) next.saved[r] = state.calls[r];
        moved = true;
        visit(next);
      } else if (state.loads[r]) {
        next.loads[r] = 0;
        next.waits[r] = state.requested[r];
        moved = true;
        visit(next);
      } else if ((state.calls[r] < kSteps || state.requested[0] || state.requested[1]) &&
                 needs_nobody(state, r, other)) {
        ++next.calls[r];
        next.loads[r] = 1;
        moved = true;
        visit(next);
      }
    }
    for (std::size_t node = 0; node < 2; ++node) {
      State next = state;
      if (!state.requested[node]) {
        next.requested[node] = 1;
      } else if (state.said[node] == kNone) {
        next.said[node] = state.calls[node];
      } else {
        continue;
      }
      moved = true;
      visit(next);
    }
    if (state.answer == kNone && state.said[0] != kNone && state.said[1] != kNone) {
      State next = state;
      const std::array<RankCalls, 2> calls = {
          RankCalls{0, static_cast<std::uint64_t>(state.said[0])},
          RankCalls{1, static_cast<std::uint64_t>(state.said[1])}};
      next.answer = static_cast<std::int8_t>(Preemption::most_calls(calls) + 1);
      moved = true;
      visit(next);
    }
    if (moved) return;
    ++ends_;
    EXPECT_NE(state.saved[0], kNone) << "stuck at " << int{state.calls[0]} << ", "
                                     << int{state.calls[1]} << ", answer " << int{state.answer};
    EXPECT_EQ(state.saved[0], state.saved[1]);
    calls_of_saving_.insert(state.saved[0]);
  }

  // Its next step needs the other one in the same step: that has finished the one before.
  static bool needs_nobody(const State& state, std::size_t r, std::size_t other) {
    const bool other_is_in_it = state.calls[other] > state.calls[r] ||
                                (state.calls[other] == state.calls[r] && !state.loads[other] &&
                                 !state.waits[other] && state.saved[other] == kNone);
    return other_is_in_it;
  }

  std::set<State> seen_;
  std::set<int> calls_of_saving_;
  int ends_ = 0;
};

TEST(Preemption, AllReturnTrueAtTheSameCallInAnyOrderOfEvents) {
  Model model;
  model.explore();
  EXPECT_GT(model.ends(), 0);
  EXPECT_GE(model.calls_of_saving().size(), 3u);
}

}  // namespace
}  // namespace dl::launcher
