#include "nn/models/sequence/generate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/autograd/grad_mode.h"
#include "core/base/error.h"
#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/index/index.h"
#include "core/ops/logic/logic.h"
#include "core/ops/reduce/reduce.h"
#include "core/ops/shape/shape.h"
#include "core/random/tensor_random.h"
#include "core/tensor/factories.h"
#include "tests/core/support.h"
#include "tests/parity/arrays.h"

namespace dl::nn::models {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

GPT2Options small() {
  return {.vocab_size = 37, .n_positions = 24, .n_embd = 16, .n_layer = 2, .n_head = 4};
}

class Generation : public testing::Test {
 protected:
  Generation() {
    manual_seed(7);
    model_ = std::make_unique<GPT2LMHeadModel>(small());
    model_->eval();
    words_ = randint(37, {3, 5});
  }
  Tensor without_cache(std::int64_t count) {
    const NoGradGuard no_grad;
    Tensor text = words_;
    for (std::int64_t i = 0; i < count; ++i) {
      const Tensor last = (*model_)(text).narrow(1, text.size(1) - 1, 1).squeeze(1);
      text = cat({text, argmax(last, -1).unsqueeze(1)}, 1);
    }
    return text;
  }

  std::unique_ptr<GPT2LMHeadModel> model_{};
  Tensor words_{};
};

TEST_F(Generation, TheCacheChangesNoToken) {
  const Tensor text = generate(*model_, words_, {.max_new_tokens = 19});
  EXPECT_EQ(text.sizes(), Shape({3, 24}));
  EXPECT_TRUE(equal(text, without_cache(19)));
}

TEST_F(Generation, ACacheIsFilledInAnyPortions) {
  const NoGradGuard no_grad;
  const Tensor whole = model_->transformer(words_);
  for (const std::int64_t first : {1, 2, 4}) {
    KVCache cache(model_->transformer, 3, 5);
    const Tensor begin = model_->transformer.forward(words_.narrow(1, 0, first), cache);
    EXPECT_EQ(cache.length(), first);
    const Tensor end = model_->transformer.forward(words_.narrow(1, first, 5 - first), cache);
    EXPECT_LT(max(abs(cat({begin, end}, 1) - whole)).item<float>(), 1e-5) << first;
  }
}

TEST_F(Generation, ATextEndsAtItsEndToken) {
  const Tensor all_new = generate(*model_, words_, {.max_new_tokens = 8});
  const auto end = all_new[0][6].item<std::int64_t>();
  const Tensor text =
      generate(*model_, words_.narrow(0, 0, 1), {.max_new_tokens = 8, .end_token = end});
  EXPECT_LE(text.size(1), 7);
  EXPECT_EQ(text[0][text.size(1) - 1].item<std::int64_t>(), end);
  const Tensor padded =
      generate(*model_, words_, {.max_new_tokens = 8, .end_token = end, .pad_token = 36});
  for (std::int64_t i = text.size(1); i < padded.size(1); ++i)
    EXPECT_EQ(padded[0][i].item<std::int64_t>(), 36);
  int calls = 0;
  const Tensor stopped =
      generate(*model_, words_, {.max_new_tokens = 8, .on_token = [&](const Tensor& token) {
                                   EXPECT_EQ(token.sizes(), Shape({3}));
                                   return ++calls < 2;
                                 }});
  EXPECT_EQ(stopped.sizes(), Shape({3, 7}));
}

TEST_F(Generation, LikelyLogitsAreThoseOfTransformers) {
  const parity::Arrays arrays("generate");
  const Tensor logits = tensor(arrays.get<float>("logits")).view({4, 50});
  const auto expect = [&](const std::string& name, const SamplingOptions& options) {
    const Tensor likely = likely_logits(logits, options).contiguous();
    const auto wanted = arrays.get<float>(name);
    const auto* got = likely.data<float>();
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      if (std::isinf(wanted[i])) {
        EXPECT_EQ(got[i], wanted[i]) << name << i;
      } else {
        EXPECT_NEAR(got[i], wanted[i], 1e-5) << name << i;
      }
    }
  };
  expect("temperature", {.temperature = 0.7});
  expect("top_k", {.top_k = 5});
  expect("top_p", {.top_p = 0.6});
  expect("tiny_top_p", {.top_p = 1e-6});
  expect("all", {.temperature = 1.5, .top_k = 20, .top_p = 0.8});
}

