// Reductions, softmax, losses, products, convolutions and pooling on a GPU against the CPU.
#include <future>

#include "core/autocast/autocast.h"
#include "core/device/cuda/graph.h"
#include "core/device/math_flags.h"
#include "core/memory/cuda/cuda_memory.h"
#include "core/ops/conv/conv.h"
#include "core/ops/dispatch/kernel_names.h"
#include "core/ops/elementwise/activation.h"
#include "core/ops/linear/linear.h"
#include "core/ops/loss/loss.h"
#include "core/ops/reduce/reduce.h"
#include "core/ops/softmax/softmax.h"
#include "core/tensor/factories.h"
#include "tests/core/cuda/on_device.h"
#include "tests/core/ops/nan_cases.h"

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

// torch.autocast("cuda")'s list; the CPU's leaves all but the losses in their dtype.
TEST_F(CudaReduce, AutocastComputesExponentialsAndSumsInFloat32) {
  const Tensor low = positive({2, 4}).to(kGPU).to(DType::kBF16);
  const autocast mixed(DeviceType::kCUDA, {.dtype = DType::kBF16});
  for (const Tensor& y : {exp(low), log(low), pow(low, 1.5), 1.0 / low, sum(low), softmax(low, 1),
                          log_softmax(low, 1), mse_loss(low, low)}) {
    EXPECT_EQ(y.dtype(), DType::kF32);
  }
  EXPECT_EQ(relu(low).dtype(), DType::kBF16);
  EXPECT_EQ(matmul(low, low.t().to(DType::kF32)).dtype(), DType::kBF16);
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

constexpr Activation kActivations[] = {Activation::kNone, Activation::kRelu, Activation::kGeluTanh};

// The identity matrix.
Tensor eye_like(std::int64_t n) {
  const Tensor result = zeros({n, n});
  as_strided(result, {n}, {n + 1}, 0).fill_(1);
  return result;
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
    backends::cudnn::deterministic = true;
    backends::cudnn::enabled = true;
  }
};

TEST_F(CudaNetwork, Products) {
  // Those with a multiple of 8 last have every epilogue of cuBLASLt's.
  const std::vector<std::array<std::int64_t, 3>> sizes = {{1, 1, 1},     {3, 5, 7},    {64, 64, 64},
                                                          {33, 129, 65}, {1, 1000, 3}, {127, 1, 9},
                                                          {5, 40, 136},  {9, 33, 24}};
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
    for (const Activation activation : kActivations) {
      compare("linear",
              [activation](const Inputs& in) {
                return linear(in[0], in[1], in[2], {.activation = activation});
              },
              {numbers({m, k}), numbers({n, k}, 2), numbers({n}, 3)}, terms, kAllFloats,
              {.behind_relu = activation == Activation::kRelu});
      compare(
          "linear without bias",
          [activation](const Inputs& in) {
            return linear(in[0], in[1], {}, {.activation = activation});
          },
          {numbers({m, k}), numbers({n, k}, 2)}, terms);
    }
  }
  compare(
      "batches", [](const Inputs& in) { return matmul(in[0], in[1]); },
      {numbers({2, 1, 5, 6}), numbers({3, 6, 4}, 2)}, 30);
  compare("no terms", [](const Inputs& in) { return linear(in[0], in[1], in[2]); },
          {numbers({3, 0}), numbers({4, 0}), numbers({4}, 3)});
}

// The second layer's backward computes the gradient of the first's activation.
TEST_F(CudaNetwork, ChainsOfLayers) {
  const std::vector<std::array<std::int64_t, 4>> sizes = {
      {64, 32, 128, 16}, {33, 24, 136, 40}, {5, 7, 24, 3}, {17, 9, 13, 11}};
  for (const auto& [rows, in_size, hidden, out_size] : sizes) {
    for (const Activation activation : kActivations) {
      compare(
          "two layers",
          [activation](const Inputs& in) {
            const Tensor first = linear(in[0], in[1], in[2], {.activation = activation});
            return linear(first, in[3], in[4]);
          },
          {mul(numbers({rows, in_size}), 0.25), numbers({hidden, in_size}, 2), numbers({hidden}, 3),
           mul(numbers({out_size, hidden}, 4), 0.125), numbers({out_size}, 5)},
          static_cast<double>(hidden), kAllFloats,
          {.times = 2, .behind_relu = activation == Activation::kRelu});
    }
  }
}

