// The loops end with PyTorch's results.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <sstream>
#include <string>
#include <tuple>
#include <vector>

#include "tests/support/process.h"

namespace dl {
namespace {

using ::testing::HasSubstr;
using ::testing::Pointwise;
using tests::Process;
using tests::program;

MATCHER_P(IsNear, most, "") {
  return std::abs(std::get<0>(arg) - std::get<1>(arg)) <= most;
}

std::string out_of_loop(const std::string& listing) {
  Process process({program("training_loops"), listing});
  EXPECT_EQ(process.wait(), 0) << process.err();
  return process.out();
}

// "99 798.2461" on each line.
std::vector<double> losses_of(const std::string& text) {
  std::vector<double> losses;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line) && !line.starts_with("Result");) {
    losses.push_back(std::stod(line.substr(line.find(' ') + 1)));
  }
  return losses;
}

// PyTorch 2.15 with manual_seed(123). Sums of 2000 numbers are rounded differently, and 2000 steps
// carry that on.
TEST(TrainingLoops, ByHandGivesPyTorchsLosses) {
  const std::vector<double> expected = {798.2461, 532.0983, 355.7365, 238.8541, 161.3795,
                                        110.0177, 75.9614,  53.3759,  38.3946,  28.4552,
                                        21.8593,  17.4813,  14.5747,  12.6444,  11.3621,
                                        10.5100,  9.9437,   9.5671,   9.3166,   9.1499};
  const std::string out = out_of_loop("manual");
  EXPECT_THAT(losses_of(out), Pointwise(IsNear(0.02), expected));
  EXPECT_THAT(out, HasSubstr("Result: y = 0.0066 + 0.8401 x + -0.0011 x^2 + -0.0910 x^3\n"));
}

TEST(TrainingLoops, RMSpropGivesPyTorchsLosses) {
  const std::vector<double> expected = {7095.7383, 2087.9639, 807.0025, 609.5580, 552.5851,
                                        482.4784,  397.6913,  308.4982, 225.5732, 155.2779,
                                        99.9031,   59.4404,   32.6602,  17.4853,  10.8931,
                                        9.0839,    8.8728,    8.8677,   8.9028,   8.9446};
  // RMSprop divides by the gradients' size, so that rounding errors do not shrink with them.
  EXPECT_THAT(losses_of(out_of_loop("rmsprop")), Pointwise(IsNear(0.2), expected));
}

TEST(TrainingLoops, TheTextsNetworkHasItsParameters) {
  const std::string out = out_of_loop("network");
  EXPECT_THAT(out, HasSubstr("669706 parameters\n[64, 10]\n"));
  EXPECT_THAT(out, HasSubstr("(linear_relu_stack): Sequential("));
}

}  // namespace
}  // namespace dl
