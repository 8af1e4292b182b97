// What operations save for backward: nothing that no gradient reads, so that the memory is free and
// a second backward pass needs no retain_graph, as in PyTorch.
#include <gtest/gtest.h>

#include <functional>
#include <utility>
#include <vector>

#include "core/ops/conv/conv.h"
#include "core/ops/elementwise/activation.h"
#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/elementwise/numeric.h"
#include "core/ops/index/index.h"
#include "core/ops/index/indexing.h"
#include "core/ops/norm/norm.h"
#include "core/ops/order/order.h"
#include "core/ops/pool/resample.h"
#include "core/ops/reduce/reduce.h"
#include "core/ops/shape/shape.h"
#include "core/tensor/factories.h"
#include "tests/core/support.h"

namespace dl {
namespace {

using Call = std::function<Tensor(const Tensor& x, const Tensor& w)>;

// Operations of x and w, [2, 3, 4], that save nothing in PyTorch 2.13.
const std::pair<const char*, Call> kSaveNothing[] = {
    {"x + w", [](const Tensor& x, const Tensor& w) { return x + w; }},
    {"x + 2", [](const Tensor& x, const Tensor&) { return x + 2; }},
    {"x - w", [](const Tensor& x, const Tensor& w) { return x - w; }},
    {"2 - x", [](const Tensor& x, const Tensor&) { return 2 - x; }},
    {"neg", [](const Tensor& x, const Tensor&) { return -x; }},
    {"sign", [](const Tensor& x, const Tensor&) { return x.sign(); }},
    {"floor", [](const Tensor& x, const Tensor&) { return x.floor(); }},
    {"round", [](const Tensor& x, const Tensor&) { return x.round(); }},
    {"frac", [](const Tensor& x, const Tensor&) { return x.frac(); }},
    {"deg2rad", [](const Tensor& x, const Tensor&) { return x.deg2rad(); }},
    {"fmod(x, 2)", [](const Tensor& x, const Tensor&) { return fmod(x, 2); }},
    {"fmod(x, constant)", [](const Tensor& x, const Tensor& w) { return fmod(x, w.detach()); }},
    {"remainder(x, 2)", [](const Tensor& x, const Tensor&) { return remainder(x, 2); }},
    {"lerp", [](const Tensor& x, const Tensor& w) { return x.lerp(w, 0.25); }},
    {"clone", [](const Tensor& x, const Tensor&) { return x.clone(); }},
    {"contiguous", [](const Tensor& x, const Tensor&) { return x.transpose(0, 1).contiguous(); }},
    {"to", [](const Tensor& x, const Tensor&) { return x.to(DType::kF64); }},
    {"view", [](const Tensor& x, const Tensor&) { return x.view({6, 4}); }},
    {"reshape", [](const Tensor& x, const Tensor&) { return x.transpose(0, 2).reshape({-1}); }},
    {"flatten", [](const Tensor& x, const Tensor&) { return x.flatten(1); }},
    {"transpose", [](const Tensor& x, const Tensor&) { return x.transpose(0, 2); }},
    {"permute", [](const Tensor& x, const Tensor&) { return x.permute({2, 0, 1}); }},
    {"movedim", [](const Tensor& x, const Tensor&) { return x.movedim(0, 2); }},
    {"select", [](const Tensor& x, const Tensor&) { return x[1]; }},
    {"slice", [](const Tensor& x, const Tensor&) { return x.slice(2, 1, 4, 2); }},
    {"index by slices",
     [](const Tensor& x, const Tensor&) {
       return Tensor(x.index({1, indexing::Slice(0, 3, 2), indexing::None}));
     }},
    {"expand", [](const Tensor& x, const Tensor&) { return x.unsqueeze(0).expand({5, 2, 3, 4}); }},
    {"squeeze", [](const Tensor& x, const Tensor&) { return x.narrow(0, 0, 1).squeeze(); }},
    {"unflatten", [](const Tensor& x, const Tensor&) { return x.unflatten(2, {2, 2}); }},
    {"split", [](const Tensor& x, const Tensor&) { return x.split(2, 2)[1]; }},
    {"chunk", [](const Tensor& x, const Tensor&) { return x.chunk(2, 2)[0]; }},
    {"unbind", [](const Tensor& x, const Tensor&) { return x.unbind(1)[2]; }},
    {"diagonal", [](const Tensor& x, const Tensor&) { return x.diagonal(0, 1, 2); }},
    {"diag", [](const Tensor& x, const Tensor&) { return x[0][0].diag(); }},
    {"cat", [](const Tensor& x, const Tensor& w) { return cat({x, w, x}, 1); }},
    {"stack", [](const Tensor& x, const Tensor& w) { return stack({x, w}, 1); }},
    {"repeat", [](const Tensor& x, const Tensor&) { return x.repeat({2, 1, 3}); }},
    {"tile", [](const Tensor& x, const Tensor&) { return x.tile({2}); }},
    {"repeat_interleave", [](const Tensor& x, const Tensor&) { return x.repeat_interleave(2, 1); }},
    {"flip", [](const Tensor& x, const Tensor&) { return x.flip({0, 2}); }},
    {"flip of nothing", [](const Tensor& x, const Tensor&) { return x.flip(Dims{}); }},
    {"roll", [](const Tensor& x, const Tensor&) { return x.roll(1, 2); }},
    {"roll of all", [](const Tensor& x, const Tensor&) { return x.roll(5); }},
    {"tril", [](const Tensor& x, const Tensor&) { return x.tril(1); }},
    {"triu", [](const Tensor& x, const Tensor&) { return x.triu(-1); }},
    {"pad", [](const Tensor& x, const Tensor&) { return pad(x, {1, 2, -1, 1}); }},
    {"pixel_shuffle",
     [](const Tensor& x, const Tensor&) { return pixel_shuffle(x.reshape({4, 2, 3}), 2); }},
    {"channel_shuffle",
     [](const Tensor& x, const Tensor&) { return channel_shuffle(x.reshape({1, 4, 6}), 2); }},
    {"sum", [](const Tensor& x, const Tensor&) { return x.sum(); }},
    {"sum of dimensions", [](const Tensor& x, const Tensor&) { return x.sum({0, 2}); }},
    {"mean", [](const Tensor& x, const Tensor&) { return x.mean(1); }},
    {"cumsum", [](const Tensor& x, const Tensor&) { return x.cumsum(1); }},
    {"upsample",
     [](const Tensor& x, const Tensor&) {
       return upsample2d(x.unsqueeze(0), {.size = {6, 5}, .mode = UpsampleMode::kBilinear});
     }},
    {"add_", [](const Tensor& x, const Tensor& w) { return x.clone().add_(w, 2); }},
    {"sub_", [](const Tensor& x, const Tensor& w) { return x.clone().sub_(w); }},
    {"copy_", [](const Tensor& x, const Tensor& w) { return w.clone().copy_(x[0]); }},
    {"zero_", [](const Tensor& x, const Tensor&) { return x.clone().zero_(); }},
};

TEST(Saved, NothingIfPyTorchSavesNothing) {
  for (const auto& [name, call] : kSaveNothing) {
    Tensor x = arange(1, 25, 1, {.dtype = DType::kF32}).view({2, 3, 4}).clone().detach();
    Tensor w = full({2, 3, 4}, 3.5);
    x.requires_grad_();
    w.requires_grad_();
    const Tensor y = call(x, w);
    const Tensor seed = arange(1, y.numel() + 1, 1, {.dtype = y.dtype()}).view(y.sizes());
    try {
      y.backward(seed);
      const std::vector<float> once = values<float>(x.grad() * 2);
      y.backward(seed);
      EXPECT_EQ(values<float>(x.grad()), once) << name;
    } catch (const Error& error) {
      ADD_FAILURE() << name << ": " << error.what();
    }
  }
}

// Operations of x, [2, 3], whose results PyTorch 2.15 lets a program change before backward.
const std::pair<const char*, std::function<Tensor(const Tensor& x)>> kSaveNoResult[] = {
    {"var", [](const Tensor& x) { return x.var(); }},
    {"var of rows", [](const Tensor& x) { return x.var(1); }},
    {"nansum", [](const Tensor& x) { return x.nansum(0); }},
    {"nanmean", [](const Tensor& x) { return nanmean(x, {1}); }},
    {"max of rows", [](const Tensor& x) { return x.max(1).first; }},
    {"median of rows", [](const Tensor& x) { return median(x, 1).first; }},
    {"sort", [](const Tensor& x) { return x.sort(1).first; }},
    {"topk", [](const Tensor& x) { return x.topk(2).first; }},
    {"abs", [](const Tensor& x) { return x.abs(); }},
    {"log", [](const Tensor& x) { return x.log(); }},
    {"square", [](const Tensor& x) { return x.square(); }},
    {"silu", [](const Tensor& x) { return silu(x); }},
    {"relu6", [](const Tensor& x) { return relu6(x); }},
    {"leaky_relu", [](const Tensor& x) { return leaky_relu(x); }},
    {"elu", [](const Tensor& x) { return elu(x); }},
    {"softplus", [](const Tensor& x) { return softplus(x); }},
    {"hardtanh", [](const Tensor& x) { return hardtanh(x); }},
    {"gelu", [](const Tensor& x) { return gelu(x); }},
    {"logsigmoid", [](const Tensor& x) { return logsigmoid(x); }},
    {"glu", [](const Tensor& x) { return glu(x, 0); }},
    {"clamp", [](const Tensor& x) { return x.clamp(0.3, 1); }},
    {"pow", [](const Tensor& x) { return x.pow(1.7); }},
    {"div", [](const Tensor& x) { return x / (x + 1); }},
    {"logaddexp", [](const Tensor& x) { return logaddexp(x, x * 2); }},
    {"where", [](const Tensor& x) { return where(x > 0.5, x, x * 2); }},
    {"layer_norm", [](const Tensor& x) { return layer_norm(x, {3}); }},
    {"rms_norm", [](const Tensor& x) { return rms_norm(x, {3}); }},
    {"max_pool2d", [](const Tensor& x) { return max_pool2d(x.view({1, 1, 2, 3}), {.kernel = 2}); }},
    {"max_pool2d of relu",
     [](const Tensor& x) { return max_pool2d(x.view({1, 1, 2, 3}), {.kernel = 2, .relu = true}); }},
};

TEST(Saved, NoResultThatPyTorchDoesNotSave) {
  for (const auto& [name, call] : kSaveNoResult) {
    const auto gradient = [&](bool changed) {
      const Tensor x = tensor({{0.3, 1.2, 0.7}, {2.0, 0.1, 0.9}}).requires_grad_();
      Tensor y = call(x);
      if (changed) y += 1;
      y.sum().backward();
      return values<double>(x.grad().to(DType::kF64));
    };
    try {
      EXPECT_EQ(gradient(true), gradient(false)) << name;
    } catch (const Error& error) {
      ADD_FAILURE() << name << ": " << error.what();
    }
  }
}

// The gradients of these read their own operand and the result, as in PyTorch.
TEST(Saved, NoConstantOfAGradientFromTheResult) {
  const auto gradient = [](const auto& f) {
    const Tensor x = tensor({3.0}).requires_grad_();
    Tensor other = tensor({-4.0});
    const Tensor y = f(x, other);
    other.fill_(1);
    y.backward();
    return x.grad().item<double>();
  };
  const auto hypots = [](const Tensor& a, const Tensor& b) { return hypot(a, b); };
  EXPECT_DOUBLE_EQ(gradient(hypots), 0.6F);
  EXPECT_DOUBLE_EQ(gradient([](const Tensor& a, const Tensor& b) { return hypot(b, a); }), 0.6F);
  EXPECT_EQ(gradient([](const Tensor& a, const Tensor& b) { return copysign(a, b); }), -1);
}

// A saved tensor must not be changed before backward; one that is not saved may be.
TEST(Saved, NoOperandThatNoGradientReads) {
  const std::pair<const char*, Call> calls[] = {
      {"fmod", [](const Tensor& x, const Tensor& w) { return fmod(x, w); }},
      {"remainder", [](const Tensor& x, const Tensor& w) { return remainder(x, w); }},
      {"add", [](const Tensor& x, const Tensor& w) { return x + w; }},
      {"lerp", [](const Tensor& x, const Tensor& w) { return x.lerp(w, 0.5); }},
      {"addcmul", [](const Tensor& x, const Tensor& w) { return addcmul(x, w, w); }},
      {"addcdiv", [](const Tensor& x, const Tensor& w) { return addcdiv(x, w, w); }},
      {"mul_ of a constant",
       [](const Tensor& x, const Tensor& w) {
         Tensor y = full(w.sizes(), 2.0);
         Tensor factor = x * 1;
         y.mul_(factor);
         factor.zero_();
         return y;
       }},
  };
  for (const auto& [name, call] : calls) {
    const Tensor x = full({3}, 5.0, {.requires_grad = true});
    Tensor w = full({3}, 2.0);
    const Tensor y = call(x, w);
    w.zero_();
    try {
      sum(y).backward();
    } catch (const Error& error) {
      ADD_FAILURE() << name << ": " << error.what();
    }
  }
}

// One is read, the other is not.
TEST(Saved, OfAProductOnlyWhatTheOtherGradientReads) {
  const Tensor x = full({2}, 3.0, {.requires_grad = true});
  Tensor a = full({2}, 5.0);
  Tensor b = full({2}, 7.0);
  const Tensor y = addcmul(b, x, a);  // reads a, not b
  b.zero_();
  sum(y).backward();
  EXPECT_EQ(values<float>(x.grad()), (std::vector<float>{5, 5}));
  const Tensor z = addcdiv(b, a, x);
  a.zero_();
  EXPECT_THROW(sum(z).backward(), Error);
}

}  // namespace
}  // namespace dl