// PyTorch's relu and its gradient at zero and with NaN, for every kernel that computes them.
TEST_F(CudaNetwork, AFusedReLUIsAReLU) {
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    const std::string name(name_of(dtype));
    const Tensor w = eye_like(128).to(dtype).to(kGPU).requires_grad_();
    const Tensor zero = zeros({16, 128}, {.dtype = dtype}).to(kGPU).requires_grad_();
    sum(linear(linear(zero, w, {}, {.activation = Activation::kRelu}), w)).backward();
    expect_same(zero.grad(), zeros({16, 128}, {.dtype = dtype}), "the gradient at 0 in " + name);
    const Tensor nan = full({16, 128}, std::nanf(""), {.dtype = dtype}).to(kGPU);
    const Tensor y = linear(nan, w, {}, {.activation = Activation::kRelu}).detach();
    expect_same(y, full({16, 128}, std::nanf(""), {.dtype = dtype}), "NaN in " + name);
  }
}

TEST_F(CudaNetwork, GradientsOfProductsAccumulate) {
  const Tensor here = numbers({9, 17});
  const Tensor x = numbers({5, 17}, 2);
  const Tensor w = here.to(kGPU).requires_grad_();
  const Tensor w_here = here.clone().requires_grad_();
  const Tensor b = numbers({9}, 3).to(kGPU).requires_grad_();
  const Tensor b_here = numbers({9}, 3).requires_grad_();
  for (int i = 0; i < 2; ++i) {
    sum(linear(x.to(kGPU), w, b)).backward();
    sum(linear(x, w_here, b_here)).backward();
  }
  expect_close(w.grad(), w_here.grad(), tolerance(DType::kF32, 10), "two passes");
  expect_close(b.grad(), b_here.grad(), tolerance(DType::kF32, 10), "two passes, bias");
}

TEST_F(CudaNetwork, TF32IsCloseToF32) {
  const Tensor a = numbers({64, 256}).to(kGPU);
  const Tensor b = numbers({256, 64}, 2).to(kGPU);
  const Tensor exact = matmul(a, b).to(Device{});
  backends::cuda::matmul::allow_tf32 = true;
  expect_close(matmul(a, b), exact, 4e-3, "matmul in TF32");
  const Tensor x = numbers({2, 16, 9, 7}).to(kGPU);
  const Tensor w = numbers({8, 16, 3, 3}, 2).to(kGPU);
  const Tensor precise = conv2d(x, w).to(Device{});
  backends::cudnn::allow_tf32 = true;
  expect_close(conv2d(x, w), precise, 4e-3, "conv2d in TF32");
}

// cuDNN may choose Winograd's algorithm, whose transforms are of the images' dtype and add up to
// sixteen numbers of one sign.
constexpr double kOfWinograd = 4;

struct ConvCase {
  const char* name;
  Shape x, weight;
  Conv2dArgs args;
};

