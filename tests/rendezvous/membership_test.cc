#include "rendezvous/membership/membership.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace dl::rendezvous {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
namespace pb = dlrun::rendezvous;
using Outbox = Membership::Outbox;

pb::FromNode join(const std::string& id, int nnodes, int node_rank = -1, int slots = 2) {
  pb::FromNode message;
  pb::Join* join = message.mutable_join();
  join->set_node_id(id);
  join->set_host("host-" + id);
  join->set_address("10.0.0." + std::to_string(id.back()));
  join->set_slots(slots);
  join->set_node_rank(node_rank);
  join->set_nnodes(nnodes);
  join->set_master_port(20000 + id.back());
  join->set_pid(4711);
  return message;
}
// A join of a node that runs `line`.
pb::FromNode join_with(const std::string& id, int nnodes, int node_rank, const std::string& program,
                       const std::string& line, bool named = false) {
  pb::FromNode message = join(id, nnodes, node_rank);
  message.mutable_join()->set_program(program);
  message.mutable_join()->set_line(line);
  message.mutable_join()->set_named(named);
  return message;
}
pb::FromNode barrier(const std::string& name) {
  pb::FromNode message;
  message.mutable_barrier()->set_name(name);
  return message;
}
pb::FromNode failed(int rank, int code) {
  pb::FromNode message;
  message.mutable_failed()->set_rank(rank);
  message.mutable_failed()->set_exit_code(code);
  message.mutable_failed()->set_text("rank " + std::to_string(rank) + " exited with " +
                                     std::to_string(code));
  return message;
}
pb::FromNode follows(int rank, int blamed, const std::string& blame = "gone") {
  pb::FromNode message = failed(rank, 1);
  pb::Follows* follows = message.mutable_failed()->mutable_follows();
  follows->set_blame(blame);
  follows->set_rank(blamed);
  follows->set_found_by(rank);
  follows->set_operation("barrier #12");
  return message;
}
pb::FromNode finished(int rank) {
  pb::FromNode message;
  message.mutable_finished()->set_rank(rank);
  message.mutable_finished()->set_text("rank " + std::to_string(rank) + " ended with exit code 0");
  return message;
}
pb::FromNode goes_on(int rank) {
  pb::FromNode message;
  message.mutable_goes_on()->set_rank(rank);
  return message;
}
pb::FromNode done() {
  pb::FromNode message;
  message.mutable_done();
  return message;
}

pb::FromNode agent(pb::Agent::State state, int seconds) {
  pb::FromNode message;
  message.mutable_agent()->set_state(state);
  message.mutable_agent()->set_seconds(seconds);
  return message;
}

class MembershipTest : public ::testing::Test {
 protected:
  Outbox say(Membership::NodeId node, const pb::FromNode& message) {
    return membership_.on_message(node, message, now_);
  }
  // Passes the time in steps, as the service does, and returns what was said other than heartbeats.
  Outbox pass(std::chrono::milliseconds span, const std::vector<Membership::NodeId>& alive = {}) {
    Outbox all;
    for (std::chrono::milliseconds passed = 0ms; passed < span; passed += 250ms) {
      now_ += 250ms;
      pb::FromNode heartbeat;
      heartbeat.mutable_heartbeat();
      for (const Membership::NodeId id : alive) membership_.on_message(id, heartbeat, now_);
      for (Membership::Outgoing& outgoing : membership_.on_time(now_)) {
        if (!outgoing.message.has_heartbeat()) all.push_back(std::move(outgoing));
      }
    }
    return all;
  }
  std::string refusal(const Outbox& out) {
    if (out.size() != 1 || !out[0].message.has_refused()) return "not refused";
    EXPECT_TRUE(out[0].last);
    return out[0].message.refused().reason();
  }
  void start_two() {
    say(1, join("a", 2, 0));
    ASSERT_EQ(say(2, join("b", 2, 1)).size(), 2U);
  }

  static inline std::chrono::nanoseconds suspended_{0};
  static std::chrono::nanoseconds suspended() noexcept { return suspended_; }

