#include "nn/models/sequence/gpt2.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "core/autograd/grad_mode.h"
#include "core/base/error.h"
#include "core/ops/elementwise/activation.h"
#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/linear/linear.h"
#include "core/ops/shape/shape.h"
#include "core/tensor/factories.h"
#include "nn/layers/attention.h"
#include "nn/layers/check_input.h"
#include "nn/module/init.h"

namespace dl::nn::models {
namespace {

struct GPT2Layout {
  std::string_view name;
  std::int64_t width;
  std::int64_t layers;
  std::int64_t heads;
};
constexpr GPT2Layout kGPT2Layouts[] = {{"gpt2", 768, 12, 12},
                                       {"gpt2-medium", 1024, 24, 16},
                                       {"gpt2-large", 1280, 36, 20},
                                       {"gpt2-xl", 1600, 48, 25}};

const GPT2Options& checked(const GPT2Options& o) {
  DL_CHECK(std::min({o.vocab_size, o.n_positions, o.n_embd, o.n_layer, o.n_head,
                     o.n_inner.value_or(1)}) > 0,
           kInvalidArgument,
           "GPT2: vocab_size is {}, n_positions {}, n_embd {}, n_layer {}, n_head {}; wanted at "
           "least 1 of each, and of n_inner",
           o.vocab_size, o.n_positions, o.n_embd, o.n_layer, o.n_head);
  DL_CHECK(o.n_embd % o.n_head == 0, kInvalidArgument,
           "GPT2: n_embd is {}, wanted a multiple of n_head = {}", o.n_embd, o.n_head);
  return o;
}

// A linear layer with the transpose of Linear's weight.
class Conv1D final : public Module {
 public:
  Conv1D(std::int64_t outputs, std::int64_t inputs)
      : weight(register_parameter("weight", empty({inputs, outputs}))),
        bias(register_parameter("bias", zeros({outputs}))) {
    init::normal_(weight, 0, 0.02);
  }
  Tensor forward(const Tensor& input) override {
    check_size("Conv1D", "nx", weight.size(0), input, -1, "features");
    const Tensor product = matmul(input, weight);
    // In autocast, as transformers' addmm() does.
    return product + bias.to(product.dtype());
  }
  std::string extra_repr() const override {
    return fmt::format("nf={}, nx={}", weight.size(1), weight.size(0));
  }

  Tensor& weight;  // [inputs, outputs]
  Tensor& bias;
};

// Words of the cache before those of a call.
struct Past {
  KVCache::Layer& layer;
  std::int64_t length;
};

// Which of `past` + `count` words each of the last `count` sees: [count, past + count] bool.
Tensor sees_all_before(std::int64_t past, std::int64_t count, Device device) {
  const Tensor positions = arange(past + count, {.device = device});
  return positions.unsqueeze(0) <= positions.narrow(0, past, count).unsqueeze(1);
}

class GPT2Attention final : public Module {
 public:
  explicit GPT2Attention(const GPT2Options& o)
      : c_attn(register_module("c_attn", Conv1D(3 * o.n_embd, o.n_embd))),
        c_proj(register_module("c_proj", Conv1D(o.n_embd, o.n_embd))),
        attn_dropout(register_module("attn_dropout", Dropout(o.attn_pdrop))),
        resid_dropout(register_module("resid_dropout", Dropout(o.resid_pdrop))),
        heads_(o.n_head) {}
  Tensor forward(const Tensor& input) override { return forward(input, nullptr); }
  Tensor forward(const Tensor& input, const Past* past) {
    const std::int64_t width = input.size(-1);
    // [N, L, 3 E] -> queries, keys and values [N, heads, L, width of a head]
    std::vector<Tensor> parts =
        unbind(c_attn(input)
                   .view({input.size(0), input.size(1), 3, heads_, width / heads_})
                   .permute({2, 0, 3, 1, 4}));
    const double dropout_p = in_tape(attn_dropout.p);
    AttentionOptions options{.dropout_p = is_training() ? dropout_p : 0, .is_causal = true};
    if (past != nullptr) {
      const std::int64_t count = input.size(1);
      parts[1] = extended(past->layer.keys, parts[1], past->length);
      parts[2] = extended(past->layer.values, parts[2], past->length);
      // One word sees all; PyTorch's is_causal would count from the first word of the cache.
      options.is_causal = past->length == 0 && count > 1;
      if (past->length > 0 && count > 1) {
        options.attn_mask = sees_all_before(past->length, count, input.device());
      }
    }
    const Tensor mixed =
        functional::scaled_dot_product_attention(parts[0], parts[1], parts[2], options);
    return resid_dropout(c_proj(mixed.transpose(1, 2).reshape(input.sizes())));
  }

