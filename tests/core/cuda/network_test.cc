// Reductions, softmax, losses, products, convolutions and pooling on a GPU against the CPU.
#include "core/device/math_flags.h"
#include "core/ops/conv.h"
#include "core/ops/linear.h"
#include "core/ops/loss.h"
#include "core/ops/reduce.h"
#include "core/ops/softmax.h"
#include "core/tensor/factories.h"
#include "tests/core/cuda/on_device.h"

namespace dl::testing {
namespace {

class CudaReduce : public OnDevice {};

TEST_F(CudaReduce, Sums) {
  const std::vector<std::pair<Shape, Dims>> cases = {{{}, {}},
                                                     {{1}, {}},
                                                     {{0}, {}},
                                                     {{7}, {}},
                                                     {{100003}, {}},
                                                     {{33, 65}, {0}},
                                                     {{33, 65}, {1}},
                                                     {{5, 1, 9}, {0, 2}},
                                                     {{3, 4, 5, 6}, {1, 3}},
                                                     {{2, 3, 17, 19}, {0, 2, 3}},
                                                     {{1, 50001}, {1}},
                                                     {{50001, 2}, {0}},
                                                     {{0, 3}, {0}}};
  for (const auto& [shape, dims] : cases) {
    const std::string name = shape.str() + " over " + dims.str();
    double terms = 1;
    for (const std::int64_t size : shape)
      terms *= static_cast<double>(std::max<std::int64_t>(1, size));
    const Dims over = dims;
    compare(
        "sum of " + name, [over](const Inputs& in) { return sum(in[0], over); }, {numbers(shape)},
        terms);
    compare(
        "mean of " + name, [over](const Inputs& in) { return mean(in[0], over); }, {numbers(shape)},
        terms);
  }
  compare(
      "sum of a transpose", [](const Inputs& in) { return sum(in[0].t(), {0}); },
      {numbers({33, 65})}, 65);
}

TEST_F(CudaReduce, IntegerSumsAreExact) {
  for (const DType dtype : {DType::kI8, DType::kU8, DType::kI32, DType::kI64, DType::kBool}) {
    const Tensor here = arange(-500, 501).to(dtype).view({7, 143});
    expect_same(sum(here.to(kGPU)), sum(here), std::string(name_of(dtype)));
    expect_same(sum(here.to(kGPU), {0}), sum(here, {0}), std::string(name_of(dtype)));
  }
}

TEST_F(CudaReduce, TheSameBitsAgain) {
  const Tensor x = numbers({1000003}).to(kGPU);
  expect_same(sum(x), sum(x).to(Device{}), "sum");
}

TEST_F(CudaReduce, Maxima) {
  for (const std::int64_t dim : {0, 1, 2}) {
    compare("max", [dim](const Inputs& in) { return max(in[0], dim).first; },
            {numbers({5, 33, 7})});
    const Tensor x = numbers({5, 33, 7});
    expect_same(argmax(x.to(kGPU), dim), argmax(x, dim), "argmax");
  }
  compare("max of all", [](const Inputs& in) { return max(in[0]); }, {numbers({3001})});
  const Tensor ties = tensor({1.0F, 3.0F, 3.0F, 2.0F});
  EXPECT_EQ(argmax(ties.to(kGPU), 0).to(Device{}).item<std::int64_t>(), 1);
  const Tensor nan = tensor({1.0F, std::nanf(""), 3.0F, std::nanf("")});
  EXPECT_EQ(argmax(nan.to(kGPU), 0).to(Device{}).item<std::int64_t>(), 1);
  for (const DType dtype : {DType::kU8, DType::kI16, DType::kI64}) {
    const Tensor x = arange(0, 99).to(dtype).view({9, 11});
    expect_same(max(x.to(kGPU), 0).first, max(x, 0).first, std::string(name_of(dtype)));
  }
}

TEST_F(CudaReduce, Softmax) {
  for (const Shape& shape : {Shape{1}, Shape{3, 10}, Shape{5, 1000}, Shape{2, 70001}}) {
    compare(
        "softmax " + shape.str(), [](const Inputs& in) { return softmax(in[0], -1); },
        {numbers(shape)}, 10);
    compare(
        "log_softmax " + shape.str(), [](const Inputs& in) { return log_softmax(in[0], -1); },
        {numbers(shape)}, 100);
  }
  compare(
      "softmax over channels", [](const Inputs& in) { return softmax(in[0], 1); },
      {numbers({2, 19, 5, 3})}, 10);
  const Tensor large = mul(numbers({4, 33}), 1e4);
  compare("log_softmax of large numbers", [](const Inputs& in) { return log_softmax(in[0], 0); },
          {large}, 10, {DType::kF32, DType::kF64});
}

TEST_F(CudaReduce, Losses) {
  for (const std::int64_t classes : {2, 10, 1000}) {
    std::vector<std::int64_t> wanted;
    for (std::int64_t i = 0; i < 37; ++i) wanted.push_back(i % 5 == 3 ? kIgnoreIndex : i % classes);
    compare(
        "cross_entropy", [](const Inputs& in) { return cross_entropy(in[0], in[1]); },
        {numbers({37, classes}), tensor(wanted)}, 37);
  }
  compare(
      "mse_loss", [](const Inputs& in) { return mse_loss(in[0], in[1]); },
      {numbers({33, 7}), numbers({33, 7}, 2)}, 231);
  compare("mse_loss of many", [](const Inputs& in) { return mse_loss(in[0], in[1]); },
          {numbers({300007}), numbers({300007}, 2)}, 300007, {DType::kF32, DType::kF64});
}

TEST_F(CudaReduce, ABadTargetIsNamedAtTheNextWait) {
  const Tensor loss = cross_entropy(zeros({4, 10}).to(kGPU), tensor({0, -100, 12, 1}).to(kGPU));
  EXPECT_THROW(loss.item<float>(), Error);
}

// f32 as f32, for these comparisons.
class CudaNetwork : public OnDevice {
 protected:
  void SetUp() override {
    OnDevice::SetUp();
    backends::cudnn::allow_tf32 = false;
  }
  void TearDown() override {
    backends::cudnn::allow_tf32 = true;
    backends::cuda::matmul::allow_tf32 = false;
    backends::cudnn::benchmark = false;
  }
};

TEST_F(CudaNetwork, Products) {
  const std::vector<std::array<std::int64_t, 3>> sizes = {{1, 1, 1},     {3, 5, 7},    {64, 64, 64},
                                                          {33, 129, 65}, {1, 1000, 3}, {127, 1, 9}};
  for (const auto& [m, k, n] : sizes) {
    const auto terms = static_cast<double>(std::max({m, k, n}));
    compare(
        "matmul", [](const Inputs& in) { return matmul(in[0], in[1]); },
        {numbers({m, k}), numbers({k, n}, 2)}, terms);
    compare(
        "matmul, transposed left", [](const Inputs& in) { return matmul(in[0].t(), in[1]); },
        {numbers({k, m}), numbers({k, n}, 2)}, terms);
    compare(
        "matmul, transposed right", [](const Inputs& in) { return matmul(in[0], in[1].t()); },
        {numbers({m, k}), numbers({n, k}, 2)}, terms);
    for (const bool relu : {false, true}) {
      compare(
          "linear",
          [relu](const Inputs& in) { return linear(in[0], in[1], in[2], {.relu = relu}); },
          {numbers({m, k}), numbers({n, k}, 2), numbers({n}, 3)}, terms);
      compare(
          "linear without bias",
          [relu](const Inputs& in) { return linear(in[0], in[1], {}, {.relu = relu}); },
          {numbers({m, k}), numbers({n, k}, 2)}, terms);
    }
  }
  compare(
      "batches", [](const Inputs& in) { return matmul(in[0], in[1]); },
      {numbers({2, 1, 5, 6}), numbers({3, 6, 4}, 2)}, 30);
  compare("no terms", [](const Inputs& in) { return linear(in[0], in[1], in[2]); },
          {numbers({3, 0}), numbers({4, 0}), numbers({4}, 3)});
}

TEST_F(CudaNetwork, GradientsOfProductsAccumulate) {
  const Tensor here = numbers({9, 17});
  const Tensor x = numbers({5, 17}, 2);
  const Tensor w = here.to(kGPU).requires_grad_();
  const Tensor w_here = here.clone().requires_grad_();
  for (int i = 0; i < 2; ++i) {
    sum(linear(x.to(kGPU), w)).backward();
    sum(linear(x, w_here)).backward();
  }
  expect_close(w.grad(), w_here.grad(), tolerance(DType::kF32, 10), "two passes");
}

TEST_F(CudaNetwork, TF32IsCloseToF32) {
  const Tensor a = numbers({64, 256}).to(kGPU);
  const Tensor b = numbers({256, 64}, 2).to(kGPU);
  const Tensor exact = matmul(a, b).to(Device{});
  backends::cuda::matmul::allow_tf32 = true;
  expect_close(matmul(a, b), exact, 4e-3, "matmul in TF32");
}

struct ConvCase {
  const char* name;
  Shape x, weight;
  Conv2dArgs args;
};

TEST_F(CudaNetwork, Convolutions) {
  const std::vector<ConvCase> cases = {
      {"one channel", {2, 1, 28, 28}, {32, 1, 3, 3}, {}},
      {"3x3", {2, 32, 14, 14}, {64, 32, 3, 3}, {.padding = {1, 1}}},
      {"odd sizes", {3, 5, 11, 9}, {7, 5, 3, 2}, {.padding = {1, 0}}},
      {"strides", {2, 8, 15, 13}, {16, 8, 3, 3}, {.stride = {2, 2}, .padding = {1, 1}}},
      {"dilation", {2, 8, 15, 13}, {8, 8, 3, 3}, {.padding = {2, 2}, .dilation = {2, 2}}},
      {"1x1", {2, 16, 7, 7}, {24, 16, 1, 1}, {}},
      {"groups", {2, 8, 9, 9}, {16, 4, 3, 3}, {.padding = {1, 1}, .groups = 2}},
      {"depthwise", {2, 8, 9, 9}, {8, 1, 3, 3}, {.padding = {1, 1}, .groups = 8}},
      {"one pixel", {1, 3, 1, 1}, {2, 3, 1, 1}, {}},
  };
  for (const ConvCase& c : cases) {
    for (const bool relu : {false, true}) {
      Conv2dArgs args = c.args;
      args.relu = relu;
      const double terms = 4.0 * static_cast<double>(c.x[0] * c.x[2] * c.x[3] * c.weight[1]);
      compare(
          c.name, [args](const Inputs& in) { return conv2d(in[0], in[1], in[2], args); },
          {numbers(c.x), numbers(c.weight, 2), numbers({c.weight[0]}, 3)}, terms);
    }
  }
}

TEST_F(CudaNetwork, BenchmarkedConvolutionsAreRight) {
  backends::cudnn::benchmark = true;
  compare("conv2d", [](const Inputs& in) { return conv2d(in[0], in[1]); },
          {numbers({4, 16, 12, 12}), numbers({8, 16, 3, 3}, 2)}, 20000,
          {DType::kF32, DType::kBF16});
}

TEST_F(CudaNetwork, MaxPooling) {
  const std::vector<std::pair<Shape, MaxPool2dArgs>> cases = {
      {{2, 8, 8, 8}, {.kernel = {2, 2}, .stride = {2, 2}}},
      {{2, 3, 9, 7}, {.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}}},
      {{1, 5, 11, 13}, {.kernel = {3, 2}, .stride = {1, 1}, .dilation = {2, 1}}},
      {{2, 3, 7, 7}, {.kernel = {2, 2}, .stride = {2, 2}, .ceil_mode = true}},
  };
  for (const auto& [shape, args] : cases) {
    for (const bool relu : {false, true}) {
      MaxPool2dArgs with = args;
      with.relu = relu;
      compare(
          "max_pool2d " + shape.str(), [with](const Inputs& in) { return max_pool2d(in[0], with); },
          {numbers(shape)}, 4);
    }
  }
}

}  // namespace
}  // namespace dl::testing