  Membership membership_{{.suspended = &suspended}};
  Membership::Time now_ = Deadline::Clock::now();
};

TEST_F(MembershipTest, ClosesAGenerationWhenAllNodesAreThere) {
  EXPECT_TRUE(say(1, join("b", 2, 1, 3)).empty());
  const Outbox out = say(2, join("a", 2, 0, 2));
  ASSERT_EQ(out.size(), 2U);
  const pb::Generation& first = out[0].message.generation();
  EXPECT_EQ(out[0].to, 2U);
  EXPECT_EQ(first.number(), 0);
  EXPECT_EQ(first.group_rank(), 0);
  EXPECT_EQ(first.first_rank(), 0);
  EXPECT_EQ(first.group_world_size(), 2);
  EXPECT_EQ(first.world_size(), 5);
  EXPECT_EQ(first.master_addr(), "10.0.0.97");
  EXPECT_EQ(first.master_port(), 20097);
  const pb::Generation& second = out[1].message.generation();
  EXPECT_EQ(out[1].to, 1U);
  EXPECT_EQ(second.group_rank(), 1);
  EXPECT_EQ(second.first_rank(), 2);
  ASSERT_EQ(second.members_size(), 2);
  EXPECT_EQ(second.members(1).node_id(), "b");
  EXPECT_EQ(second.members(1).first_rank(), 2);
  EXPECT_EQ(second.members(1).slots(), 3);
}

TEST_F(MembershipTest, NumbersRanksRoundRobinOverTheNodesIfTheyAgree) {
  pb::FromNode first = join("a", 2, 0, 2);
  pb::FromNode second = join("b", 2, 1, 3);
  first.mutable_join()->set_rank_by(pb::Join::NODE);
  EXPECT_TRUE(say(1, first).empty());
  EXPECT_EQ(refusal(say(2, second)),
            "this node was started with --rank-by slot, the job has --rank-by node");
  second.mutable_join()->set_rank_by(pb::Join::NODE);
  const Outbox out = say(3, second);
  ASSERT_EQ(out.size(), 2U);
  const pb::Generation& generation = out[1].message.generation();
  EXPECT_EQ(generation.rank_by(), pb::Join::NODE);
  EXPECT_EQ(generation.world_size(), 5);
  EXPECT_EQ(generation.first_rank(), 1);
  // Node b has the ranks 1, 3 and 4.
  const Outbox end = say(3, failed(4, 7));
  ASSERT_EQ(end.size(), 2U);
  for (const Membership::Outgoing& told : end) {
    EXPECT_EQ(told.message.failed().group_rank(), 1);
    EXPECT_EQ(told.message.failed().local_rank(), 2);
    EXPECT_EQ(told.message.failed().rank(), 4);
  }
}

TEST_F(MembershipTest, WhatOneNodeNeedsOfAnMpiCountsForAll) {
  pb::FromNode first = join("a", 2, 0, 2);
  EXPECT_TRUE(say(1, first).empty());
  pb::FromNode second = join("b", 2, 1, 3);
  second.mutable_join()->set_mpi(pb::Join::PMIX);
  const Outbox out = say(2, second);
  ASSERT_EQ(out.size(), 2U);
  for (const Membership::Outgoing& told : out) {
    EXPECT_EQ(told.message.generation().mpi(), pb::Join::PMIX);
  }
}

TEST_F(MembershipTest, NodesWithOtherRanksOrAnotherMpiAreRefused) {
  pb::FromNode first = join("a", 2, 0, 2);
  first.mutable_join()->set_mpi(pb::Join::PMIX);
  first.mutable_join()->set_np(4);
  EXPECT_TRUE(say(1, first).empty());
  pb::FromNode second = join("b", 2, 1, 2);
  EXPECT_EQ(refusal(say(2, second)), "this node was started without -n, the job with -n 4");
  second.mutable_join()->set_np(4);
  second.mutable_join()->set_mpi(pb::Join::NONE);
  EXPECT_EQ(refusal(say(3, second)),
            "this node was started with --mpi none, the job has ranks of Open MPI");
}

