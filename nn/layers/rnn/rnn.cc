#include "nn/layers/rnn/rnn.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "core/ops/elementwise/activation.h"
#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/index/index.h"
#include "core/ops/linear/linear.h"
#include "core/ops/rnn/rnn.h"
#include "core/ops/shape/shape.h"
#include "core/tensor/factories.h"
#include "nn/functional/functional.h"
#include "nn/layers/check_input.h"
#include "nn/layers/rnn/packed_sequence.h"
#include "nn/module/init.h"

namespace dl::nn {
namespace {

using detail::CellWeights;
using detail::rows_at;

RnnCell kind_of(std::string_view layer, std::string_view nonlinearity) {
  DL_CHECK(nonlinearity == "tanh" || nonlinearity == "relu", kInvalidArgument,
           "{}: nonlinearity is {}, wanted tanh or relu", layer, nonlinearity);
  return nonlinearity == "relu" ? RnnCell::kRelu : RnnCell::kTanh;
}

void check_no_choice(std::string_view layer, std::string_view nonlinearity) {
  DL_CHECK(nonlinearity == "tanh", kInvalidArgument,
           "{}: nonlinearity is {}, and only an RNN has a choice", layer, nonlinearity);
}

// One step from the input's part of the gates. Undefined weights are none.
LSTMState cell(RnnCell kind, const Tensor& from_input, const LSTMState& state, const Tensor& weight,
               const Tensor& bias, const Tensor& projection) {
  const Tensor from_hidden = linear(state.h, weight, bias);
  switch (kind) {
    case RnnCell::kTanh:
      return {tanh(from_input + from_hidden)};
    case RnnCell::kRelu:
      return {relu(from_input + from_hidden)};
    case RnnCell::kGRU: {
      const std::vector<Tensor> x = chunk(from_input, 3, -1);
      const std::vector<Tensor> h = chunk(from_hidden, 3, -1);
      const Tensor reset = sigmoid(x[0] + h[0]);
      const Tensor update = sigmoid(x[1] + h[1]);
      const Tensor fresh = tanh(x[2] + reset * h[2]);
      return {fresh + update * (state.h - fresh)};
    }
    case RnnCell::kLSTM:
      break;
  }
  const std::vector<Tensor> gates = chunk(from_input + from_hidden, 4, -1);
  const Tensor c = sigmoid(gates[1]) * state.c + sigmoid(gates[0]) * tanh(gates[2]);
  const Tensor h = sigmoid(gates[3]) * tanh(c);
  return {projection.defined() ? linear(h, projection) : h, c};
}

// f(h), and f(c) if there is a cell state.
template <typename F>
LSTMState each(const LSTMState& state, const F& f) {
  return {f(state.h), state.c.defined() ? f(state.c) : Tensor()};
}

LSTMState joined(std::span<const LSTMState> parts, std::int64_t dim) {
  std::vector<Tensor> h;
  std::vector<Tensor> c;
  for (const LSTMState& part : parts) {
    h.push_back(part.h);
    if (part.c.defined()) c.push_back(part.c);
  }
  return {cat(h, dim), c.empty() ? Tensor() : cat(c, dim)};
}

LSTMState rows(const LSTMState& state, std::int64_t begin, std::int64_t count) {
  return each(state, [&](const Tensor& x) { return x.narrow(0, begin, count); });
}

// A layer in one direction over packed data: the outputs, packed likewise, and the state of each
// sequence behind its last step.
std::pair<Tensor, LSTMState> scan(RnnCell kind, const Tensor& data,
                                  const std::vector<std::int64_t>& batch_sizes,
                                  const LSTMState& start, const CellWeights& w, bool reverse) {
  const Tensor from_input = linear(data, *w.input, *w.input_bias);
  const auto steps = static_cast<std::int64_t>(batch_sizes.size());
  std::vector<std::int64_t> begins(batch_sizes.size());
  for (std::size_t t = 1; t < begins.size(); ++t) begins[t] = begins[t - 1] + batch_sizes[t - 1];
  std::vector<Tensor> outputs(batch_sizes.size());
  std::vector<LSTMState> ended;  // of the sequences that have ended, the shortest first
  std::int64_t running = reverse ? batch_sizes.back() : batch_sizes.front();
  LSTMState state = rows(start, 0, running);
  for (std::int64_t i = 0; i < steps; ++i) {
    const auto t = static_cast<std::size_t>(reverse ? steps - 1 - i : i);
    const std::int64_t count = batch_sizes[t];
    if (count > running) {
      const LSTMState parts[] = {state, rows(start, running, count - running)};
      state = joined(parts, 0);
    } else if (count < running) {
      ended.push_back(rows(state, count, running - count));
      state = rows(state, 0, count);
    }
    running = count;
    state = cell(kind, from_input.narrow(0, begins[t], count), state, *w.hidden, *w.hidden_bias,
                 *w.projection);
    outputs[t] = state.h;
  }
  if (!ended.empty()) {
    ended.push_back(state);
    std::ranges::reverse(ended);
    state = joined(ended, 0);
  }
  return {cat(outputs, 0), state};
}

std::int64_t positive(std::string_view layer, std::string_view what, std::int64_t value) {
  DL_CHECK(value > 0, kInvalidArgument, "{}: {} is {}, wanted at least 1", layer, what, value);
  return value;
}

// At most 4 gates or 2 directions of this size have to be counted.
std::int64_t checked_hidden(std::string_view layer, std::int64_t value) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max() / 4;
  DL_CHECK(positive(layer, "hidden_size", value) <= kMost, kInvalidArgument,
           "{}: hidden_size is {}, wanted at most {}", layer, value, kMost);
  return value;
}

// In the order of parameters, which is PyTorch's.
void draw_uniform(const Module& module, std::int64_t hidden_size) {
  const double bound = 1 / std::sqrt(static_cast<double>(hidden_size));
  for (Tensor parameter : module.parameters()) init::uniform_(parameter, -bound, bound);
}

}  // namespace

