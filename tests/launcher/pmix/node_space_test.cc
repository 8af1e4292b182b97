// What the ranks of several nodes exchange, with the notes in one list in place of a store.
#include "launcher/pmi/pmix/nodes/node_space.h"

#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <optional>

namespace dl::pmix {
namespace {

constexpr std::int32_t kGone = -46;

// The nodes of a job. Every node reads every note, in the order in which they were written.
class Nodes {
 public:
  explicit Nodes(std::vector<Node> nodes) {
    for (std::uint32_t i = 0; i < nodes.size(); ++i) {
      spaces_.push_back(std::make_unique<NodeSpace>(
          i, static_cast<std::uint32_t>(nodes.size()), kGone,
          NodeSpace::Events{
              .write = [this](const Note& note) { log_.push_back(note); },
              .on_nodes = [this](const std::vector<Node>& all) { known_.push_back(all); },
              .on_connected = [this, i](std::uint32_t rank) { says(i, "connected", rank); },
              .on_ended = [this, i](std::uint32_t rank) { says(i, "ended", rank); },
              .on_asked =
                  [this](std::uint32_t rank, const NodeSpace::Answer& answer) {
                    asked_.emplace_back(rank, answer);
                  }}));
    }
    for (std::size_t i = 0; i < nodes.size(); ++i) spaces_[i]->enter(nodes[i]);
    read();
  }
  NodeSpace& operator[](std::size_t node) { return *spaces_[node]; }
  void read() {
    while (!log_.empty()) {
      const Note note = log_.front();
      log_.pop_front();
      for (const auto& space : spaces_) space->take(note);
    }
  }

  const std::vector<std::vector<Node>>& known() const { return known_; }
  std::vector<std::pair<std::uint32_t, NodeSpace::Answer>>& asked() { return asked_; }
  std::string said() { return std::exchange(said_, ""); }

 private:
  void says(std::uint32_t node, const char* what, std::uint32_t rank) {
    said_ += std::to_string(node) + ": " + what + " " + std::to_string(rank) + ";";
  }