  // Writes `news` behind the first `length` words of a cache, and returns all.
  static Tensor extended(const Tensor& cache, const Tensor& news, std::int64_t length) {
    cache.narrow(2, length, news.size(2)).copy_(news);
    return cache.narrow(2, 0, length + news.size(2));
  }

  Conv1D& c_attn;  // makes queries, keys and values
  Conv1D& c_proj;
  Dropout& attn_dropout;
  Dropout& resid_dropout;

 private:
  std::int64_t heads_;
};

class GPT2MLP final : public Module {
 public:
  explicit GPT2MLP(const GPT2Options& o)
      : c_fc(register_module("c_fc", Conv1D(o.n_inner.value_or(4 * o.n_embd), o.n_embd))),
        c_proj(register_module("c_proj", Conv1D(o.n_embd, o.n_inner.value_or(4 * o.n_embd)))),
        dropout(register_module("dropout", Dropout(o.resid_pdrop))) {}
  Tensor forward(const Tensor& input) override {
    return dropout(c_proj(gelu(c_fc(input), GeluForm::kTanh)));
  }

  Conv1D& c_fc;
  Conv1D& c_proj;
  Dropout& dropout;
};

class GPT2Block final : public Module {
 public:
  explicit GPT2Block(const GPT2Options& o)
      : ln_1(register_module("ln_1", LayerNorm(o.n_embd, {.eps = o.layer_norm_epsilon}))),
        attn(register_module("attn", GPT2Attention(o))),
        ln_2(register_module("ln_2", LayerNorm(o.n_embd, {.eps = o.layer_norm_epsilon}))),
        mlp(register_module("mlp", GPT2MLP(o))) {}
  Tensor forward(const Tensor& input) override {
    const Tensor x = attn(ln_1(input)) + input;
    return x + mlp(ln_2(x));
  }
  Tensor forward(const Tensor& input, const Past& past) {
    const Tensor x = attn.forward(ln_1(input), &past) + input;
    return x + mlp(ln_2(x));
  }

