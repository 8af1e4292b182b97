// Which init of a rank meets which init of the others, and two processes that come as one rank.
#include "collectives/init/attendance/attendance.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <optional>
#include <string>
#include <thread>

#include "collectives/join/roster.h"
#include "collectives/process/peer_process.h"
#include "collectives/waiting/group_error.h"
#include "rendezvous/stores/memory_store.h"
#include "tests/collectives/thrown.h"

namespace dl::collectives {
namespace {

using namespace std::chrono_literals;
using testing::Thrown;
using testing::thrown_by;

constexpr auto kName = "world";

class AnAttendance : public ::testing::Test {
 protected:
  std::unique_ptr<Attendance> come(int rank, Deadline deadline = Deadline::never()) {
    return std::make_unique<Attendance>(store_, kName, Identity{.rank = rank, .host = "here"},
                                        deadline);
  }
  // A process on a host of which nothing is known.
  static std::string claim_of_another(int rank, int job_rank) {
    const Identity who{
        .rank = rank, .host = "there", .pid = 7, .node = "there", .job_rank = job_rank};
    return "another run\n" + Record{.who = who}.text();
  }

  rendezvous::MemoryStore store_;
};

TEST_F(AnAttendance, MeetsThoseOfTheSameNumber) {
  for (int i = 1; i <= 3; ++i) {
    const auto first = come(0), second = come(1);
    EXPECT_EQ(first->place(), "init/world/" + std::to_string(i) + "/");
    EXPECT_EQ(second->place(), first->place());
    first->check();
    second->check();
    first->leave();
  }
}

TEST_F(AnAttendance, GoesOnWithTheOneThatTheOthersHaveBegun) {
  const auto waits = come(2);
  for (int i = 0; i < 3; ++i) come(0)->leave();
  const auto first = come(0);
  EXPECT_EQ(come(1)->place(), first->place()) << "it has not tried before";
  EXPECT_THROW(waits->check(), Superseded);
  waits->leave();
  EXPECT_EQ(come(2)->place(), first->place());
  first->check();
}

TEST_F(AnAttendance, StaysIfThereIsNoTimeToJoinTheOthers) {
  const auto waits = come(2, Deadline::after(400ms));
  for (int i = 0; i < 2; ++i) come(0)->leave();
  waits->check();
}

TEST_F(AnAttendance, ThatEndsAnswersAProcessThatHasComeAsTheSameRank) {
  const auto first = come(1);
  store_.set("twin/world/1", claim_of_another(1, 2), Deadline::never());
  first->leave();
  EXPECT_TRUE(store_.try_get("verdict/another run", Deadline::never()));
}

TEST_F(AnAttendance, OfOneRankTwiceIsToldToAllRanks) {
  const auto first = come(1);
  const auto other = come(0);
  store_.set("twin/world/1", claim_of_another(1, 2), Deadline::never());
  const std::string text =
      "init of group 'world': rank 1 (here, pid 0) and rank 2 (1 in the group, there, pid 7) have "
      "both come as rank 1; give each process a number of its own";
  for (const auto& each : {first.get(), other.get()}) {
    try {
      each->check();
      ADD_FAILURE() << "nothing was thrown";
    } catch (const GroupError& error) {
      EXPECT_EQ(error.what(), text);
      EXPECT_EQ(error.kind(), ErrorKind::kMismatch);
      EXPECT_EQ(error.cause().rank, 2);
      EXPECT_EQ(error.cause().found_by, 1);
    }
  }
  EXPECT_TRUE(store_.try_get("verdict/another run", Deadline::never()));
}

TEST_F(AnAttendance, AsARankThatWaitsAlreadyIsRefused) {
  store_.set("in_init/world/1", claim_of_another(1, -1), Deadline::never());
  const Thrown late = thrown_by([&] { come(1, Deadline::after({})); });
  EXPECT_EQ(late.kind, ErrorKind::kMismatch) << late.text;
  const std::string told =
      "rank 1 (there, pid 7) and rank 1 (here, pid 0) have both come as rank 1";
  EXPECT_NE(late.text.find(told), std::string::npos) << late.text;
  store_.set("verdict/" + this_run(),
             rendezvous::encode({.kind = ErrorKind::kMismatch, .text = "it is taken"}, 1000),
             Deadline::never());
  EXPECT_EQ(thrown_by([&] { come(1); }).text, "it is taken");
  // The other process has left the init.
  store_.set("in_init/world/1", "", Deadline::never());
  EXPECT_EQ(come(1)->place(), "init/world/1/");
}

TEST_F(AnAttendance, InAStoreThatOutlivesItIsOfOneProcessARank) {
  const auto enter = [&](Deadline deadline) {
    return Attendance::enter_once(store_, kName, {.rank = 1, .host = "here"}, deadline);
  };
  EXPECT_TRUE(enter(Deadline::never()));
  EXPECT_TRUE(enter(Deadline::never())) << "the same process, once more";
  store_.set("here/1", claim_of_another(1, -1), Deadline::never());
  EXPECT_FALSE(enter(Deadline::after(10ms))) << "another one, which is not in the init";
  Identity ended{.rank = 1, .pid = ::getpid()};
  ended.process = process_mark() + "0";
  store_.set("here/1", "another run\n" + Record{.who = ended}.text(), Deadline::never());
  EXPECT_FALSE(enter(Deadline::never()));
}

TEST_F(AnAttendance, RefusesOneThatComesBeforeTheFirstHasClaimed) {
  store_.set("here/1", claim_of_another(1, -1), Deadline::never());
  store_.set("verdict/" + this_run(),
             rendezvous::encode({.kind = ErrorKind::kMismatch, .text = "it is taken"}, 1000),
             Deadline::never());
  std::optional<Thrown> thrown;
  std::thread late([&] {
    thrown = thrown_by([&] {
      Attendance::enter_once(store_, kName, {.rank = 1, .host = "here"}, Deadline::never());
    });
  });
  store_.set("in_init/world/1", claim_of_another(1, -1), Deadline::never());
  late.join();
  EXPECT_EQ(thrown->text, "it is taken");
}

}  // namespace
}  // namespace dl::collectives
