// Normalisation, average pooling and resampling on a GPU against the CPU.
#include "core/ops/norm/norm.h"

#include "core/ops/dispatch/kernel_names.h"
#include "core/ops/pool/resample.h"
#include "core/ops/reduce/reduce.h"
#include "core/tensor/factories.h"
#include "tests/core/cuda/on_device.h"

namespace dl::testing {
namespace {

class CudaNorm : public OnDevice {};

struct BatchCase {
  Shape shape;
  bool channels_last = false;
};
const std::vector<BatchCase> kBatches = {{{7, 5}},
                                         {{4, 1}},
                                         {{4, 3, 5, 7}},
                                         {{4, 3, 5, 7}, true},
                                         {{2, 33, 9, 9}, true},
                                         {{2, 64, 4, 4}, true},
                                         {{2, 64, 4, 4}},
                                         {{3, 40, 1, 1}},
                                         {{2, 6, 11}},
                                         {{5, 2, 96, 97}},
                                         {{5, 2, 96, 97}, true},
                                         {{20011, 3}}};

Tensor laid(const Tensor& x, bool channels_last) {
  return channels_last ? x.contiguous(MemoryFormat::kChannelsLast) : x;
}
// Means and deviations that are not 0 and 1.
Tensor spread(const Shape& shape, std::uint64_t seed = 1) {
  return add(mul(numbers(shape, seed), 1.5), 0.5);
}

TEST_F(CudaNorm, BatchesInTraining) {
  for (const BatchCase& c : kBatches) {
    const std::int64_t channels = c.shape[1];
    const auto terms = static_cast<double>(numbers(c.shape).numel() / channels);
    const std::string name = c.shape.str() + (c.channels_last ? ", channels-last" : "");
    compare(
        "batch_norm " + name,
        [&](const Inputs& in) {
          return batch_norm(laid(in[0], c.channels_last), {}, {}, in[1], in[2], {.training = true});
        },
        {spread(c.shape), positive({channels}, 2), numbers({channels}, 3)}, terms, kAllFloats,
        kOfNorm);
    compare(
        "batch_norm without weights " + name,
        [&](const Inputs& in) {
          return batch_norm(laid(in[0], c.channels_last), {}, {}, {}, {}, {.training = true});
        },
        {spread(c.shape)}, terms, kAllFloats, kOfNorm);
  }
}

TEST_F(CudaNorm, BatchesWithRunningStatistics) {
  for (const BatchCase& c : kBatches) {
    const std::int64_t channels = c.shape[1];
    const auto terms = static_cast<double>(numbers(c.shape).numel() / channels);
    const Tensor mean = numbers({channels}, 4);
    const Tensor variance = positive({channels}, 5);
    compare(
        "batch_norm of fixed statistics " + c.shape.str(),
        [&](const Inputs& in) {
          const DType dtype = in[0].dtype() == DType::kF64 ? DType::kF64 : DType::kF32;
          const auto there = [&](const Tensor& x) { return x.to(dtype).to(in[0].device()); };
          return batch_norm(laid(in[0], c.channels_last), there(mean), there(variance), in[1],
                            in[2]);
        },
        {spread(c.shape), positive({channels}, 2), numbers({channels}, 3)}, terms, kAllFloats,
        kOfNorm);
  }
}

// A ReLU sees other signs only of numbers that are nearly 0.
TEST_F(CudaNorm, BatchesBehindWhichIsARelu) {
  const Rounding rounding{.times = 3, .behind_relu = true};
  for (const BatchCase& c : kBatches) {
    const std::int64_t channels = c.shape[1];
    const std::int64_t elements = numbers(c.shape).numel();
    if (elements > 10'000) continue;  // as the other tests have them
    const auto terms = static_cast<double>(elements / channels);
    const Inputs inputs = {spread(c.shape), positive({channels}, 2), numbers({channels}, 3),
                           numbers(c.shape, 6)};
    for (const bool training : {true, false}) {
      const auto f = [&](const Inputs& in) {
        const DType dtype = in[0].dtype() == DType::kF64 ? DType::kF64 : DType::kF32;
        const TensorOptions of_stats{.dtype = dtype, .device = in[0].device()};
        const bool other = c.shape.size() == 4 && !c.channels_last;
        const Tensor residual = in.size() > 3 ? laid(in[3], other) : Tensor();
        return batch_norm_relu(laid(in[0], c.channels_last), zeros({channels}, of_stats),
                               ones({channels}, of_stats), in[1], in[2], {.training = training},
                               residual);
      };
      const std::string name = (training ? " " : " evaluated ") + c.shape.str();
      compare("batch_norm_relu" + name, f, {inputs.begin(), inputs.begin() + 3}, terms, kAllFloats,
              rounding);
      compare("batch_norm_relu with a residual" + name, f, inputs, terms, kAllFloats, rounding);
    }
  }
}

TEST_F(CudaNorm, ReluKeepsNaN) {
  Tensor x = numbers({4, 8, 3, 3});
  x[0][1].fill_(NAN);
  const auto f = [](const Tensor& in, const Tensor& residual) {
    return batch_norm_relu(in, {}, {}, {}, {}, {.training = true}, residual);
  };
  const Tensor residual = numbers({4, 8, 3, 3}, 2);
  expect_close(f(x.to(kGPU), {}), f(x, {}), 1e-5, "alone");
  expect_close(f(x.to(kGPU), residual.to(kGPU)), f(x, residual), 1e-5, "with a residual");
}

// What cannot be added in the same pass is added all the same.
TEST_F(CudaNorm, ReluBehindResidualsOfOtherForms) {
  const Tensor x = numbers({2, 8, 3, 3});
  const auto f = [](const Tensor& in, const Tensor& residual) {
    return batch_norm_relu(in, {}, {}, {}, {}, {.training = true}, residual);
  };
  for (const Tensor& residual :
       {numbers({8, 1, 1}), numbers({2, 8, 3, 3}, 2).to(DType::kF64), full({}, 0.5)}) {
    expect_close(f(x.to(kGPU), residual.to(kGPU)), f(x, residual), 1e-5, residual.sizes().str());
  }
}

TEST_F(CudaNorm, RunningStatisticsMoveAsOnTheCPU) {
  for (const BatchCase& c : kBatches) {
    const std::int64_t channels = c.shape[1];
    for (const DType dtype : kFloats) {
      for (const DType kept : {dtype == DType::kF64 ? dtype : DType::kF32, dtype}) {
        const Tensor x = laid(spread(c.shape).to(dtype), c.channels_last);
        const Tensor mean = numbers({channels}, 4).to(kept);
        const Tensor variance = positive({channels}, 5).to(kept);
        const Tensor mean_there = mean.to(kGPU).clone();
        const Tensor variance_there = variance.to(kGPU).clone();
        const BatchNormOptions options{.training = true, .momentum = 0.3};
        batch_norm(x.to(kGPU), mean_there, variance_there, {}, {}, options);
        batch_norm(x, mean, variance, {}, {}, options);
        const std::string name = c.shape.str() + " in " + std::string(name_of(dtype)) + ", " +
                                 std::string(name_of(kept));
        expect_close(mean_there, mean, tolerance(kept, 100), "mean of " + name);
        expect_close(variance_there, variance, tolerance(kept, 100), "variance of " + name);
      }
    }
  }
}

// A mean of a thousand deviations, channels of one value, and squares that overflow or vanish.
TEST_F(CudaNorm, OfNumbersThatAreHardToSquare) {
  const Tensor x = numbers({64, 3, 5});
  struct Case {
    const char* name;
    Tensor x;
    double eps;
  };
  const Case cases[] = {{"far from 0", add(x, 1000.0), 1e-5},
                        {"large", mul(x, 1e25), 1e-5},
                        {"small", mul(x, 1e-28), 1e-300},
                        {"constant", full({64, 3, 5}, 3.0), 1e-5}};
  for (const Case& c : cases) {
    compare(std::string("batch_norm ") + c.name,
            [&](const Inputs& in) {
              return batch_norm(in[0], {}, {}, {}, {}, {.training = true, .eps = c.eps});
            },
            {c.x}, 1e5, {DType::kF32, DType::kF64});
    compare(std::string("layer_norm ") + c.name,
            [&](const Inputs& in) { return layer_norm(in[0], {3, 5}, {}, {}, c.eps); }, {c.x}, 1e5,
            {DType::kF32, DType::kF64});
  }
}

TEST_F(CudaNorm, Layers) {
  const std::vector<std::pair<Shape, Shape>> cases = {
      {{4, 10}, {10}},  {{3, 1000}, {1000}}, {{2, 7, 5}, {7, 5}}, {{1, 70001}, {70001}},
      {{5003, 6}, {6}}, {{2, 3, 64}, {64}},  {{0, 4}, {4}}};
  for (const auto& [shape, last] : cases) {
    const auto terms = static_cast<double>(std::max(numbers(last).numel(), shape[0]));
    const Shape over = last;
    compare(
        "layer_norm " + shape.str(),
        [&](const Inputs& in) { return layer_norm(in[0], over, in[1], in[2]); },
        {spread(shape), positive(last, 2), numbers(last, 3)}, terms, kAllFloats, kOfNorm);
    compare(
        "layer_norm without weights " + shape.str(),
        [&](const Inputs& in) { return layer_norm(in[0], over); }, {spread(shape)}, terms,
        kAllFloats, kOfNorm);
    compare(
        "rms_norm " + shape.str(),
        [&](const Inputs& in) { return rms_norm(in[0], over, in[1], 1e-5); },
        {spread(shape), positive(last, 2)}, terms, kAllFloats, kOfNorm);
  }
}

TEST_F(CudaNorm, Groups) {
  const std::vector<std::pair<Shape, std::int64_t>> cases = {
      {{2, 4, 3, 3}, 2}, {{3, 6, 5}, 6}, {{2, 12, 1, 1}, 3}, {{1, 8, 70, 71}, 2}, {{600, 4, 3}, 1}};
  for (const auto& [shape, groups] : cases) {
    const std::int64_t channels = shape[1];
    const auto terms = static_cast<double>(numbers(shape).numel() / channels);
    const std::int64_t of = groups;
    compare(
        "group_norm " + shape.str(),
        [&](const Inputs& in) { return group_norm(in[0], of, in[1], in[2]); },
        {spread(shape), positive({channels}, 2), numbers({channels}, 3)}, terms, kAllFloats,
        kOfNorm);
  }
}

TEST_F(CudaNorm, OfSlicesThatAreNotAligned) {
  compare(
      "batch_norm",
      [](const Inputs& in) {
        return batch_norm(in[0].narrow(0, 1, 4), {}, {}, {}, {}, {.training = true});
      },
      {spread({5, 3, 7})}, 100, kAllFloats, kOfNorm);
  compare(
      "layer_norm", [](const Inputs& in) { return layer_norm(in[0].narrow(0, 1, 4), {3, 7}); },
      {spread({5, 3, 7})}, 100, kAllFloats, kOfNorm);
}

class CudaResample : public OnDevice {};

TEST_F(CudaResample, AverageOfWindows) {
  const std::vector<std::pair<Shape, AvgPool2dArgs>> cases = {
      {{2, 8, 8, 8}, {.kernel = 2, .stride = 2}},
      {{2, 3, 9, 7}, {.kernel = 3, .stride = 2, .padding = 1}},
      {{1, 5, 11, 13}, {.kernel = {3, 2}, .stride = 1, .count_include_pad = false}},
      {{2, 3, 7, 7}, {.kernel = 2, .stride = 2, .ceil_mode = true}},
      {{2, 4, 7, 7}, {.kernel = 7, .stride = 7}},
      {{1, 2, 200, 150}, {.kernel = 5, .stride = 3, .padding = 2}},
      {{1, 1, 300, 4}, {.kernel = {300, 4}, .stride = 1}}};
  for (const auto& [shape, args] : cases) {
    const AvgPool2dArgs with = args;
    compare(
        "avg_pool2d " + shape.str(), [with](const Inputs& in) { return avg_pool2d(in[0], with); },
        {numbers(shape)}, 49, kAllFloats, kOfNorm);
  }
}

TEST_F(CudaResample, AdaptiveAverages) {
  for (const IntPair size : {IntPair(1), IntPair(7), IntPair(3, 0), IntPair(13, 5)}) {
    compare(
        "adaptive_avg_pool2d",
        [size](const Inputs& in) { return adaptive_avg_pool2d(in[0], size); },
        {numbers({2, 5, 10, 9})}, 90);
  }
}

TEST_F(CudaResample, Upsampling) {
  for (const UpsampleMode mode : {UpsampleMode::kNearest, UpsampleMode::kBilinear}) {
    for (const bool align : {false, true}) {
      if (align && mode == UpsampleMode::kNearest) continue;
      for (const IntPair size : {IntPair(14, 10), IntPair(3, 20), IntPair(1), IntPair(150, 7)}) {
        compare(
            "upsample2d",
            [&](const Inputs& in) {
              return upsample2d(in[0], {.size = size, .mode = mode, .align_corners = align});
            },
            {numbers({2, 3, 7, 5})}, 100, kAllFloats, kOfNorm);
      }
    }
  }
}

}  // namespace
}  // namespace dl::testing
