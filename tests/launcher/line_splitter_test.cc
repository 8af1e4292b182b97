#include "launcher/line_splitter.h"

#include <gtest/gtest.h>

namespace dl::launcher {
namespace {

using For = LineSplitter::For;

std::string all(LineSplitter& splitter, std::initializer_list<std::string_view> pieces) {
  std::string out;
  for (const std::string_view piece : pieces) splitter.feed(piece, out);
  splitter.finish(out);
  return out;
}

TEST(LineSplitter, SaysWhoWroteEachLineHoweverItComesInPieces) {
  for (std::size_t cut = 0; cut <= 8; ++cut) {
    LineSplitter splitter("[r] ", For::kFile);
    const std::string_view text = "ab\n\ncd\ne";
    EXPECT_EQ(all(splitter, {text.substr(0, cut), text.substr(cut)}),
              "[r] ab\n[r] \n[r] cd\n[r] e\n");
  }
}

TEST(LineSplitter, HoldsALineBackUntilItsEnd) {
  LineSplitter splitter("[r] ", For::kFile);
  std::string out;
  splitter.feed("abc", out);
  EXPECT_EQ(out, "");
  EXPECT_EQ(splitter.visible_rest(), "abc");
  splitter.feed("d\n", out);
  EXPECT_EQ(out, "[r] abcd\n");
  EXPECT_EQ(splitter.visible_rest(), "");
}

TEST(LineSplitter, ALastLineWithoutItsEndGetsOne) {
  LineSplitter splitter("", For::kFile);
  EXPECT_EQ(all(splitter, {"a\nb"}), "a\nb\n");
  LineSplitter complete("", For::kFile);
  EXPECT_EQ(all(complete, {"a\n"}), "a\n");
  LineSplitter silent("[r] ", For::kFile);
  EXPECT_EQ(all(silent, {}), "");
}

TEST(LineSplitter, BytesAreKeptAsTheyAreInFiles) {
  LineSplitter splitter("", For::kFile);
  const std::string bytes("1 %\r2 %\r\n\0\xff\x1b[31m\n", 17);
  EXPECT_EQ(all(splitter, {bytes}), bytes);
}

TEST(LineSplitter, ATerminalShowsWhatIsLeftOfOverwrittenText) {
  LineSplitter splitter("[r] ", For::kTerminal);
  EXPECT_EQ(all(splitter, {"1 %\r2 %\rdone\n", "dos\r\n"}), "[r] done\n[r] dos\n");
  std::string out;
  splitter.feed("\r10 %", out);
  EXPECT_EQ(splitter.visible_rest(), "10 %");
  splitter.feed("\r20 %\r", out);
  EXPECT_EQ(splitter.visible_rest(), "20 %");
  EXPECT_EQ(out, "");
}

TEST(LineSplitter, ALineBeyondTheLongestGoesOutInPiecesAndSaysSo) {
  LineSplitter splitter("[r] ", For::kFile, 8);
  std::string out;
  splitter.feed("12345678", out);
  EXPECT_FALSE(splitter.is_open());
  splitter.feed("9", out);
  EXPECT_TRUE(splitter.is_open());
  EXPECT_EQ(out, "[r] 123456789");
  splitter.feed("ab", out);
  splitter.feed("c\nnext\n", out);
  EXPECT_FALSE(splitter.is_open());
  EXPECT_EQ(out, "[r] 123456789abc\n[r] next\n");
}

}  // namespace
}  // namespace dl::launcher
