// RNN, LSTM and GRU over sequences, and the cells of one step, with PyTorch's names, formulas and
// initial values.
//
//     nn::LSTM lstm(64, 128, {.num_layers = 2, .batch_first = true});
//     const auto [output, state] = lstm(x);              // x [N, L, 64], output [N, L, 128]
//     const auto [more, next] = lstm(y, state);
//
// With L steps, N sequences, D = 2 directions if bidirectional and else 1, and the width H of the
// hidden state: the input is [L, N, input_size], or [N, L, input_size] with batch_first, or
// [L, input_size] without a batch; or a PackedSequence. The output is as the input, but D H wide.
// The hidden state is [D num_layers, N, H]; without a batch nothing has N. An undefined state is 0.
// Throws kShape for other shapes.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/args/rnn_args.h"
#include "nn/module/module.h"

namespace dl::nn {

// Sequences of different lengths in one tensor, as torch.nn.utils.rnn packs them: step 0 of all
// sequences, then step 1 of each sequence that has one. Layers compute no padding.
struct PackedSequence {
  Tensor data;                            // [all steps, ...]
  std::vector<std::int64_t> batch_sizes;  // the sequences that have step t; never rising
  // Which sequence of the caller's is the i-th longest, and the place of the caller's i-th one.
  // Empty: the caller had sorted them.
  std::vector<std::int64_t> sorted_indices;
  std::vector<std::int64_t> unsorted_indices;
};

namespace utils::rnn {

struct PackOptions {
  bool batch_first = false;    // input [N, L, ...], else [L, N, ...]
  bool enforce_sorted = true;  // throw unless lengths never rise; else sort the sequences
};
// Throws kInvalidArgument unless there is a length for each sequence, from 1 to L.
PackedSequence pack_padded_sequence(const Tensor& input, std::span<const std::int64_t> lengths,
                                    PackOptions options = {});
// Sequences [L_i, ...].
PackedSequence pack_sequence(const std::vector<Tensor>& sequences, bool enforce_sorted = true);

struct PadOptions {
  bool batch_first = false;
  double padding_value = 0;
  std::int64_t total_length = 0;  // at least so long; 0: the longest sequence
};
// The sequences in the caller's order with padding behind the shorter ones, and their lengths.
std::pair<Tensor, std::vector<std::int64_t>> pad_packed_sequence(const PackedSequence& sequence,
                                                                 PadOptions options = {});
// Sequences [L_i, ...] as one tensor [L, N, ...] or [N, L, ...].
Tensor pad_sequence(const std::vector<Tensor>& sequences, PadOptions options = {});

}  // namespace utils::rnn

struct RNNOptions {
  std::int64_t num_layers = 1;  // the output of each is the input of the next
  bool bias = true;
  bool batch_first = false;
  double dropout = 0;  // of the outputs of all layers but the last, while training
  bool bidirectional = false;
  std::int64_t proj_size = 0;  // LSTM: the width that the hidden state is projected to; 0: none
  std::string nonlinearity = "tanh";  // RNN: or "relu"
  DType dtype = DType::kF32;
};

// The hidden state, and the cell state of an LSTM.
struct LSTMState {
  Tensor h;
  Tensor c{};  // [D num_layers, N, hidden_size]
};

namespace detail {

// The weights of one layer in one direction.
struct CellWeights {
  Tensor* input;   // weight_ih [gates hidden_size, inputs]
  Tensor* hidden;  // weight_hh [gates hidden_size, H]
  Tensor* input_bias;
  Tensor* hidden_bias;
  Tensor* projection;  // weight_hr [proj_size, hidden_size], undefined without one
};

class RNNBase : public Module {
 public:
  using Module::forward;
  void reset_parameters();
  std::string extra_repr() const override;

  std::int64_t input_size;
  std::int64_t hidden_size;
  RNNOptions options;

 protected:
  RNNBase(std::string_view name, RnnCell kind, std::int64_t input_size, std::int64_t hidden_size,
          const RNNOptions& options);
  std::pair<Tensor, LSTMState> run(const Tensor& input, const LSTMState& state);
  std::pair<PackedSequence, LSTMState> run(const PackedSequence& input, const LSTMState& state);

 private:
  std::int64_t directions() const noexcept { return options.bidirectional ? 2 : 1; }
  std::int64_t output_size() const noexcept {
    return options.proj_size > 0 ? options.proj_size : hidden_size;
  }
  LSTMState checked(const LSTMState& state, const Tensor& data, std::int64_t sequences) const;
  // All layers over packed data; the state is [D num_layers, N, ...].
  std::pair<Tensor, LSTMState> layers(Tensor data, const std::vector<std::int64_t>& batch_sizes,
                                      const LSTMState& state);
  // layers() by core/ops/rnn/rnn.h, if that takes the case.
  std::optional<std::pair<Tensor, LSTMState>> fused_layers(
      Tensor data, const std::vector<std::int64_t>& batch_sizes, const LSTMState& state);

