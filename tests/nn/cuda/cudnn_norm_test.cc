// Batch normalisation by cuDNN, which computes it with backends::cudnn::benchmark, against the CPU.
#include <array>

#include "core/device/math_flags.h"
#include "core/ops/index/index.h"
#include "core/ops/norm/norm.h"
#include "core/tensor/factories.h"
#include "nn/compile/compile.h"
#include "tests/core/cuda/on_device.h"

namespace dl::testing {
namespace {

class CudnnNorm : public OnDevice {
 protected:
  void SetUp() override {
    OnDevice::SetUp();
    backends::cudnn::benchmark = true;
  }
  void TearDown() override { backends::cudnn::benchmark = false; }
};

Tensor images(const Shape& shape, std::uint64_t seed = 1) {
  const Tensor x = add(mul(numbers(shape, seed), 1.5), 0.5);
  return x.dim() == 4 ? x.contiguous(MemoryFormat::kChannelsLast) : x;
}

// Of a batch with the channels last and f32 weights, whose dtype on the GPU is that of the batch in
// compare().
Tensor trained(const Inputs& in, const BatchNormOptions& options = {.training = true}) {
  const auto weight = [](const Tensor& x) { return x.is_cuda() ? x.to(DType::kF32) : x; };
  const Tensor x = in[0].dim() == 4 ? in[0].contiguous(MemoryFormat::kChannelsLast) : in[0];
  return batch_norm(x, {}, {}, weight(in[1]), weight(in[2]), options);
}

const std::vector<DType> kTypesOfCudnn = {DType::kF32, DType::kF16, DType::kBF16};

TEST_F(CudnnNorm, AgreesWithTheCPU) {
  const Shape shapes[] = {{2, 8, 3, 3}, {4, 24, 5, 7}, {3, 64, 1, 1},
                          {9, 16},      {3, 12, 4, 5}, {3, 5, 4, 7}};
  for (const Shape& shape : shapes) {
    const std::int64_t channels = shape[1];
    const auto terms = static_cast<double>(numbers(shape).numel() / channels);
    compare(
        shape.str(), [](const Inputs& in) { return trained(in); },
        {images(shape), positive({channels}, 2), numbers({channels}, 3)}, terms, kTypesOfCudnn,
        kOfNorm);
  }
}

Tensor trained_with_relu(const Inputs& in) {
  const auto weight = [](const Tensor& x) { return x.is_cuda() ? x.to(DType::kF32) : x; };
  const auto last = [](const Tensor& x) { return x.contiguous(MemoryFormat::kChannelsLast); };
  return batch_norm_relu(last(in[0]), {}, {}, weight(in[1]), weight(in[2]), {.training = true},
                         in.size() > 3 ? last(in[3]) : Tensor());
}

TEST_F(CudnnNorm, AgreesWithTheCPUWithReluAndResidual) {
  for (const Shape& shape : {Shape{2, 8, 3, 3}, Shape{4, 24, 5, 7}, Shape{3, 5, 4, 7}}) {
    const std::int64_t channels = shape[1];
    const auto terms = static_cast<double>(numbers(shape).numel() / channels);
    const Inputs inputs = {images(shape), positive({channels}, 2), numbers({channels}, 3),
                           images(shape, 4)};
    const Rounding rounding{.times = 3, .behind_relu = true};
    compare("relu " + shape.str(), trained_with_relu, {inputs.begin(), inputs.begin() + 3}, terms,
            kTypesOfCudnn, rounding);
    compare("residual and relu " + shape.str(), trained_with_relu, inputs, terms, kTypesOfCudnn,
            rounding);
  }
}

TEST_F(CudnnNorm, KeepsNaNBehindARelu) {
  const Tensor x = images({4, 8, 3, 3});
  x[0][1].fill_(NAN);
  const Tensor ones_there = ones({8}).to(kGPU);
  const Tensor y = batch_norm_relu(x.to(kGPU), {}, {}, ones_there, ones_there, {.training = true});
  expect_close(y, batch_norm_relu(x, {}, {}, ones({8}), ones({8}), {.training = true}), 1e-5, "y");
}

// What an operation gives in this setting, with gradients.
struct Given {
  Tensor x, weight, bias, mean, variance;
  BatchNormOptions options{.training = true};
  Tensor residual{};
  bool relu = false;
};
std::vector<Tensor> results_of(const Given& given, bool benchmark) {
  backends::cudnn::benchmark = benchmark;
  const auto there = [](const Tensor& x) { return x.defined() ? x.to(kGPU).clone() : x; };
  Inputs in;
  for (const Tensor& x : {given.x, given.weight, given.bias}) in.push_back(there(x));
  for (Tensor& x : in) {
    if (x.defined()) x.requires_grad_();
  }
  const Tensor mean = there(given.mean);
  const Tensor variance = there(given.variance);
  const Tensor residual = there(given.residual);
  const Tensor y =
      given.relu ? batch_norm_relu(in[0], mean, variance, in[1], in[2], given.options, residual)
                 : batch_norm(in[0], mean, variance, in[1], in[2], given.options);
  y.backward(images(y.sizes(), 7).to(y.dtype()).to(kGPU));
  std::vector<Tensor> all = {y.detach(), mean, variance};
  for (const Tensor& x : in) all.push_back(x.defined() ? x.grad() : x);
  std::erase_if(all, [](const Tensor& x) { return !x.defined(); });
  for (Tensor& x : all) x = x.cpu();
  return all;
}
bool differ(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!a[i].equal(b[i])) return true;
  }
  return false;
}

