#include "examples/train_gpt/train.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "collectives/solo/solo_group.h"
#include "core/autograd/grad_mode.h"
#include "core/base/error.h"
#include "core/random/generator.h"
#include "core/tensor/factories.h"
#include "examples/train_gpt/models.h"

namespace dl::examples::gpt {
namespace {

Options tiny_options() {
  return {.context = 8, .layers = 1, .heads = 2, .width = 8, .prompt = "ab"};
}

TEST(GptTest, AModelThatKnowsNothingHasThePerplexityOfTheTokens) {
  const Options options = tiny_options();
  const auto model = make_model(options, 256, nullptr);
  const NoGradGuard no_grad;
  for (const Tensor& one : model->parameters()) Tensor(one).zero_();
  const TokenSamples samples(std::vector<std::int32_t>(41, 7), 8);
  const auto group = collectives::make_solo_group();
  const Tested tested = test(*model, samples, options, {}, *group);
  EXPECT_EQ(tested.scores[0].name, "val_loss");
  EXPECT_NEAR(tested.scores[0].value, std::log(256), 1e-6);
  EXPECT_EQ(tested.scores[1].name, "val_perplexity");
  EXPECT_NEAR(tested.scores[1].value, 256, 1e-3);
  EXPECT_EQ(tested.mark, -tested.scores[0].value);
}

TEST(GptTest, ALossThatIsNoNumberNamesTheModule) {
  const Options options = tiny_options();
  const auto model = make_model(options, 256, nullptr);
  const NoGradGuard no_grad;
  model->get_parameter("transformer.h.0.mlp.c_fc.bias").fill_(3e38);
  model->get_parameter("transformer.h.0.mlp.c_proj.weight").fill_(3e38);
  const TokenSamples samples(std::vector<std::int32_t>(41, 7), 8);
  const auto group = collectives::make_solo_group();
  EXPECT_THAT([&] { test(*model, samples, options, {}, *group); },
              testing::ThrowsMessage<Error>(testing::ContainsRegex(
                  "^the validation loss is -?(nan|inf): the output of "
                  "transformer\\.h\\.0\\.mlp\\.[a-z_]+ \\([A-Za-z0-9]+\\) is not finite$")));
}

TEST(GptText, HasTheLengthThatIsAskedForAlsoBeyondThePositions) {
  manual_seed(3);
  Options options = tiny_options();
  const auto model = make_model(options, 256, nullptr);
  const Tokenizer bytes("");
  for (const std::int64_t length : {1, 6, 7, 30}) {
    options.max_new_tokens = length;
    EXPECT_EQ(write_text(*model, bytes, options, {}).size(), static_cast<std::size_t>(length));
  }
  // A prompt of more tokens than the model has positions.
  options.prompt = "abcdefghijklmnopqrstuvwxyz";
  EXPECT_EQ(write_text(*model, bytes, options, {}).size(), 30U);
  options.prompt = "";
  EXPECT_EQ(write_text(*model, bytes, options, {}).size(), 30U);
}

TEST(GptText, DependsOnTheSeedUnlessItIsTheMostProbable) {
  manual_seed(3);
  Options options = tiny_options();
  const auto model = make_model(options, 256, nullptr);
  const Tokenizer bytes("");
  const std::string text = write_text(*model, bytes, options, {});
  EXPECT_EQ(write_text(*model, bytes, options, {}), text);
  options.run.seed = 7;
  EXPECT_NE(write_text(*model, bytes, options, {}), text);
  options.temperature = 0;
  const std::string likely = write_text(*model, bytes, options, {});
  EXPECT_NE(likely, text);
  options.run.seed = 8;
  EXPECT_EQ(write_text(*model, bytes, options, {}), likely);
}

}  // namespace
}  // namespace dl::examples::gpt