TEST_F(MembershipTest, SaysWhoIsMissingInOneLine) {
  pb::FromNode question;
  question.mutable_who_is_missing();
  EXPECT_TRUE(say(1, question).empty()) << "it has not joined";
  say(1, join("a", 100, 0));
  const Outbox out = say(1, question);
  ASSERT_EQ(out.size(), 1U);
  EXPECT_EQ(out[0].to, 1U);
  const pb::Waiting& waiting = out[0].message.waiting();
  ASSERT_EQ(waiting.missing_size(), 17);
  EXPECT_EQ(waiting.missing(15), "node rank 16");
  EXPECT_EQ(waiting.missing(16), "83 more");
}

TEST_F(MembershipTest, NodesWithoutAWishFillTheFreeRanksInTheirOrder) {
  say(1, join("x", 3));
  say(2, join("y", 3, 0));
  const Outbox out = say(3, join("z", 3));
  const pb::Generation& generation = out.at(0).message.generation();
  EXPECT_EQ(generation.members(0).node_id(), "y");
  EXPECT_EQ(generation.members(1).node_id(), "x");
  EXPECT_EQ(generation.members(2).node_id(), "z");
}

TEST_F(MembershipTest, RefusesWhatDoesNotFitWithASentence) {
  say(1, join("a", 3, 1));
  EXPECT_EQ(refusal(say(2, join("b", 2))), "this node was started for 2 nodes, the job has 3");
  EXPECT_EQ(refusal(say(3, join("b", 3, 1))), "node rank 1 is taken by host host-a (pid 4711)");
  EXPECT_EQ(refusal(say(4, join("b", 3, 3))),
            "there is no node rank 3 in a job of 3 nodes (0 to 2)");
  EXPECT_THAT(refusal(say(5, join("a", 3))), HasSubstr("node id 'a' is in use by host host-a"));
  EXPECT_THAT(refusal(say(6, join("c", 3, -1, 0))), HasSubstr("at least one slot"));
  say(7, join("b", 3));
  ASSERT_EQ(say(8, join("c", 3)).size(), 3U);
  EXPECT_EQ(refusal(say(9, join("d", 3))),
            "generation 0 is complete, its 3 nodes are on: host-b, host-a, host-c");
}

TEST_F(MembershipTest, AnotherProgramIsAnotherJob) {
  say(1, join_with("a", 2, 0, "train", "/opt/a/train --epochs 3"));
  const std::string reason = refusal(say(2, join_with("b", 2, 1, "other", "./other -x")));
  EXPECT_THAT(reason, HasSubstr("host host-b (pid 4711) runs other (`./other -x`)"));
  EXPECT_THAT(reason,
              HasSubstr("this endpoint runs train (`/opt/a/train --epochs 3`, host host-a"));
  // The job goes on with the right one.
  const Outbox out = say(3, join_with("c", 2, 1, "train", "/opt/a/train --epochs 3"));
  EXPECT_EQ(out.size(), 2U);
}

TEST_F(MembershipTest, AStrangerDoesNotKeepTheEndpointsOwnerOut) {
  say(1, join_with("x", 3, 1, "other", "./other"));
  say(2, join_with("y", 2, 1, "train", "./train"));
  const Outbox out = say(3, join_with("a", 2, 0, "train", "./train"));
  ASSERT_EQ(out.size(), 1U);
  EXPECT_EQ(out[0].to, 1U);
  EXPECT_TRUE(out[0].last);
  EXPECT_EQ(out[0].message.refused().reason(), "this node was started for 3 nodes, the job has 2");
  EXPECT_EQ(say(4, join_with("y", 2, 1, "train", "./train")).size(), 2U);
}

