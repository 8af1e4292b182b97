#include "core/base/system/small_file.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "tests/support/temp_dir.h"

namespace dl {
namespace {

TEST(SmallFile, IsReadToItsEndOrTo8KiB) {
  const tests::TempDir folder;
  const std::string path = folder.path() + "/f";
  EXPECT_EQ(small_file(path), std::nullopt);
  EXPECT_EQ(small_file(folder.path()), std::nullopt);  // a folder
  std::ofstream(path) << "a\nb\n";
  EXPECT_EQ(small_file(path), "a\nb\n");
  std::ofstream(path) << std::string(10000, 'x');
  EXPECT_EQ(small_file(path), std::string(8192, 'x'));
}

TEST(SmallFile, AFirstLineIsWithoutItsEnd) {
  const tests::TempDir folder;
  const std::string path = folder.path() + "/f";
  EXPECT_EQ(first_line(path), std::nullopt);
  for (const auto& [text, line] : {std::pair{"a b\nc\n", "a b"}, {"a b", "a b"}, {"\nc", ""}}) {
    std::ofstream(path) << text;
    EXPECT_EQ(first_line(path), line);
  }
  std::ofstream(path) << "";
  EXPECT_EQ(first_line(path), std::nullopt);
}

}  // namespace
}  // namespace dl
