// The listings of appendix A print what the appendix prints, but for the exceptions of printed.txt.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "core/base/version.h"
#include "tests/support/process.h"

namespace dl {
namespace {

using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using tests::Process;
using tests::program;
using Lines = std::vector<std::string>;

struct Printed {
  std::string name;  // "A.1"
  Lines here;        // what appendix_a prints
};

// Reads printed.txt, and adds a failure for a difference without a reason, and for one that is
// none.
class PrintedFile {
 public:
  explicit PrintedFile(const std::string& path) {
    std::ifstream file(path);
    EXPECT_TRUE(file.good()) << path;
    for (std::string line; std::getline(file, line);) read(line);
    end_of_difference();
  }
  const std::vector<Printed>& listings() const { return listings_; }

 private:
  void read(const std::string& line) {
    if (line.starts_with("#")) return;
    if (line.starts_with("== ")) {
      end_of_difference();
      listings_.push_back({line.substr(3), {}});
      return;
    }
    ASSERT_FALSE(listings_.empty()) << line;
    ASSERT_GE(line.size(), 3U) << listings_.back().name << ": a line without a mark";
    std::string text = line.substr(2);
    if (text == "dlrun version: VERSION") text = "dlrun version: " + std::string(kVersion);
    switch (line.front()) {
      case '<':
        only_there_.push_back(text);
        return;
      case '>':
        only_here_.push_back(text);
        listings_.back().here.push_back(text);
        return;
      case '?':
        EXPECT_FALSE(only_there_.empty() && only_here_.empty()) << text;
        EXPECT_NE(only_there_, only_here_) << text;
        only_there_.clear();
        only_here_.clear();
        return;
      default:
        EXPECT_EQ(line.substr(0, 2), "  ");
        end_of_difference();
        listings_.back().here.push_back(text);
    }
  }
  void end_of_difference() const {
    EXPECT_TRUE(only_there_.empty() && only_here_.empty())
        << listings_.back().name << ": a difference without a reason";
  }

  std::vector<Printed> listings_;
  Lines only_there_;
  Lines only_here_;
};

Lines lines_of_text(const std::string& text) {
  Lines lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

std::string listing_program() {
  return program("appendix_a");
}

// Without a GPU. The lines of ranks come in any order: those of rank 1 are put behind the others.
Lines output_of(const std::string& listing) {
  Process process({listing_program(), listing}, {.environment = {"CUDA_VISIBLE_DEVICES="}});
  EXPECT_EQ(process.wait(), 0) << process.err();
  Lines lines = lines_of_text(process.out());
  std::ranges::stable_partition(
      lines, [](const std::string& line) { return !line.starts_with("[CPU1]"); });
  return lines;
}

TEST(AppendixA, PrintsWhatTheAppendixPrints) {
  const PrintedFile printed(std::string(std::getenv("DLRUN_TEST_SOURCE")) +
                            "/tests/examples/appendix_a/printed.txt");
  ASSERT_EQ(printed.listings().size(), 13U);
  for (const Printed& listing : printed.listings()) {
    SCOPED_TRACE(listing.name);
    EXPECT_THAT(output_of(listing.name), ElementsAreArray(listing.here));
  }
}

TEST(AppendixA, ListsItsListingsAndRefusesOthers) {
  Process list({listing_program()});
  EXPECT_EQ(list.wait(), 0) << list.err();
  EXPECT_EQ(std::ranges::count_if(lines_of_text(list.out()),
                                  [](const std::string& line) { return line.starts_with("  A."); }),
            13);
  Process other({listing_program(), "A.14"});
  EXPECT_EQ(other.wait(), 2);
  EXPECT_THAT(other.err(), HasSubstr("there is no listing A.14; these are there:\n  A.1   "));
  Process help({listing_program(), "--help"});
  EXPECT_EQ(help.wait(), 0);
  EXPECT_THAT(help.out(), HasSubstr("A.9   training in three epochs"));
}

}  // namespace
}  // namespace dl
