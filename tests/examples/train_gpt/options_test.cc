#include "examples/train_gpt/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace dl::examples::gpt {
namespace {

std::variant<Options, int> parse(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "train_gpt");
  return parse_options(static_cast<int>(arguments.size()), arguments.data());
}

Options accept(const std::vector<const char*>& arguments) {
  return std::get<Options>(parse(arguments));
}

TEST(GptOptions, HaveDefaultsForASmallNetworkOnBytes) {
  const Options options = accept({"--text", "t"});
  EXPECT_EQ(options.model, "gpt-micro");
  EXPECT_EQ(options.run.optimizer, "adamw");
  EXPECT_EQ(options.run.lr, 1e-3);
  EXPECT_EQ(options.run.weight_decay, 1e-2);
  EXPECT_EQ(options.run.schedule, "cosine");
  EXPECT_EQ(options.run.clip_norm, 1.0);
  EXPECT_TRUE(options.tokenizer.empty());
  EXPECT_EQ(options.prompt, std::nullopt);
}

TEST(GptOptions, TakeEveryFlag) {
  const Options o =
      accept({"--text",           "t",      "--tokenizer",   "v",    "--val-fraction", "0.2",
              "--context",        "64",     "--model",       "gpt2", "--layers",       "2",
              "--heads",          "4",      "--width",       "32",   "--dropout",      "0.1",
              "--init-from",      "w",      "--save",        "s",    "--steps",        "9",
              "--batch-size",     "3",      "--accumulate",  "5",    "--warmup",       "2",
              "--min-lr",         "0.0001", "--eval-every",  "4",    "--generate",     "",
              "--max-new-tokens", "7",      "--temperature", "0",    "--top-k",        "8",
              "--top-p",          "0.5"});
  EXPECT_EQ(o.text, "t");
  EXPECT_EQ(o.tokenizer, "v");
  EXPECT_EQ(o.val_fraction, 0.2);
  EXPECT_EQ(o.context, 64);
  EXPECT_EQ(o.model, "gpt2");
  EXPECT_EQ(o.layers, 2);
  EXPECT_EQ(o.heads, 4);
  EXPECT_EQ(o.width, 32);
  EXPECT_EQ(o.dropout, 0.1);
  EXPECT_EQ(o.run.load, "w");
  EXPECT_EQ(o.run.save, "s");
  EXPECT_EQ(o.steps, 9);
  EXPECT_EQ(o.run.batch_size, 3);
  EXPECT_EQ(o.accumulate, 5);
  EXPECT_EQ(o.warmup_steps, 2);
  EXPECT_EQ(o.min_lr, 1e-4);
  EXPECT_EQ(o.eval_every, 4);
  EXPECT_EQ(o.prompt, "");
  EXPECT_EQ(o.max_new_tokens, 7);
  EXPECT_EQ(o.temperature, 0.0);
  EXPECT_EQ(o.top_k, 8);
  EXPECT_EQ(o.top_p, 0.5);
}

TEST(GptOptions, ThatDoNotGoTogetherAreRefused) {
  const auto refused = [](const std::vector<const char*>& arguments, const std::string& text) {
    testing::internal::CaptureStderr();
    const auto result = parse(arguments);
    const std::string said = testing::internal::GetCapturedStderr();
    ASSERT_TRUE(std::holds_alternative<int>(result));
    EXPECT_EQ(std::get<int>(result), 2);
    EXPECT_THAT(said, testing::HasSubstr(text));
  };
  refused({}, "--text: is needed, unless --epochs 0 and --generate only write a text");
  refused({"--epochs", "0"}, "--text: is needed");
  refused({"--text", ""}, "--text: an empty name; leave it out");
  refused({"--text", "t", "--steps", "5", "--epochs", "1"}, "--epochs excludes --steps");
  refused({"--text", "t", "--schedule", "none", "--warmup-steps", "1"},
          "--warmup-steps: needs --schedule step or cosine");
  refused({"--text", "t", "--schedule", "step", "--min-lr", "1e-5"},
          "--min-lr: needs --schedule cosine");
  refused({"--text", "t", "--min-lr", "1"}, "--min-lr: is more than --lr");
  refused({"--text", "t", "--val-fraction", "0", "--eval-every", "5"},
          "--eval-every: needs a part of the text: give a --val-fraction above 0");
  refused({"--text", "t", "--heads", "5"}, "--heads: 5 heads do not divide a width of 128");
  refused({"--text", "t", "--width", "130"}, "--width: 4 heads do not divide a width of 130");
  refused({"--text", "t", "--model", "gpt2", "--context", "2048"},
          "--context: is more than the 1024 positions of --model gpt2");
  refused({"--text", "t", "--top-k", "5"}, "--top-k requires --generate");
  refused({"--text", "t", "--generate", "x", "--top-p", "0"}, "--top-p: is 0, wanted more");
  refused({"--text", "t", "--dropout", "1"}, "--dropout: is 1, wanted less");
  refused({"--text", "t", "--momentum", "0.5"},
          "--momentum: is not an option of --optimizer adamw");
  EXPECT_EQ(accept({"--epochs", "0", "--generate", "x"}).run.epochs, 0);
}

TEST(GptOptions, OfAStepAreSettingsOfARun) {
  Options o{.text = "t"};
  const std::string all = settings_of_steps(o, 99);
  EXPECT_EQ(all,
            "--text t of 99 tokens --tokenizer bytes --val-fraction 0.1 --context 128 --layers 4 "
            "--heads 4 --width 128 --dropout 0 --batch-size 16 --accumulate 1 --optimizer adamw "
            "--lr 0.001 --momentum 0.9 --weight-decay 0.01 --clip-norm 1 --seed 42 --amp off "
            "--schedule cosine --warmup-steps 0 --min-lr 0 --epochs 3");
  // Without a schedule a run may be made longer.
  o.run.schedule = "none";
  const std::string short_run = settings_of_steps(o, 99);
  o.steps = 1000;
  EXPECT_EQ(settings_of_steps(o, 99), short_run);
}

}  // namespace
}  // namespace dl::examples::gpt
