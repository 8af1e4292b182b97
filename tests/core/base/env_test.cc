#include "core/base/env.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <set>

#include "core/base/error.h"

namespace dl::env {
namespace {

TEST(Env, UnsetAndEmptyAreTheSame) {
  ::unsetenv("RANK");
  EXPECT_EQ(get(Var::kRank), std::nullopt);
  ::setenv("RANK", "", 1);
  EXPECT_EQ(get(Var::kRank), std::nullopt);
  EXPECT_EQ(get_int(Var::kRank), std::nullopt);
}

TEST(Env, ReadsWholeNumbers) {
  ::setenv("RANK", "-3", 1);
  EXPECT_EQ(get_int(Var::kRank), -3);
  EXPECT_EQ(require_int(Var::kRank), -3);
}

TEST(Env, RefusesWhatIsNotAWholeNumberByName) {
  for (const char* bad : {"abc", "3x", " 3", "3.5", "+", "-"}) {
    ::setenv("RANK", bad, 1);
    try {
      get_int(Var::kRank);
      ADD_FAILURE() << "took " << bad;
    } catch (const Error& error) {
      EXPECT_EQ(std::string(error.what()), std::string("RANK=") + bad + " is not a whole number");
    }
  }
}

TEST(Env, ANumberOfTooManyDigitsIsOutOfRange) {
  ::setenv("RANK", "99999999999999999999", 1);
  try {
    get_int(Var::kRank);
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "RANK=99999999999999999999 is out of range: wanted a whole number from "
                 "-9223372036854775808 to 9223372036854775807");
  }
}

TEST(Env, MissingRequiredVariableSaysWhoSetsIt) {
  ::unsetenv("RANK");
  EXPECT_THROW(require_int(Var::kRank), Error);
}

TEST(Env, ASwitchIsOnUnlessItIsOff) {
  ::unsetenv("DLRUN_CUDA_CACHE");
  EXPECT_TRUE(get_switch(Var::kCudaCache));
  ::setenv("DLRUN_CUDA_CACHE", "off", 1);
  EXPECT_FALSE(get_switch(Var::kCudaCache));
  ::setenv("DLRUN_CUDA_CACHE", "0", 1);
  try {
    get_switch(Var::kCudaCache);
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "DLRUN_CUDA_CACHE is 0, wanted on or off");
  }
  ::unsetenv("DLRUN_CUDA_CACHE");
}

TEST(Env, NamesAreUnique) {
  std::set<std::string_view> names;
  for (const Row& row : table()) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_FALSE(row.meaning.empty()) << row.name;
  }
}

}  // namespace
}  // namespace dl::env
