// The demo's network trained by two hosts together, each with a dlrun of its own.
#include <gtest/gtest.h>

#include "tests/dist/shell.h"
#include "tests/dist/train_report.h"
#include "tests/support/process.h"
#include "tests/support/temp_dir.h"
#include "tests/support/two_hosts.h"

namespace dl::dist {
namespace {

using namespace std::chrono_literals;

TEST(TrainCnnOnTwoHosts, TakesTheStepsOfOneRankWithTheWholeBatch) {
  if (const std::string why = tests::TwoHosts::why_not(); !why.empty()) GTEST_SKIP() << why;
  const tests::TwoHosts hosts;
  const tests::TempDir home;
  const auto node = [&](int number) {
    return std::make_unique<tests::Process>(
        hosts.on(number, {tests::program("dlrun"), "--nnodes", "2", "--node-rank",
                          std::to_string(number), "--rdzv-endpoint", hosts.address(0) + ":29400",
                          "--nproc-per-node", "1", tests::program("train_cnn"), "--threads", "1",
                          "--epochs", "1", "--batch-size", "32", "--lr", "0.01", "--json"}),
        tests::Process::Options{.environment = {"XDG_CONFIG_HOME=" + home.path()}});
  };
  const auto one = node(1);
  const auto zero = node(0);
  ASSERT_EQ(zero->wait(240s), 0) << zero->out() << zero->err();
  ASSERT_EQ(one->wait(240s), 0) << one->out() << one->err();

  const Ran alone =
      shell(program("train_cnn") + " --threads 1 --epochs 1 --batch-size 64 --lr 0.01 --json");
  ASSERT_EQ(alone.code, 0) << alone.text;

  // That all ranks end with bitwise equal parameters, train_cnn itself makes sure.
  const Report two = parse_report(zero->out());
  expect_near_relative(two.losses(), parse_report(alone.text).losses(), 1e-5);
  EXPECT_EQ(two.end["world_size"], 2);
}

}  // namespace
}  // namespace dl::dist