TEST_F(MembershipTest, OtherArgumentsAreAWarningToBothThatQuotesBoth) {
  say(1, join_with("a", 4, 0, "train", "train --data /a"));
  say(2, join_with("b", 4, 1, "train", "train --data /b"));
  say(3, join_with("c", 4, 2, "train", "train --data /a"));
  const Outbox out = say(4, join_with("d", 4, 3, "train", "train --data /d"));
  ASSERT_EQ(out.size(), 7U);
  const std::string expected =
      "the nodes run different lines: node rank 0 (host host-a, pid 4711) `train --data /a`, node "
      "rank 1 (host host-b, pid 4711) `train --data /b`";
  EXPECT_EQ(out[4].to, 2U);
  EXPECT_EQ(out[4].message.notice().text(), expected);
  EXPECT_EQ(out[5].to, 4U);
  EXPECT_EQ(out[6].to, 1U);
  EXPECT_EQ(out[6].message.notice().text(), expected + "; and 1 more nodes");
}

TEST_F(MembershipTest, WithANameTheNumberOfNodesAlone) {
  say(1, join_with("a", 2, 0, "train", "train", true));
  EXPECT_EQ(refusal(say(2, join_with("b", 3, 1, "train", "train", true))),
            "this node was started for 3 nodes, the job has 2");
  const Outbox out = say(3, join_with("b", 2, 1, "helper", "helper", true));
  ASSERT_EQ(out.size(), 2U);
  EXPECT_TRUE(out[1].message.has_generation());
}

TEST_F(MembershipTest, SaysAfterFiveSecondsWhoIsMissing) {
  say(1, join("a", 3, 1));
  EXPECT_TRUE(pass(4750ms, {1}).empty());
  const Outbox out = pass(250ms, {1});
  ASSERT_EQ(out.size(), 1U);
  EXPECT_EQ(out[0].message.waiting().what(), "nodes");
  EXPECT_EQ(out[0].message.waiting().seconds(), 5);
  EXPECT_THAT(out[0].message.waiting().missing(), ElementsAre("node rank 0", "node rank 2"));
  say(2, join("b", 3));
  const Outbox later = pass(5s, {1, 2});
  ASSERT_EQ(later.size(), 2U);
  EXPECT_THAT(later[0].message.waiting().missing(), ElementsAre("1 more node"));
}

TEST_F(MembershipTest, BarrierEndsWithTheLastAndNamesWhoIsMissing) {
  start_two();
  EXPECT_TRUE(say(1, barrier("start")).empty());
  const Outbox waiting = pass(5s, {1, 2});
  ASSERT_EQ(waiting.size(), 1U);
  EXPECT_EQ(waiting[0].to, 1U);
  EXPECT_EQ(waiting[0].message.waiting().what(), "barrier start");
  EXPECT_THAT(waiting[0].message.waiting().missing(),
              ElementsAre("node rank 1 (host host-b, pid 4711)"));
  const Outbox out = say(2, barrier("start"));
  ASSERT_EQ(out.size(), 2U);
  EXPECT_EQ(out[0].message.barrier_done().name(), "start");
}

TEST_F(MembershipTest, OnlyTheFirstFailureIsSentToAll) {
  start_two();
  const Outbox out = say(2, failed(3, 7));
  ASSERT_EQ(out.size(), 2U);
  for (const Membership::Outgoing& outgoing : out) {
    EXPECT_EQ(outgoing.message.failed().rank(), 3);
    EXPECT_EQ(outgoing.message.failed().exit_code(), 7);
    EXPECT_EQ(outgoing.message.failed().group_rank(), 1);
    EXPECT_EQ(outgoing.message.failed().host(), "host-b");
    EXPECT_FALSE(outgoing.message.failed().node_lost());
  }
  EXPECT_TRUE(say(1, failed(0, 1)).empty());
  EXPECT_TRUE(say(2, failed(2, 1)).empty());
  EXPECT_TRUE(membership_.on_lost(2, now_).empty());
}

TEST_F(MembershipTest, AFollowerWaitsForTheEndOfTheRankItBlames) {
  start_two();
  const Outbox question = say(2, follows(2, 1));
  ASSERT_EQ(question.size(), 1U);
  EXPECT_EQ(question[0].to, 1U) << "rank 1 is on the first node";
  EXPECT_EQ(question[0].message.look().rank(), 1);
  EXPECT_TRUE(pass(4s, {1, 2}).empty());
  const Outbox out = say(1, failed(1, 7));
  ASSERT_EQ(out.size(), 2U);
  EXPECT_EQ(out[0].message.failed().rank(), 1);
  EXPECT_EQ(out[0].message.failed().group_rank(), 0);
  EXPECT_EQ(out[0].message.failed().exit_code(), 7);
}

