// GPT-2 (Radford et al. 2019), with the names and initial values of Hugging Face's transformers:
// files that its save_pretrained() wrote load into it.
//
//     nn::models::GPT2LMHeadModel model(nn::models::gpt2_options("gpt2-medium"));
//     const Tensor logits = model(words);  // words [N, L] int64, logits [N, L, vocab_size]
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "nn/layers/activation/dropout.h"
#include "nn/layers/embedding.h"
#include "nn/layers/linear.h"
#include "nn/layers/norm.h"
#include "nn/module/module.h"
#include "nn/module/module_list.h"

namespace dl::nn::models {

// The defaults are those of "gpt2".
struct GPT2Options {
  std::int64_t vocab_size = 50257;
  std::int64_t n_positions = 1024;
  std::int64_t n_embd = 768;
  std::int64_t n_layer = 12;
  std::int64_t n_head = 12;
  std::optional<std::int64_t> n_inner{};  // default: 4 n_embd
  double resid_pdrop = 0.1;
  double embd_pdrop = 0.1;
  double attn_pdrop = 0.1;
  double layer_norm_epsilon = 1e-5;
  double initializer_range = 0.02;
};

// Options of "gpt2" (124,439,808 parameters), "gpt2-medium" (354,823,168), "gpt2-large"
// (774,030,080) and "gpt2-xl" (1,557,611,200). Throws kInvalidArgument for another name.
GPT2Options gpt2_options(std::string_view name);

class GPT2Model;

// The keys and values of words that a model has read, so that it reads each word once. A cache
// belongs to one text or batch of texts, and to one thread at a time. It can be moved, but not
// copied: the copy would share the tensors that the model writes into.
class KVCache {
 public:
  // Room for `capacity` words of each of `batch` texts, with the model's dtype and on its device.
  // Throws kInvalidArgument unless batch and capacity are positive and capacity is at most
  // n_positions.
  KVCache(const GPT2Model& model, std::int64_t batch, std::int64_t capacity);
  KVCache(const KVCache&) = delete;
  KVCache& operator=(const KVCache&) = delete;
  KVCache(KVCache&&) noexcept = default;
  KVCache& operator=(KVCache&&) noexcept = default;
  ~KVCache() = default;

  std::int64_t length() const noexcept { return length_; }  // words of each text so far

  struct Layer {
    Tensor keys;    // [N, heads, capacity, n_embd / heads]
    Tensor values;  // the same
  };

 private:
  friend class GPT2Model;
  std::vector<Layer> layers_;
  std::int64_t length_ = 0;
};

// Without the last layer: words [N, L] or [L], int64 -> [..., L, n_embd]. Position i attends to the
// positions 0 to i.
class GPT2Model : public Module {
 public:
  // Throws kInvalidArgument unless sizes are positive, n_head divides n_embd, and probabilities are
  // in [0, 1].
  explicit GPT2Model(const GPT2Options& options = {});
  // Throws kShape if L is larger than n_positions, and kIndex.
  Tensor forward(const Tensor& words) override;
  // The words [N, L] follow those of the cache, which gets them. Hooks of the blocks and of their
  // attention do not run. Throws kShape also if the cache has no room, and kInvalidArgument if
  // gradients are recorded (use a NoGradGuard), or if the cache is that of a model with another
  // number of layers or heads or another width, or was moved from.
  Tensor forward(const Tensor& words, KVCache& cache);

  const GPT2Options options;
  Embedding& wte;  // of words
  Embedding& wpe;  // of positions

 private:
  Dropout& drop_;
  ModuleList& h_;
  LayerNorm& ln_f_;

  Tensor embedded(const Tensor& words, std::int64_t first_position);
};

// With a last layer, whose weight is that of the embedding of words: words -> logits
// [..., L, vocab_size]. The files that were published for GPT-2 have the names of
// get_submodule("transformer"), and `h.0.attn.bias` beside them: load them with strict = false.
class GPT2LMHeadModel : public Module {
 public:
  // Throws as GPT2Model().
  explicit GPT2LMHeadModel(const GPT2Options& options = {});
  Tensor forward(const Tensor& words) override;
  // The logits [N, vocab_size] of what follows the last of `words` [N, L], which follow those of
  // the cache. Throws as GPT2Model::forward().
  Tensor next_logits(const Tensor& words, KVCache& cache);

  GPT2Model& transformer;
  Linear& lm_head;
};

}  // namespace dl::nn::models