  std::vector<std::unique_ptr<NodeSpace>> spaces_;
  std::deque<Note> log_;
  std::vector<std::vector<Node>> known_;
  std::vector<std::pair<std::uint32_t, NodeSpace::Answer>> asked_;
  std::string said_;
};

std::vector<Node> two() {
  return {{"a", {0, 1}}, {"b", {2}}};
}

// What one node has gathered: "BYTES/NUMBER"; nullopt: nothing yet.
struct Result {
  std::optional<std::string> text;
};

std::function<void(const NodeSpace::Gathered&)> into(Result& result) {
  return [&result](const NodeSpace::Gathered& gathered) {
    EXPECT_FALSE(result.text.has_value());
    result.text = gathered.bytes + "/" + std::to_string(gathered.number);
  };
}

TEST(NodeSpace, NodesOfOneHostHaveTheirOwnNames) {
  Nodes nodes({{"a", {0}}, {"b", {1}}, {"a", {2}}});
  ASSERT_EQ(nodes.known().size(), 3U);
  for (const std::vector<Node>& known : nodes.known()) {
    ASSERT_EQ(known.size(), 3U);
    EXPECT_EQ(known[0].host, "a-node0");
    EXPECT_EQ(known[1].host, "b");
    EXPECT_EQ(known[2].host, "a-node2");
    EXPECT_EQ(known[2].ranks, std::vector<std::uint32_t>{2});
  }
}

TEST(NodeSpace, AGatheringEndsWithItsLastNode) {
  Nodes nodes(two());
  Result first, second, third;
  nodes[1].gather({.name = "fence", .bytes = "y"}, into(first));
  nodes.read();
  EXPECT_EQ(first.text, std::nullopt);
  nodes[0].gather({.name = "fence", .bytes = "x"}, into(second));
  // The next of this name does not mix with the first.
  nodes[0].gather({.name = "fence", .bytes = "z"}, into(third));
  nodes.read();
  EXPECT_EQ(first.text, "xy/0");
  EXPECT_EQ(second.text, "xy/0");
  EXPECT_EQ(third.text, std::nullopt);
}

TEST(NodeSpace, OnlyTheNodesOfTheRanksTakePart) {
  Nodes nodes({{"a", {0, 1}}, {"b", {2}}, {"c", {3}}});
  Result first, second;
  nodes[0].gather({.name = "fence 1,3", .ranks = {1, 3}, .bytes = "x"}, into(first));
  nodes[2].gather({.name = "fence 1,3", .ranks = {1, 3}, .bytes = "y"}, into(second));
  nodes.read();
  EXPECT_EQ(first.text, "xy/0");
  EXPECT_EQ(second.text, "xy/0");
}

TEST(NodeSpace, NumbersAreTheSameOnAllNodes) {
  Nodes nodes({{"a", {0}}, {"b", {1}}, {"c", {2}}});
  Result of_a, of_b, of_c, all[3];
  // Node 2 takes no part in the first.
  nodes[0].gather({.name = "g", .ranks = {0, 1}, .wants_number = true}, into(of_a));
  nodes[1].gather({.name = "g", .ranks = {0, 1}, .wants_number = true}, into(of_b));
  for (std::size_t i = 0; i < 3; ++i) {
    nodes[i].gather({.name = "h", .wants_number = true}, into(all[i]));
  }
  nodes.read();
  EXPECT_EQ(of_a.text, "/1");
  EXPECT_EQ(of_b.text, "/1");
  for (const Result& one : all) EXPECT_EQ(one.text, "/2");
}

TEST(NodeSpace, ANodeWhoseRanksHaveEndedIsNotWaitedFor) {
  Nodes nodes(two());
  Result result;
  nodes[1].connected(2);
  nodes[0].gather({.name = "fence", .bytes = "x"}, into(result));
  nodes.read();
  EXPECT_EQ(result.text, std::nullopt);
  nodes[1].ended(2);
  nodes.read();
  EXPECT_EQ(result.text, "x/0");
  EXPECT_EQ(nodes.said(), "0: connected 2;1: connected 2;0: ended 2;");
}

TEST(NodeSpace, ARankThatNeverCameIsWaitedFor) {
  Nodes nodes(two());
  Result result;
  nodes[0].gather({.name = "fence", .bytes = "x"}, into(result));
  nodes[1].ended(2);
  nodes.read();
  EXPECT_EQ(result.text, std::nullopt);
}

TEST(NodeSpace, TheNodeOfARankIsAsked) {
  Nodes nodes(two());
  std::optional<std::string> answer;
  const auto ask = [&](std::uint32_t rank) {
    answer.reset();
    nodes[0].ask(rank, [&](std::int32_t status, const std::string& bytes) {
      answer = std::to_string(status) + bytes;
    });
    nodes.read();
  };
  ask(2);
  ASSERT_EQ(nodes.asked().size(), 1U);
  EXPECT_EQ(nodes.asked()[0].first, 2U);
  nodes.asked()[0].second(0, "data");
  nodes.read();
  EXPECT_EQ(answer, "0data");
  // A rank that ends will put nothing any more; a late answer is none.
  ask(2);
  nodes[1].ended(2);
  nodes.read();
  EXPECT_EQ(answer, "-46");
  nodes.asked()[1].second(0, "late");
  nodes.read();
  EXPECT_EQ(answer, "-46");
  ask(2);
  EXPECT_EQ(answer, "-46");
  ask(99);
  EXPECT_EQ(answer, "-46");
}

TEST(NodeSpace, NamesAreKnownOnAllNodes) {
  Nodes nodes(two());
  std::string log;
  const auto look_up = [&](std::size_t node, bool waits) {
    nodes[node].look_up({"a"}, waits, [&log, node](const NameBoard::Entries& found) {
      log += std::to_string(node) + " finds ";
      for (const auto& [name, entry] : found) {
        log += entry.value + " of " + std::to_string(entry.owner);
      }
      log += ";";
    });
  };
  const auto publish = [&](std::size_t node, std::uint32_t rank, bool is_for_one_reader) {
    nodes[node].publish(rank, {{"a", {rank, "x", is_for_one_reader}}},
                        [&log](bool is_new) { log += is_new ? "new;" : "taken;"; });
  };
  look_up(1, /*waits=*/true);
  nodes.read();
  EXPECT_EQ(log, "");
  publish(0, 1, /*is_for_one_reader=*/true);
  nodes.read();
  EXPECT_EQ(log, "new;1 finds x of 1;");
  log.clear();
  // It was for one reader, on either node.
  look_up(0, /*waits=*/false);
  publish(1, 2, /*is_for_one_reader=*/false);
  publish(0, 0, /*is_for_one_reader=*/false);
  look_up(0, /*waits=*/false);
  nodes[1].unpublish(2, {}, [&log] { log += "gone;"; });
  look_up(0, /*waits=*/false);
  nodes.read();
  EXPECT_EQ(log, "0 finds ;new;taken;0 finds x of 2;gone;0 finds ;");
}

}  // namespace
}  // namespace dl::pmix