detail::RNNBase::RNNBase(std::string_view name, RnnCell kind, std::int64_t inputs,
                         std::int64_t hidden, const RNNOptions& given)
    : input_size(positive(name, "input_size", inputs)),
      hidden_size(checked_hidden(name, hidden)),
      options(given),
      name_(name),
      kind_(kind) {
  positive(name, "num_layers", options.num_layers);
  DL_CHECK(options.dropout >= 0 && options.dropout <= 1, kInvalidArgument,
           "{}: dropout is {}, wanted 0 to 1", name, options.dropout);
  DL_CHECK(options.proj_size == 0 || kind == RnnCell::kLSTM, kInvalidArgument,
           "{}: proj_size is {}, and only an LSTM has a projection", name, options.proj_size);
  DL_CHECK(options.proj_size >= 0 && options.proj_size < hidden_size, kInvalidArgument,
           "{}: proj_size is {}, wanted 0 or more, and less than hidden_size = {}", name,
           options.proj_size, hidden_size);
  const std::int64_t rows = gates_of(kind) * hidden_size;
  const TensorOptions of_weights{.dtype = options.dtype};
  for (std::int64_t layer = 0; layer < options.num_layers; ++layer) {
    for (std::int64_t direction = 0; direction < directions(); ++direction) {
      const auto add = [&](std::string_view what, bool exists, const Shape& shape) {
        return &register_parameter(
            fmt::format("{}_l{}{}", what, layer, direction == 0 ? "" : "_reverse"),
            exists ? empty(shape, of_weights) : Tensor());
      };
      const std::int64_t columns = layer == 0 ? input_size : directions() * output_size();
      weights_.push_back({.input = add("weight_ih", true, {rows, columns}),
                          .hidden = add("weight_hh", true, {rows, output_size()}),
                          .input_bias = add("bias_ih", options.bias, {rows}),
                          .hidden_bias = add("bias_hh", options.bias, {rows}),
                          .projection = add("weight_hr", options.proj_size > 0,
                                            {options.proj_size, hidden_size})});
    }
  }
  reset_parameters();
}