const std::vector<ConvCase>& convolutions() {
  static const std::vector<ConvCase> cases = {
      {"one channel", {2, 1, 28, 28}, {32, 1, 3, 3}, {}},
      {"3x3", {2, 32, 14, 14}, {64, 32, 3, 3}, {.padding = {1, 1}}},
      {"odd sizes", {3, 5, 11, 9}, {7, 5, 3, 2}, {.padding = {1, 0}}},
      {"strides", {2, 8, 15, 13}, {16, 8, 3, 3}, {.stride = {2, 2}, .padding = {1, 1}}},
      {"dilation", {2, 8, 15, 13}, {8, 8, 3, 3}, {.padding = {2, 2}, .dilation = {2, 2}}},
      {"1x1", {2, 16, 7, 7}, {24, 16, 1, 1}, {}},
      {"groups", {2, 8, 9, 9}, {16, 4, 3, 3}, {.padding = {1, 1}, .groups = 2}},
      {"depthwise", {2, 8, 9, 9}, {8, 1, 3, 3}, {.padding = {1, 1}, .groups = 8}},
      {"depthwise, two filters a channel", {2, 6, 9, 7}, {12, 1, 3, 3}, {.groups = 6}},
      {"wide depthwise", {1, 32, 12, 12}, {32, 1, 5, 5}, {.padding = {2, 2}, .groups = 32}},
      {"one pixel", {1, 3, 1, 1}, {2, 3, 1, 1}, {}},
      {"no rows", {1, 3, 0, 5}, {2, 3, 2, 3}, {.padding = {1, 1}}},
      {"no images", {0, 3, 4, 5}, {2, 3, 2, 3}, {}},
  };
  return cases;
}

void compare_convolutions(const std::vector<bool>& relus, const std::vector<DType>& dtypes) {
  for (const ConvCase& c : convolutions()) {
    for (const bool relu : relus) {
      Conv2dArgs args = c.args;
      args.relu = relu;
      const double terms = 4.0 * static_cast<double>(c.x[0] * c.x[2] * c.x[3] * c.weight[1]);
      compare(c.name, [args](const Inputs& in) { return conv2d(in[0], in[1], in[2], args); },
              {numbers(c.x), numbers(c.weight, 2), numbers({c.weight[0]}, 3)}, terms, dtypes,
              {.times = kOfWinograd, .behind_relu = relu});
    }
  }
}

TEST_F(CudaNetwork, Convolutions) {
  compare_convolutions({false, true}, kAllFloats);
}

TEST_F(CudaNetwork, ConvolutionsWithoutCudnn) {
  backends::cudnn::enabled = false;
  compare_convolutions({false}, {DType::kF32, DType::kF16, DType::kBF16});
}

// Slices of a batch whose images have an odd number of elements: not aligned for 16-byte loads.
TEST_F(CudaNetwork, ConvolutionsOfSlices) {
  compare("conv2d",
          [](const Inputs& in) {
            return conv2d(in[0].contiguous(MemoryFormat::kChannelsLast).narrow(0, 1, 2), in[1]);
          },
          {numbers({3, 3, 5, 7}), numbers({4, 3, 3, 3}, 2)}, 1000, kAllFloats,
          {.times = kOfWinograd});
}

TEST_F(CudaNetwork, BenchmarkedConvolutionsAreRight) {
  backends::cudnn::benchmark = true;
  compare("conv2d", [](const Inputs& in) { return conv2d(in[0], in[1]); },
          {numbers({4, 16, 12, 12}), numbers({8, 16, 3, 3}, 2)}, 20000, {DType::kF32, DType::kBF16},
          {.times = kOfWinograd});
}

TEST_F(CudaNetwork, TimingConvolutionsTakesNoMoreMemoryThanTheyNeed) {
  backends::cudnn::benchmark = true;
  const Tensor x = numbers({2, 8, 7, 9}).to(kGPU);
  const Tensor w = numbers({8, 8, 3, 3}, 2).to(kGPU);
  const std::int64_t before = cuda::memory_allocated();
  cuda::reset_peak_memory_stats();
  const Tensor y = conv2d(x, w);
  EXPECT_LT(cuda::max_memory_allocated() - before, std::int64_t{64} << 20);
}

TEST_F(CudaNetwork, ConvolutionsMayAddInAnyOrder) {
  backends::cudnn::deterministic = false;
  compare("conv2d", [](const Inputs& in) { return conv2d(in[0], in[1], in[2], {.padding = 1}); },
          {numbers({2, 8, 9, 9}), numbers({16, 8, 3, 3}, 2), numbers({16}, 3)}, 2 * 81 * 8,
          {DType::kF32, DType::kF16, DType::kBF16}, {.times = kOfWinograd});
}

