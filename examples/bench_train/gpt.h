// A language model like GPT-2 (Radford et al. 2019), for timing.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "nn/layers/embedding.h"
#include "nn/layers/norm.h"
#include "nn/module/module.h"
#include "nn/module/module_list.h"

namespace bench_train {

// A decoder with learned positions and tied embeddings. Input [N, T] int64, T at most `tokens`
// -> logits [N T, words].
class GPT : public dl::nn::Module {
 public:
  struct Options {
    int layers = 6;
    std::int64_t width = 384;
    std::int64_t heads = 6;
    std::int64_t tokens = 256;
    std::int64_t words = 4096;
  };
  explicit GPT(const Options& options);
  dl::Tensor forward(const dl::Tensor& words) override;

 private:
  dl::nn::Embedding& wte_;  // of words, and the last layer's weight
  dl::nn::Embedding& wpe_;  // of positions
  dl::nn::ModuleList& blocks_;
  dl::nn::LayerNorm& ln_f_;
};

}  // namespace bench_train