void detail::RNNBase::reset_parameters() {
  check_not_moved("reset_parameters");
  draw_uniform(*this, hidden_size);
}

std::string detail::RNNBase::extra_repr() const {
  std::string text = fmt::format("{}, {}", input_size, hidden_size);
  if (options.proj_size != 0) text += fmt::format(", proj_size={}", options.proj_size);
  if (options.num_layers != 1) text += fmt::format(", num_layers={}", options.num_layers);
  if (!options.bias) text += ", bias=False";
  if (options.batch_first) text += ", batch_first=True";
  if (options.dropout != 0) text += fmt::format(", dropout={}", options.dropout);
  if (options.bidirectional) text += ", bidirectional=True";
  return text;
}

LSTMState detail::RNNBase::checked(const LSTMState& state, const Tensor& data,
                                   std::int64_t sequences) const {
  const auto of = [&](const Tensor& given, std::string_view what, std::int64_t width) {
    const Shape wanted({directions() * options.num_layers, sequences, width});
    if (!given.defined()) return zeros(wanted, {.dtype = data.dtype(), .device = data.device()});
    DL_CHECK(given.sizes() == wanted, kShape, "{}: {} has shape {}, wanted {}", name_, what,
             given.sizes().str(), wanted.str());
    return given;
  };
  const bool has_cells = kind_ == RnnCell::kLSTM;
  DL_CHECK(!has_cells || state.h.defined() == state.c.defined(), kInvalidArgument,
           "{}: one of h and c is undefined; give both or none", name_);
  return {of(state.h, "the hidden state", output_size()),
          has_cells ? of(state.c, "the cell state", hidden_size) : Tensor()};
}

std::pair<Tensor, LSTMState> detail::RNNBase::layers(Tensor data,
                                                     const std::vector<std::int64_t>& batch_sizes,
                                                     const LSTMState& state) {
  if (auto done = fused_layers(data, batch_sizes, state)) return std::move(*done);
  const double dropout_p = in_tape(options.dropout);
  std::vector<LSTMState> ends;
  for (std::int64_t layer = 0; layer < options.num_layers; ++layer) {
    std::vector<Tensor> outputs;
    for (std::int64_t direction = 0; direction < directions(); ++direction) {
      const std::int64_t number = layer * directions() + direction;
      auto [output, end] =
          scan(kind_, data, batch_sizes, each(state, [&](const Tensor& x) { return x[number]; }),
               weights_[static_cast<std::size_t>(number)], direction == 1);
      outputs.push_back(std::move(output));
      ends.push_back(each(end, [](const Tensor& x) { return x.unsqueeze(0); }));
    }
    data = outputs.size() == 1 ? outputs[0] : cat(outputs, -1);
    if (layer + 1 < options.num_layers) {
      data = functional::dropout(data, dropout_p, {.training = is_training()});
    }
  }
  return {data, joined(ends, 0)};
}

// One call for all layers, or for each layer if there is dropout between them.
std::optional<std::pair<Tensor, LSTMState>> detail::RNNBase::fused_layers(
    Tensor data, const std::vector<std::int64_t>& batch_sizes, const LSTMState& state) {
  if (!data.is_cuda()) return std::nullopt;
  const bool drops = is_training() && options.dropout > 0;
  const std::int64_t at_once = drops ? 1 : options.num_layers;
  std::vector<LSTMState> ends;
  for (std::int64_t first = 0; first < options.num_layers; first += at_once) {
    const std::int64_t begin = first * directions();
    const std::int64_t count = at_once * directions();
    std::vector<Tensor> weights;
    for (const CellWeights& w : std::span(weights_).subspan(static_cast<std::size_t>(begin),
                                                            static_cast<std::size_t>(count))) {
      for (const Tensor* const weight :
           {w.input, w.hidden, w.input_bias, w.hidden_bias, w.projection}) {
        if (weight->defined()) weights.push_back(*weight);
      }
    }
    const LSTMState start = each(state, [&](const Tensor& x) { return x.narrow(0, begin, count); });
    const auto done = dl::detail::fused_rnn({.cell = kind_,
                                             .inputs = data.size(1),
                                             .hidden = hidden_size,
                                             .projected = options.proj_size,
                                             .layers = at_once,
                                             .bidirectional = options.bidirectional,
                                             .has_bias = options.bias,
                                             .batch_sizes = batch_sizes},
                                            data, start.h, start.c, weights);
    if (!done) return std::nullopt;
    data = done->y;
    ends.push_back({done->h, done->c});
    if (first + at_once < options.num_layers) {
      data = functional::dropout(data, in_tape(options.dropout), {.training = true});
    }
  }
  return std::pair(data, ends.size() == 1 ? ends[0] : joined(ends, 0));
}

