#include "launcher/process/start/rank_files.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "core/base/error.h"
#include "tests/support/temp_dir.h"

namespace dl::launcher {
namespace {

TEST(EmptyInput, ReadsNothingFromAFileInTheDevicesPlace) {
  const tests::TempDir folder;
  const std::string file = folder.path() + "/null";
  std::ofstream(file) << "what a program wrote to /dev/null\n";
  char byte;
  EXPECT_EQ(::read(open_empty_input(file.c_str()).get(), &byte, 1), 0);
  EXPECT_EQ(::read(open_empty_input().get(), &byte, 1), 0);
  EXPECT_THROW(open_empty_input((folder.path() + "/none").c_str()), Error);
}

}  // namespace
}  // namespace dl::launcher