TEST_F(CudnnNorm, IsTakenForWhatItIsFastAt) {
  const Shape shape{4, 24, 5, 7};
  const Given usual{images(shape), positive({24}, 2), numbers({24}, 3), numbers({24}, 4),
                    positive({24}, 5)};
  for (const DType dtype : kTypesOfCudnn) {
    Given given = usual;
    given.x = usual.x.to(dtype);
    EXPECT_TRUE(differ(results_of(given, true), results_of(given, false))) << name_of(dtype);
    given.relu = true;
    EXPECT_TRUE(differ(results_of(given, true), results_of(given, false))) << name_of(dtype);
    given.residual = given.x;
    EXPECT_TRUE(differ(results_of(given, true), results_of(given, false))) << name_of(dtype);
  }
  std::vector<std::pair<std::string, Given>> others;
  const auto other = [&](const std::string& name, const auto& change) {
    Given given = usual;
    change(given);
    others.emplace_back(name, given);
  };
  other("channels first", [](Given& g) { g.x = g.x.contiguous(); });
  other("channels of no whole pack", [](Given& g) {
    g.x = images({4, 24, 5, 7}).narrow(1, 0, 23).contiguous(MemoryFormat::kChannelsLast);
    for (Tensor* const x : {&g.weight, &g.bias, &g.mean, &g.variance})
      *x = x->narrow(0, 0, 23).clone();
  });
  other("no weights", [](Given& g) { g.weight = g.bias = {}; });
  other("weights of the batch's dtype", [](Given& g) {
    g.x = g.x.to(DType::kF16);
    g.weight = g.weight.to(DType::kF16);
    g.bias = g.bias.to(DType::kF16);
  });
  other("evaluation", [](Given& g) { g.options.training = false; });
  other("f64", [](Given& g) {
    for (Tensor* const x : {&g.x, &g.weight, &g.bias, &g.mean, &g.variance})
      *x = x->to(DType::kF64);
  });
  for (const auto& [name, given] : others) {
    EXPECT_FALSE(differ(results_of(given, true), results_of(given, false))) << name;
  }
}

