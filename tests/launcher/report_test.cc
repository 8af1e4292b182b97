#include "launcher/verdict/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <optional>
#include <string>
#include <vector>

namespace dl::launcher {
namespace {

using rendezvous::Blame;
using testing::HasSubstr;

// What rank 1 says that its group broke of, while rank 0 is the cause of the job's end.
struct Broke {
  Blame blame;
  int rank;
  const char* call = "";
};

struct Fate {
  const char* name;
  int status;
  int ended_by;
  bool stopped;
  std::optional<Broke> broke;
  const char* text;
};

constexpr int exit_code(int code) {
  return code << 8;
}

// clang-format off
const Fate kFates[] = {
    {"dlrun's signal", SIGTERM, SIGTERM, true, std::nullopt, "ended by dlrun with SIGTERM"},
    {"its own SIGSEGV", SIGSEGV, 0, true, std::nullopt, "was killed by signal 11 (SIGSEGV)"},
    {"SIGSEGV in a broken group", SIGSEGV, 0, true, Broke{Blame::kGone, 0}, "was killed by signal 11 (SIGSEGV)"},
    {"SIGKILL of another", SIGKILL, 0, true, std::nullopt, "was killed by signal 9 (SIGKILL)"},
    {"its own exit", exit_code(1), 0, true, std::nullopt, "ended with exit code 1"},
    {"good end", 0, 0, true, Broke{Blame::kGone, 0}, "ended with exit code 0"},
    {"victim", exit_code(1), 0, false, Broke{Blame::kGone, 0}, "failed because of rank 0 in barrier #2"},
    {"victim after the stop", exit_code(1), 0, true, Broke{Blame::kGone, 0}, "failed because of rank 0 in barrier #2"},
    {"uncaught error", SIGABRT, 0, true, Broke{Blame::kGone, 0}, "failed because of rank 0 in barrier #2"},
    {"victim of none that is known", exit_code(1), 0, true, Broke{Blame::kMissing, -1}, "failed because of a peer in barrier #2"},
    {"heard of it, and was ended", SIGTERM, SIGTERM, true, Broke{Blame::kGone, 0}, "ended by dlrun with SIGTERM"},
    {"heard of it, and its handler exits", exit_code(143), 0, true, Broke{Blame::kGone, 0}, "ended with exit code 143"},
    {"late, and was ended", SIGTERM, SIGTERM, true, Broke{Blame::kMissing, 1}, "had not done its part in barrier #2, ended by dlrun with SIGTERM"},
    {"late, and failed by itself", exit_code(1), 0, true, Broke{Blame::kMissing, 1}, "had not done its part in barrier #2, ended with exit code 1"},
    {"mismatch with another pair", exit_code(1), 0, true, Broke{Blame::kMismatch, 2, "all_reduce #2"}, "failed because of a mismatch, having called all_reduce #2"},
    {"lost a connection", exit_code(1), 0, true, Broke{Blame::kLink, 0}, "failed because of a lost connection to rank 0 in barrier #2"},
    {"heard of a mismatch", SIGTERM, SIGTERM, true, Broke{Blame::kMismatch, 2}, "ended by dlrun with SIGTERM"},
};
// clang-format on

RankFacts facts_of(int rank, const Fate& fate) {
  RankFacts facts;
  facts.rank = rank;
  facts.started = facts.ended = true;
  facts.ended_by = fate.ended_by;
  facts.end = {.rank = rank, .pid = 7, .status = fate.status, .stopped = fate.stopped};
  if (fate.broke) {
    rendezvous::PeerFailure& failure = facts.end.follows.emplace();
    failure.cause = {.blame = fate.broke->blame, .rank = fate.broke->rank, .found_by = 0};
    failure.cause.operation = "barrier #2";
    failure.call = fate.broke->call;
  }
  return facts;
}

TEST(FateOfOthers, IsHowARankEndedAndWhoseSignalItWas) {
  for (const Fate& fate : kFates) {
    SCOPED_TRACE(fate.name);
    EXPECT_EQ(fate_of_others(0, {facts_of(1, fate)}), std::string("rank 1: ") + fate.text);
  }
}

TEST(FateOfOthers, NamesRanksOfOneFateTogetherAndLeavesOutTheCause) {
  const Fate ended{"", SIGTERM, SIGTERM, true, std::nullopt, ""};
  const Fate failed{"", SIGSEGV, 0, true, std::nullopt, ""};
  RankFacts never;
  never.rank = 5;
  EXPECT_EQ(
      fate_of_others(2, {facts_of(0, ended), facts_of(1, ended), facts_of(2, failed),
                         facts_of(3, failed), facts_of(4, ended), never}),
      "ranks 0-1 and 4: ended by dlrun with SIGTERM; rank 5: not started; rank 3: was killed by "
      "signal 11 (SIGSEGV)");
  EXPECT_EQ(fate_of_others(0, {facts_of(0, failed)}), "");
}

TEST(LastWords, AreOfTheRankByNameBelowALineAboutSeveral) {
  RankFacts rank;
  rank.rank = 3;
  rank.end.status = exit_code(1);
  EXPECT_EQ(last_words(rank), std::vector<std::string>{"  it wrote nothing"});
  EXPECT_EQ(last_words(rank, /*by_name=*/true), std::vector<std::string>{"  rank 3 wrote nothing"});
  rank.stderr_tail = "an error\n";
  EXPECT_EQ(last_words(rank),
            (std::vector<std::string>{"  its last lines on stderr:", "    | an error"}));
  EXPECT_EQ(last_words(rank, /*by_name=*/true),
            (std::vector<std::string>{"  rank 3's last lines on stderr:", "    | an error"}));
}

TEST(LastWords, SayWhoSentTheSignal) {
  const auto first_of = [](int signal, int ended_by, bool stopped) {
    RankFacts rank;
    rank.end.status = signal;
    rank.end.stopped = stopped;
    rank.ended_by = ended_by;
    return last_words(rank).front();
  };
  EXPECT_THAT(first_of(SIGKILL, 0, false), HasSubstr("dlrun did not send this signal"));
  EXPECT_THAT(first_of(SIGUSR2, SIGUSR2, false), HasSubstr("dlrun passed this signal on"));
  // A rank that others blame, and that dlrun has then ended.
  EXPECT_EQ(first_of(SIGKILL, SIGKILL, true), "  it wrote nothing");
  EXPECT_EQ(first_of(SIGTERM, SIGTERM, true), "  it wrote nothing");
}

TEST(OutOfMemory, IsTheCauseOfASigkillIfTheKernelHasCountedIt) {
  const auto rank_of = [](int status, int ended_by, std::optional<std::uint64_t> kills) {
    RankFacts rank;
    rank.rank = 1;
    rank.pid = 7;
    rank.ran = std::chrono::milliseconds(1500);
    rank.end.status = status;
    rank.ended_by = ended_by;
    rank.end.stopped = ended_by != 0;
    rank.memory_kills = kills;
    return rank;
  };
  const Place place{"box", 0};
  const RankFacts killed = rank_of(SIGKILL, 0, 1);
  EXPECT_EQ(
      describe_end(killed, place),
      "rank 1 (node 0, host box, pid 7) was killed by signal 9 (SIGKILL), probably out of memory, "
      "after 1.50 s");
  EXPECT_THAT(last_words(killed).front(), HasSubstr("the kernel probably did, as memory ran out"));
  // Another process than the rank, for instance a worker of its loader.
  const RankFacts failed = rank_of(exit_code(1), 0, 2);
  EXPECT_THAT(describe_end(failed, place), HasSubstr("ended with exit code 1 after 1.50 s"));
  EXPECT_EQ(last_words(failed).front(),
            "  meanwhile memory ran out, and the kernel killed 2 processes of the control group");
  // A SIGKILL from outside, and dlrun's own.
  const RankFacts by_hand = rank_of(SIGKILL, 0, 0);
  EXPECT_THAT(describe_end(by_hand, place), HasSubstr("(SIGKILL) after 1.50 s"));
  EXPECT_EQ(last_words(by_hand).front(),
            "  dlrun did not send this signal, nor did the kernel for want of memory");
  EXPECT_THAT(describe_end(rank_of(SIGKILL, SIGKILL, 1), place), HasSubstr("(SIGKILL) after"));
  EXPECT_EQ(last_words(rank_of(exit_code(1), 0, 0)).front(), "  it wrote nothing");
}

}  // namespace
}  // namespace dl::launcher
