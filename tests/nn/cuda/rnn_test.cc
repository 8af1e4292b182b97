// Recurrent layers by cuDNN, which computes them without backends::cudnn::deterministic, against
// the CPU.
#include "nn/layers/rnn/rnn.h"

#include "core/autograd/grad_mode.h"
#include "core/device/math_flags.h"
#include "core/ops/reduce/reduce.h"
#include "core/tensor/factories.h"
#include "nn/compile/compile.h"
#include "tests/core/cuda/on_device.h"

namespace dl::testing {
namespace {

using nn::LSTMState;
using nn::RNNOptions;

class CudaRnn : public OnDevice {
 protected:
  void SetUp() override {
    OnDevice::SetUp();
    backends::cudnn::deterministic = false;
    backends::cudnn::allow_tf32 = false;
  }
  void TearDown() override {
    backends::cudnn::deterministic = true;
    backends::cudnn::allow_tf32 = true;
  }
};

constexpr std::int64_t kInputs = 5;
constexpr std::int64_t kHidden = 6;
const std::vector<std::int64_t> kLengths = {4, 3, 3, 1};

LSTMState parts(const Tensor& h) {
  return {h};
}
LSTMState parts(const LSTMState& state) {
  return state;
}
template <typename Layer>
auto state_of(const LSTMState& state) {
  if constexpr (std::is_same_v<Layer, nn::LSTM>) {
    return state;
  } else {
    return state.h;
  }
}

// What a call gives: the output, the states behind it, and all gradients.
struct Asked {
  RNNOptions options{};
  bool packed = false;
  bool has_state = false;
  bool uses_end = true;  // in the loss
};
template <typename Layer>
std::vector<Tensor> results_of(const Asked& asked, DType dtype, Device device) {
  manual_seed(7);
  Layer layer(kInputs, kHidden, asked.options);
  layer.to(dtype);
  if (device.type == DeviceType::kCUDA) layer.to(device);
  const auto there = [&](const Tensor& x) {
    return x.to(DType::kBF16).to(dtype).to(device).detach().requires_grad_();
  };
  const std::int64_t directions = asked.options.bidirectional ? 2 : 1;
  const std::int64_t width = asked.options.proj_size > 0 ? asked.options.proj_size : kHidden;
  const auto sequences = static_cast<std::int64_t>(kLengths.size());
  const std::int64_t rows = directions * asked.options.num_layers;
  const Tensor x = there(numbers({kLengths.front(), sequences, kInputs}));
  LSTMState start;
  if (asked.has_state) {
    start.h = there(numbers({rows, sequences, width}, 2));
    if (std::is_same_v<Layer, nn::LSTM>) start.c = there(numbers({rows, sequences, kHidden}, 3));
  }
  Tensor y;
  LSTMState end;
  if (asked.packed) {
    const auto packed = nn::utils::rnn::pack_padded_sequence(x, kLengths);
    auto [output, state] = layer(packed, state_of<Layer>(start));
    y = output.data;
    end = parts(state);
  } else {
    auto [output, state] = layer(x, state_of<Layer>(start));
    y = output;
    end = parts(state);
  }
  const auto weigh = [&](const Tensor& out, std::uint64_t seed) {
    return sum(out * numbers(out.sizes(), seed).to(dtype).to(device));
  };
  Tensor loss = weigh(y, 4);
  if (asked.uses_end) {
    loss = loss + weigh(end.h, 5);
    if (end.c.defined()) loss = loss + weigh(end.c, 6);
  }
  loss.backward();
  std::vector<Tensor> all = {y, end.h, end.c, x.grad()};
  if (asked.has_state)
    all.insert(all.end(), {start.h.grad(), start.c.defined() ? start.c.grad() : start.c});
  for (const nn::NamedTensor& each : layer.named_parameters()) all.push_back(each.tensor.grad());
  std::erase_if(all, [](const Tensor& tensor) { return !tensor.defined(); });
  for (Tensor& tensor : all) tensor = tensor.detach().cpu();
  return all;
}

// The parameters are rounded to bf16 for the reference, too.
template <typename Layer>
void compare_layer(const std::string& what, const Asked& asked) {
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    const std::vector<Tensor> there = results_of<Layer>(asked, dtype, kGPU);
    const std::vector<Tensor> here = results_of<Layer>(asked, dtype, Device{});
    ASSERT_EQ(there.size(), here.size());
    for (std::size_t i = 0; i < here.size(); ++i) {
      // The CPU rounds each operation of a step to a short dtype.
      expect_close(there[i], here[i].to(DType::kF64), gradient_tolerance(dtype, 100, {.times = 4}),
                   what + " in " + std::string(name_of(dtype)) + ", tensor " + std::to_string(i));
    }
  }
}

TEST_F(CudaRnn, AgreesWithTheCPU) {
  compare_layer<nn::RNN>("tanh", {});
  compare_layer<nn::RNN>("relu",
                         {.options = {.num_layers = 2, .nonlinearity = "relu"}, .has_state = true});
  compare_layer<nn::LSTM>("lstm", {.uses_end = false});
  compare_layer<nn::LSTM>("lstm, deep",
                          {.options = {.num_layers = 2, .bidirectional = true}, .has_state = true});
  compare_layer<nn::LSTM>("lstm, without bias", {.options = {.num_layers = 2, .bias = false}});
  compare_layer<nn::LSTM>(
      "lstm, projected",
      {.options = {.num_layers = 2, .bidirectional = true, .proj_size = 3}, .has_state = true});
  compare_layer<nn::GRU>("gru", {.has_state = true});
  compare_layer<nn::GRU>("gru, deep", {.options = {.num_layers = 3, .bidirectional = true}});
}

TEST_F(CudaRnn, AgreesWithTheCPUOnPackedSequences) {
  compare_layer<nn::RNN>("tanh", {.packed = true});
  compare_layer<nn::LSTM>(
      "lstm",
      {.options = {.num_layers = 2, .bidirectional = true}, .packed = true, .has_state = true});
  compare_layer<nn::GRU>(
      "gru",
      {.options = {.num_layers = 2, .bidirectional = true}, .packed = true, .has_state = true});
}

bool equal(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  return std::ranges::equal(a, b, [](const Tensor& x, const Tensor& y) { return x.equal(y); });
}

// cuDNN computes in another order than single operations do.
TEST_F(CudaRnn, IsCudnnsOnlyIfItNeedNotBeDeterministic) {
  const Asked asked{.options = {.num_layers = 2, .bidirectional = true}};
  const auto by_cudnn = results_of<nn::LSTM>(asked, DType::kBF16, kGPU);
  backends::cudnn::deterministic = true;
  const auto composed = results_of<nn::LSTM>(asked, DType::kBF16, kGPU);
  EXPECT_FALSE(equal(by_cudnn, composed));
  backends::cudnn::deterministic = false;
  backends::cudnn::enabled = false;
  EXPECT_TRUE(equal(results_of<nn::LSTM>(asked, DType::kBF16, kGPU), composed));
  backends::cudnn::enabled = true;
}

// A layer alone, in evaluation: no reserve.
TEST_F(CudaRnn, PredictsAsItTrains) {
  nn::LSTM lstm(kInputs, kHidden, {.num_layers = 2, .dropout = 0.5, .bidirectional = true});
  lstm.to(kGPU);
  lstm.eval();
  const Tensor x = numbers({3, 2, kInputs}).to(kGPU);
  const Tensor recorded = lstm(x).first;
  const NoGradGuard no_grad;
  expect_same(lstm(x).first, recorded.detach().cpu(), "the output");
}

// Dropout between layers is dlrun's: a seed gives the same numbers again.
TEST_F(CudaRnn, DropsBetweenLayersBySeed) {
  const Asked asked{.options = {.num_layers = 3, .dropout = 0.5}};
  const auto first = results_of<nn::GRU>(asked, DType::kF32, kGPU);
  EXPECT_TRUE(equal(results_of<nn::GRU>(asked, DType::kF32, kGPU), first));
  EXPECT_FALSE(
      equal(results_of<nn::GRU>({.options = {.num_layers = 3}}, DType::kF32, kGPU), first));
}

TEST_F(CudaRnn, GivesItsGradientsTwice) {
  nn::GRU gru(kInputs, kHidden);
  gru.to(kGPU);
  const Tensor loss = sum(gru(numbers({3, 2, kInputs}).to(kGPU)).first);
  loss.backward({}, {.retain_graph = true});
  const Tensor once = gru.parameters().front().grad().clone();
  loss.backward();
  expect_close(gru.parameters().front().grad(), mul(once, 2).cpu(), 1e-6, "the weight's gradient");
}

TEST_F(CudaRnn, HasTheBitsOfTheFunctionInAGraph) {
  for (const double dropout : {0.0, 0.3}) {
    const auto run = [&](bool captured) {
      manual_seed(5);
      nn::LSTM lstm(kInputs, kHidden, {.num_layers = 2, .dropout = dropout});
      lstm.to(kGPU);
      auto step = compile(
          [&](const Tensor& x) {
            lstm.zero_grad();
            const Tensor y = lstm(x).first;
            y.backward(y.detach());
            return std::vector<Tensor>{y.detach(), lstm.parameters().front().grad()};
          },
          {.enabled = captured, .whole = true});
      std::vector<Tensor> results;
      for (std::uint64_t i = 0; i < 3; ++i) {
        for (const Tensor& x : step(numbers({4, 2, kInputs}, i).to(kGPU))) {
          results.push_back(x.cpu());
        }
      }
      EXPECT_EQ(step.summary().replays, captured ? 2 : 0);
      return results;
    };
    // With dropout, a graph draws other numbers, and the same ones in each run.
    const std::vector<Tensor> wanted = run(dropout > 0);
    const std::vector<Tensor> captured = run(true);
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      expect_same(captured[i], wanted[i],
                  "dropout " + std::to_string(dropout) + ", tensor " + std::to_string(i));
    }
  }
}

}  // namespace
}  // namespace dl::testing
