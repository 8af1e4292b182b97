#include "core/base/text/number.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>

namespace dl {
namespace {

TEST(ReadNumber, TakesTheWholeTextOrNothing) {
  EXPECT_EQ(read_number<int>("42"), 42);
  EXPECT_EQ(read_number<int>("-7"), -7);
  EXPECT_EQ(read_number<int>("010"), 10);
  EXPECT_EQ(read_number<std::uint64_t>("18446744073709551615"), 18446744073709551615U);
  for (const char* bad :
       {"", " 1", "1 ", "1.5", "1e3", "0x10", "1x", "x", "2147483648", "1'000", "1_000", "nan"}) {
    EXPECT_EQ(read_number<int>(bad), std::nullopt) << bad;
  }
  EXPECT_EQ(read_number<unsigned>("-1"), std::nullopt);
}

TEST(ReadNumber, TakesFiniteNumbersOnly) {
  EXPECT_EQ(read_number<double>("0.05"), 0.05);
  EXPECT_EQ(read_number<double>("1e-3"), 1e-3);
  EXPECT_EQ(read_number<double>("-2"), -2.0);
  for (const char* bad : {"", "nan", "inf", "-inf", "infinity", "1e999", "1.5x", " 1", "0x1p3"}) {
    EXPECT_EQ(read_number<double>(bad), std::nullopt) << bad;
  }
}

TEST(WholeNumber, LeavesTheNumberOrSaysWhatIsWanted) {
  const auto check = whole_number(-1, 20);
  std::string text = "010";
  EXPECT_EQ(check(text), "");
  EXPECT_EQ(text, "10");  // not an octal number for those who read it next
  for (const char* bad : {"21", "-2", "1.5", "", "99999999999999999999"}) {
    text = bad;
    EXPECT_EQ(check(text), "'" + text + "' is no whole number from -1 to 20");
  }
  text = "18446744073709551615";
  EXPECT_EQ(whole_number(0, std::numeric_limits<std::uint64_t>::max())(text), "");
}

TEST(RealNumber, SaysWhatIsWanted) {
  const auto check = real_number(0, 1e9);
  std::string text = "0.5";
  EXPECT_EQ(check(text), "");
  for (const char* bad : {"nan", "inf", "-0.1", "1e10", "0.5 "}) {
    text = bad;
    EXPECT_EQ(check(text), "'" + text + "' is no number from 0 to 1000000000");
  }
}

}  // namespace
}  // namespace dl