// By a thread that has no handle of cuDNN's yet: nothing may be waited for, nor timed.
TEST_F(CudaNetwork, ConvolutionsFirstMetInACapture) {
  backends::cudnn::benchmark = true;
  const Tensor x = numbers({2, 8, 6, 10});
  const Tensor w = numbers({8, 8, 3, 3}, 2);
  const Tensor x_there = x.to(kGPU);
  const Tensor w_there = w.to(kGPU);
  cuda::Graph graph(cuda::runtime());
  const Stream stream = cuda::default_stream(0);
  cuda::PoolId pool = 0;  // launches write into its memory
  const Tensor y = std::async(std::launch::async, [&] {
                     pool = cuda::allocator(0).begin_pool(stream.handle);
                     graph.begin(stream);
                     Tensor result = conv2d(x_there, w_there);
                     graph.end();
                     cuda::allocator(0).end_pool(stream.handle);
                     return result;
                   }).get();
  graph.launch(stream);
  expect_close(y, conv2d(x, w), tolerance(DType::kF32, 72, {.times = kOfWinograd}), "captured");
  cuda::allocator(0).release_pool(pool);
}

TEST_F(CudaNetwork, AStreamThatAsksForMemoryWaitsForTheResult) {
  const Tensor x = numbers({4, 32, 64, 64});
  const Tensor w = numbers({32, 32, 3, 3}, 2);
  const Tensor x_there = x.to(kGPU);
  const Tensor w_there = w.to(kGPU);
  const Tensor wanted = conv2d(x, w);
  const cuda::OwnedStream own(kGPU.index);
  for (int round = 0; round < 5; ++round) {
    const Tensor y = conv2d(x_there, w_there);
    Tensor got;
    {
      const cuda::StreamGuard on_own(own.get());
      got = y.view({-1}).cpu();
    }
    expect_close(got, wanted.view({-1}), tolerance(DType::kF32, 288, {.times = kOfWinograd}),
                 "on another stream");
    EXPECT_EQ(y.data_ptr(), y.detach().data_ptr());
  }
}

// cuDNN counts up to 2^31 elements.
TEST_F(CudaNetwork, ConvolutionsOfVeryManyElements) {
  if (cuda::runtime().memory_info(0).free < std::size_t{10} << 30) {
    GTEST_SKIP() << "the device has less than 10 GiB free";
  }
  const std::int64_t rows = 1 << 16;
  const std::int64_t columns = (1 << 15) + 8;
  const Tensor x = ones({1, 1, rows, columns}, {.dtype = DType::kF16, .device = kGPU});
  x.narrow(2, rows - 1, 1).narrow(3, columns - 1, 1).fill_(3);
  const Tensor w = ones({1, 1, 2, 2}, {.dtype = DType::kF16, .device = kGPU}).requires_grad_();
  const Tensor y = conv2d(x, w, {}, {.dilation = {rows - 1, columns - 1}});
  expect_same(y.detach(), full({1, 1, 1, 1}, 6, {.dtype = DType::kF16}), "the image's corners");
  y.backward(ones({1, 1, 1, 1}, {.dtype = DType::kF16, .device = kGPU}));
  EXPECT_EQ(values<double>(w.grad().to(Device{})), (std::vector<double>{1, 1, 1, 3}));
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

TEST_F(CudaNetwork, NaNStaysThroughEveryPath) {
  for (const NanCase& c : nan_cases()) {
    for (const DType dtype : kFloats) {
      expect_nan_stays(c, dtype, kGPU, MemoryFormat::kChannelsLast,
                       NanPlaces::kAtLeastTheDefinitions);
    }
  }
}

}  // namespace
}  // namespace dl::testing
