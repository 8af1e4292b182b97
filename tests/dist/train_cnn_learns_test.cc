// What `./dev demo` promises. Not in sanitizer builds, in which fifteen epochs take minutes.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/dist/shell.h"

namespace dl::dist {
namespace {

TEST(TrainCnn, TwoRanksLearnToReadDigitsWithTheDefaultSettings) {
  const Ran ran =
      shell(program("dlrun") + " --nproc-per-node 2 " + program("train_cnn") + " --json");
  ASSERT_EQ(ran.code, 0) << ran.text;
  const std::size_t last = ran.text.rfind("{\"test_accuracy\"");
  ASSERT_NE(last, std::string::npos) << ran.text;
  const auto end = nlohmann::json::parse(ran.text.substr(last, ran.text.find('\n', last) - last));
  EXPECT_GE(end["test_accuracy"], 0.97);
}

}  // namespace
}  // namespace dl::dist