TEST_F(CudnnNorm, MovesRunningStatisticsAsTheCPU) {
  for (const double momentum : {0.1, 0.3}) {
    const BatchNormOptions options{.training = true, .momentum = momentum};
    const Tensor x = images({4, 8, 3, 5});
    const Tensor weight = positive({8}, 2);
    Tensor mean = numbers({8}, 4);
    Tensor variance = positive({8}, 5);
    const Tensor mean_there = mean.to(kGPU).clone();
    const Tensor variance_there = variance.to(kGPU).clone();
    for (int step = 0; step < 2; ++step) {
      batch_norm(x, mean, variance, weight, weight, options);
      batch_norm(x.to(kGPU), mean_there, variance_there, weight.to(kGPU), weight.to(kGPU), options);
    }
    expect_close(mean_there, mean, tolerance(DType::kF32, 100), "mean");
    expect_close(variance_there, variance, tolerance(DType::kF32, 100), "variance");
  }
}

// Of the batch alone, and of weights whose batch has none.
TEST_F(CudnnNorm, GivesTheGradientsThatAreAskedFor) {
  const std::array<std::array<bool, 3>, 4> cases = {
      {{true, false, false}, {true, true, false}, {true, false, true}, {false, true, true}}};
  for (const auto& wanted : cases) {
    const auto gradients = [&](Device device) {
      Inputs in = {images({4, 8, 3, 5}), positive({8}, 2), numbers({8}, 3)};
      for (std::size_t i = 0; i < in.size(); ++i) {
        in[i] = in[i].to(device);
        if (wanted[i]) in[i].requires_grad_();
      }
      const Tensor y = trained(in);
      y.backward(images({4, 8, 3, 5}, 7).to(device));
      return std::vector<Tensor>{in[0].grad(), in[1].grad(), in[2].grad()};
    };
    const std::vector<Tensor> here = gradients(Device{});
    const std::vector<Tensor> there = gradients(kGPU);
    for (std::size_t i = 0; i < here.size(); ++i) {
      ASSERT_EQ(there[i].defined(), wanted[i]);
      if (wanted[i]) expect_close(there[i], here[i], 1e-5, "gradient " + std::to_string(i));
    }
  }
}

// cuDNN makes its plans in the capture.
TEST_F(CudnnNorm, HasTheBitsOfTheFunctionInAGraph) {
  for (const DType dtype : kTypesOfCudnn) {
    const auto run = [&](bool captured) {
      const Tensor weight = positive({16}, 2).to(kGPU).requires_grad_();
      const Tensor bias = numbers({16}, 3).to(kGPU).requires_grad_();
      const Tensor mean = zeros({16}).to(kGPU);
      const Tensor variance = ones({16}).to(kGPU);
      auto step = compile(
          [&](const Tensor& x) {
            weight.set_grad({});
            bias.set_grad({});
            const Tensor in = x.detach().requires_grad_();
            const Tensor once =
                batch_norm_relu(in, mean, variance, weight, bias, {.training = true}, in);
            const Tensor y = batch_norm(once, mean, variance, weight, bias, {.training = true});
            y.backward(x);
            return std::vector<Tensor>{y.detach(), in.grad(), weight.grad(), bias.grad()};
          },
          {.enabled = captured, .whole = true});
      std::vector<Tensor> results;
      for (std::uint64_t i = 0; i < 3; ++i) {
        for (const Tensor& x : step(images({3, 16, 3, 3}, i).to(dtype).to(kGPU))) {
          results.push_back(x.cpu());
        }
      }
      results.push_back(mean.cpu());
      results.push_back(variance.cpu());
      return results;
    };
    const std::vector<Tensor> eager = run(false);
    const std::vector<Tensor> captured = run(true);
    for (std::size_t i = 0; i < eager.size(); ++i) {
      expect_same(captured[i], eager[i],
                  std::string(name_of(dtype)) + ": tensor " + std::to_string(i));
    }
  }
}

}  // namespace
}  // namespace dl::testing