  std::string name_;
  RnnCell kind_;
  std::vector<CellWeights> weights_;
};

class RNNCellBase : public Module {
 public:
  using Module::forward;
  void reset_parameters();
  std::string extra_repr() const override;

  std::int64_t input_size;
  std::int64_t hidden_size;
  Tensor& weight_ih;
  Tensor& weight_hh;
  Tensor& bias_ih;
  Tensor& bias_hh;

 protected:
  RNNCellBase(std::string_view name, RnnCell kind, std::int64_t input_size,
              std::int64_t hidden_size, bool bias, DType dtype);
  LSTMState step(const Tensor& input, const LSTMState& state) const;

 private:
  std::string name_;
  RnnCell kind_;
};

}  // namespace detail

// h' = tanh(W_ih x + b_ih + W_hh h + b_hh), or relu.
class RNN : public detail::RNNBase {
 public:
  // Throws kInvalidArgument for sizes and numbers of layers below 1, dropout outside [0, 1], and an
  // unknown nonlinearity.
  RNN(std::int64_t input_size, std::int64_t hidden_size, const RNNOptions& options = {});
  template <typename Input>
  std::pair<Input, Tensor> forward(const Input& input, const Tensor& h = {}) {
    auto [output, state] = run(input, {h});
    return {std::move(output), std::move(state.h)};
  }
  template <typename Input>
  std::pair<Input, Tensor> operator()(const Input& input, const Tensor& h = {}) {
    return forward(input, h);
  }
};

// The gates i, f, g, o of W_ih x + b_ih + W_hh h + b_hh: c' = sigmoid(f) c + sigmoid(i) tanh(g),
// h' = sigmoid(o) tanh(c').
class LSTM : public detail::RNNBase {
 public:
  // Throws kInvalidArgument as RNN(), and unless proj_size is less than hidden_size.
  LSTM(std::int64_t input_size, std::int64_t hidden_size, const RNNOptions& options = {});
  template <typename Input>
  std::pair<Input, LSTMState> forward(const Input& input, const LSTMState& state = {}) {
    return run(input, state);
  }
  template <typename Input>
  std::pair<Input, LSTMState> operator()(const Input& input, const LSTMState& state = {}) {
    return forward(input, state);
  }
};

// The gates r, z, n: n = tanh(W_in x + b_in + sigmoid(r) (W_hn h + b_hn)), h' = n + sigmoid(z) (h -
// n).
class GRU : public detail::RNNBase {
 public:
  GRU(std::int64_t input_size, std::int64_t hidden_size, const RNNOptions& options = {});
  template <typename Input>
  std::pair<Input, Tensor> forward(const Input& input, const Tensor& h = {}) {
    auto [output, state] = run(input, {h});
    return {std::move(output), std::move(state.h)};
  }
  template <typename Input>
  std::pair<Input, Tensor> operator()(const Input& input, const Tensor& h = {}) {
    return forward(input, h);
  }
};

struct RNNCellOptions {
  bool bias = true;
  std::string nonlinearity = "tanh";  // RNNCell: or "relu"
  DType dtype = DType::kF32;
};

// input [N, input_size] or [input_size], h [N, hidden_size] or [hidden_size]
class RNNCell : public detail::RNNCellBase {
 public:
  RNNCell(std::int64_t input_size, std::int64_t hidden_size, const RNNCellOptions& options = {});
  using Module::forward;
  Tensor forward(const Tensor& input, const Tensor& h) const { return step(input, {h}).h; }
  Tensor operator()(const Tensor& input, const Tensor& h = {}) const { return forward(input, h); }
  std::string extra_repr() const override;

 private:
  std::string nonlinearity_;
};

class LSTMCell : public detail::RNNCellBase {
 public:
  LSTMCell(std::int64_t input_size, std::int64_t hidden_size, const RNNCellOptions& options = {});
  using Module::forward;
  LSTMState forward(const Tensor& input, const LSTMState& state) const {
    return step(input, state);
  }
  LSTMState operator()(const Tensor& input, const LSTMState& state = {}) const {
    return forward(input, state);
  }
};

class GRUCell : public detail::RNNCellBase {
 public:
  GRUCell(std::int64_t input_size, std::int64_t hidden_size, const RNNCellOptions& options = {});
  using Module::forward;
  Tensor forward(const Tensor& input, const Tensor& h) const { return step(input, {h}).h; }
  Tensor operator()(const Tensor& input, const Tensor& h = {}) const { return forward(input, h); }
};

}  // namespace dl::nn