std::pair<Tensor, LSTMState> detail::RNNBase::run(const Tensor& input, const LSTMState& state) {
  check_not_moved("a call");
  DL_CHECK(input.defined() && (input.dim() == 2 || input.dim() == 3), kShape,
           "{}: the input has shape {}, wanted three dimensions, or two without a batch", name_,
           input.defined() ? input.sizes().str() : "none (undefined)");
  check_size(name_, "input_size", input_size, input, -1, "features");
  if (input.dim() == 2) {
    const std::int64_t batch = options.batch_first ? 0 : 1;
    const auto [output, end] =
        run(input.unsqueeze(batch), LSTMState{state.h.defined() ? state.h.unsqueeze(1) : state.h,
                                              state.c.defined() ? state.c.unsqueeze(1) : state.c});
    return {output.squeeze(batch), each(end, [](const Tensor& x) { return x.squeeze(1); })};
  }
  const Tensor steps_first = options.batch_first ? input.transpose(0, 1) : input;
  const std::int64_t steps = steps_first.size(0);
  const std::int64_t sequences = steps_first.size(1);
  DL_CHECK(steps > 0 && sequences > 0, kShape, "{}: the input of shape {} has no steps", name_,
           input.sizes().str());
  const std::vector<std::int64_t> batch_sizes(static_cast<std::size_t>(steps), sequences);
  const auto [data, end] = layers(steps_first.reshape({steps * sequences, input_size}), batch_sizes,
                                  checked(state, input, sequences));
  const Tensor output = data.view({steps, sequences, data.size(1)});
  return {options.batch_first ? output.transpose(0, 1) : output, end};
}

std::pair<PackedSequence, LSTMState> detail::RNNBase::run(const PackedSequence& input,
                                                          const LSTMState& state) {
  check_not_moved("a call");
  DL_CHECK(input.data.defined() && input.data.dim() == 2 && !input.batch_sizes.empty(), kShape,
           "{}: the packed data has shape {}, wanted [steps, input_size] of at least one step",
           name_, input.data.defined() ? input.data.sizes().str() : "none (undefined)");
  check_size(name_, "input_size", input_size, input.data, -1, "features");
  check_packed(input, name_);
  const LSTMState start = checked(state, input.data, input.batch_sizes.front());
  const auto [data, end] =
      layers(input.data, input.batch_sizes,
             each(start, [&](const Tensor& x) { return rows_at(x, input.sorted_indices, 1); }));
  return {PackedSequence{data, input.batch_sizes, input.sorted_indices, input.unsorted_indices},
          each(end, [&](const Tensor& x) { return rows_at(x, input.unsorted_indices, 1); })};
}

RNN::RNN(std::int64_t inputs, std::int64_t hidden, const RNNOptions& given)
    : RNNBase("RNN", kind_of("RNN", given.nonlinearity), inputs, hidden, given) {}

LSTM::LSTM(std::int64_t inputs, std::int64_t hidden, const RNNOptions& given)
    : RNNBase("LSTM", RnnCell::kLSTM, inputs, hidden, given) {
  check_no_choice("LSTM", given.nonlinearity);
}

