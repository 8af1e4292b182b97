#include "core/base/error.h"

#include <gtest/gtest.h>

#include <cerrno>

namespace dl {
namespace {

TEST(Error, CarriesKindAndText) {
  try {
    DL_CHECK(1 + 1 == 3, kShape, "sum is {}, wanted {}", 2, 3);
    FAIL() << "no exception";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kShape);
    EXPECT_STREQ(error.what(), "sum is 2, wanted 3");
  }
}

TEST(Error, TextIsNotBuiltWhereTheConditionHolds) {
  int built = 0;
  const auto text = [&] { return ++built; };
  DL_CHECK(true, kInternal, "{}", text());
  EXPECT_EQ(built, 0);
}

TEST(Error, MissingFileIsNotFoundAndOthersAreIo) {
  try {
    throw_errno(ENOENT, "open /a/b");
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kNotFound);
    EXPECT_STREQ(error.what(), "open /a/b: No such file or directory");
  }
  try {
    throw_errno(EACCES, "open /a/b");
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kIo);
  }
}

TEST(ErrorDeathTest, UncaughtErrorEndsWithItsTextAndExitCodeOne) {
  const auto throw_through_noexcept = []() noexcept {
    throw_error(ErrorKind::kInternal, "the boiler is {}", "cold");
  };
  EXPECT_EXIT(throw_through_noexcept(), testing::ExitedWithCode(1), "error: the boiler is cold");
}

}  // namespace
}  // namespace dl