  LayerNorm& ln_1;
  GPT2Attention& attn;
  LayerNorm& ln_2;
  GPT2MLP& mlp;
};

ModuleList blocks(const GPT2Options& o) {
  ModuleList layers;
  for (std::int64_t i = 0; i < o.n_layer; ++i) layers.add(GPT2Block(o));
  return layers;
}

}  // namespace

GPT2Options gpt2_options(std::string_view name) {
  for (const GPT2Layout& layout : kGPT2Layouts) {
    if (layout.name != name) continue;
    return {.n_embd = layout.width, .n_layer = layout.layers, .n_head = layout.heads};
  }
  throw_error(ErrorKind::kInvalidArgument,
              "gpt2_options: the name is \"{}\", wanted gpt2, gpt2-medium, gpt2-large or gpt2-xl",
              name);
}

GPT2Model::GPT2Model(const GPT2Options& given)
    : options(checked(given)),
      wte(register_module("wte", Embedding(given.vocab_size, given.n_embd))),
      wpe(register_module("wpe", Embedding(given.n_positions, given.n_embd))),
      drop_(register_module("drop", Dropout(given.embd_pdrop))),
      h_(register_module("h", blocks(given))),
      ln_f_(register_module("ln_f", LayerNorm(given.n_embd, {.eps = given.layer_norm_epsilon}))) {
  const double range = given.initializer_range;
  // Weights that end a residual branch are drawn twice, as transformers does.
  const double residual = range / std::sqrt(2 * static_cast<double>(given.n_layer));
  init::normal_(wte.weight, 0, range);
  init::normal_(wpe.weight, 0, range);
  for (std::size_t i = 0; i < h_.size(); ++i) {
    auto& block = h_.at<GPT2Block>(i);
    init::normal_(block.attn.c_attn.weight, 0, range);
    init::normal_(block.attn.c_proj.weight, 0, range);
    init::normal_(block.attn.c_proj.weight, 0, residual);
    init::normal_(block.mlp.c_fc.weight, 0, range);
    init::normal_(block.mlp.c_proj.weight, 0, range);
    init::normal_(block.mlp.c_proj.weight, 0, residual);
  }
}

KVCache::KVCache(const GPT2Model& model, std::int64_t batch, std::int64_t capacity) {
  const GPT2Options& o = model.options;
  DL_CHECK(batch > 0 && capacity > 0 && capacity <= o.n_positions, kInvalidArgument,
           "KVCache: batch is {} and capacity {}, wanted at least 1 of each, and a capacity of at "
           "most n_positions = {}",
           batch, capacity, o.n_positions);
  const Tensor& like = model.wte.weight;
  const auto room = [&] {
    return empty({batch, o.n_head, capacity, o.n_embd / o.n_head},
                 {.dtype = like.dtype(), .device = like.device()});
  };
  for (std::int64_t i = 0; i < o.n_layer; ++i) layers_.push_back({room(), room()});
}

Tensor GPT2Model::embedded(const Tensor& words, std::int64_t first_position) {
  const Tensor positions =
      arange(first_position, first_position + words.size(1), 1, {.device = words.device()});
  return drop_(wte(words) + wpe(positions));
}

Tensor GPT2Model::forward(const Tensor& words) {
  check_not_moved("a call");
  DL_CHECK(words.defined() && (words.dim() == 1 || words.dim() == 2), kShape,
           "GPT2: the words have shape {}, wanted [N, L] or [L]",
           words.defined() ? words.sizes().str() : "none");
  if (words.dim() == 1) return forward(words.unsqueeze(0)).squeeze(0);
  DL_CHECK(words.size(1) <= options.n_positions, kShape,
           "GPT2: the words have shape {}, but n_positions is {}; give at most so many at a time",
           words.sizes().str(), options.n_positions);
  Tensor x = embedded(words, 0);
  for (std::size_t i = 0; i < h_.size(); ++i) x = h_[i](x);
  return ln_f_(x);
}

Tensor GPT2Model::forward(const Tensor& words, KVCache& cache) {
  check_not_moved("a call");
  DL_CHECK(!is_grad_enabled(), kInvalidArgument,
           "GPT2: a cache keeps no gradients; call the model under a NoGradGuard");
  DL_CHECK(!cache.layers_.empty(), kInvalidArgument, "GPT2: the cache was moved from");
  const Tensor& keys = cache.layers_.front().keys;
  DL_CHECK(cache.layers_.size() == h_.size() && keys.size(1) == options.n_head &&
               keys.size(3) == options.n_embd / options.n_head &&
               keys.size(2) <= options.n_positions,
           kInvalidArgument,
           "GPT2: the cache is of a model with {} layers of {} heads of width {}, wanted {}, {} "
           "and {}, and a capacity of at most {}; make the cache from this model",
           cache.layers_.size(), keys.size(1), keys.size(3), h_.size(), options.n_head,
           options.n_embd / options.n_head, options.n_positions);
  DL_CHECK(words.defined() && words.dim() == 2 && words.size(0) == keys.size(0) &&
               words.size(1) > 0 && words.size(1) <= keys.size(2) - cache.length_,
           kShape,
           "GPT2: the words have shape {}, wanted [{}, L] with L of 1 to {}, for which the cache "
           "has room",
           words.defined() ? words.sizes().str() : "none", keys.size(0),
           keys.size(2) - cache.length_);
  Tensor x = embedded(words, cache.length_);
  for (std::size_t i = 0; i < h_.size(); ++i) {
    x = h_.at<GPT2Block>(i).forward(x, {.layer = cache.layers_[i], .length = cache.length_});
  }
  cache.length_ += words.size(1);
  return ln_f_(x);
}

GPT2LMHeadModel::GPT2LMHeadModel(const GPT2Options& options)
    : transformer(register_module("transformer", GPT2Model(options))),
      lm_head(
          register_module("lm_head", Linear(options.n_embd, options.vocab_size, {.bias = false}))) {
  // Drawn, as transformers does, though the weight is replaced: what is drawn next stays the same.
  init::normal_(lm_head.weight, 0, options.initializer_range);
  lm_head.weight = transformer.wte.weight;
}

Tensor GPT2LMHeadModel::forward(const Tensor& words) {
  return lm_head(transformer(words));
}

Tensor GPT2LMHeadModel::next_logits(const Tensor& words, KVCache& cache) {
  return lm_head(transformer.forward(words, cache).slice(1, -1, words.size(1)).squeeze(1));
}

}  // namespace dl::nn::models