TEST_F(MembershipTest, AFollowerIsTheCauseIfTheRankItBlamesGoesOn) {
  start_two();
  ASSERT_EQ(say(2, follows(2, 1)).size(), 1U);
  const Outbox out = say(1, goes_on(1));
  ASSERT_EQ(out.size(), 2U);
  EXPECT_EQ(out[0].message.failed().rank(), 2);
  EXPECT_THAT(out[0].message.failed().detail(), HasSubstr("failed because of rank 1"));
}

TEST_F(MembershipTest, ASilentNodeDoesNotBlockTheOthersForEver) {
  start_two();
  ASSERT_EQ(say(2, follows(2, 1)).size(), 1U);
  const Outbox out = pass(26s, {1, 2});
  ASSERT_EQ(out.size(), 2U);
  EXPECT_EQ(out[0].message.failed().rank(), 2);
}

TEST_F(MembershipTest, AnEarlyEndIsACauseIfAnotherRankNeedsIt) {
  start_two();
  EXPECT_TRUE(say(1, finished(1)).empty());
  EXPECT_EQ(say(2, follows(2, 1, "left")).size(), 2U) << "all nodes are asked";
  EXPECT_TRUE(say(1, follows(0, 1, "left")).empty());
  EXPECT_TRUE(say(1, goes_on(-1)).empty());
  const Outbox out = say(2, goes_on(-1));
  ASSERT_EQ(out.size(), 2U);
  EXPECT_EQ(out[0].message.failed().text(),
            "rank 1 ended with exit code 0 while ranks 0 and 2 were waiting for it in barrier #12");
  EXPECT_EQ(out[0].message.failed().exit_code(), 1);
}

TEST_F(MembershipTest, LostNodeIsAFailureForTheOthers) {
  start_two();
  const Outbox out = membership_.on_lost(2, now_);
  ASSERT_EQ(out.size(), 1U);
  EXPECT_EQ(out[0].to, 1U);
  EXPECT_TRUE(out[0].message.failed().node_lost());
  EXPECT_EQ(
      out[0].message.failed().text(),
      "lost the connection to node rank 1 (host host-b, pid 4711): it was closed or reset; its "
      "dlrun-rendezvous has ended, or something between them ends connections");
}

TEST_F(MembershipTest, SilentNodeIsLostAfterTenSeconds) {
  start_two();
  EXPECT_TRUE(pass(4750ms, {1}).empty());
  const Outbox named = pass(250ms, {1});
  ASSERT_EQ(named.size(), 1U);
  EXPECT_EQ(named[0].to, 1U);
  EXPECT_EQ(named[0].message.notice().text(),
            "node rank 1 (host host-b, pid 4711): nothing has come from it for 5 s; after 10 s it "
            "counts as lost");
  EXPECT_TRUE(pass(4750ms, {1}).empty());
  const Outbox out = pass(250ms, {1});
  ASSERT_EQ(out.size(), 2U);
  EXPECT_EQ(out[0].to, 1U);
  EXPECT_THAT(out[0].message.failed().text(),
              HasSubstr("hosts host-a (node 0) and host-b (node 1) lost each other: no heartbeat "
                        "for 10 s"));
  EXPECT_EQ(out[1].to, 2U);
  EXPECT_TRUE(out[1].last);
  EXPECT_TRUE(out[1].message.has_error());
}

