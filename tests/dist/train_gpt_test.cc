// train_gpt, run as a user runs it: alone and on two ranks, stopped and resumed, writing, and
// refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

#include "nn/serialize/safetensors.h"
#include "tests/dist/shell.h"
#include "tests/dist/train_report.h"
#include "tests/nn/data/bytes.h"
#include "tests/parity/arrays.h"

namespace dl::dist {
namespace {

using data::TemporaryDirectory;
using testing::HasSubstr;

// A sentence of 55 bytes, 30 times.
const parity::Arrays& torch() {
  static const parity::Arrays arrays("train_gpt");
  return arrays;
}

std::string train_gpt(const std::string& flags) {
  return program("train_gpt") + " --threads 1 " + flags;
}

std::string on_two_ranks(const std::string& flags) {
  return program("dlrun") + " --nproc-per-node 2 " + train_gpt(flags);
}

// A network of 2 layers on samples of 32 bytes; an epoch has 46 of them.
std::string tiny(const TemporaryDirectory& dir) {
  return "--text " + dir.write("text", std::as_bytes(std::span(torch().raw("text")))) +
         " --context 32 --layers 2 --heads 2 --width 32 ";
}

Report run(const std::string& command) {
  const Ran ran = shell(command + " --json");
  EXPECT_EQ(ran.code, 0) << ran.text;
  return parse_report(ran.text);
}

TEST(TrainGpt, HasPyTorchsLosses) {
  const TemporaryDirectory dir;
  const Report ran =
      run(train_gpt(tiny(dir) + "--steps 12 --batch-size 8 --lr 0.01 --warmup-steps 3 --min-lr "
                                "0.001 --weight-decay 0.1"));
  expect_near_relative(ran.losses(), torch().get<double>("losses"), 1e-4);
  expect_near_relative({ran.end["val_loss"]}, torch().get<double>("val_loss"), 1e-4);
}

TEST(TrainGpt, LearnsATextOnTwoRanksAndGoesOnWithIt) {
  const TemporaryDirectory dir;
  const Report ran = run(on_two_ranks(
      tiny(dir) +
      "--batch-size 2 --steps 250 --lr 0.01 --warmup-steps 10 --eval-every 125 --generate "
      "'Ranks add what' --max-new-tokens 50 --temperature 0"));
  ASSERT_EQ(ran.steps.size(), 250U);
  // Before the first step all 256 tokens are about as probable.
  EXPECT_NEAR(ran.steps[0]["loss"].get<double>(), std::log(256), 0.3);
  EXPECT_LT(ran.losses().back(), 0.3);
  ASSERT_EQ(ran.evaluations.size(), 2U);
  EXPECT_LT(ran.evaluations[1]["val_loss"].get<double>(), 0.3);
  EXPECT_NEAR(ran.evaluations[1]["val_perplexity"].get<double>(),
              std::exp(ran.evaluations[1]["val_loss"].get<double>()), 1e-9);
  EXPECT_EQ(ran.end["val_loss"], ran.evaluations[1]["val_loss"]);
  EXPECT_EQ(ran.end["world_size"], 2);
  ASSERT_EQ(ran.texts.size(), 1U);
  EXPECT_EQ(ran.texts[0]["text"].get<std::string>().substr(0, 40),
            torch().raw("text").substr(14, 40));
}

// All state that there is: dropout, clipped gradients, a schedule and its warm-up, parts of a step.
// An epoch is 5 steps; the run is stopped inside of the second one.
TEST(TrainGpt, GoesOnWithTheSameBits) {
  const TemporaryDirectory dir;
  for (const bool two : {false, true}) {
    const std::string checkpoints = dir.path() + (two ? "/two" : "/one");
    const std::string flags = tiny(dir) + "--batch-size " + (two ? "2" : "4") +
                              " --accumulate 2 --steps 9 --dropout 0.1 --warmup-steps 3 "
                              "--eval-every 4 --checkpoint-every 7 --checkpoint-dir ";
    const auto command = [&](const std::string& rest) {
      return two ? on_two_ranks(flags + rest) : train_gpt(flags + rest);
    };
    const Report whole = run(command(checkpoints));
    ASSERT_EQ(whole.steps.size(), 9U);
    ASSERT_EQ(whole.evaluations.size(), 3U);  // after 4, 8 and all steps
    const Report rest = run(command(checkpoints + " --resume"));
    EXPECT_EQ(rest.steps, decltype(rest.steps)(whole.steps.begin() + 7, whole.steps.end()));
    EXPECT_EQ(rest.evaluations,
              decltype(rest.evaluations)(whole.evaluations.begin() + 1, whole.evaluations.end()));
    EXPECT_EQ(rest.end["parameters_sha256"], whole.end["parameters_sha256"]);
    EXPECT_THAT(shell(command(checkpoints + " --resume --seed 7")).text,
                HasSubstr("--schedule cosine --warmup-steps 3 --min-lr 0 --steps 9 on " +
                          std::string(two ? "2 ranks" : "1 rank") + ", this one is started with"));
  }
}

// --steps ends the shorter run inside of an epoch, which the longer one goes on with.
TEST(TrainGpt, ARunWithoutAScheduleMayBeMadeLonger) {
  const TemporaryDirectory dir;
  const std::string flags = tiny(dir) + "--schedule none --batch-size 8 --steps ";
  const std::string saving = " --checkpoint-every 1 --checkpoint-dir " + dir.path() + "/c";
  const Report whole = run(train_gpt(flags + "8"));
  run(train_gpt(flags + "3" + saving));
  const Report rest = run(train_gpt(flags + "8 --resume" + saving));
  EXPECT_EQ(rest.steps, decltype(rest.steps)(whole.steps.begin() + 3, whole.steps.end()));
  EXPECT_EQ(rest.end["parameters_sha256"], whole.end["parameters_sha256"]);
  const Report done = run(train_gpt(flags + "8 --resume" + saving));
  EXPECT_TRUE(done.steps.empty());
  EXPECT_EQ(done.end["val_loss"], whole.end["val_loss"]);
}

TEST(TrainGpt, RanksAndPartsOfAStepDoNotChangeTheLosses) {
  const TemporaryDirectory dir;
  const std::string flags = tiny(dir) + "--steps 10 --batch-size ";
  const Report one = run(train_gpt(flags + "8"));
  const Report parts = run(train_gpt(flags + "2 --accumulate 4"));
  const Report two = run(on_two_ranks(flags + "4"));
  const Report both = run(on_two_ranks(flags + "2 --accumulate 2"));
  for (const Report* other : {&parts, &two, &both}) {
    expect_near_relative(other->losses(), one.losses(), 1e-4);
    expect_near_relative({other->end["val_loss"]}, {one.end["val_loss"]}, 1e-4);
  }
}

TEST(TrainGpt, CompiledStepsHaveTheBitsOfTheOthers) {
  const TemporaryDirectory dir;
  for (const char* more : {"--dropout 0.1", "--accumulate 2", "--amp bf16"}) {
    const std::string flags = tiny(dir) + "--steps 12 --batch-size 4 " + more;
    const Report eager = run(train_gpt(flags));
    const Ran ran = shell(train_gpt(flags + " --compile --json"));
    EXPECT_THAT(ran.text, testing::Not(HasSubstr("compile"))) << "a warning";
    const Report compiled = parse_report(ran.text);
    EXPECT_EQ(compiled.steps, eager.steps) << more;
    EXPECT_EQ(compiled.end["parameters_sha256"], eager.end["parameters_sha256"]) << more;
  }
}

TEST(TrainGpt, SavesWhatItWritesWithLater) {
  const TemporaryDirectory dir;
  const parity::Arrays arrays("tokens");
  dir.write("vocab.json", std::as_bytes(std::span(arrays.raw("vocab"))));
  dir.write("merges.txt", std::as_bytes(std::span(arrays.raw("merges"))));
  const std::string tokenizer = " --tokenizer " + dir.path();
  const std::string file = dir.path() + "/model.safetensors";
  const std::string writing = " --generate 'Ranks add' --max-new-tokens 20";
  const Report trained = run(
      train_gpt(tiny(dir) + tokenizer + writing + " --steps 20 --val-fraction 0.2 --save " + file));
  const std::string sizes = "--context 16 --layers 2 --heads 2 --width 32";
  const Report written =
      run(train_gpt("--epochs 0 --init-from " + dir.path() + tokenizer + writing + " " + sizes));
  EXPECT_EQ(written.end["parameters_sha256"], trained.end["parameters_sha256"]);
  EXPECT_EQ(written.texts, trained.texts);
  EXPECT_TRUE(written.steps.empty());

  EXPECT_THAT(shell(train_gpt(tiny(dir) + "--load " + file)).text,
              HasSubstr("is of a model for 420 kinds of tokens, and bytes have 256"));
}

TEST(TrainGpt, StopsAtALossThatIsNoNumberAndNamesTheModule) {
  const TemporaryDirectory dir;
  const Ran ran = shell(train_gpt(tiny(dir) + "--steps 20 --batch-size 2 --accumulate 2 "
                                              "--optimizer sgd --clip-norm 0 --lr 1e9"));
  EXPECT_EQ(ran.code, 1) << ran.text;
  EXPECT_THAT(ran.text,
              testing::ContainsRegex("\nerror: the loss of step [0-9]+ is -?(nan|inf): the output "
                                     "of [a-z0-9._]+ \\([A-Za-z0-9]+\\) is not finite; try a "
                                     "smaller --lr, --warmup-steps or --clip-norm\n$"));
}

TEST(TrainGpt, AnswersBadInputWithOneSentence) {
  const TemporaryDirectory dir;
  const auto refused = [](const std::string& flags, int code, const std::string& text) {
    const Ran ran = shell(train_gpt(flags));
    EXPECT_EQ(ran.code, code) << ran.text;
    EXPECT_THAT(ran.text, HasSubstr(text));
    EXPECT_LE(std::count(ran.text.begin(), ran.text.end(), '\n'), 2) << ran.text;
  };
  const std::string text =
      "--text " + dir.write("text", std::as_bytes(std::span(torch().raw("text"))));
  refused("", 2, "--text: is needed");
  refused("--text /nowhere/t", 1, "error: open /nowhere/t: No such file");
  refused(text + " --model gpt3", 2, "--model: gpt3 not in {gpt-nano,gpt-micro,");
  refused(text + " --context 1000 --model gpt2", 1, "--context 1000 needs 1001 or more");
  refused(text + " --context 32 --batch-size 47", 1,
          "error: one step of 1 x 47 samples takes more than the training set has, 46;");
  refused(text + " --context 32 --steps 5 --warmup-steps 5", 1,
          "error: --warmup-steps 5 leaves no step of the 5 that this run has");
  refused(text + " --tokenizer /nowhere", 1, "error: ");
  refused(text + " --load /nowhere/w.safetensors", 1, "error: open /nowhere/w.safetensors");
  refused(text + " --checkpoint-dir /dev/null/c", 1, "error: --checkpoint-dir /dev/null/c: ");
  refused(text + " --save /nowhere/w", 1, "error: --save /nowhere/w: cannot write to its folder");
}

}  // namespace
}  // namespace dl::dist
