// Fused attention on a GPU against the composed operations on the CPU and on the GPU.
#include "nn/layers/attention.h"

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "core/autocast/autocast.h"
#include "core/device/math_flags.h"
#include "core/ops/attention/attention.h"
#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/index/index.h"
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
    backends::cudnn::benchmark = false;
    backends::cudnn::deterministic = true;
    backends::cuda::matmul::allow_tf32 = false;
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
const std::vector<Sizes> kSizes = {{2, 3, 9, 7, 8},    {2, 1, 65, 130, 64}, {1, 1, 130, 33, 16},
                                   {1, 1, 70, 97, 13}, {1, 1, 8, 100, 40},  {1, 1, 129, 2, 1}};
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
              EXPECT_TRUE(dl::detail::takes_fused_attention(in[0], in[1], in[2], 0)) << s.str();
            }
            return scaled_dot_product_attention(in[0], in[1], in[2], {.is_causal = causal});
          },
          s.inputs(), static_cast<double>(s.queries + s.keys + s.width), dtypes, kOfShares);
    }
  }
}

const std::vector<DType> kShortTypes = {DType::kF16, DType::kBF16};

// By dlrun's own kernels.
TEST_F(CudaAttention, AgreesWithTheCPU) {
  compare_all(kSizes, kTypes);
}

TEST_F(CudaAttention, OfWideRowsAgreesWithTheCPU) {
  compare_all(kWide, kShortTypes);
}

TEST_F(CudaAttention, ByCudnnAgreesWithTheCPU) {
  const Inputs in = Sizes{1, 2, 70, 130, 64}.inputs();
  const auto run = [&] {
    return scaled_dot_product_attention(in[0].to(DType::kBF16).to(kGPU),
                                        in[1].to(DType::kBF16).to(kGPU),
                                        in[2].to(DType::kBF16).to(kGPU))
        .cpu();
  };
  const Tensor own = run();
  backends::cudnn::benchmark = true;
  EXPECT_FALSE(run().equal(own)) << "cuDNN rounds other shares";
  compare_all(kWide, {DType::kBF16});
  backends::cudnn::deterministic = false;
  compare_all(kSizes, {DType::kF16});
  compare_all(kWide, {DType::kBF16});
}

