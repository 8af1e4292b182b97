// RNN, LSTM, GRU, their cells and packed sequences against PyTorch's arrays.
#include "nn/layers/rnn/rnn.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/reduce/reduce.h"
#include "core/random/generator.h"
#include "core/random/tensor_random.h"
#include "nn/compile/compile.h"
#include "tests/nn/parity.h"
#include "tests/nn/support.h"

namespace dl::nn {
namespace {

namespace packing = utils::rnn;
using ::testing::ElementsAre;

const std::vector<std::int64_t> kLengths = {3, 5, 1, 4};  // those of make_arrays.py

Tensor double_of(const parity::Arrays& arrays, const std::string& name) {
  Shape shape;
  for (const std::size_t size : arrays.shape(name)) {
    shape.push_back(static_cast<std::int64_t>(size));
  }
  return tensor(arrays.get<double>(name), {.dtype = DType::kF64}).view(shape);
}

void expect_array(const Tensor& got, const parity::Arrays& arrays, const std::string& name) {
  ASSERT_EQ(got.sizes(), double_of(arrays, name).sizes()) << name;
  parity::expect_near_share(got.detach(), arrays.get<double>(name), 1e-12, name);
}

// PyTorch's names and initial values.
void expect_start(const Module& module, const parity::Arrays& arrays, const std::string& name) {
  for (const NamedTensor& entry : module.state_dict()) {
    EXPECT_EQ(values<float>(entry.tensor), arrays.get<float>(name + "." + entry.name))
        << name << "." << entry.name;
  }
}

LSTMState parts(const LSTMState& state) {
  return state;
}
LSTMState parts(const Tensor& h) {
  return {h};
}

template <typename Layer>
void check_layer(const std::string& name, const RNNOptions& options) {
  SCOPED_TRACE(name);
  const parity::Arrays arrays("rnn");
  manual_seed(123);
  Layer layer(3, 4, options);
  std::string keys;
  for (const NamedTensor& entry : layer.state_dict()) {
    keys += (keys.empty() ? "" : "\n") + entry.name;
  }
  EXPECT_EQ(keys, text_of(arrays, name + ".keys"));
  expect_start(layer, arrays, name);
  layer.to(DType::kF64);
  const Tensor x = double_of(arrays, name + ".x");
  LSTMState state{double_of(arrays, name + ".state0")};
  if (arrays.has(name + ".state1")) state.c = double_of(arrays, name + ".state1");
  const auto given = [&] {
    if constexpr (std::is_same_v<Layer, LSTM>) {
      return state;
    } else {
      return state.h;
    }
  }();
  const auto check = [&](const std::string& kind, const Tensor& y, const LSTMState& end) {
    const std::string at = name + "." + kind;
    expect_array(y, arrays, at + ".y");
    expect_array(end.h, arrays, at + ".end0");
    Tensor loss = sum(y * y) + sum(end.h * end.h);
    if (end.c.defined()) {
      expect_array(end.c, arrays, at + ".end1");
      loss = loss + sum(end.c * end.c);
    }
    layer.zero_grad();
    loss.backward();
    for (const NamedTensor& entry : layer.named_parameters()) {
      expect_array(entry.tensor.grad(), arrays, at + ".d_" + entry.name);
    }
  };
  {
    const auto [y, end] = layer(x);
    check("zero", y, parts(end));
  }
  {
    const auto [y, end] = layer(x, given);
    check("given", y, parts(end));
  }
  const PackedSequence packed = packing::pack_padded_sequence(
      x, kLengths, {.batch_first = options.batch_first, .enforce_sorted = false});
  const auto [y, end] = layer(packed, given);
  const auto [padded, lengths] =
      packing::pad_packed_sequence(y, {.batch_first = options.batch_first, .padding_value = -1});
  EXPECT_EQ(lengths, kLengths);
  check("packed", padded, parts(end));
}

TEST(Recurrent, LayersAgreeWithPyTorch) {
  check_layer<RNN>("rnn", {});
  check_layer<RNN>("rnn_relu", {.num_layers = 2, .bias = false, .nonlinearity = "relu"});
  check_layer<LSTM>("lstm", {});
  check_layer<LSTM>("lstm_deep", {.num_layers = 2, .batch_first = true, .bidirectional = true});
  check_layer<LSTM>("lstm_proj", {.num_layers = 2, .proj_size = 2});
  check_layer<LSTM>("lstm_proj_both", {.bidirectional = true, .proj_size = 3});
  check_layer<GRU>("gru", {});
  check_layer<GRU>("gru_deep", {.num_layers = 3, .bidirectional = true});
}

TEST(Recurrent, CellsAgreeWithPyTorch) {
  const parity::Arrays arrays("rnn");
  const auto check = [&]<typename Cell>(const std::string& name, const RNNCellOptions& options) {
    SCOPED_TRACE(name);
    manual_seed(123);
    Cell cell(3, 4, options);
    expect_start(cell, arrays, name);
    cell.to(DType::kF64);
    const Tensor x = double_of(arrays, name + ".x");
    const Tensor h = double_of(arrays, name + ".h");
    if constexpr (std::is_same_v<Cell, LSTMCell>) {
      const LSTMState end = cell(x, {h, double_of(arrays, name + ".c")});
      expect_array(end.h, arrays, name + ".end0");
      expect_array(end.c, arrays, name + ".end1");
      EXPECT_EQ(values<double>(cell(x[0], {h[0], double_of(arrays, name + ".c")[0]}).h),
                values<double>(end.h[0]));
    } else {
      expect_array(cell(x, h), arrays, name + ".end0");
    }
  };
  check.template operator()<RNNCell>("rnn_cell", {});
  check.template operator()<RNNCell>("rnn_cell_relu", {.bias = false, .nonlinearity = "relu"});
  check.template operator()<LSTMCell>("lstm_cell", {});
  check.template operator()<GRUCell>("gru_cell", {});
}

TEST(Recurrent, TextsAreThoseOfPyTorch) {
  const std::string text = RNN(3, 4).str() + "\n" +
                           LSTM(3, 4,
                                {.num_layers = 2,
                                 .bias = false,
                                 .batch_first = true,
                                 .dropout = 0.5,
                                 .bidirectional = true})
                               .str() +
                           "\n" + LSTM(3, 4, {.proj_size = 2}).str() + "\n" + GRU(3, 4).str() +
                           "\n" + RNNCell(3, 4).str() + "\n" +
                           RNNCell(3, 4, {.bias = false, .nonlinearity = "relu"}).str() + "\n" +
                           LSTMCell(3, 4).str() + "\n" + GRUCell(3, 4, {.bias = false}).str();
  EXPECT_EQ(text, text_of(parity::Arrays("rnn"), "text"));
}

TEST(Recurrent, ASequenceWithoutABatchIsOneOfABatch) {
  LSTM lstm(3, 4, {.num_layers = 2, .bidirectional = true});
  const Tensor x = randn({5, 3});
  const auto [alone, end] = lstm(x);
  const auto [together, ends] = lstm(x.unsqueeze(1));
  EXPECT_EQ(alone.sizes(), Shape({5, 8}));
  EXPECT_EQ(end.c.sizes(), Shape({4, 4}));
  EXPECT_EQ(values<float>(alone), values<float>(together));
  EXPECT_EQ(values<float>(end.h), values<float>(ends.h));
}

TEST(Recurrent, DropoutIsBetweenLayersAndInTrainingOnly) {
  GRU gru(3, 4, {.num_layers = 2, .dropout = 1});
  const Tensor x = randn({5, 2, 3});
  const auto trained = values<float>(gru(x).first);
  EXPECT_EQ(trained, values<float>(gru(randn({5, 2, 3})).first)) << "nothing reaches layer 2";
  gru.eval();
  EXPECT_NE(trained, values<float>(gru(x).first));
}

TEST(Recurrent, ACompiledStepHasItsBits) {
  LSTM lstm(3, 4, {.num_layers = 2, .dropout = 0.3});
  const auto run = [&](bool enabled) {
    manual_seed(5);
    auto step = compile(
        [&](const Tensor& x) {
          lstm.zero_grad();
          const Tensor loss = sum(lstm(x).first);
          loss.backward();
          return loss;
        },
        {.enabled = enabled});
    std::vector<float> losses;
    for (int i = 0; i < 4; ++i) losses.push_back(step(randn({5, 2, 3})).item<float>());
    return losses;
  };
  EXPECT_EQ(run(true), run(false));
}

TEST(Recurrent, SequencesArePackedAndPadded) {
  const std::vector<Tensor> sequences = {ones({2, 1}), full({3, 1}, 2.0), full({1, 1}, 3.0)};
  const PackedSequence packed = packing::pack_sequence(sequences, false);
  EXPECT_THAT(packed.batch_sizes, ElementsAre(3, 2, 1));
  EXPECT_THAT(packed.sorted_indices, ElementsAre(1, 0, 2));
  EXPECT_THAT(packed.unsorted_indices, ElementsAre(1, 0, 2));
  EXPECT_THAT(values<float>(packed.data), ElementsAre(2, 1, 3, 2, 1, 2));
  const auto [padded, lengths] =
      packing::pad_packed_sequence(packed, {.batch_first = true, .total_length = 4});
  EXPECT_THAT(lengths, ElementsAre(2, 3, 1));
  EXPECT_EQ(padded.sizes(), Shape({3, 4, 1}));
  EXPECT_THAT(values<float>(padded), ElementsAre(1, 1, 0, 0, 2, 2, 2, 0, 3, 0, 0, 0));
  EXPECT_THAT(values<float>(packing::pad_sequence(sequences, {.padding_value = -1})),
              ElementsAre(1, 2, 3, 1, 2, -1, -1, 2, -1));
}

TEST(Recurrent, WhatDoesNotFitIsNamed) {
  LSTM lstm(3, 4, {.num_layers = 2});
  EXPECT_ERROR(lstm(zeros({5, 2, 7})), kShape,
               "LSTM: input_size is 3, but the input of shape [5, 2, 7] has 7 features");
  EXPECT_ERROR(lstm(zeros({3})), kShape,
               "LSTM: the input has shape [3], wanted three dimensions, or two without a batch");
  EXPECT_ERROR(lstm(zeros({5, 2, 3}), {zeros({2, 2, 4})}), kInvalidArgument,
               "LSTM: one of h and c is undefined; give both or none");
  EXPECT_ERROR(lstm(zeros({5, 2, 3}), {zeros({2, 2, 4}), zeros({1, 2, 4})}), kShape,
               "LSTM: the cell state has shape [1, 2, 4], wanted [2, 2, 4]");
  EXPECT_ERROR(GRU(3, 4, {.num_layers = 0}), kInvalidArgument,
               "GRU: num_layers is 0, wanted at least 1");
  EXPECT_ERROR(GRU(3, 4, {.proj_size = 2}), kInvalidArgument,
               "GRU: proj_size is 2, and only an LSTM has a projection");
  EXPECT_ERROR(RNN(3, 4, {.nonlinearity = "gelu"}), kInvalidArgument,
               "RNN: nonlinearity is gelu, wanted tanh or relu");
  EXPECT_ERROR(GRU(3, 4, {.nonlinearity = "relu"}), kInvalidArgument,
               "GRU: nonlinearity is relu, and only an RNN has a choice");
  EXPECT_ERROR(GRUCell(3, 4)(zeros({2, 3}), zeros({2, 5})), kShape,
               "GRUCell: the hidden state has shape [2, 5], wanted [2, 4]");
  const std::vector<std::int64_t> rising = {1, 2};
  EXPECT_ERROR(packing::pack_padded_sequence(zeros({3, 2, 1}), rising), kInvalidArgument,
               "pack_padded_sequence: the lengths rise; sort the sequences, or set enforce_sorted "
               "= false");
  const std::vector<std::int64_t> long_one = {4, 2};
  EXPECT_ERROR(packing::pack_padded_sequence(zeros({3, 2, 1}), long_one), kInvalidArgument,
               "pack_padded_sequence: a length is 4, wanted 1 to 3");
  constexpr std::int64_t kHuge = std::int64_t{1} << 62U;
  EXPECT_ERROR(LSTM(3, kHuge), kInvalidArgument,
               "LSTM: hidden_size is 4611686018427387904, wanted at most 2305843009213693951");
  EXPECT_ERROR(GRUCell(3, kHuge), kInvalidArgument,
               "GRUCell: hidden_size is 4611686018427387904, wanted at most 2305843009213693951");
}

// PackedSequence is a public aggregate: its numbers may come from anywhere.
TEST(Recurrent, PackedSequencesThatDoNotFitAreNamed) {
  GRU gru(1, 2);
  const auto expect = [&](const PackedSequence& packed, const std::string& text) {
    EXPECT_ERROR(gru(packed), kInvalidArgument, "GRU: " + text);
    EXPECT_ERROR(packing::pad_packed_sequence(packed), kInvalidArgument,
                 "pad_packed_sequence: " + text);
  };
  const Tensor data = ones({4, 1});
  expect({data, {2, 0, 2}, {}, {}}, "batch_sizes[1] is 0, wanted 1 to 2; they never rise");
  expect({data, {-1, 5}, {}, {}}, "batch_sizes[0] is -1, wanted 1 to 4; they never rise");
  expect({data, {1, 3}, {}, {}}, "batch_sizes[1] is 3, wanted 1 to 1; they never rise");
  expect({data, {2, 1}, {}, {}},
         "batch_sizes add up to less than the 4 rows of data; wanted as many");
  expect({data, {3, 3}, {}, {}},
         "batch_sizes add up to more than the 4 rows of data; wanted as many");
  expect({data, {2, 2}, {0}, {}},
         "sorted_indices has 1 numbers, wanted none or batch_sizes[0] = 2");
  expect({data, {2, 2}, {}, {0, 2}}, "unsorted_indices has 2, wanted each number from 0 to 1 once");
  expect({data, {2, 2}, {}, {1, 1}}, "unsorted_indices has 1, wanted each number from 0 to 1 once");
}

}  // namespace
}  // namespace dl::nn
