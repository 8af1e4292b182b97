#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/support/process.h"

namespace dl {
namespace {

using testing::HasSubstr;

// For what hangs: two ranks that share a core with others take their time.
constexpr std::chrono::minutes kLimit{2};

tests::Process::Options alone() {
  return {.environment = {"RANK=0", "WORLD_SIZE=1", "OMP_NUM_THREADS=1"}};
}

TEST(BenchTrain, PrintsTheKeysOfPyTorchsProgram) {
  for (const std::string optimizer : {"sgd", "adam"}) {
    tests::Process run({tests::program("bench_train"), "mlp", "--json", "--steps", "3", "--warmup",
                        "1", "--optim", optimizer},
                       alone());
    ASSERT_EQ(run.wait(kLimit), 0) << run.err();
    const auto object = nlohmann::json::parse(run.out());
    for (const std::string key :
         {"work", "parameters", "batch", "world", "threads", "mode", "dtype", "device", "optim",
          "channels_last", "median_ms", "p10_ms", "p90_ms", "samples_per_s", "peak_mib"}) {
      EXPECT_TRUE(object.contains(key)) << key;
    }
    EXPECT_EQ(object["parameters"], 2213);
    EXPECT_EQ(object["batch"], 8);
    EXPECT_EQ(object["world"], 1);
    EXPECT_EQ(object["optim"], optimizer);
    EXPECT_GT(object["median_ms"], 0.0);
    EXPECT_LE(object["p10_ms"], object["p90_ms"]);
  }
}

// With PyTorch's counterpart's numbers of parameters.
TEST(BenchTrain, TrainsEveryNetwork) {
  const std::vector<std::pair<std::string, int>> networks{
      {"cnn-cifar", 2'122'186},       {"resnet18", 11'173'962},
      {"resnet18-224", 11'689'512},   {"densenet121", 6'964'106},
      {"efficientnet-b0", 4'020'358}, {"gpt", 12'318'720},
      {"mobilenet-v2", 3'504'872},    {"lstm", 19'780'400}};
  for (const auto& [name, parameters] : networks) {
    tests::Process run({tests::program("bench_train"), name, "--json", "--batch", "2", "--steps",
                        "1", "--warmup", "0", "--optim", "adamw", "--channels-last"},
                       alone());
    ASSERT_EQ(run.wait(kLimit), 0) << run.err();
    const auto object = nlohmann::json::parse(run.out());
    EXPECT_EQ(object["parameters"], parameters) << name;
    EXPECT_EQ(object["channels_last"], true);
    EXPECT_GT(object["peak_mib"], 1.0);
  }
}

TEST(BenchTrain, PrintsTheLossesOfStepsWithoutDropout) {
  const auto losses = [](std::vector<std::string> more) {
    more.insert(more.begin(), {tests::program("bench_train"), "efficientnet-b0", "--batch", "2",
                               "--losses", "--steps", "2", "--json"});
    tests::Process run(more, alone());
    EXPECT_EQ(run.wait(kLimit), 0) << run.err();
    const auto object = nlohmann::json::parse(run.out());
    EXPECT_FALSE(object.contains("median_ms"));
    return object["losses"].get<std::vector<double>>();
  };
  const std::vector<double> first = losses({});
  ASSERT_EQ(first.size(), 2U);
  EXPECT_NE(first[0], first[1]);
  // A recorded step's dropout would draw other numbers.
  EXPECT_EQ(losses({"--mode", "compile"}), first);
  EXPECT_NE(losses({"--seed", "5"}), first);
}

TEST(BenchTrain, TrainsWithAGradientForAllUnderDlrun) {
  for (const std::string mode : {"--json", "--no-sync"}) {
    tests::Process run({tests::program("dlrun"), "--nproc-per-node", "2",
                        tests::program("bench_train"), "mlp", "--json", "--steps", "3", mode});
    ASSERT_EQ(run.wait(kLimit), 0) << run.err();
    const std::string line = run.out().substr(run.out().find('{'));
    const auto object = nlohmann::json::parse(line);
    EXPECT_EQ(object["world"], 2);
    EXPECT_EQ(object.contains("hidden"), mode == "--json");
  }
}

TEST(BenchTrain, RefusesWhatIsNotThereByName) {
  const auto refuse = [](std::vector<std::string> arguments, const std::string& text) {
    arguments.insert(arguments.begin(), tests::program("bench_train"));
    tests::Process run(arguments, alone());
    EXPECT_EQ(run.wait(kLimit), 2);
    EXPECT_THAT(run.err(), HasSubstr(text));
  };
  refuse({"resnet"},
         "the work \"resnet\" is not there; there is: mlp, cnn, cnn-cifar, conv18, resnet18, "
         "resnet18-224, resnet50, mobilenet-v2, vit-b-16, densenet121, efficientnet-b0, gpt, "
         "lstm");
  refuse({"mlp", "--dtype", "f64"}, "the dtype \"f64\" is not there; there is: f32, bf16, f16");
  refuse({"mlp", "--mode", "tape"},
         "the mode \"tape\" is not there; there is: eager, compile, captured");
  refuse({"mlp", "--mode", "captured"}, "--mode captured needs a GPU: --device cuda");
  refuse({"mlp", "--mode", "compile", "--device", "cuda:0"}, "--mode compile is for --device cpu");
  refuse({"mlp", "--device", "tpu"}, "tpu");
  refuse({"mlp", "--optim", "lion"},
         "the optimizer \"lion\" is not there; there is: sgd, adam, adamw");
  refuse({"mlp", "--batch", "0"}, "--batch: '0' is no whole number from 1 to 1000000000");
  refuse({"mlp", "--foreach"}, "--foreach");
  refuse({}, "work is required");
}

}  // namespace
}  // namespace dl
