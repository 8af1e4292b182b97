#include "nn/models/sequence/lstm_language_model.h"

#include "core/base/error.h"
#include "nn/module/init.h"

namespace dl::nn::models {
namespace {

const LSTMLanguageModelOptions& checked(const LSTMLanguageModelOptions& o) {
  DL_CHECK(!o.tie_weights || o.nhid == o.ninp, kInvalidArgument,
           "LSTMLanguageModel: nhid is {} and ninp {}; with tie_weights they must be equal", o.nhid,
           o.ninp);
  return o;
}

}  // namespace

LSTMLanguageModel::LSTMLanguageModel(const LSTMLanguageModelOptions& options)
    : drop(register_module("drop", Dropout(checked(options).dropout))),
      encoder(register_module("encoder", Embedding(options.ntoken, options.ninp))),
      rnn(register_module("rnn", LSTM(options.ninp, options.nhid,
                                      {.num_layers = options.nlayers,
                                       .batch_first = options.batch_first,
                                       .dropout = options.dropout}))),
      decoder(register_module("decoder", Linear(options.nhid, options.ntoken))) {
  if (options.tie_weights) decoder.weight = encoder.weight;
  constexpr double kBound = 0.1;
  init::uniform_(encoder.weight, -kBound, kBound);
  init::zeros_(decoder.bias);
  init::uniform_(decoder.weight, -kBound, kBound);
}

std::pair<Tensor, LSTMState> LSTMLanguageModel::forward(const Tensor& words,
                                                        const LSTMState& state) {
  check_not_moved("a call");
  auto [output, last] = rnn(drop(encoder(words)), state);
  return {decoder(drop(output)), std::move(last)};
}

}  // namespace dl::nn::models