GRU::GRU(std::int64_t inputs, std::int64_t hidden, const RNNOptions& given)
    : RNNBase("GRU", RnnCell::kGRU, inputs, hidden, given) {
  check_no_choice("GRU", given.nonlinearity);
}

detail::RNNCellBase::RNNCellBase(std::string_view name, RnnCell kind, std::int64_t inputs,
                                 std::int64_t hidden, bool bias, DType dtype)
    : input_size(positive(name, "input_size", inputs)),
      hidden_size(checked_hidden(name, hidden)),
      weight_ih(register_parameter(
          "weight_ih", empty({gates_of(kind) * hidden_size, input_size}, {.dtype = dtype}))),
      weight_hh(register_parameter(
          "weight_hh", empty({gates_of(kind) * hidden_size, hidden_size}, {.dtype = dtype}))),
      bias_ih(register_parameter(
          "bias_ih", bias ? empty({gates_of(kind) * hidden_size}, {.dtype = dtype}) : Tensor())),
      bias_hh(register_parameter(
          "bias_hh", bias ? empty({gates_of(kind) * hidden_size}, {.dtype = dtype}) : Tensor())),
      name_(name),
      kind_(kind) {
  reset_parameters();
}

void detail::RNNCellBase::reset_parameters() {
  check_not_moved("reset_parameters");
  draw_uniform(*this, hidden_size);
}

std::string detail::RNNCellBase::extra_repr() const {
  check_not_moved("extra_repr");
  return fmt::format("{}, {}{}", input_size, hidden_size, bias_ih.defined() ? "" : ", bias=False");
}

LSTMState detail::RNNCellBase::step(const Tensor& input, const LSTMState& state) const {
  check_not_moved("a call");
  DL_CHECK(input.defined() && (input.dim() == 1 || input.dim() == 2), kShape,
           "{}: the input has shape {}, wanted two dimensions, or one without a batch", name_,
           input.defined() ? input.sizes().str() : "none (undefined)");
  check_size(name_, "input_size", input_size, input, -1, "features");
  Shape wanted = input.sizes();
  wanted[wanted.size() - 1] = hidden_size;
  const auto of = [&](const Tensor& given, std::string_view what) {
    if (!given.defined()) return zeros(wanted, {.dtype = input.dtype(), .device = input.device()});
    DL_CHECK(given.sizes() == wanted, kShape, "{}: {} has shape {}, wanted {}", name_, what,
             given.sizes().str(), wanted.str());
    return given;
  };
  const LSTMState start{of(state.h, "the hidden state"),
                        kind_ == RnnCell::kLSTM ? of(state.c, "the cell state") : Tensor()};
  return cell(kind_, linear(input, weight_ih, bias_ih), start, weight_hh, bias_hh, {});
}

RNNCell::RNNCell(std::int64_t inputs, std::int64_t hidden, const RNNCellOptions& options)
    : RNNCellBase("RNNCell", kind_of("RNNCell", options.nonlinearity), inputs, hidden, options.bias,
                  options.dtype),
      nonlinearity_(options.nonlinearity) {}

std::string RNNCell::extra_repr() const {
  return RNNCellBase::extra_repr() +
         (nonlinearity_ == "tanh" ? "" : ", nonlinearity=" + nonlinearity_);
}

LSTMCell::LSTMCell(std::int64_t inputs, std::int64_t hidden, const RNNCellOptions& options)
    : RNNCellBase("LSTMCell", RnnCell::kLSTM, inputs, hidden, options.bias, options.dtype) {
  check_no_choice("LSTMCell", options.nonlinearity);
}

GRUCell::GRUCell(std::int64_t inputs, std::int64_t hidden, const RNNCellOptions& options)
    : RNNCellBase("GRUCell", RnnCell::kGRU, inputs, hidden, options.bias, options.dtype) {
  check_no_choice("GRUCell", options.nonlinearity);
}

}  // namespace dl::nn