TEST_F(Generation, ASeedGivesTheText) {
  const SamplingOptions sampling{.do_sample = true, .temperature = 2, .top_k = 10};
  const GenerateOptions options{.max_new_tokens = 15, .sampling = sampling};
  const auto drawn = [&](std::uint64_t seed) {
    Generator generator;
    generator.manual_seed(seed);
    return generate(*model_, words_, options, generator);
  };
  EXPECT_TRUE(equal(drawn(3), drawn(3)));
  EXPECT_FALSE(equal(drawn(3), drawn(4)));
  // Only what likely_logits() leaves is drawn.
  const Tensor logits = tensor({{0.0, 5.0, 4.0, 1.0}});
  for (int i = 0; i < 50; ++i) {
    const auto token = next_tokens(logits, {.do_sample = true, .top_k = 2})[0].item<std::int64_t>();
    EXPECT_TRUE(token == 1 || token == 2);
  }
}

TEST_F(Generation, TheMostProbableTokensNeedNoSamplingOptions) {
  const Tensor text =
      generate(*model_, words_,
               {.max_new_tokens = 3, .sampling = {.temperature = 0, .top_k = -1, .top_p = 0}});
  EXPECT_TRUE(equal(text, without_cache(3)));
}

TEST_F(Generation, ACacheOfAnotherModelIsRefused) {
  static_assert(!std::is_copy_constructible_v<KVCache>);
  const NoGradGuard no_grad;
  const auto expect_refused = [&](const GPT2Options& options) {
    const GPT2Model other(options);
    KVCache cache(other, 3, other.options.n_positions);
    EXPECT_THAT([&] { model_->transformer.forward(words_, cache); },
                ThrowsMessage<Error>(HasSubstr("make the cache from this model")));
  };
  GPT2Options options = small();
  options.n_layer = 1;
  expect_refused(options);
  options = small();
  options.n_head = 2;
  expect_refused(options);
  options = small();
  options.n_embd = 32;
  expect_refused(options);
  options = small();
  options.n_positions = 48;
  expect_refused(options);
  KVCache cache(model_->transformer, 3, 6);
  KVCache moved = std::move(cache);
  EXPECT_THAT(
      [&] { model_->transformer.forward(words_, cache); },  // NOLINT(bugprone-use-after-move)
      ThrowsMessage<Error>("GPT2: the cache was moved from"));
  model_->transformer.forward(words_, moved);
  EXPECT_EQ(moved.length(), 5);
}

TEST_F(Generation, WrongArgumentsAreNamed) {
  const auto expect = [&](const GenerateOptions& options, const std::string& text) {
    EXPECT_THAT([&] { generate(*model_, words_, options); }, ThrowsMessage<Error>(HasSubstr(text)));
  };
  expect({.max_new_tokens = -1}, "max_new_tokens is -1, wanted at least 0");
  expect({.max_new_tokens = 20}, "5 words and max_new_tokens = 20 are more than n_positions = 24");
  expect({.max_new_tokens = std::numeric_limits<std::int64_t>::max()},
         "are more than n_positions = 24");
  expect({.sampling = {.do_sample = true, .temperature = 0}},
         "temperature is 0, wanted more than 0");
  expect({.sampling = {.do_sample = true, .temperature = std::numeric_limits<double>::quiet_NaN()}},
         "temperature is nan");
  expect({.sampling = {.do_sample = true, .top_k = -1}}, "top_k is -1, wanted at least 0");
  expect({.sampling = {.do_sample = true, .top_p = 0}},
         "top_p is 0, wanted more than 0 and at most 1");
  expect({.max_new_tokens = 1, .pad_token = 3}, "pad_token needs an end_token");
  EXPECT_THAT([&] { generate(*model_, zeros({3}, {.dtype = DType::kI64})); },
              ThrowsMessage<Error>(HasSubstr("the words have shape [3], wanted [N, L]")));
  {
    const NoGradGuard no_grad;
    KVCache cache(model_->transformer, 3, 6);
    model_->next_logits(words_, cache);
    EXPECT_THAT([&] { model_->next_logits(words_, cache); },
                ThrowsMessage<Error>(HasSubstr("wanted [3, L] with L of 1 to 1")));
  }
  KVCache cache(model_->transformer, 3, 6);
  EXPECT_THAT([&] { model_->next_logits(words_, cache); },
              ThrowsMessage<Error>(HasSubstr("a cache keeps no gradients")));
  EXPECT_THAT([&] { KVCache(model_->transformer, 3, 25); },
              ThrowsMessage<Error>(HasSubstr("capacity of at most n_positions = 24")));
  model_->train();
  expect({.max_new_tokens = 1}, "the model is in training");
}

}  // namespace
}  // namespace dl::nn::models
