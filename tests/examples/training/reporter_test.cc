#include "examples/support/training/report/reporter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <sstream>

namespace dl::examples {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

// What a reporter wrote.
class Recorder {
 public:
  explicit Recorder(Reporter::Config config)
      : out_(::open_memstream(&text_, &size_)), reporter_((config.out = out_, config)) {}
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;
  ~Recorder() {
    std::fclose(out_);
    std::free(text_);
  }
  Reporter& operator*() { return reporter_; }
  Reporter* operator->() { return &reporter_; }
  std::string out() { return std::fflush(out_), std::string(text_, size_); }
  std::vector<std::string> lines() {
    std::istringstream text(out());
    std::vector<std::string> lines;
    for (std::string line; std::getline(text, line);) lines.push_back(line);
    return lines;
  }

 private:
  char* text_ = nullptr;
  std::size_t size_ = 0;
  std::FILE* out_;
  Reporter reporter_;
};

Progress at(std::int64_t step) {
  return {.epoch = 2, .epochs = 5, .step = step, .steps = 20, .loss = 0.25, .per_s = 1234};
}

const Result kResult{.scores = {{"test_accuracy", 0.975, "test accuracy 97.50 %"}},
                     .per_s = 2000,
                     .parameters = 1630090,
                     .parameters_sha256 = "abc",
                     .world_size = 2};

TEST(Reporter, PrintsAnObjectAStepAndOneAtTheEnd) {
  Recorder recorder({.json = true, .log_every = 10});
  recorder->note("for people");
  recorder->step(41, at(1));
  recorder->epoch_done(at(20));
  recorder->finish(kResult);
  const auto lines = recorder.lines();
  ASSERT_THAT(lines, SizeIs(2));
  const auto step = nlohmann::json::parse(lines[0]);
  EXPECT_EQ(step["epoch"], 2);
  EXPECT_EQ(step["step"], 41);
  EXPECT_EQ(step["loss"], 0.25);
  const auto end = nlohmann::json::parse(lines[1]);
  EXPECT_EQ(end["test_accuracy"], 0.975);
  EXPECT_EQ(end["samples_per_s"], 2000.0);
  EXPECT_EQ(end["parameters"], 1630090);
  EXPECT_EQ(end["parameters_sha256"], "abc");
  EXPECT_EQ(end["world_size"], 2);
}

TEST(Reporter, ShowsEvaluationsAndTheRateThatASchedulePlans) {
  const Evaluation evaluation{.epoch = 2,
                              .step_of_run = 40,
                              .scores = {{"test_accuracy", 0.5, "test accuracy 50.00 %"}},
                              .best = true};
  Recorder json({.json = true});
  Progress progress = at(1);
  progress.lr = 0.125;
  json->step(41, progress);
  json->evaluated(evaluation);
  EXPECT_THAT(json.lines(),
              testing::ElementsAre(R"({"epoch":2,"step":41,"loss":0.25,"lr":0.125})",
                                   R"({"epoch":2,"step":40,"test_accuracy":0.5,"best":true})"));
  Recorder plain({});
  plain->evaluated(evaluation);
  EXPECT_THAT(plain.lines(),
              testing::ElementsAre("epoch 2: test accuracy 50.00 %, the best so far"));
}

TEST(Reporter, ShowsSeveralScoresAndTheStepOfATestWithinAnEpoch) {
  const Scores scores = {{"val_loss", 1.5, "validation loss 1.5000"},
                         {"val_perplexity", 4.5, "perplexity 4.5"}};
  Recorder recorder({.unit = "tokens"});
  recorder->evaluated({.epoch = 1, .step_of_run = 40, .within_epoch = true, .scores = scores});
  recorder->finish({.scores = scores, .per_s = 512, .world_size = 2});
  const auto lines = recorder.lines();
  EXPECT_EQ(lines[0], "epoch 1, step 40: validation loss 1.5000, perplexity 4.5");
  EXPECT_EQ(lines[1], "validation loss 1.5000, perplexity 4.5, 512 tokens/s on 2 ranks");
  Recorder json({.json = true, .unit = "tokens"});
  json->finish({.scores = scores, .per_s = 512});
  const auto end = nlohmann::json::parse(json.out());
  EXPECT_EQ(end["val_loss"], 1.5);
  EXPECT_EQ(end["val_perplexity"], 4.5);
  EXPECT_EQ(end["tokens_per_s"], 512.0);
}

TEST(Reporter, SaysNothingOfARunThatNeitherTrainedNorTested) {
  Recorder recorder({});
  recorder->finish({.parameters = 5, .parameters_sha256 = "abc"});
  EXPECT_THAT(recorder.lines(),
              testing::ElementsAre("5 parameters, the same on all ranks: sha256 abc"));
}

TEST(Reporter, ShowsTextsOfAnyBytes) {
  Recorder json({.json = true});
  json->generated("a", "b\xff\n");
  const auto object = nlohmann::json::parse(json.out());
  EXPECT_EQ(object["prompt"], "a");
  EXPECT_EQ(object["text"], "b\xef\xbf\xbd\n");
  Recorder plain({});
  plain->generated("a", "b\x1b[2J\xff\nc");
  EXPECT_EQ(plain.out(), "\nab\\x1b[2J\\xff\nc\n\n");
}

TEST(Reporter, PrintsPlainLinesWithoutATerminal) {
  Recorder recorder({.log_every = 10});
  for (std::int64_t step = 1; step <= 20; ++step) recorder->step(step, at(step));
  recorder->epoch_done(at(20));
  recorder->finish(kResult);
  const auto lines = recorder.lines();
  ASSERT_THAT(lines, SizeIs(5));
  EXPECT_EQ(lines[0], "epoch 2/5, step 10/20: loss 0.2500, 1234 samples/s");
  EXPECT_EQ(lines[2], "epoch 2/5 done: loss 0.2500, 1234 samples/s");
  EXPECT_EQ(lines[3], "test accuracy 97.50 %, 2000 samples/s on 2 ranks");
  EXPECT_THAT(recorder.out(), testing::Not(HasSubstr("\r")));
}

TEST(Reporter, NamesNoSpeedIfNothingWasTrained) {
  Recorder recorder({});
  recorder->finish({.scores = kResult.scores});
  EXPECT_EQ(recorder.lines()[0], "test accuracy 97.50 % on 1 rank");
}

TEST(Reporter, DrawsABarOnATerminalAndClearsItForLines) {
  Recorder recorder({.log_every = 10, .progress_width = 70});
  recorder->step(20, at(20));
  const std::string bar = recorder.out();
  EXPECT_EQ(bar.back(), '\r');
  EXPECT_THAT(bar, testing::Not(HasSubstr("\n"))) << "no line a step beside the bar";
  EXPECT_LT(bar.size(), 71U) << "one column is left free, or the terminal wraps";
  recorder->epoch_done(at(20));
  EXPECT_EQ(recorder.out(), bar + std::string(bar.size() - 1, ' ') +
                                "\repoch 2/5 done: loss 0.2500, 1234 samples/s\n");
}

TEST(Reporter, DrawsNoBarBetweenJsonObjects) {
  Recorder recorder({.json = true, .progress_width = 70});
  recorder->step(1, at(1));
  EXPECT_THAT(recorder.out(), testing::Not(HasSubstr("\r")));
}

TEST(Reporter, OtherRanksSayNothing) {
  Recorder recorder({.speaks = false, .json = true, .progress_width = 70});
  recorder->note("x");
  recorder->step(1, at(1));
  recorder->finish(kResult);
  EXPECT_THAT(recorder.out(), IsEmpty());
}

TEST(Reporter, AsksForTheLossOfTheStepsItShows) {
  const Reporter json({.json = true, .log_every = 10});
  EXPECT_TRUE(json.wants_loss(3, false));
  const Reporter lines({.log_every = 10});
  EXPECT_FALSE(lines.wants_loss(3, false));
  EXPECT_TRUE(lines.wants_loss(10, false));
  EXPECT_TRUE(lines.wants_loss(3, true));
  EXPECT_TRUE(lines.wants_loss(1, false)) << "a bar needs a first loss to show";
}

TEST(ProgressLine, FillsTheWidthAndMovesWithTheStep) {
  const std::string half = progress_line(at(10), "samples", 80);
  EXPECT_EQ(half.size(), 80U);
  EXPECT_THAT(half, HasSubstr("epoch 2/5 [==="));
  EXPECT_THAT(half, HasSubstr("> "));
  EXPECT_THAT(half, HasSubstr("10/20, loss 0.2500, 1234 samples/s"));
  EXPECT_THAT(progress_line(at(20), "samples", 80), HasSubstr("==] 20/20"));
}

TEST(ProgressLine, NeverExceedsANarrowTerminal) {
  for (int width = 0; width < 80; ++width) {
    EXPECT_LE(progress_line(at(7), "samples", width).size(), static_cast<std::size_t>(width));
  }
  EXPECT_EQ(progress_line(at(7), "samples", 46), "epoch 2/5 7/20, loss 0.2500, 1234 samples/s");
}

}  // namespace
}  // namespace dl::examples