TEST_F(MembershipTest, AServiceThatStoodStillDoesNotBlameOthersForIt) {
  start_two();
  pass(2s, {1, 2});
  now_ += 12s;
  const Outbox out = membership_.on_time(now_);
  std::vector<Membership::NodeId> told;
  for (const Membership::Outgoing& outgoing : out) {
    ASSERT_FALSE(outgoing.message.has_failed()) << outgoing.message.failed().text();
    if (!outgoing.message.has_notice()) continue;
    told.push_back(outgoing.to);
    EXPECT_EQ(outgoing.message.notice().text(),
              "the rendezvous stood still for 12 s (stopped, or its machine was paused), and goes "
              "on");
  }
  EXPECT_THAT(told, ElementsAre(1U, 2U));
  // No node that continues is lost; one that is silent by this service's own time is.
  const Outbox named = pass(8s, {1});
  ASSERT_EQ(named.size(), 1U);
  EXPECT_TRUE(named[0].message.has_notice());
  const Outbox later = pass(3s, {1});
  ASSERT_EQ(later.size(), 2U);
  EXPECT_THAT(later[0].message.failed().text(),
              HasSubstr("host-b (node 1) lost each other: no heartbeat for 10 s"));
}

TEST_F(MembershipTest, AStoppedServiceCallsNoNodeLost) {
  start_two();
  pass(2s, {1, 2});
  now_ += 12s;
  const Outbox out = membership_.on_lost(2, now_);
  ASSERT_EQ(out.size(), 3U);
  EXPECT_EQ(out[2].message.failed().text(),
            "the rendezvous stood still for 12 s, and node rank 1 (host host-b, pid 4711) gave it "
            "up");
}

TEST_F(MembershipTest, ASuspendedMachineCountsAsStopped) {
  start_two();
  pass(2s, {1, 2});
  suspended_ += 30s;
  const Outbox out = pass(250ms);
  ASSERT_EQ(out.size(), 2U);
  EXPECT_THAT(out[0].message.notice().text(), HasSubstr("stood still for 30 s"));
  EXPECT_THAT(membership_.on_lost(2, now_).at(0).message.failed().text(),
              HasSubstr("the rendezvous stood still for 30 s"));
}

TEST_F(MembershipTest, AStoppedDlrunIsNamedAndStaysAMember) {
  start_two();
  struct Case {
    pb::Agent::State state;
    const char* said;
  };
  for (const Case& news :
       {Case{pb::Agent::STOPPED, "has been stopped for 5 s"},
        Case{pb::Agent::STUCK, "has not run its event loop for 5 s"},
        Case{pb::Agent::SUSPENDED, "was suspended by its user (Ctrl-Z) 5 s ago"}}) {
    const Outbox out = say(2, agent(news.state, 5));
    ASSERT_EQ(out.size(), 1U);
    EXPECT_EQ(out[0].to, 1U);
    EXPECT_EQ(out[0].message.notice().text(),
              std::string("node rank 1 (host host-b, pid 4711): its dlrun ") + news.said);
  }
  const Outbox on = say(2, agent(pb::Agent::TURNS, 12));
  ASSERT_EQ(on.size(), 2U);
  EXPECT_THAT(on[1].message.notice().text(), HasSubstr("its dlrun goes on after 12 s"));
  // Until its helper says that it is too late.
  pb::FromNode leave;
  leave.mutable_leave()->set_lost(true);
  leave.mutable_leave()->set_reason("its dlrun has been stopped for 600 s");
  leave.mutable_leave()->set_exit_code(124);
  const Outbox end = say(2, leave);
  ASSERT_EQ(end.size(), 1U);
  EXPECT_EQ(end[0].message.failed().exit_code(), 124);
  EXPECT_THAT(end[0].message.failed().text(), HasSubstr("was lost: its dlrun has been stopped"));
}

TEST_F(MembershipTest, NodeLostWhileOthersGatherMayComeAgain) {
  say(1, join("a", 2, 0));
  EXPECT_TRUE(membership_.on_lost(1, now_).empty());
  say(2, join("a", 2, 0));
  EXPECT_EQ(say(3, join("b", 2, 1)).size(), 2U);
}

TEST_F(MembershipTest, LeavingIsAFailureWithItsReason) {
  start_two();
  pb::FromNode leave;
  leave.mutable_leave()->set_reason("interrupted");
  const Outbox out = say(1, leave);
  ASSERT_EQ(out.size(), 2U);
  EXPECT_EQ(out[1].message.failed().text(), "interrupted");
  EXPECT_EQ(out[1].message.failed().group_rank(), 0);
}

