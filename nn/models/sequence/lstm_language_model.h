// A language model of an LSTM, with the names and initial values of PyTorch's example
// word_language_model.
//
//     nn::models::LSTMLanguageModel model({.ntoken = 33278, .ninp = 200, .nhid = 200});
//     auto [logits, state] = model(words);  // words [L, N] int64, logits [L, N, ntoken]
#pragma once

#include <cstdint>
#include <utility>

#include "nn/layers/activation/dropout.h"
#include "nn/layers/embedding.h"
#include "nn/layers/linear.h"
#include "nn/layers/rnn/rnn.h"
#include "nn/module/module.h"

namespace dl::nn::models {

struct LSTMLanguageModelOptions {
  std::int64_t ntoken = 33278;  // words; WikiText-2 has so many
  std::int64_t ninp = 200;      // width of the embedding
  std::int64_t nhid = 200;      // width of the hidden state
  std::int64_t nlayers = 2;
  double dropout = 0.5;      // of the embedding, between layers, and before the decoder
  bool tie_weights = false;  // the decoder's weight is the embedding's
  bool batch_first = false;  // words [N, L], else [L, N]
};

class LSTMLanguageModel : public Module {
 public:
  // Throws kInvalidArgument unless sizes are positive, dropout is in [0, 1], and with tie_weights
  // nhid equals ninp.
  explicit LSTMLanguageModel(const LSTMLanguageModelOptions& options = {});

  // Returns the logits of each next word, and the state after the last word, from which the next
  // words go on; detach it to end backward there. An undefined state is 0.
  using Module::forward;
  std::pair<Tensor, LSTMState> forward(const Tensor& words, const LSTMState& state);
  std::pair<Tensor, LSTMState> operator()(const Tensor& words, const LSTMState& state = {}) {
    return forward(words, state);
  }

  Dropout& drop;
  Embedding& encoder;
  LSTM& rnn;
  Linear& decoder;
};

}  // namespace dl::nn::models
