#include "examples/train_image/options.h"

#include <gtest/gtest.h>

#include <vector>

namespace dl::examples {
namespace {

std::variant<Options, int> parse(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "train_cnn");
  return parse_options({.name = "train_cnn", .about = "Trains."},
                       static_cast<int>(arguments.size()), arguments.data());
}

// The exit code and what stands on stderr.
std::pair<int, std::string> refuse(const std::vector<const char*>& arguments) {
  testing::internal::CaptureStderr();
  const auto result = parse(arguments);
  std::string text = testing::internal::GetCapturedStderr();
  return {std::holds_alternative<int>(result) ? std::get<int>(result) : -1, std::move(text)};
}

TEST(Options, HaveDefaultsThatTrainTheShippedDigits) {
  const auto options = std::get<Options>(parse({}));
  EXPECT_EQ(options.dataset, "digits");
  EXPECT_TRUE(options.data_dir.empty());
  EXPECT_EQ(options.run.momentum, 0.9);
  EXPECT_FALSE(options.run.json);
}

TEST(Options, ProfileTakesAFolderOrNone) {
  EXPECT_FALSE(std::get<Options>(parse({})).run.profile);
  const auto table = std::get<Options>(parse({"--profile", "--json"}));
  EXPECT_TRUE(table.run.profile);
  EXPECT_EQ(table.run.profile_dir, "");
  EXPECT_TRUE(table.run.json);
  EXPECT_EQ(std::get<Options>(parse({"--profile", "d"})).run.profile_dir, "d");
}

TEST(Options, ParallelInfoIsPrintedAndEndsTheProgram) {
  testing::internal::CaptureStdout();
  const auto result = parse({"--threads", "1", "--parallel-info"});
  const std::string text = testing::internal::GetCapturedStdout();
  EXPECT_EQ(std::get<int>(result), 0);
  EXPECT_NE(text.find("dl::num_threads() : 1\n"), std::string::npos) << text;
}

TEST(Options, TakeEveryFlag) {
  const auto options = std::get<Options>(parse({"--dataset",    "cifar10",
                                                "--data-dir",   "/d",
                                                "--epochs",     "3",
                                                "--batch-size", "64",
                                                "--lr",         "0.5",
                                                "--momentum",   "0",
                                                "--seed",       "18446744073709551615",
                                                "--threads",    "2",
                                                "--workers",    "0",
                                                "--save",       "s",
                                                "--load",       "l",
                                                "--log-every",  "7",
                                                "--compile",    "--json"}));
  EXPECT_EQ(options.dataset, "cifar10");
  EXPECT_EQ(options.data_dir, "/d");
  EXPECT_EQ(options.run.epochs, 3);
  EXPECT_EQ(options.run.batch_size, 64);
  EXPECT_EQ(options.run.lr, 0.5);
  EXPECT_EQ(options.run.momentum, 0.0);
  EXPECT_EQ(options.run.seed, 18446744073709551615U);
  EXPECT_EQ(options.run.threads, 2);
  EXPECT_EQ(options.run.workers, 0);
  EXPECT_EQ(options.run.save, "s");
  EXPECT_EQ(options.run.load, "l");
  EXPECT_EQ(options.run.log_every, 7);
  EXPECT_TRUE(options.run.compiles);
  EXPECT_TRUE(options.run.json);
}

TEST(Options, BadUsageIsExitCodeTwoAndNamesTheFlag) {
  for (const auto& [flag, value] : {std::pair{"--epochs", "-1"},
                                    {"--batch-size", "0"},
                                    {"--epochs", "1.5"},
                                    {"--epochs", "0x2"},
                                    {"--lr", "x"},
                                    {"--lr", "nan"},
                                    {"--lr", "inf"},
                                    {"--lr", "-1"},
                                    {"--momentum", "nan"},
                                    {"--momentum", "1.1"},
                                    {"--device", "gpu"},
                                    {"--threads", "0"},
                                    {"--log-every", "0"},
                                    {"--seed", "-1"},
                                    {"--seed", "18446744073709551616"},
                                    {"--save", ""},
                                    {"--checkpoint-dir", ""},
                                    {"--checkpoint-every", "10"},  // without a folder
                                    {"--data-dir", ""},
                                    {"--dataset", "imagenet"},
                                    {"--no-such-flag", "1"}}) {
    const auto [code, text] = refuse({flag, value});
    EXPECT_EQ(code, 2) << flag;
    EXPECT_NE(text.find(flag), std::string::npos) << text;
  }
}

TEST(Options, OptimizersHaveTheirOwnRateUnlessOneIsGiven) {
  EXPECT_EQ(std::get<Options>(parse({"--optimizer", "adamw"})).run.lr, 1e-3);
  EXPECT_EQ(std::get<Options>(parse({"--optimizer", "adamw"})).run.weight_decay, 1e-2);
  EXPECT_EQ(std::get<Options>(parse({"--optimizer", "adamw", "--lr", "0.5"})).run.lr, 0.5);
  EXPECT_EQ(std::get<Options>(parse({})).run.lr, 0.05);
}

TEST(Options, ThatDoNotGoTogetherAreRefused) {
  const auto expect_refused = [](const std::vector<const char*>& arguments, const char* text) {
    const auto [code, said] = refuse(arguments);
    EXPECT_EQ(code, 2);
    EXPECT_EQ(said.substr(0, said.find('\n')), text);
  };
  expect_refused({"--optimizer", "adam", "--momentum", "0.5"},
                 "--momentum: is not an option of --optimizer adam");
  expect_refused({"--optimizer", "nesterov", "--momentum", "0"},
                 "--momentum: is 0, but --optimizer nesterov needs more");
  expect_refused({"--warmup-epochs", "1"}, "--warmup-epochs: needs --schedule step or cosine");
  expect_refused({"--warmup-epochs", "15", "--schedule", "cosine"},
                 "--warmup-epochs: leaves no epoch of --epochs 15");
  expect_refused({"--gamma", "0.5", "--schedule", "cosine"}, "--gamma: needs --schedule step");
  expect_refused({"--model", "densenet121", "--image-size", "8"},
                 "--image-size: is too small: --model densenet121 takes images from 32 pixels a "
                 "side on");
}

TEST(Options, ANumberThatIsNoneIsQuotedWithWhatIsWanted) {
  EXPECT_NE(
      refuse({"--epochs", "1.5"}).second.find("'1.5' is no whole number from 0 to 1000000000"),
      std::string::npos);
  EXPECT_NE(refuse({"--lr", "nan"}).second.find("'nan' is no number from 0 to 1000000000"),
            std::string::npos);
  EXPECT_EQ(std::get<Options>(parse({"--epochs", "010"})).run.epochs, 10);
}

TEST(Options, HelpAndVersionAreNoErrors) {
  testing::internal::CaptureStdout();
  EXPECT_EQ(std::get<int>(parse({"--help"})), 0);
  EXPECT_NE(testing::internal::GetCapturedStdout().find("--data-dir"), std::string::npos);
  testing::internal::CaptureStdout();
  EXPECT_EQ(std::get<int>(parse({"--version"})), 0);
  EXPECT_EQ(testing::internal::GetCapturedStdout().rfind("train_cnn ", 0), 0U);
}

// Checkpoints of earlier versions hold this text.
TEST(Settings, NameALaterOptionOnlyIfItIsUsed) {
  EXPECT_EQ(settings_of_steps({}),
            "--dataset digits --batch-size 32 --lr 0.05 --momentum 0.9 --seed 42 --amp off");
  const std::string all = settings_of_steps(
      {.run = {.optimizer = "adamw", .weight_decay = 0.5, .schedule = "step", .clip_norm = 1},
       .model = "resnet18",
       .image_size = 8,
       .augment = "shift",
       .label_smoothing = 0.1,
       .ema = 0.9});
  EXPECT_TRUE(all.ends_with(
      " --amp off --model resnet18 --image-size 8 --augment shift --optimizer adamw "
      "--weight-decay 0.5 --schedule step --epochs 15 --warmup-epochs 0 --step-epochs 0 --gamma "
      "0.1 --label-smoothing 0.1 --clip-norm 1 --ema 0.9"))
      << all;
}

}  // namespace
}  // namespace dl::examples