TEST_F(MembershipTest, EndsWhenAllAreDone) {
  start_two();
  EXPECT_TRUE(say(2, done()).empty());
  const Outbox waiting = pass(5s, {1, 2});
  ASSERT_EQ(waiting.size(), 1U);
  EXPECT_EQ(waiting[0].message.waiting().what(), "the end");
  const Outbox out = say(1, done());
  ASSERT_EQ(out.size(), 2U);
  EXPECT_TRUE(out[0].message.has_all_done());
  EXPECT_TRUE(out[1].message.has_all_done());
}

TEST_F(MembershipTest, NodeZerosRestartPolicyHoldsForAll) {
  pb::FromNode zero = join("a", 2, 0), one = join("b", 2, 1);
  zero.mutable_join()->set_max_restarts(2);
  one.mutable_join()->set_max_restarts(9);
  for (const int restart : {1, 2, 0}) {
    say(2, one);
    ASSERT_EQ(say(1, zero).size(), 2U) << restart;
    const Outbox out = say(1, failed(0, 7));
    ASSERT_EQ(out.size(), 2U);
    for (const Membership::Outgoing& outgoing : out) {
      EXPECT_EQ(outgoing.message.failed().again(), restart != 0);
      EXPECT_EQ(outgoing.message.failed().restart(), restart);
    }
  }
}

TEST_F(MembershipTest, APreemptionHasOneAnswerAndNoRestart) {
  pb::FromNode zero = join("a", 2, 0);
  zero.mutable_join()->set_max_restarts(3);
  say(1, zero);
  say(2, join("b", 2, 1));
  pb::FromNode preempt, called;
  preempt.mutable_preempt()->set_why("SIGTERM");
  EXPECT_EQ(say(2, preempt).size(), 2U);
  EXPECT_TRUE(say(1, preempt).empty());  // once
  called.mutable_called()->set_calls(7);
  EXPECT_TRUE(say(2, called).empty());
  called.mutable_called()->set_calls(5);
  const Outbox answer = say(1, called);
  ASSERT_EQ(answer.size(), 2U);
  for (const Membership::Outgoing& outgoing : answer) {
    EXPECT_EQ(outgoing.message.checkpoint().call(), 8U);
  }
  const Outbox out = say(1, failed(0, 7));
  ASSERT_EQ(out.size(), 2U);
  EXPECT_FALSE(out[0].message.failed().again());
}

TEST_F(MembershipTest, ALostNodeIsWaitedForAndOneThatLeavesIsNot) {
  for (const bool lost : {true, false}) {
    Membership membership({.suspended = &suspended});
    pb::FromNode zero = join("a", 2, 0);
    zero.mutable_join()->set_max_restarts(1);
    membership.on_message(1, zero, now_);
    ASSERT_EQ(membership.on_message(2, join("b", 2, 1), now_).size(), 2U);
    pb::FromNode leave;
    leave.mutable_leave()->set_reason("stopped by SIGINT");
    const Outbox out = lost ? membership.on_lost(2, now_) : membership.on_message(2, leave, now_);
    ASSERT_GE(out.size(), 1U);
    EXPECT_EQ(out[0].message.failed().again(), lost);
  }
}

TEST_F(MembershipTest, LeavingBetweenTwoGenerationsEndsTheJob) {
  pb::FromNode zero = join("a", 2, 0);
  zero.mutable_join()->set_max_restarts(3);
  say(1, zero);
  say(2, join("b", 2, 1));
  ASSERT_TRUE(say(2, failed(2, 7))[0].message.failed().again());
  say(1, zero);
  pb::FromNode leave;
  leave.mutable_leave()->set_reason("stopped by SIGINT");
  const Outbox out = say(2, leave);
  ASSERT_EQ(out.size(), 1U);
  EXPECT_EQ(out[0].to, 1U);
  EXPECT_EQ(out[0].message.failed().text(), "stopped by SIGINT");
  EXPECT_EQ(out[0].message.failed().group_rank(), 1);
  EXPECT_FALSE(out[0].message.failed().again());
}

