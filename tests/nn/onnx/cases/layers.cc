// Recurrent layers and those of a transformer.
#include <fmt/core.h>

#include <type_traits>

#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/logic/logic.h"
#include "core/random/tensor_random.h"
#include "nn/layers/rnn/rnn.h"
#include "nn/layers/transformer/transformer.h"
#include "tests/nn/onnx/cases/cases.h"

namespace dl::onnx {
namespace {

using Axes = std::map<std::int64_t, std::string>;

// A layer, of which the batch is dynamic and the length is not.
template <typename Layer>
Case rnn_case(const nn::RNNOptions& options) {
  const auto layer = std::make_shared<Layer>(6, 5, options);
  std::vector<std::vector<Tensor>> inputs;
  for (const std::int64_t batch : {2, 1, 5}) {
    inputs.push_back({options.batch_first ? randn({batch, 4, 6}) : randn({4, batch, 6})});
  }
  return {.model = layer,
          .forward =
              [=](std::span<const Tensor> in) {
                const auto [output, state] = (*layer)(in[0]);
                if constexpr (std::is_same_v<Layer, nn::LSTM>) {
                  return std::vector<Tensor>{output, state.h, state.c};
                } else {
                  return std::vector<Tensor>{output, state};
                }
              },
          .inputs = inputs,
          .options = {.dynamic_axes = {{"input", {{options.batch_first ? 0 : 1, "batch"}}}}}};
}

template <typename Layer>
void write_kinds(Writer& to, const std::string& kind) {
  for (const bool bidirectional : {false, true}) {
    for (const bool batch_first : {false, true}) {
      for (const std::int64_t layers : {1, 2}) {
        to.add(fmt::format("{}{}{}{}", kind, layers, bidirectional ? "_both" : "",
                           batch_first ? "_batch_first" : ""),
               [=] {
                 return rnn_case<Layer>({.num_layers = layers,
                                         .bias = layers == 2 || batch_first,
                                         .batch_first = batch_first,
                                         .bidirectional = bidirectional});
               });
      }
    }
  }
}

template <typename Cell>
Case cell_case() {
  const auto cell = std::make_shared<Cell>(6, 5);
  return {.model = cell,
          .forward =
              [=](std::span<const Tensor> in) {
                if constexpr (std::is_same_v<Cell, nn::LSTMCell>) {
                  const nn::LSTMState next = (*cell)(in[0]);
                  return std::vector<Tensor>{next.h, next.c};
                } else {
                  return std::vector<Tensor>{(*cell)(in[0])};
                }
              },
          .inputs = batches_of([](std::int64_t size) { return randn({size, 6}); }),
          .options = {.dynamic_axes = {{"input", {{0, "batch"}}}}}};
}

// The lengths are in the file as in the example.
Case packed_case() {
  const auto lstm =
      std::make_shared<nn::LSTM>(6, 5, nn::RNNOptions{.num_layers = 2, .bidirectional = true});
  return {.model = lstm,
          .forward =
              [=](std::span<const Tensor> in) {
                const std::int64_t lengths[] = {2, 4, 3};
                const auto packed =
                    nn::utils::rnn::pack_padded_sequence(in[0], lengths, {.enforce_sorted = false});
                const auto [output, state] = (*lstm)(packed);
                return std::vector<Tensor>{nn::utils::rnn::pad_packed_sequence(output).first,
                                           state.h, state.c};
              },
          .inputs = {{randn({4, 3, 6})}, {randn({4, 3, 6})}}};
}

// Layers of a transformer, of which batch and lengths are dynamic.
class TransformerCases {
 public:
  explicit TransformerCases(bool batch_first) : batch_first_(batch_first) {}

  Case encoder(bool causal) const {
    const auto encoder = make_encoder();
    return {.model = encoder,
            .forward =
                [=](std::span<const Tensor> in) {
                  return std::vector<Tensor>{(*encoder)(in[0], {.is_causal = causal})};
                },
            .inputs = {{sequence(2, 7)}, {sequence(1, 1)}, {sequence(5, 12)}},
            .options = {.dynamic_axes = {{"input", axes("sequence")}}}};
  }

