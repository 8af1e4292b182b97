#include "nn/models/sequence/generate.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "core/autograd/grad_mode.h"
#include "core/base/error.h"
#include "core/base/option.h"
#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/elementwise/numeric.h"
#include "core/ops/index/index.h"
#include "core/ops/index/indexing.h"
#include "core/ops/logic/logic.h"
#include "core/ops/order/order.h"
#include "core/ops/reduce/reduce.h"
#include "core/ops/shape/shape.h"
#include "core/ops/softmax/softmax.h"
#include "core/random/tensor_random.h"
#include "core/tensor/factories.h"

namespace dl::nn::models {
namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();

void check(const SamplingOptions& o) {
  require_finite("generate", "temperature", o.temperature);
  DL_CHECK(o.temperature > 0, kInvalidArgument,
           "generate: temperature is {}, wanted more than 0; for the most probable token set "
           "do_sample to false",
           o.temperature);
  DL_CHECK(o.top_k >= 0, kInvalidArgument, "generate: top_k is {}, wanted at least 0", o.top_k);
  DL_CHECK(o.top_p > 0 && o.top_p <= 1, kInvalidArgument,
           "generate: top_p is {}, wanted more than 0 and at most 1", o.top_p);
}

Tensor without_tail(const Tensor& logits, double top_p) {
  const auto [values, places] = sort(logits, -1);
  // Ascending: a token goes if it and all that are less probable have 1 - top_p at most.
  Tensor gone = cumsum(softmax(values, -1), -1) <= 1 - top_p;
  gone.narrow(-1, gone.size(-1) - 1, 1).zero_();  // the most probable one always stays
  return masked_fill(logits, scatter(gone, -1, places, gone), kNever);
}

}  // namespace

Tensor likely_logits(const Tensor& logits, const SamplingOptions& options) {
  check(options);
  DL_CHECK(logits.defined() && logits.dim() == 2 && logits.size(1) > 0, kShape,
           "generate: the logits have shape {}, wanted [N, vocabulary]",
           logits.defined() ? logits.sizes().str() : "none");
  Tensor likely = logits.to(DType::kF32) / options.temperature;
  if (options.top_k > 0 && options.top_k < logits.size(1)) {
    const Tensor least = topk(likely, options.top_k).first.narrow(-1, options.top_k - 1, 1);
    likely = masked_fill(likely, likely < least, kNever);
  }
  return options.top_p < 1 ? without_tail(likely, options.top_p) : likely;
}

Tensor next_tokens(const Tensor& logits, const SamplingOptions& options, Generator& generator) {
  const NoGradGuard no_grad;
  if (!options.do_sample) return argmax(logits, -1);
  return multinomial(softmax(likely_logits(logits, options), -1), 1, {}, generator).squeeze(-1);
}

Tensor generate(GPT2LMHeadModel& model, const Tensor& words, const GenerateOptions& options,
                Generator& generator) {
  if (options.sampling.do_sample) check(options.sampling);
  DL_CHECK(options.max_new_tokens >= 0, kInvalidArgument,
           "generate: max_new_tokens is {}, wanted at least 0", options.max_new_tokens);
  DL_CHECK(words.defined() && words.dim() == 2 && words.size(1) > 0, kShape,
           "generate: the words have shape {}, wanted [N, L] with at least one word",
           words.defined() ? words.sizes().str() : "none");
  const std::int64_t most = model.transformer.options.n_positions;
  DL_CHECK(options.max_new_tokens <= most - words.size(1), kShape,
           "generate: {} words and max_new_tokens = {} are more than n_positions = {}",
           words.size(1), options.max_new_tokens, most);
  DL_CHECK(options.end_token || !options.pad_token, kInvalidArgument,
           "generate: pad_token needs an end_token, after which it stands");
  DL_CHECK(!model.is_training(), kInvalidArgument,
           "generate: the model is in training, so that dropout would be active; call eval()");
  const NoGradGuard no_grad;
  KVCache cache(model.transformer, words.size(0), words.size(1) + options.max_new_tokens);
  std::vector<Tensor> texts{words};
  Tensor ended = zeros({words.size(0)}, {.dtype = DType::kBool, .device = words.device()});
  for (std::int64_t i = 0; i < options.max_new_tokens; ++i) {
    Tensor token = next_tokens(model.next_logits(texts.back(), cache), options.sampling, generator);
    if (options.end_token) {
      token = masked_fill(token, ended, options.pad_token.value_or(*options.end_token));
      ended = logical_or(ended, token == *options.end_token);
    }
    texts.push_back(token.unsqueeze(1));
    if (options.on_token && !options.on_token(token)) break;
    if (options.end_token && all(ended).item<bool>()) break;
  }
  return cat(texts, 1);
}

}  // namespace dl::nn::models
