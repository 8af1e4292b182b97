#include "launcher/pmi/pmix/nodes/name_board.h"

#include <gtest/gtest.h>

#include <optional>

namespace dl::pmix {
namespace {

NameBoard::Entries entry(const std::string& name, const std::string& text, std::uint32_t owner) {
  return {{name, {.owner = owner, .value = text}}};
}

// What one look-up has been told: "name=text of rank" for each name; nullopt: it waits.
struct Answer {
  std::optional<std::string> text;
};

NameBoard::Question question(std::vector<std::string> names, bool waits, Answer& answer) {
  return {std::move(names), waits, [&answer](const NameBoard::Entries& found) {
            answer.text = "";
            for (const auto& [name, one] : found) {
              *answer.text += name + "=" + one.value + " of " + std::to_string(one.owner) + ";";
            }
          }};
}

TEST(NameBoard, FindsWhatIsPublished) {
  NameBoard board;
  EXPECT_TRUE(board.publish(entry("a", "port", 1)));
  EXPECT_FALSE(board.publish(entry("a", "other", 2)));
  Answer answer;
  board.look_up(question({"a", "b"}, /*waits=*/false, answer));
  EXPECT_EQ(answer.text, "a=port of 1;");
}

TEST(NameBoard, AWaitingLookUpIsAnsweredByTheLastName) {
  NameBoard board;
  Answer answer;
  board.look_up(question({"a", "b"}, /*waits=*/true, answer));
  board.publish(entry("b", "x", 0));
  EXPECT_EQ(answer.text, std::nullopt);
  board.publish(entry("a", "y", 1));
  EXPECT_EQ(answer.text, "a=y of 1;b=x of 0;");
}

TEST(NameBoard, AValueForOneReaderIsReadOnce) {
  NameBoard board;
  NameBoard::Entries once = entry("a", "x", 0);
  once.at("a").is_for_one_reader = true;
  board.publish(once);
  Answer first, second;
  board.look_up(question({"a"}, /*waits=*/false, first));
  board.look_up(question({"a"}, /*waits=*/false, second));
  EXPECT_EQ(first.text, "a=x of 0;");
  EXPECT_EQ(second.text, "");
}

TEST(NameBoard, OnlyTheOwnerTakesANameBack) {
  NameBoard board;
  board.publish(entry("a", "x", 0));
  board.unpublish(1, {"a"});
  Answer answer;
  board.look_up(question({"a"}, /*waits=*/false, answer));
  EXPECT_EQ(answer.text, "a=x of 0;");
  board.unpublish(0, {});
  board.look_up(question({"a"}, /*waits=*/false, answer));
  EXPECT_EQ(answer.text, "");
}

}  // namespace
}  // namespace dl::pmix
