#include "launcher/nodes/node_link.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <string_view>

namespace dl::launcher {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;

// That the helper has ended may be known before what it wrote has been read.
TEST(NodeLink, ReadsWhatAHelperThatHasEndedSaidLast) {
  boost::asio::io_context io;
  std::string said;
  NodeEvents events;
  events.on_error = [&](const std::string& kind, const std::string& text) {
    said = kind + ": " + text;
  };
  NodeLink link(io, events);
  UniqueFd helper = link.take_stdout();
  constexpr std::string_view kLine =
      R"({"error": {"kind": "authentication", "text": "another key"}})"
      "\n";
  ASSERT_EQ(::write(helper.get(), kLine.data(), kLine.size()), static_cast<ssize_t>(kLine.size()));
  helper.reset();
  link.read_rest();
  EXPECT_EQ(said, "authentication: another key");
}

TEST(NodeLink, ANodeKnowsItsRanksByTheSlotsOfAllNodes) {
  boost::asio::io_context io;
  Meeting met;
  NodeEvents events;
  events.on_generation = [&](Meeting meeting) { met = std::move(meeting); };
  NodeLink link(io, events);
  UniqueFd helper = link.take_stdout();
  const auto ranks_if = [&](const std::string& more) {
    const std::string line =
        R"({"generation": {"number": 0, "group_rank": 1, "world_size": 5, "master_addr": "a", )"
        R"("master_port": 1, "store": "a:1", "members": [{"node_id": "j/0/r", "slots": 2}, )"
        R"({"node_id": "j/1/r", "slots": 3}])" +
        more + "}}\n";
    EXPECT_EQ(::write(helper.get(), line.data(), line.size()), std::ssize(line));
    io.run_one();
    return met.ranks;
  };
  EXPECT_THAT(ranks_if(""), ElementsAre(2, 3, 4));
  EXPECT_THAT(ranks_if(R"(, "rank_by": "SLOT")"), ElementsAre(2, 3, 4));
  EXPECT_THAT(ranks_if(R"(, "rank_by": "NODE")"), ElementsAre(1, 3, 4));
  EXPECT_EQ(met.local_rank_of(3), 1);
}

TEST(NodeLink, SaysThatItTurnsAndThatItsUserStopsIt) {
  boost::asio::io_context io;
  NodeLink link(io, {});
  UniqueFd helper = link.take_stdin();
  NodePlan plan;
  plan.job.started.apps.front().program = {"./train"};
  const auto said = [&] {
    char text[8192];
    const ssize_t n = ::read(helper.get(), text, sizeof text);
    return std::string(text, static_cast<std::size_t>(std::max<ssize_t>(n, 0)));
  };
  link.join(plan, plan.node_rank, 1);
  constexpr const char* kTurns = "{\"agent\":{\"state\":\"TURNS\"}}\n";
  EXPECT_TRUE(said().ends_with(kTurns));
  io.run_one();  // the next beat
  EXPECT_EQ(said(), kTurns);
  link.suspended();
  EXPECT_EQ(said(), "{\"agent\":{\"state\":\"SUSPENDED\"}}\n");
  link.resumed();
  EXPECT_EQ(said(), kTurns);
}

TEST(NodeLink, AHelperThatAnswersNoMoreIsNoticed) {
  boost::asio::io_context io;
  std::vector<HelperWatch::News> news;
  NodeEvents events;
  events.on_helper = [&](HelperWatch::News what) { news.push_back(what); };
  NodeLink link(io, events);
  UniqueFd in = link.take_stdin();
  UniqueFd helper = link.take_stdout();
  constexpr std::string_view kAnswer = "{\"heartbeat\": {}}\n";
  ASSERT_EQ(::write(helper.get(), kAnswer.data(), kAnswer.size()), std::ssize(kAnswer));
  NodePlan plan;
  plan.job.started.apps.front().program = {"./train"};
  link.join(plan, plan.node_rank, 1);
  while (news.empty()) io.run_one();
  EXPECT_THAT(news, ElementsAre(HelperWatch::News::kSilent));
}

TEST(HelperWatch, NamesSilenceAndThenGivesUp) {
  using News = HelperWatch::News;
  HelperWatch watch(1s);
  HelperWatch::Clock::time_point now{};
  const auto pass = [&](std::chrono::seconds time) {
    News last = News::kNone;
    for (; time > 0s; time -= 1s) last = watch.look(now += 1s);
    return last;
  };
  EXPECT_EQ(pass(600s), News::kNone);  // it connects
  watch.answered(now);
  EXPECT_EQ(pass(4s), News::kNone);
  EXPECT_EQ(pass(1s), News::kSilent);
  EXPECT_EQ(pass(2s), News::kNone);
  watch.answered(now);
  EXPECT_EQ(pass(1s), News::kGoesOn);
  EXPECT_EQ(pass(4s), News::kSilent);
  now += 100s;  // dlrun itself was stopped
  EXPECT_EQ(pass(1s), News::kNone);
  EXPECT_EQ(pass(2s), News::kLost);
  EXPECT_EQ(pass(1s), News::kNone);
}

}  // namespace
}  // namespace dl::launcher