TEST_F(CudaAttention, HasTheSameBitsInEachRun) {
  const Inputs in = Sizes{1, 1, 70, 130, 16}.inputs();
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
  const Sizes s{2, 3, 20, 41, 16};
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

// Rows that begin one element apart, and are longer than there are many.
TEST_F(CudaAttention, ReadsWindows) {
  const Tensor lines = numbers({2, 3, 20});
  const auto windows = [](const Tensor& x) {
    return as_strided(x, {2, 3, 9, 12}, {60, 20, 1, 1}, 0);
  };
  const Tensor here = windows(lines);
  const Tensor there = windows(lines.to(kGPU));
  EXPECT_TRUE(dl::detail::takes_fused_attention(there, there, there, 0));
  expect_close(scaled_dot_product_attention(there, there, there),
               scaled_dot_product_attention(here, here, here), tolerance(DType::kF32, 20),
               "windows");
}

TEST_F(CudaAttention, DropsTheSharesThatDropoutWould) {
  for (const Sizes& s : {Sizes{2, 1, 37, 44, 16}, Sizes{1, 1, 70, 71, 24}}) {
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
  const Tensor q = numbers({1, 1, 9, 8}).to(kGPU);
  const Tensor k = numbers({1, 1, 70, 8}, 2).to(kGPU);
  q.select(2, 1).fill_(std::numeric_limits<double>::quiet_NaN());
  const auto found = values<float>(scaled_dot_product_attention(q, k, k).cpu());
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_EQ(std::isnan(found[i]), i / 8 == 1) << i;
}

// A whole tile of scores overflows, and the next does not.
TEST_F(CudaAttention, OfScoresThatAreMinusInfinity) {
  const Tensor q = full({1, 1, 9, 8}, 1e20);
  const Tensor k = numbers({1, 1, 100, 8});
  k.narrow(2, 0, 70).fill_(-1e20);
  const Tensor v = numbers({1, 1, 100, 8}, 2);
  expect_close(scaled_dot_product_attention(q.to(kGPU), k.to(kGPU), v.to(kGPU)),
               scaled_dot_product_attention(q, k, v), 1e-6, "scores");
}

TEST_F(CudaAttention, OfOneTensorAndOfOneGradient) {
  compare(
      "self-attention",
      [](const Inputs& in) {
        return scaled_dot_product_attention(in[0], in[0], in[0], {.is_causal = true});
      },
      {numbers({2, 2, 70, 16})}, 200, kTypes, kOfShares);
  const Inputs in = Sizes{1, 2, 20, 30, 16}.inputs();
  for (std::size_t which = 0; which < 3; ++which) {
    Tensor grads[2];
    for (const bool there : {false, true}) {
      Inputs x;
      for (const Tensor& each : in) x.push_back(each.clone().to(there ? kGPU : Device{}));
      x[which].requires_grad_();
      const Tensor result = scaled_dot_product_attention(x[0], x[1], x[2]);
      EXPECT_EQ(result.str().find("FlashAttentionBackward0") != std::string::npos, there);
      result.backward(ones(result.sizes(), {.device = there ? kGPU : Device{}}));
      grads[there] = x[which].grad().cpu();
    }
    expect_close(grads[1], grads[0], tolerance(DType::kF32, 100), std::to_string(which), 0.1);
  }
}

TEST_F(CudaAttention, FollowsAutocast) {
  Inputs in = Sizes{1, 2, 20, 20, 100}.inputs();
  for (Tensor& x : in) x = x.to(kGPU).requires_grad_();
  EXPECT_FALSE(dl::detail::takes_fused_attention(in[0], in[1], in[2], 0)) << "too wide for f32";
  Tensor result;
  {
    const autocast mixed(DeviceType::kCUDA, {.dtype = DType::kF16});
    EXPECT_TRUE(dl::detail::takes_fused_attention(in[0], in[1], in[2], 0));
    result = scaled_dot_product_attention(in[0], in[1], in[2]);
  }
  EXPECT_EQ(result.dtype(), DType::kF16);
  result.backward(ones(result.sizes(), {.dtype = DType::kF16, .device = kGPU}));
  EXPECT_EQ(in[2].grad().dtype(), DType::kF32);
}

TEST_F(CudaAttention, IsComposedIfTheKernelDoesNotTakeIt) {
  const auto takes = [](const Tensor& q, const Tensor& k, const Tensor& v) {
    return dl::detail::takes_fused_attention(q, k, v, 0);
  };
  const Tensor x = numbers({2, 2, 9, 8});
  const Tensor there = x.to(kGPU);
  EXPECT_TRUE(takes(there, there, there));
  EXPECT_FALSE(takes(x, x, x));
  EXPECT_FALSE(takes(there, there, there.narrow(3, 0, 4))) << "values of another width";
  EXPECT_FALSE(takes(there[0], there[0], there[0])) << "three dimensions";
  EXPECT_FALSE(takes(there, there.narrow(1, 0, 1), there.narrow(1, 0, 1))) << "shared heads";
  EXPECT_FALSE(takes(there.narrow(2, 0, 7), there, there)) << "few queries";
  EXPECT_FALSE(takes(there, x, there)) << "two devices";
  for (const DType dtype : {DType::kI64, DType::kBool, DType::kU8}) {
    const Tensor integers = there.to(dtype);
    EXPECT_FALSE(takes(integers, integers, integers)) << name_of(dtype);
  }
  EXPECT_FALSE(dl::detail::takes_fused_attention(there, there, there, 1));
  const Tensor exact = there.to(DType::kF64);
  EXPECT_FALSE(takes(exact, exact, exact));
  compare(
      "three dimensions",
      [](const Inputs& in) { return scaled_dot_product_attention(in[0], in[0], in[0]); },
      {numbers({3, 9, 8})}, 20);
  backends::cuda::matmul::allow_tf32 = true;
  EXPECT_FALSE(takes(there, there, there)) << "tensor cores multiply f32";
  backends::cuda::matmul::allow_tf32 = false;
  backends::cuda::flash_sdp_enabled = false;
  EXPECT_FALSE(takes(there, there, there));
}

TEST_F(CudaAttention, OfALayerIsThatOfItsWeights) {
  nn::MultiheadAttention layer(24, 3, {.batch_first = true});
  layer.to(kGPU);
  const Tensor x = numbers({2, 70, 24}).to(kGPU);
  for (const bool is_causal : {false, true}) {
    backends::cuda::flash_sdp_enabled = true;
    const auto [fused, none] = layer(x, x, x, {.need_weights = false, .is_causal = is_causal});
    const auto [composed, weights] = layer(x, x, x, {.is_causal = is_causal});
    EXPECT_FALSE(none.defined());
    backends::cuda::flash_sdp_enabled = false;
    const Tensor other = layer(x, x, x, {.need_weights = false, .is_causal = is_causal}).first;
    EXPECT_FALSE(other.equal(fused)) << "one kernel";
    expect_close(fused.detach(), composed.detach().cpu(), tolerance(DType::kF32, 100), "layer");
  }
}

// With gradients; cuDNN makes its plans in the capture.
TEST_F(CudaAttention, HasTheBitsOfTheFunctionInAGraph) {
  struct Case {
    DType dtype;
    double dropout_p;
    bool cudnn;
  };
  for (const Case& c : {Case{DType::kF32, 0.5, false}, Case{DType::kF16, 0.5, false},
                        Case{DType::kF16, 0, true}, Case{DType::kBF16, 0, false}}) {
    backends::cudnn::benchmark = c.cudnn;
    const auto run = [&](bool captured) {
      manual_seed(3);
      Inputs in = Sizes{1, 2, 40, 48, 24}.inputs();
      for (Tensor& x : in) x = x.to(c.dtype).to(kGPU).requires_grad_();
      auto step = compile(
          [&](const Tensor& direction) {
            for (const Tensor& x : in) x.set_grad({});
            const Tensor result =
                scaled_dot_product_attention(in[0], in[1], in[2], {.dropout_p = c.dropout_p});
            result.backward(direction);
            return std::vector<Tensor>{result.detach(), in[0].grad(), in[1].grad(), in[2].grad()};
          },
          {.enabled = captured, .whole = true});
      std::vector<Tensor> results;
      for (std::uint64_t i = 0; i < 4; ++i) {
        for (const Tensor& x : step(numbers({1, 2, 40, 24}, i).to(c.dtype).to(kGPU))) {
          results.push_back(x.cpu());
        }
      }
      return results;
    };
    const std::vector<Tensor> eager = run(false);
    const std::vector<Tensor> captured = run(true);
    for (std::size_t i = 0; i < eager.size(); ++i) {
      expect_same(captured[i], eager[i],
                  std::string(name_of(c.dtype)) + ": tensor " + std::to_string(i));
    }
    EXPECT_EQ(captured[8].equal(captured[12]), c.dropout_p == 0) << "each launch draws anew";
  }
}

}  // namespace
}  // namespace dl::testing