pb::FromNode keeping(pb::FromNode join) {
  join.mutable_join()->set_on_failure(pb::Join::KEEP);
  return join;
}
std::vector<std::string> notices(const Outbox& out, Membership::NodeId to) {
  std::vector<std::string> texts;
  for (const Membership::Outgoing& each : out) {
    if (each.to == to && each.message.has_notice()) texts.push_back(each.message.notice().text());
  }
  return texts;
}

TEST_F(MembershipTest, RanksGoOnIfAllNodesWantItAndTheLastOneDecides) {
  for (const bool ends_well : {true, false}) {
    membership_ = Membership({.suspended = &suspended});
    say(1, keeping(join("a", 2, 0)));
    EXPECT_EQ(refusal(say(3, join("b", 2, 1))),
              "this node was started with --on-failure stop, the job has --on-failure keep");
    ASSERT_EQ(say(2, keeping(join("b", 2, 1))).size(), 2U);
    for (const Membership::NodeId node : {1, 2}) {
      EXPECT_THAT(notices(say(2, failed(2 + static_cast<int>(node) - 1, 7)), node),
                  ElementsAre(HasSubstr("go")));
    }
    EXPECT_TRUE(say(2, done()).empty());
    EXPECT_TRUE(say(1, finished(0)).empty());
    const Outbox last = say(1, ends_well ? finished(1) : failed(1, 9));
    const Outbox end = say(1, done());
    if (ends_well) {
      EXPECT_TRUE(last.empty());
      ASSERT_EQ(end.size(), 4U);
      EXPECT_THAT(notices(end, 2), ElementsAre("the job went on without ranks 2-3, which failed; "
                                               "ranks 0-1 ended with exit code 0"));
      EXPECT_TRUE(end[3].message.has_all_done());
    } else {
      ASSERT_EQ(end.size(), 2U);
      EXPECT_EQ(end[0].message.failed().rank(), 1);
      EXPECT_EQ(end[0].message.failed().exit_code(), 9);
    }
  }
}

TEST_F(MembershipTest, TheEndOfAJobThatGoesOnWaitsForAnAnswer) {
  say(1, keeping(join("a", 2, 0)));
  say(2, keeping(join("b", 2, 1)));
  say(2, finished(2));
  say(2, finished(3));
  say(2, done());
  say(1, follows(0, 1));
  const Outbox looks = say(1, follows(1, 2));
  ASSERT_TRUE(std::ranges::any_of(looks, [](const auto& each) { return each.message.has_look(); }));
  EXPECT_TRUE(say(1, done()).empty());
  EXPECT_TRUE(say(1, goes_on(-1)).empty());
  const Outbox end = say(2, goes_on(-1));
  ASSERT_EQ(end.size(), 2U);
  EXPECT_EQ(end[0].message.failed().rank(), 2) << "it ended with 0 while rank 1 needed it";
}

TEST_F(MembershipTest, TheNextGenerationKeepsRanksAndAReplacement) {
  say(1, join("a", 2));
  say(2, join("b", 2));
  say(1, failed(0, 1));
  EXPECT_TRUE(say(2, join("b", 2)).empty());
  const Outbox waiting = pass(5s, {1, 2});
  ASSERT_EQ(waiting.size(), 1U);
  EXPECT_THAT(waiting[0].message.waiting().missing(), ElementsAre("node rank 0 (host host-a)"));
  const Outbox again = say(1, join("a", 2));
  EXPECT_EQ(again.at(0).message.generation().number(), 1);
  EXPECT_EQ(again.at(0).message.generation().members(1).node_id(), "b");

  membership_.on_lost(1, now_);
  say(2, join("b", 2));
  const Outbox replaced = say(3, join("c", 2));
  EXPECT_EQ(replaced.at(0).message.generation().number(), 2);
  EXPECT_EQ(replaced.at(0).message.generation().members(0).node_id(), "c");
  EXPECT_EQ(replaced.at(0).message.generation().members(1).node_id(), "b");
}

}  // namespace
}  // namespace dl::rendezvous
