#include "examples/bench_train/gpt.h"

#include "core/ops/elementwise/activation.h"
#include "core/ops/elementwise/arithmetic.h"
#include "core/tensor/factories.h"
#include "nn/functional/functional.h"
#include "nn/layers/attention.h"
#include "nn/layers/linear.h"
#include "nn/module/init.h"

namespace bench_train {
namespace {

using dl::Tensor;

class Block : public dl::nn::Module {
 public:
  Block(std::int64_t width, std::int64_t heads) : heads_(heads) {
    using dl::nn::Linear;
    ln_1_ = &register_module("ln_1", dl::nn::LayerNorm(width));
    ln_2_ = &register_module("ln_2", dl::nn::LayerNorm(width));
    qkv_ = &register_module("qkv", Linear(width, 3 * width));
    proj_ = &register_module("proj", Linear(width, width));
    fc_ = &register_module("fc", Linear(width, 4 * width));
    out_ = &register_module("out", Linear(4 * width, width));
  }
  Tensor forward(const Tensor& input) override {
    const Tensor x = input + attention((*ln_1_)(input));
    return x + (*out_)(dl::gelu((*fc_)((*ln_2_)(x)), dl::GeluForm::kTanh));
  }

 private:
  Tensor attention(const Tensor& x) {
    const std::int64_t batch = x.size(0), tokens = x.size(1), width = x.size(2);
    const Tensor all =
        (*qkv_)(x).view({batch, tokens, 3, heads_, width / heads_}).permute({2, 0, 3, 1, 4});
    const Tensor mixed = dl::nn::functional::scaled_dot_product_attention(
        all.select(0, 0), all.select(0, 1), all.select(0, 2), {.is_causal = true});
    return (*proj_)(mixed.transpose(1, 2).reshape({batch, tokens, width}));
  }

  std::int64_t heads_;
  dl::nn::LayerNorm *ln_1_, *ln_2_;
  dl::nn::Linear *qkv_, *proj_, *fc_, *out_;
};

}  // namespace

GPT::GPT(const Options& o)
    : wte_(register_module("wte", dl::nn::Embedding(o.words, o.width))),
      wpe_(register_module("wpe", dl::nn::Embedding(o.tokens, o.width))),
      blocks_(register_module("h", dl::nn::ModuleList())),
      ln_f_(register_module("ln_f", dl::nn::LayerNorm(o.width))) {
  for (int i = 0; i < o.layers; ++i) blocks_.add(Block(o.width, o.heads));
  for (dl::nn::Embedding* const table : {&wte_, &wpe_}) {
    dl::nn::init::normal_(table->weight, 0, 0.02);
  }
}

Tensor GPT::forward(const Tensor& words) {
  Tensor x = wte_(words) + wpe_(dl::arange(words.size(1), {.device = words.device()}));
  for (std::size_t i = 0; i < blocks_.size(); ++i) x = blocks_[i](x);
  return dl::nn::functional::linear(ln_f_(x), wte_.weight).flatten(0, 1);
}

}  // namespace bench_train
