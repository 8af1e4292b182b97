#include "launcher/output/lines/line_splitter.h"

#include <gtest/gtest.h>

#include <ctime>

namespace dl::launcher {
namespace {

using For = LineSplitter::For;

std::string all(LineSplitter& splitter, std::initializer_list<std::string_view> pieces) {
  std::string out;
  for (const std::string_view piece : pieces) splitter.feed(piece, out);
  splitter.finish(out);
  return out;
}

TEST(LineSplitter, NamesTheWriterOfEachLineInAnyPieces) {
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
  splitter.feed("d\n", out);
  EXPECT_EQ(out, "[r] abcd\n");
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

TEST(LineSplitter, ATerminalShowsTheSameInHoweverManyPieces) {
  const std::string_view text = "a\r\rbc\r\nd\re\r";
  for (std::size_t first = 0; first <= text.size(); ++first) {
    for (std::size_t second = first; second <= text.size(); ++second) {
      LineSplitter splitter("", For::kTerminal);
      std::string out;
      splitter.feed(text.substr(0, first), out);
      splitter.feed(text.substr(first, second - first), out);
      splitter.feed(text.substr(second), out);
      EXPECT_EQ(out, "bc\n") << first << " " << second;
      EXPECT_EQ(splitter.visible_rest(), "e");
    }
  }
}

// A bar that is drawn anew for days without an end of line needs no more memory than its last
// state, also one that writes nothing but `\r`.
TEST(LineSplitter, WhatATerminalOverwroteIsNotKept) {
  LineSplitter splitter("", For::kTerminal, 64);
  std::string out;
  for (int i = 0; i < 1000; ++i) splitter.feed("\r12345678", out);
  for (int i = 0; i < 1000; ++i) splitter.feed("\r", out);
  EXPECT_EQ(splitter.visible_rest(), "12345678");
  EXPECT_EQ(out, "");
}

// CPU time, which a loaded machine does not stretch as it does a wait: 16 MiB take milliseconds,
// and a look at the whole line for each piece would be 16,384 times 8 MiB.
TEST(LineSplitter, TakesLinearTimeForALineInManyPieces) {
  const std::string piece(1024, 'x');
  const auto cpu = [] { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; };
  for (const For target : {For::kFile, For::kTerminal}) {
    LineSplitter splitter("", target);
    std::string out;
    const double before = cpu();
    for (int i = 0; i < 16 * 1024; ++i) {
      splitter.feed(piece, out);
      EXPECT_FALSE(splitter.visible_rest().empty());
    }
    splitter.feed("\n", out);
    EXPECT_LT(cpu() - before, 2);
    EXPECT_EQ(out.size(), (std::size_t{16} << 20) + 1);
  }
}

TEST(LineSplitter, NoMoreThanTheLongestIsHeldBack) {
  LineSplitter splitter("[r] ", For::kFile, 8);
  std::string out;
  splitter.feed("12345678", out);
  EXPECT_EQ(out, "");
  splitter.feed("9", out);
  EXPECT_EQ(out, "[r] 12345678");
  EXPECT_TRUE(splitter.is_open());
  splitter.feed("abcdefgh\nnext\n", out);
  EXPECT_EQ(out, "[r] 123456789abcdefgh\n[r] next\n");
  out.clear();
  splitter.feed("123456789", out);
  splitter.finish(out);
  EXPECT_EQ(out, "[r] 123456789\n");
}

TEST(LineSplitter, OnATerminalAPartBeyondTheLongestIsALine) {
  LineSplitter splitter("[r] ", For::kTerminal, 8);
  std::string out;
  splitter.feed("123456789", out);
  EXPECT_EQ(out, "[r] 12345678\n");
  EXPECT_FALSE(splitter.is_open());
  EXPECT_EQ(splitter.visible_rest(), "9");
  out.clear();
  splitter.feed("abcdefgh\nnext\n", out);
  EXPECT_EQ(out, "[r] ... 9abcdefg\n[r] ... h\n[r] next\n");
}

TEST(LineSplitter, GivesTheBeginningOfALineThatStaysOpen) {
  LineSplitter splitter("[r] ", For::kFile);
  std::string out;
  splitter.give_rest(out);
  EXPECT_EQ(out, "");
  splitter.feed("a\n10 %\r", out);
  splitter.give_rest(out);
  EXPECT_EQ(out, "[r] a\n[r] 10 %\r");
  EXPECT_TRUE(splitter.is_open());
  EXPECT_FALSE(splitter.has_rest());
  splitter.feed("20 %\r", out);
  splitter.give_rest(out);
  splitter.feed("done\nb\n", out);
  EXPECT_EQ(out, "[r] a\n[r] 10 %\r20 %\rdone\n[r] b\n");
  EXPECT_FALSE(splitter.is_open());
  out.clear();
  splitter.feed("c", out);
  splitter.give_rest(out);
  splitter.finish(out);
  EXPECT_EQ(out, "[r] c\n");
}

TEST(LineSplitter, TheRestOfACutLineBeginsALineThatSaysSo) {
  LineSplitter splitter("[r] ", For::kFile, 8);
  std::string out;
  splitter.cut();  // nothing is open
  splitter.feed("a", out);
  splitter.give_rest(out);
  splitter.cut();
  out.clear();
  splitter.feed("b", out);
  EXPECT_EQ(out, "");
  splitter.give_rest(out);
  splitter.feed("c\n", out);
  EXPECT_EQ(out, "[r] ... bc\n");
  out.clear();
  splitter.feed("1", out);
  splitter.give_rest(out);
  splitter.cut();
  splitter.feed("234567890\n", out);
  EXPECT_EQ(out, "[r] 1[r] ... 234567890\n");
}

TEST(LineSplitter, NothingFollowsALineThatWasShownWhole) {
  LineSplitter splitter("[r] ", For::kFile);
  std::string out;
  splitter.feed("whole", out);
  splitter.give_rest(out);
  splitter.cut();
  splitter.feed("\nnext\n", out);
  EXPECT_EQ(out, "[r] whole[r] next\n");
  out.clear();
  splitter.feed("last", out);
  splitter.give_rest(out);
  splitter.cut();
  splitter.finish(out);
  EXPECT_EQ(out, "[r] last");
}

TEST(LineSplitter, NoRestEndsInsideACharacter) {
  for (const std::string text : {"\u00e9", "\u20ac", "\U0001f600"}) {
    for (std::size_t size = 1; size < text.size(); ++size) {
      LineSplitter splitter("", For::kFile);
      std::string out;
      splitter.feed(text.substr(0, size), out);
      EXPECT_FALSE(splitter.has_rest());
      splitter.feed(text.substr(size) + text.substr(0, size), out);
      splitter.give_rest(out);
      EXPECT_EQ(out, text);
      splitter.finish(out);
      EXPECT_EQ(out, text + text.substr(0, size) + "\n");
    }
  }
  LineSplitter splitter("", For::kFile);
  std::string out;
  splitter.feed("\x80\x80\x80\x80", out);  // no text at all
  splitter.give_rest(out);
  EXPECT_EQ(out, "\x80\x80\x80\x80");
}

TEST(LineSplitter, NoPartEndsInsideACharacter) {
  LineSplitter splitter("", For::kFile, 8);
  std::string out;
  splitter.feed("1234567\u00e9", out);
  EXPECT_EQ(out, "1234567");
  splitter.feed("\n", out);
  EXPECT_EQ(out, "1234567\u00e9\n");
  out.clear();
  splitter.feed("\x80\x80\x80\x80\x80\x80\x80\x80\x80", out);  // no text at all
  EXPECT_EQ(out.size(), 8U);
}

}  // namespace
}  // namespace dl::launcher
