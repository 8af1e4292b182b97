// Fused attention on a GPU against the composed operations on the CPU and on the GPU.
#include "nn/layers/attention.h"

#include <string>
#include <vector>

#include "core/autocast/autocast.h"
#include "core/device/math_flags.h"
#include "core/ops/attention/attention.h"
#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/shape/shape.h"
#include "core/tensor/factories.h"
#include "nn/compile/compile.h"
#include "tests/core/cuda/on_device.h"

namespace dl::testing {
namespace {

using nn::AttentionOptions;
using nn::functional::scaled_dot_product_attention;

class CudaAttention : public OnDevice {
 protected:
  void TearDown() override {
    backends::cuda::flash_sdp_enabled = true;
    backends::cudnn::enabled = true;
    backends::cudnn::deterministic = true;
  }
};

struct Sizes {
  std::int64_t batch, heads, queries, keys, width;
  std::string str() const { return Shape({batch, heads, queries, keys, width}).str(); }
  Inputs inputs() const {
    return {numbers({batch, heads, queries, width}, 1), numbers({batch, heads, keys, width}, 2),
            numbers({batch, heads, keys, width}, 3)};
  }
};
// One tile and several, whole and cut, rows of whole packs and others.
const std::vector<Sizes> kSizes = {{2, 3, 5, 7, 8},     {1, 2, 64, 64, 64}, {2, 1, 65, 130, 64},
                                   {1, 2, 130, 33, 16}, {1, 2, 70, 97, 13}, {3, 1, 2, 200, 40},
                                   {1, 1, 129, 2, 1}};
const std::vector<Sizes> kWide = {{1, 2, 33, 70, 128}, {1, 1, 70, 65, 101}};
const std::vector<DType> kTypes = {DType::kF32, DType::kF16, DType::kBF16};

// Shares, their gradients and those of the scores are rounded on the way.
constexpr Rounding kOfShares{.times = 3};

void compare_all(const std::vector<Sizes>& sizes, const std::vector<DType>& dtypes) {
  for (const Sizes& s : sizes) {
    for (const bool causal : {false, true}) {
      compare(
          s.str() + (causal ? ", causal" : ""),
          [&](const Inputs& in) {
            if (in[0].is_cuda()) {
              EXPECT_TRUE(dl::detail::takes_fused_attention(in[0], in[1], in[2])) << s.str();
            }
            return scaled_dot_product_attention(in[0], in[1], in[2], {.is_causal = causal});
          },
          s.inputs(), static_cast<double>(s.queries + s.keys + s.width), dtypes, kOfShares);
    }
  }
}

const std::vector<DType> kShortTypes = {DType::kF16, DType::kBF16};

// dlrun's own kernels; cuDNN computes what it takes in the tests below.
TEST_F(CudaAttention, AgreesWithTheCPU) {
  backends::cudnn::enabled = false;
  compare_all(kSizes, kTypes);
}

TEST_F(CudaAttention, OfWideRowsAgreesWithTheCPU) {
  backends::cudnn::enabled = false;
  compare_all(kWide, kShortTypes);
}

TEST_F(CudaAttention, ByCudnnAgreesWithTheCPU) {
  for (const bool deterministic : {true, false}) {
    backends::cudnn::deterministic = deterministic;
    compare_all(kSizes, kShortTypes);
    compare_all(kWide, kShortTypes);
  }
}

TEST_F(CudaAttention, HasTheSameBitsInEachRun) {
  const Inputs in = Sizes{2, 2, 70, 130, 16}.inputs();
  std::vector<Tensor> first;
  for (int run = 0; run < 3; ++run) {
    Inputs there;
    for (const Tensor& x : in) there.push_back(x.to(DType::kF16).to(kGPU).requires_grad_());
    const Tensor result = scaled_dot_product_attention(there[0], there[1], there[2]);
    result.backward(numbers(result.sizes(), 5).to(DType::kF16).to(kGPU));
    const std::vector<Tensor> all = {result.detach().cpu(), there[0].grad().cpu(),
                                     there[1].grad().cpu(), there[2].grad().cpu()};
    if (run == 0) first = all;
    for (std::size_t i = 0; i < all.size(); ++i) {
      expect_same(all[i], first[i], "run " + std::to_string(run) + ": " + std::to_string(i));
    }
  }
}

TEST_F(CudaAttention, ReadsAndWritesEveryOrderOfMemory) {
  const Sizes s{2, 3, 37, 41, 16};
  const auto swapped = [](const Tensor& x) {
    return x.transpose(1, 2).contiguous().transpose(1, 2);
  };
  const auto shifted = [](const Tensor& x) {
    const Tensor wide = cat({x, x}, -1);
    return wide.narrow(3, 1, x.size(3));
  };
  const auto turned = [](const Tensor& x) {
    return x.transpose(2, 3).contiguous().transpose(2, 3);
  };
  const auto expanded = [](const Tensor& x) { return x.narrow(0, 0, 1).expand(x.sizes()); };
  const std::vector<std::pair<std::string, std::function<Tensor(const Tensor&)>>> views = {
      {"heads behind rows", swapped},
      {"one element further", shifted},
      {"rows that are columns", turned},
      {"one batch for all", expanded}};
  for (const auto& [name, view] : views) {
    compare(
        name,
        [&](const Inputs& in) {
          const Tensor q = view(in[0]);
          const Tensor result = scaled_dot_product_attention(q, view(in[1]), view(in[2]));
          if (in[0].is_cuda() && name == "heads behind rows") {
            EXPECT_EQ(result.strides(), q.strides());
          }
          return result;
        },
        s.inputs(), 100, kTypes, kOfShares);
  }
}

TEST_F(CudaAttention, DropsTheSharesThatDropoutWould) {
  for (const Sizes& s : {Sizes{2, 2, 37, 44, 16}, Sizes{1, 3, 70, 71, 24}}) {
    for (const DType dtype : kTypes) {
      std::vector<Tensor> results[2];
      for (const bool fused : {false, true}) {
        backends::cuda::flash_sdp_enabled = fused;
        manual_seed(11);
        Inputs in = s.inputs();
        for (Tensor& x : in) x = x.to(dtype).to(kGPU).requires_grad_();
        // The second draws go on after the first.
        const AttentionOptions options{.dropout_p = 0.4, .is_causal = true};
        const Tensor once = scaled_dot_product_attention(in[0], in[1], in[2], options);
        const Tensor result = add(once, scaled_dot_product_attention(in[0], in[1], in[2], options));
        result.backward(numbers(result.sizes(), 5).to(dtype).to(kGPU));
        results[fused] = {result.detach().cpu(), in[0].grad().cpu(), in[1].grad().cpu(),
                          in[2].grad().cpu()};
      }
      for (std::size_t i = 0; i < 4; ++i) {
        expect_close(results[1][i], results[0][i].to(DType::kF64),
                     gradient_tolerance(dtype, 200, {.times = 6}),
                     s.str() + " in " + std::string(name_of(dtype)) + ": " + std::to_string(i));
      }
    }
  }
}

TEST_F(CudaAttention, OfLargeScoresAndNaN) {
  // One share is nearly 1, and none is more.
  Inputs in = Sizes{1, 1, 20, 70, 8}.inputs();
  in[0] = mul(in[0], 1e4);
  const Tensor result =
      scaled_dot_product_attention(in[0].to(kGPU), in[1].to(kGPU), in[2].to(kGPU));
  expect_close(result, scaled_dot_product_attention(in[0], in[1], in[2]), 0.02, "large scores");
  const Tensor q = numbers({1, 1, 4, 8}).to(kGPU);
  const Tensor k = numbers({1, 1, 70, 8}, 2).to(kGPU);
  q.select(2, 1).fill_(std::numeric_limits<double>::quiet_NaN());
  const auto found = values<float>(scaled_dot_product_attention(q, k, k).cpu());
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_EQ(std::isnan(found[i]), i / 8 == 1) << i;
}

TEST_F(CudaAttention, FollowsAutocast) {
  Inputs in = Sizes{1, 2, 20, 20, 100}.inputs();
  for (Tensor& x : in) x = x.to(kGPU).requires_grad_();
  EXPECT_FALSE(dl::detail::takes_fused_attention(in[0], in[1], in[2])) << "too wide for f32";
  Tensor result;
  {
    const autocast mixed(DeviceType::kCUDA, {.dtype = DType::kF16});
    EXPECT_TRUE(dl::detail::takes_fused_attention(in[0], in[1], in[2]));
    result = scaled_dot_product_attention(in[0], in[1], in[2]);
  }
  EXPECT_EQ(result.dtype(), DType::kF16);
  result.backward(ones(result.sizes(), {.dtype = DType::kF16, .device = kGPU}));
  EXPECT_EQ(in[2].grad().dtype(), DType::kF32);
}

TEST_F(CudaAttention, IsComposedIfTheKernelDoesNotTakeIt) {
  const auto takes = [](const Tensor& q, const Tensor& k, const Tensor& v) {
    return dl::detail::takes_fused_attention(q, k, v);
  };
  const Tensor x = numbers({2, 2, 4, 8});
  const Tensor there = x.to(kGPU);
  EXPECT_TRUE(takes(there, there, there));
  EXPECT_FALSE(takes(x, x, x));
  EXPECT_FALSE(takes(there, there, there.narrow(3, 0, 4))) << "values of another width";
  EXPECT_FALSE(takes(there[0], there[0], there[0])) << "three dimensions";
  EXPECT_FALSE(takes(there, there.narrow(1, 0, 1), there.narrow(1, 0, 1))) << "shared heads";
  const Tensor exact = there.to(DType::kF64);
  EXPECT_FALSE(takes(exact, exact, exact));
  compare(
      "three dimensions",
      [](const Inputs& in) { return scaled_dot_product_attention(in[0], in[0], in[0]); },
      {numbers({3, 9, 8})}, 20);
  backends::cuda::flash_sdp_enabled = false;
  EXPECT_FALSE(takes(there, there, there));
}

TEST_F(CudaAttention, OfALayerIsThatOfItsWeights) {
  nn::MultiheadAttention layer(24, 3, {.batch_first = true});
  layer.to(kGPU);
  const Tensor x = numbers({2, 70, 24}).to(kGPU);
  const auto [fused, none] = layer(x, x, x, {.need_weights = false});
  const auto [composed, weights] = layer(x, x, x, {.need_weights = true});
  EXPECT_FALSE(none.defined());
  expect_close(fused.detach(), composed.detach().cpu(), tolerance(DType::kF32, 100), "layer");
}

TEST_F(CudaAttention, DrawsAnewInEachLaunchOfAGraph) {
  const Inputs in = Sizes{1, 2, 40, 40, 16}.inputs();
  const AttentionOptions options{.dropout_p = 0.5};
  const auto run = [&](bool captured) {
    manual_seed(3);
    auto step = compile(
        [options](const Tensor& q, const Tensor& k, const Tensor& v) {
          return scaled_dot_product_attention(q, k, v, options);
        },
        {.enabled = captured, .whole = true});
    std::vector<Tensor> results;
    for (int i = 0; i < 4; ++i) {
      results.push_back(step(in[0].to(kGPU), in[1].to(kGPU), in[2].to(kGPU)).cpu());
    }
    return results;
  };
  const std::vector<Tensor> eager = run(false);
  const std::vector<Tensor> captured = run(true);
  for (std::size_t i = 0; i < eager.size(); ++i) {
    expect_same(captured[i], eager[i], "call " + std::to_string(i));
  }
  EXPECT_FALSE(captured[2].equal(captured[3]));
}

}  // namespace
}  // namespace dl::testing