  Case encoder_with_padding() const {
    const auto encoder = make_encoder();
    const auto inputs = [&](std::int64_t batch, std::int64_t length) {
      const Tensor hidden = lt(rand({batch, length}), 0.3);
      hidden.select(1, 0).fill_(false);
      return std::vector<Tensor>{sequence(batch, length), hidden};
    };
    return {.model = encoder,
            .forward =
                [=](std::span<const Tensor> in) {
                  return std::vector<Tensor>{(*encoder)(in[0], {.src_key_padding_mask = in[1]})};
                },
            .inputs = {inputs(2, 7), inputs(1, 3), inputs(5, 12)},
            .options = {.dynamic_axes = {{"input_1", axes("sequence")},
                                         {"input_2", {{0, "batch"}, {1, "sequence"}}}}}};
  }

  Case transformer() const {
    const auto model =
        std::make_shared<nn::Transformer>(nn::TransformerOptions{.d_model = 16,
                                                                 .nhead = 4,
                                                                 .num_encoder_layers = 2,
                                                                 .num_decoder_layers = 2,
                                                                 .dim_feedforward = 32,
                                                                 .batch_first = batch_first_});
    const auto inputs = [&](std::int64_t batch, std::int64_t source, std::int64_t target) {
      return std::vector<Tensor>{sequence(batch, source), sequence(batch, target)};
    };
    return {
        .model = model,
        .forward =
            [=](std::span<const Tensor> in) {
              return std::vector<Tensor>{(*model)(in[0], in[1], {.tgt_is_causal = true})};
            },
        .inputs = {inputs(2, 7, 5), inputs(1, 3, 4), inputs(5, 2, 9)},
        .options = {.dynamic_axes = {{"input_1", axes("source")}, {"input_2", axes("target")}}}};
  }

 private:
  Tensor sequence(std::int64_t batch, std::int64_t length) const {
    return batch_first_ ? randn({batch, length, 16}) : randn({length, batch, 16});
  }
  Axes axes(const std::string& length) const {
    return {{batch_first_ ? 0 : 1, "batch"}, {batch_first_ ? 1 : 0, length}};
  }
  std::shared_ptr<nn::TransformerEncoder> make_encoder() const {
    return std::make_shared<nn::TransformerEncoder>(
        nn::TransformerEncoderLayer(16, 4,
                                    {.dim_feedforward = 32,
                                     .activation = batch_first_ ? "gelu" : "relu",
                                     .batch_first = batch_first_,
                                     .norm_first = batch_first_}),
        2);
  }

  bool batch_first_;
};

Case weights_case() {
  const auto attention = std::make_shared<nn::MultiheadAttention>(
      16, 4, nn::MultiheadAttentionOptions{.batch_first = true});
  return {
      .model = attention,
      .forward =
          [=](std::span<const Tensor> in) {
            const auto [y, shares] = attention->forward(in[0], in[1], in[1], {});
            return std::vector<Tensor>{y, shares};
          },
      .inputs = {{randn({2, 3, 16}), randn({2, 5, 16})}, {randn({1, 4, 16}), randn({1, 1, 16})}},
      .options = {.dynamic_axes = {{"input_1", {{0, "batch"}, {1, "queries"}}},
                                   {"input_2", {{0, "batch"}, {1, "keys"}}}}}};
}

}  // namespace

void write_layers(Writer& to) {
  write_kinds<nn::RNN>(to, "rnn");
  write_kinds<nn::LSTM>(to, "lstm");
  write_kinds<nn::GRU>(to, "gru");
  to.add("rnn_cell", cell_case<nn::RNNCell>);
  to.add("lstm_cell", cell_case<nn::LSTMCell>);
  to.add("gru_cell", cell_case<nn::GRUCell>);
  to.add("lstm_packed", packed_case);
  to.add("lstm_projected", [] { return rnn_case<nn::LSTM>({.num_layers = 2, .proj_size = 3}); });
  to.add("rnn_relu", [] { return rnn_case<nn::RNN>({.nonlinearity = "relu"}); });
  for (const bool batch_first : {false, true}) {
    const TransformerCases cases(batch_first);
    const std::string suffix = batch_first ? "_batch_first" : "";
    to.add("encoder" + suffix, [&] { return cases.encoder(false); });
    to.add("encoder_causal" + suffix, [&] { return cases.encoder(true); });
    to.add("encoder_padding" + suffix, [&] { return cases.encoder_with_padding(); });
    to.add("transformer" + suffix, [&] { return cases.transformer(); });
  }
  to.add("attention_weights", weights_case);
}

}  // namespace dl::onnx
