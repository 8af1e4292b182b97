// The first example, run as a user runs it: alone, on two ranks, on three.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "nn/checkpoint/checkpoint.h"
#include "nn/serialize/safetensors.h"
#include "tests/dist/shell.h"
#include "tests/dist/train_report.h"
#include "tests/nn/data/bytes.h"
#include "tests/parity/arrays.h"

namespace dl::dist {
namespace {

using data::TemporaryDirectory;
using testing::HasSubstr;

const parity::Arrays& torch() {
  static const parity::Arrays arrays("train_cnn");
  return arrays;
}

std::string train_cnn(const std::string& flags) {
  return program("train_cnn") + " --threads 1 " + flags;
}

std::string on_ranks(int ranks, const std::string& flags) {
  return program("dlrun") + " --nproc-per-node " + std::to_string(ranks) + " " + train_cnn(flags);
}

Report report_of(const std::string& command) {
  const Ran ran = shell(command + " --json");
  EXPECT_EQ(ran.code, 0) << ran.text;
  return parse_report(ran.text);
}

TEST(TrainCnn, FirstLossIsPyTorchsAndTheRestStaysClose) {
  const Report alone = report_of(train_cnn("--epochs 1 --batch-size 64"));
  const std::vector<double> want = torch().get<double>("losses");
  ASSERT_EQ(alone.steps.size(), want.size());
  EXPECT_LE(std::abs(alone.losses()[0] - want[0]), 1e-5 * want[0]);
  // Other orders of additions drift apart as the steps go on.
  expect_near_relative(alone.losses(), want, 2e-3);
  EXPECT_EQ(alone.steps[0]["epoch"], 1);
  EXPECT_EQ(alone.steps[0]["step"], 1);
  EXPECT_EQ(alone.end["parameters"], 1630090);
  EXPECT_EQ(alone.end["world_size"], 1);
}

TEST(TrainCnn, TwoRanksOfHalfTheBatchTakeTheStepsOfOne) {
  // The default rate overshoots here, and would make other orders of additions visible.
  const Report one = report_of(train_cnn("--epochs 1 --batch-size 64 --lr 0.01"));
  const Report two = report_of(on_ranks(2, "--epochs 1 --batch-size 32 --lr 0.01"));
  expect_near_relative(two.losses(), one.losses(), 1e-5);
  EXPECT_EQ(two.end["world_size"], 2);
  // That both ranks ended with these bits, the program itself has made sure.
  EXPECT_EQ(two.end["parameters_sha256"].get<std::string>().size(), 64U);
}

TEST(TrainCnn, TheSameSeedGivesTheSameBits) {
  const std::string command = on_ranks(2, "--epochs 1 --batch-size 32 --seed 7");
  EXPECT_EQ(report_of(command).end["parameters_sha256"],
            report_of(command).end["parameters_sha256"]);
}

TEST(TrainCnn, CompiledStepsHaveTheBitsOfTheOthers) {
  for (const int ranks : {1, 2}) {
    const std::string flags = "--epochs 1 --batch-size 64";
    const Report eager = report_of(on_ranks(ranks, flags));
    const Report compiled = report_of(on_ranks(ranks, flags + " --compile"));
    EXPECT_EQ(compiled.losses(), eager.losses()) << ranks << " ranks";
    EXPECT_EQ(compiled.end["parameters_sha256"], eager.end["parameters_sha256"]);
  }
}

TEST(TrainCnn, SavesWhatAnyNumberOfRanksLoadsAndTestsTheSame) {
  const TemporaryDirectory dir;
  const std::string file = dir.path() + "/model.safetensors";
  const Report saved = report_of(train_cnn("--epochs 1 --save " + file));
  const double accuracy = saved.end["test_accuracy"];
  EXPECT_GT(accuracy, 0.3) << "an epoch taught it nothing";
  EXPECT_EQ(std::round(accuracy * 364), accuracy * 364)
      << "each of the 364 test images counts once";
  for (const int ranks : {1, 3}) {
    const Report loaded = report_of(on_ranks(ranks, "--epochs 0 --load " + file));
    EXPECT_EQ(loaded.end["test_accuracy"], saved.end["test_accuracy"]) << ranks << " ranks";
    EXPECT_EQ(loaded.end["parameters_sha256"], saved.end["parameters_sha256"]);
  }
}

TEST(TrainCnn, ProfilesEachRankAndShowsWhatRank0Did) {
  const TemporaryDirectory dir;
  const Ran ran = shell(on_ranks(2, "--epochs 1 --profile " + dir.path() + "/p"));
  EXPECT_EQ(ran.code, 0) << ran.text;
  for (const char* part : {"Self CPU %", "conv2d_backward_weight", "optimizer_step",
                           "Self CPU time total: ", "20 steps of ", "; collectives were "}) {
    EXPECT_THAT(ran.text, HasSubstr(part));
  }
  for (const int rank : {0, 1}) {
    std::ifstream file(dir.path() + "/p/rank" + std::to_string(rank) + ".trace.json");
    const nlohmann::json trace = nlohmann::json::parse(file);
    std::map<std::string, int> counts;
    for (const nlohmann::json& event : trace["traceEvents"]) {
      EXPECT_EQ(event["pid"], rank);
      ++counts[event["ph"].get<std::string>() + " " + event["name"].get<std::string>()];
    }
    EXPECT_EQ(counts["X ProfilerStep#2"], 1);
    EXPECT_GT(counts["X dlrun::all_reduce"], 0);
    EXPECT_GT(counts["X DistributedDataParallel.wait"], 0);
    EXPECT_GT(counts["b shm:all_reduce"], 0);
    EXPECT_EQ(counts["b shm:all_reduce"], counts["e shm:all_reduce"]);
  }
}

// 1,433 images are 22 steps of 64; step 21 is the last but one of the first epoch.
TEST(TrainCnn, GoesOnFromACheckpointWithTheSameBits) {
  const TemporaryDirectory dir;
  const std::string checkpoints = "--checkpoint-every 7 --checkpoint-dir " + dir.path() + "/c";
  const Report whole = report_of(on_ranks(2, "--epochs 2 --batch-size 32"));
  // What a run of one epoch leaves is what a longer one leaves that is killed then.
  report_of(on_ranks(2, "--epochs 1 --batch-size 32 --resume " + checkpoints));
  const Report rest = report_of(on_ranks(2, "--epochs 2 --batch-size 32 --resume " + checkpoints));
  EXPECT_EQ(rest.steps.front()["step"], 22);
  EXPECT_EQ(rest.steps.back()["step"], whole.steps.back()["step"]);
  EXPECT_EQ(rest.end["parameters_sha256"], whole.end["parameters_sha256"]);

  const auto refused = [&](const std::string& command) { return shell(command + " 2>&1").text; };
  EXPECT_THAT(refused(train_cnn("--epochs 1 " + checkpoints)),
              HasSubstr("/c holds checkpoints of an earlier run; go on with --resume, or name "
                        "another folder"));
  EXPECT_THAT(refused(train_cnn("--epochs 1 --checkpoint-dir /dev/null/c")),
              HasSubstr("--checkpoint-dir /dev/null/c: cannot make it: Not a directory"));
  const std::string settings =
      "--dataset digits --batch-size 32 --lr 0.05 --momentum 0.9 --seed 42 --amp off on ";
  EXPECT_THAT(refused(train_cnn("--epochs 3 --batch-size 32 --resume " + checkpoints)),
              HasSubstr("/c is of a run with " + settings + "2 ranks, this one is started with " +
                        settings + "1 rank\n"));
}

TEST(TrainCnn, RefusesACheckpointOfAnotherProgram) {
  const TemporaryDirectory dir;
  nn::CheckpointDir(dir.path()).save({.step = 3, .numbers = {{"epoch", 1}}});
  const Ran ran = shell(train_cnn("--epochs 1 --resume --checkpoint-dir " + dir.path()));
  EXPECT_EQ(ran.code, 1);
  EXPECT_THAT(ran.text, HasSubstr("the checkpoint of step 3 in " + dir.path() +
                                  " is of another program: it has no settings of train_cnn; name "
                                  "another folder"));
}

TEST(TrainCnn, NamesASymbolicLinkThatLeadsNowhere) {
  const TemporaryDirectory dir;
  const std::string link = dir.path() + "/link";
  std::filesystem::create_symlink(dir.path() + "/gone", link);
  for (const std::string& folder : {link, link + "/", link + "/c"}) {
    EXPECT_THAT(shell(train_cnn("--epochs 1 --checkpoint-dir " + folder)).text,
                HasSubstr("--checkpoint-dir " + folder + ": cannot make it: " + link +
                          " is a symbolic link to " + dir.path() + "/gone, which is not there"));
  }
}

TEST(TrainCnn, SavesPyTorchsNames) {
  const TemporaryDirectory dir;
  const std::string file = dir.path() + "/model.safetensors";
  report_of(train_cnn("--epochs 0 --save " + file));
  std::map<std::string, std::int64_t> want;
  for (const std::string& name : torch().names()) {
    if (name.starts_with("size.")) want[name.substr(5)] = torch().get<std::int64_t>(name)[0];
  }
  std::map<std::string, std::int64_t> got;
  for (const auto& [name, tensor] : nn::load_safetensors(file).tensors) got[name] = tensor.numel();
  EXPECT_EQ(got, want);
}

TEST(TrainCnn, ShowsABarIfDlrunShowsATerminal) {
  const Ran ran = shell("env DLRUN_PROGRESS_WIDTH=70 " + train_cnn("--epochs 1"));
  EXPECT_EQ(ran.code, 0) << ran.text;
  EXPECT_THAT(ran.text, HasSubstr("] 44/44, loss "));
  EXPECT_THAT(ran.text, HasSubstr("\r"));
  EXPECT_THAT(shell(train_cnn("--epochs 1")).text, testing::Not(HasSubstr("\r")));
}

void expect_refused(const std::string& command, int code, const std::string& text) {
  const Ran ran = shell(command);
  EXPECT_EQ(ran.code, code) << ran.text;
  EXPECT_THAT(ran.text, HasSubstr(text));
  EXPECT_LE(std::count(ran.text.begin(), ran.text.end(), '\n'), 2) << ran.text;
}

TEST(TrainCnn, AnswersBadInputWithOneSentence) {
  const TemporaryDirectory dir;
  expect_refused(train_cnn("--epochs -1"), 2, "--epochs");
  expect_refused(train_cnn("--dataset mnist"), 1,
                 "error: --dataset mnist needs --data-dir, the folder with its files");
  expect_refused(train_cnn("--dataset mnist --data-dir /nowhere"), 1,
                 "error: open /nowhere/train-images-idx3-ubyte: No such file or directory");
  expect_refused(train_cnn("--batch-size 1434"), 1,
                 "error: one step of 1 x 1434 samples takes more than the training set has, 1433");
  expect_refused(train_cnn("--load /nowhere/f"), 1, "error: open /nowhere/f: No such file");
  const std::string garbage = dir.write("garbage", data::Bytes(100, std::byte{'x'}));
  expect_refused(train_cnn("--load " + garbage), 1,
                 "error: " + garbage + " is not a safetensors file");
  dir.write("train-images-idx3-ubyte", data::idx_header(8, {1000, 28, 28}));
  expect_refused(train_cnn("--dataset mnist --data-dir " + dir.path()), 1,
                 "train-images-idx3-ubyte is truncated");
}

}  // namespace
}  // namespace dl::dist
