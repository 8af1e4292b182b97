#include "launcher/frontend/starter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "core/base/error.h"
#include "tests/support/temp_dir.h"

namespace dl::launcher {
namespace {

TEST(JobSecret, UsersKeyIsMadeBesideAnotherContainersHalfKey) {
  const tests::TempDir home;
  ::setenv("XDG_CONFIG_HOME", home.path().c_str(), 1);
  const std::string folder = home.path() + "/dlrun";
  std::filesystem::create_directory(folder);
  // One of the same pid, in the middle of it.
  std::ofstream(folder + "/key." + std::to_string(::getpid())) << "half";
  const auto key = job_secret(2, "");
  EXPECT_EQ(job_secret(2, "").bytes(), key.bytes());
  const auto entries = std::filesystem::directory_iterator(folder);
  EXPECT_EQ(std::distance(begin(entries), end(entries)), 2);
  ::unsetenv("XDG_CONFIG_HOME");
}

TEST(JobSecret, SaysWhatToGiveIfNoSecretCanBeKept) {
  ::setenv("XDG_CONFIG_HOME", "/proc/nothing", 1);
  try {
    job_secret(2, "");
    ADD_FAILURE() << "a key in /proc";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(),
                testing::StartsWith("several nodes need one secret: give its file in --key-file, "
                                    "as none can be kept among this user's settings: create "
                                    "/proc/nothing/dlrun: "));
  }
  ::unsetenv("XDG_CONFIG_HOME");
}

}  // namespace
}  // namespace dl::launcher
