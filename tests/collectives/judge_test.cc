#include "collectives/waiting/judge/judge.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace dl::collectives {
namespace {

using namespace std::chrono_literals;
using Presence = PeerState::Presence;

const std::array<Identity, 3> kWho{Identity{.rank = 1, .host = "a", .pid = 11},
                                   Identity{.rank = 2, .host = "b", .pid = 12},
                                   Identity{.rank = 3, .host = "c", .pid = 13, .job_rank = 7}};
constexpr Descriptor kSum{
    .sequence = 5, .count = 8, .op = OpKind::kAllReduce, .dtype = DType::kF32};
// Its tag is 4.
constexpr Descriptor kRecv{
    .sequence = 2, .count = 8, .root = 4, .op = OpKind::kRecv, .dtype = DType::kF32};

// Three other ranks that have called kSum, answer, and have done their part.
std::array<PeerState, 3> all_well() {
  std::array<PeerState, 3> others;
  for (std::size_t i = 0; i < others.size(); ++i) others[i] = {.who = &kWho[i], .last_called = 5};
  return others;
}

void expect_missing(const Missing& missing, int rank, Blame blame, int in_job,
                    std::string_view text) {
  EXPECT_EQ(missing.text, text);
  EXPECT_EQ(missing.rank, rank);
  EXPECT_EQ(missing.blame, blame);
  EXPECT_EQ(missing.in_job, in_job);
}

TEST(MissingRanks, NoOther) {
  expect_missing(missing_in(kSum, all_well()), -1, Blame::kNone, -1, "waiting for its own part");
  expect_missing(missing_in(kSum, all_well(), {.own = "MPI"}), -1, Blame::kNone, -1,
                 "waiting for MPI");
}

TEST(MissingRanks, ThatHaveNotCalled) {
  auto others = all_well();
  others[1].last_called = 4;
  others[2].last_called = 0;
  others[0].is_needed = true;
  expect_missing(missing_in(kSum, others), 2, Blame::kMissing, 2,
                 "waiting for rank 2 (b, pid 12), which has not called it (its last call was #4); "
                 "rank 7 (3 in the group, c, pid 13), which has not called it, nor anything before "
                 "it");
}

TEST(MissingRanks, ThatMayHaveCalledMeanwhile) {
  auto others = all_well();
  others[1] = {.who = &kWho[1], .last_called = 4, .has_told = false};
  expect_missing(missing_in(kSum, others), 2, Blame::kMissing, 2,
                 "waiting for rank 2 (b, pid 12), which has not answered yet whether it has called "
                 "it");
  others[0].last_called = 3;
  expect_missing(missing_in(kSum, others), 1, Blame::kMissing, 1,
                 "waiting for rank 1 (a, pid 11), which has not called it (its last call was #3)");
}

TEST(MissingRanks, ThatAreSilentCountBeforeThoseThatHaveNotCalled) {
  auto others = all_well();
  others[0].last_called = 4;
  others[2] = {.who = &kWho[2], .contact = Contact::kSilent, .last_called = 4};
  expect_missing(missing_in(kSum, others), 3, Blame::kMissing, 7,
                 "waiting for rank 1 (a, pid 11), which has not called it (its last call was #4); "
                 "rank 7 (3 in the group, c, pid 13), which does not answer (stopped, or its host "
                 "cannot be reached)");
  others = all_well();
  others[0] = {.who = &kWho[0], .contact = Contact::kSilent, .last_called = 4};
  expect_missing(missing_in(kSum, others, {.silent = "stopped?"}), 1, Blame::kMissing, 1,
                 "waiting for rank 1 (a, pid 11), which does not answer (stopped?)");
}

TEST(MissingRanks, ThatAreSlow) {
  auto others = all_well();
  others[0] = {.who = &kWho[0], .contact = Contact::kSlow, .last_called = 4};
  expect_missing(missing_in(kSum, others), 1, Blame::kMissing, 1,
                 "waiting for rank 1 (a, pid 11), which has not answered yet, as the line to it is "
                 "slow");
  others = all_well();
  others[1].is_needed = true;
  expect_missing(missing_in(kSum, others), 2, Blame::kMissing, 2,
                 "waiting for rank 2 (b, pid 12), which has called it and is slow to do its part");
  // The slow one may wait for the silent one.
  others[2].contact = Contact::kSilent;
  expect_missing(missing_in(kSum, others), 3, Blame::kMissing, 7,
                 "waiting for rank 7 (3 in the group, c, pid 13), which has called it and does not "
                 "answer any more (stopped?)");
}

TEST(MissingRanks, ThatHaveLeftOrAreGone) {
  auto others = all_well();
  others[0] = {.who = &kWho[0], .presence = Presence::kLeft, .last_called = 4};
  EXPECT_EQ(missing_in(kSum, others).blame, Blame::kLeft);
  others[0].presence = Presence::kGone;
  EXPECT_EQ(missing_in(kSum, others).blame, Blame::kGone);
}

TEST(MissingRanks, OfAMessage) {
  auto others = all_well();
  expect_missing(missing_for(kRecv, 2, others), 2, Blame::kMissing, 2,
                 "waiting for rank 2 (b, pid 12), which has not sent it (tag 4)");
  others[1].contact = Contact::kSilent;
  Descriptor send = kRecv;
  send.op = OpKind::kSend;
  expect_missing(
      missing_for(send, 2, others), 2, Blame::kMissing, 2,
      "waiting for rank 2 (b, pid 12), which has not received it (tag 4) and does not answer");
  expect_missing(missing_for(kRecv, kAnySource, others), -1, Blame::kNone, -1,
                 "waiting for any rank to send it (tag 4)");
  others[2].presence = Presence::kLeft;
  expect_missing(missing_for(kRecv, kAnySource, others), 3, Blame::kLeft, 7,
                 "waiting for any rank to send it (tag 4); rank 7 (3 in the group, c, pid 13) has "
                 "left, which may be why it never came");
}

TEST(MissingRanks, OfAnEarlierOperation) {
  auto others = all_well();
  others[1].last_called = 4;
  const Missing missing = missing_behind(kSum, missing_in(kSum, others));
  EXPECT_TRUE(missing.is_behind);
  expect_missing(
      missing, 2, Blame::kMissing, 2,
      "behind all_reduce #5 (f32[8] sum), which is waiting for rank 2 (b, pid 12), which "
      "has not called it (its last call was #4)");
}

constexpr Waiting::Time kBegin{1000s};

// How long an operation has waited when it asks, looked at a second apart.
std::vector<int> asks_at(std::chrono::seconds timeout) {
  ProbeSchedule probes;
  std::vector<int> seconds;
  for (int waited = 0; std::chrono::seconds(waited) <= timeout; ++waited) {
    const Waiting::Time now = kBegin + std::chrono::seconds(waited);
    const bool is_next = now - kBegin >= probes.next(timeout, 5s);
    EXPECT_EQ(probes.are_due(now - kBegin, now, timeout, 5s), is_next);
    if (is_next) seconds.push_back(waited);
    EXPECT_EQ(probes.are_unanswered({}), !seconds.empty());
  }
  EXPECT_EQ(probes.next(timeout, 5s), std::chrono::nanoseconds::max());
  return seconds;
}

TEST(ProbeSchedule, AreAskedBeforeAWarningAndBeforeTheDeadline) {
  EXPECT_EQ(ProbeSchedule().next(600s, 5s), 4500ms);
  EXPECT_EQ(asks_at(600s), (std::vector<int>{5, 598}));
}

TEST(ProbeSchedule, OfAShortDeadlineAreAskedOnce) {
  EXPECT_EQ(ProbeSchedule().next(1s, 5s), 750ms);
  EXPECT_EQ(asks_at(4s), std::vector<int>{3});
  EXPECT_EQ(asks_at(7s), std::vector<int>{5});
}

TEST(ProbeSchedule, ThatComeLateAreAskedTogether) {
  ProbeSchedule probes;
  EXPECT_TRUE(probes.are_due(599s, kBegin + 599s, 600s, 5s));
  EXPECT_FALSE(probes.are_due(600s, kBegin + 600s, 600s, 5s));
}

TEST(ProbeSchedule, AreAnsweredByWhatComesAfterThemOnly) {
  ProbeSchedule probes;
  EXPECT_FALSE(probes.are_unanswered({}));
  ASSERT_TRUE(probes.are_due(5s, kBegin + 5s, 600s, 5s));
  EXPECT_TRUE(probes.are_unanswered(kBegin + 4s));
  EXPECT_FALSE(probes.are_unanswered(kBegin + 5s));
  // Another operation's question, asked later, leaves that answer what it is.
  ProbeSchedule others;
  ASSERT_TRUE(others.are_due(5s, kBegin + 6s, 600s, 5s));
  EXPECT_TRUE(others.are_unanswered(kBegin + 5s));
  EXPECT_FALSE(probes.are_unanswered(kBegin + 5s));
  // And the second one wants an answer of its own.
  ASSERT_TRUE(probes.are_due(598s, kBegin + 598s, 600s, 5s));
  EXPECT_TRUE(probes.are_unanswered(kBegin + 5s));
}

struct Judge {
  Judgement at(std::chrono::nanoseconds waited) {
    return judge(waiting, kSum, kBegin + waited, 5s, [this] {
      ++asked;
      return missing;
    });
  }
  Waiting waiting{60s};
  Missing missing{.rank = 2, .blame = Blame::kMissing, .in_job = 2, .text = "waiting for rank 2"};
  int asked = 0;
};

TEST(Judge, ProbesWarnsAndEndsAWait) {
  Judge judge;
  Judgement j = judge.at(0s);
  EXPECT_FALSE(j.is_to_probe || j.failure || j.waits_for || !j.warning.empty());
  EXPECT_EQ(j.next - kBegin, 4500ms);
  j = judge.at(4500ms);
  EXPECT_TRUE(j.is_to_probe);
  EXPECT_TRUE(j.warning.empty());
  EXPECT_EQ(j.next - kBegin, 5s);
  EXPECT_EQ(judge.asked, 0);
  j = judge.at(5s);
  EXPECT_FALSE(j.is_to_probe);
  EXPECT_EQ(j.warning, "all_reduce #5 (f32[8] sum): 5 s waiting for rank 2");
  EXPECT_EQ(j.waits_for, 2);
  EXPECT_EQ(j.next - kBegin, 58s);
  EXPECT_TRUE(judge.at(6s).warning.empty());
  EXPECT_EQ(judge.asked, 1);
  j = judge.at(58s);
  EXPECT_TRUE(j.is_to_probe);
  EXPECT_EQ(j.next - kBegin, 60s);
  j = judge.at(60s);
  ASSERT_TRUE(j.failure);
  EXPECT_EQ(j.failure->text, "all_reduce #5 (f32[8] sum): timed out after 60 s waiting for rank 2");
  EXPECT_EQ(j.failure->kind, ErrorKind::kTimeout);
  EXPECT_EQ(j.failure->blame, Blame::kMissing);
  EXPECT_EQ(j.failure->rank, 2);
  EXPECT_EQ(j.failure->operation, "all_reduce #5");
  EXPECT_EQ(j.failure->sequence, 5);
  EXPECT_EQ(j.waits_for, 2);
}

TEST(Judge, NamesWhatABackendCallsOtherwise) {
  Judge judge;
  judge.missing.called = "a graph's launch";
  judge.at(0s);
  EXPECT_EQ(judge.at(5s).warning, "a graph's launch: 5 s waiting for rank 2");
  const Judgement late = judge.at(60s);
  ASSERT_TRUE(late.failure);
  EXPECT_EQ(late.failure->text, "a graph's launch: timed out after 60 s waiting for rank 2");
  EXPECT_EQ(late.failure->operation, "all_reduce #5");
}

TEST(Judge, OnlyTheEarliestOperationWarns) {
  Judge judge;
  judge.at(0s);
  judge.missing.is_behind = true;
  EXPECT_TRUE(judge.at(5s).warning.empty());
}

TEST(Judge, ShortTimeoutsHaveNoWarningAndLongOnesNoEnd) {
  Judge judge{.waiting = Waiting(2s)};
  EXPECT_EQ(judge.at(0s).next - kBegin, 1500ms);
  EXPECT_TRUE(judge.at(1500ms).is_to_probe);
  EXPECT_TRUE(judge.at(2s).failure);
  Judge endless{.waiting = Waiting(std::chrono::nanoseconds::max())};
  endless.at(0s);
  EXPECT_FALSE(endless.at(5s).warning.empty());
  EXPECT_EQ(endless.at(24h).next, Waiting::Time::max());
}

TEST(Judge, AWaitBeginsAtTheFirstLook) {
  Judge judge;
  judge.at(10s);
  EXPECT_EQ(judge.waiting.waited(kBegin + 12s), 2s);
}

}  // namespace
}  // namespace dl::collectives
