// The lines between dlrun and dlrun-pmix.
#include "launcher/pmi/lines/pmix_line.h"

#include <gtest/gtest.h>

namespace dl::launcher {
namespace {

using Kind = PmixLine::Kind;

std::optional<PmixLine> there_and_back(const PmixLine& line) {
  const std::string text = text_of(line);
  EXPECT_EQ(text.find('\n'), text.size() - 1);
  return parse_pmix_line(std::string_view(text).substr(0, text.size() - 1));
}

TEST(PmixLine, ArrivesAsItWasSent) {
  for (const PmixLine& line :
       {PmixLine{Kind::kEnvironment, 0, 0, "PMIX_SERVER_URI41=a b;tcp4://127.0.0.1:1"},
        PmixLine{Kind::kReady, -1, 0, ""}, PmixLine{Kind::kConnected, 7, 0, ""},
        PmixLine{Kind::kFinalized, 12, 0, ""}, PmixLine{Kind::kAbort, 3, -1, ""},
        PmixLine{Kind::kNote, -1, 0, " two  blanks "}, PmixLine{Kind::kFailed, -1, 0, "no"}}) {
    EXPECT_EQ(there_and_back(line), line);
  }
}

TEST(PmixLine, HasNoEndOfLineWithin) {
  EXPECT_EQ(there_and_back({Kind::kNote, -1, 0, "a\nb\n"}), (PmixLine{Kind::kNote, -1, 0, "a b "}));
}

TEST(PmixLine, AnyOtherLineIsNone) {
  for (const char* text : {"", "ready", "ready ", "ready x 0 ", "ready 0", "abort 1 2x ",
                           "abort 99999999999 0 ", "leave 0 0 ", " ready -1 0 "}) {
    EXPECT_EQ(parse_pmix_line(text), std::nullopt) << text;
  }
  EXPECT_NE(parse_pmix_line("ready -1 0"), std::nullopt);
}

}  // namespace
}  // namespace dl::launcher
