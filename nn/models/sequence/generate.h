// Generating text with GPT-2, one token after another: the most probable ones, or drawn by
// temperature, top-k and top-p (Holtzman et al. 2020), as in Hugging Face's transformers.
//
//     const Tensor words = tensor(tokenizer.encode("The ranks")).unsqueeze(0);
//     const Tensor text = nn::models::generate(model, words, {.max_new_tokens = 50});
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "core/random/generator.h"
#include "core/tensor/tensor.h"
#include "nn/models/sequence/gpt2.h"

namespace dl::nn::models {

struct SamplingOptions {
  bool do_sample = false;  // false: the most probable token, and the others are ignored
  double temperature = 1;  // logits are divided by it; above 0
  std::int64_t top_k = 0;  // only the k most probable tokens; 0: all
  double top_p = 1;        // only the most probable tokens that together have probability top_p
};

// The logits of a step, with -infinity for tokens that may not be drawn, in float32.
//   logits  [N, vocabulary] floating
// Equal logits at the limit of top_k are all kept. Throws kInvalidArgument for a temperature that
// is not above 0, a negative top_k, or a top_p outside (0, 1].
Tensor likely_logits(const Tensor& logits, const SamplingOptions& options);
// The next token of each text, int64 [N]. With do_sample throws as likely_logits().
Tensor next_tokens(const Tensor& logits, const SamplingOptions& options,
                   Generator& generator = default_generator());

struct GenerateOptions {
  std::int64_t max_new_tokens = 20;
  SamplingOptions sampling{};
  // A text that has this token ends; after it the text has pad_token until all texts have ended.
  std::optional<std::int64_t> end_token{};
  std::optional<std::int64_t> pad_token{};  // default: end_token
  // Called with each new token of all texts, [N]. If it returns false, the texts end.
  std::function<bool(const Tensor&)> on_token{};
};

// `words` [N, L] int64 and the tokens that follow them: [N, L + new tokens]. All texts have one
// length; each word is computed once. Throws kInvalidArgument for wrong options and for a model in
// training, and kShape if the words and the new tokens are more than n_positions.
Tensor generate(GPT2LMHeadModel& model, const Tensor& words, const GenerateOptions& options = {},
                Generator& generator = default_generator());

}  // namespace dl::nn::models
