#include "core/base/text/printable.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "core/base/text/utf8.h"

namespace dl {
namespace {

using namespace std::string_view_literals;

struct Shown {
  std::string_view text;
  std::string_view shown;
};

// What a terminal obeys, or cannot read, is shown as its bytes; all else as it is.
constexpr Shown kLines[] = {
    {"", ""},
    {"plain ~ text", "plain ~ text"},
    {"line\n\tand tab", "line\n\tand tab"},
    {"a\0b\r\b\x1b[2J\x7f"sv, R"(a\x00b\x0d\x08\x1b[2J\x7f)"},
    {"\xc3\xbc \xe2\x82\xac \xf0\x9f\x98\x80", "\xc3\xbc \xe2\x82\xac \xf0\x9f\x98\x80"},
    // C1: U+0080, U+009B (CSI), U+009F; U+00A0 is none of them.
    {"\xc2\x80", R"(\xc2\x80)"},
    {"\xc2\x9b\x33\x31m", R"(\xc2\x9b31m)"},
    {"\xc2\x9f\xc2\xa0", "\\xc2\\x9f\xc2\xa0"},
    // C1 as the single bytes that a terminal without UTF-8 obeys.
    {"\x9b\x33\x31m", R"(\x9b31m)"},
    // Latin-1, a lone continuation, one that is cut off, overlong, a surrogate, beyond U+10FFFF.
    {"Gr\xfc\xdf", R"(Gr\xfc\xdf)"},
    {"\x80x", R"(\x80x)"},
    {"x\xe2\x82", R"(x\xe2\x82)"},
    {"\xe2\x82x", R"(\xe2\x82x)"},
    {"\xc0\x80\xc1\xbf", R"(\xc0\x80\xc1\xbf)"},
    {"\xe0\x9f\xbf", R"(\xe0\x9f\xbf)"},
    {"\xed\xa0\x80", R"(\xed\xa0\x80)"},
    {"\xf4\x90\x80\x80", R"(\xf4\x90\x80\x80)"},
    {"\xff\xfe", R"(\xff\xfe)"},
};

TEST(Printable, ShowsAsBytesWhatATerminalObeysOrCannotRead) {
  for (const auto& [text, shown] : kLines) {
    EXPECT_EQ(printable(text), shown);
    EXPECT_TRUE(is_utf8(printable(text)));
    // Log lines and names of a hello: without tabs and line ends either.
    const bool is_plain = text == shown && text.find('\n') == text.npos;
    EXPECT_EQ(is_printable_utf8(text), is_plain) << shown;
  }
}

TEST(Printable, ShowsAsBytesWhatTurnsOrHidesOtherCharacters) {
  constexpr Shown kNames[] = {
      {"a\xe2\x80\xae\x62", R"(a\xe2\x80\xaeb)"},  // U+202E, right-to-left override
      {"\xe2\x81\xa6x\xe2\x81\xa9", R"(\xe2\x81\xa6x\xe2\x81\xa9)"},  // U+2066, U+2069
      {"\xe2\x80\x8b\xe2\x80\x8e", R"(\xe2\x80\x8b\xe2\x80\x8e)"},    // U+200B, U+200E
      {"\xe2\x80\xa8", R"(\xe2\x80\xa8)"},                            // U+2028, line separator
      {"\xc2\xad\xef\xbb\xbf", R"(\xc2\xad\xef\xbb\xbf)"},            // U+00AD, U+FEFF
      {"\xf3\xa0\x81\xa1", R"(\xf3\xa0\x81\xa1)"},                    // U+E0061, a tag
      // U+200C and U+200D, and neighbours of the others.
      {"\xe2\x80\x8c\xe2\x80\x8d", "\xe2\x80\x8c\xe2\x80\x8d"},
      {"\xc2\xae\xe2\x80\xaf\xe2\x80\x90", "\xc2\xae\xe2\x80\xaf\xe2\x80\x90"},
  };
  for (const auto& [text, shown] : kNames) {
    EXPECT_EQ(printable(text), shown);
    EXPECT_EQ(quoted_name(text), "\"" + std::string(shown) + "\"");
  }
}

TEST(Printable, AQuotedNameHasNoLineOfItsOwn) {
  EXPECT_EQ(quoted_name("a\n\tb\xc2\x85\x63\xff \xc3\xbc"),
            "\"a\\x0a\\x09b\\xc2\\x85c\\xff \xc3\xbc\"");
}

}  // namespace
}  // namespace dl
