// Functions of each dtype.
#include <algorithm>
#include <functional>
#include <string_view>
#include <utility>

#include "core/ops/conv/conv.h"
#include "core/ops/elementwise/activation.h"
#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/elementwise/numeric.h"
#include "core/ops/index/embedding.h"
#include "core/ops/index/index.h"
#include "core/ops/index/indexing.h"
#include "core/ops/linear/linear.h"
#include "core/ops/linear/product.h"
#include "core/ops/logic/logic.h"
#include "core/ops/logic/search.h"
#include "core/ops/norm/norm.h"
#include "core/ops/order/order.h"
#include "core/ops/pool/resample.h"
#include "core/ops/reduce/reduce.h"
#include "core/ops/shape/shape.h"
#include "core/ops/softmax/softmax.h"
#include "core/random/tensor_random.h"
#include "core/tensor/factories.h"
#include "nn/functional/functional.h"
#include "nn/layers/conv/conv.h"
#include "nn/layers/conv/conv_variants.h"
#include "nn/layers/embedding.h"
#include "nn/layers/linear.h"
#include "nn/layers/norm.h"
#include "nn/layers/pool/pool.h"
#include "nn/layers/pool/resample.h"
#include "tests/nn/onnx/cases/edges.h"

namespace dl::onnx {
namespace {

// Element-wise and other functions of a dtype.
void write_dtype(const Edges& to, const std::string& name, DType dtype) {
  // NumPy has no bfloat16: its files have float32.
  const auto given = [=](const Tensor& x) {
    if (dtype == DType::kBF16) return x;
    return (dtype == DType::kU8 ? x.abs() : x).to(dtype);
  };
  const auto shown = [](const Tensor& x) {
    return x.dtype() == DType::kBF16 ? x.to(DType::kF32) : x;
  };
  const auto calls = [&](const Shape& shape) {
    Calls result;
    for (int i = 0; i < 2; ++i) {
      result.push_back({given(randn(shape) * 3), given(randn(shape) * 3 + 0.5)});
    }
    return result;
  };
  const std::vector<std::pair<const char*, std::function<Tensor(const Tensor&, const Tensor&)>>>
      functions = {
          {"add", [](auto& a, auto& b) { return a + b; }},
          {"add_number", [](auto& a, auto&) { return a + 2; }},
          {"sub", [](auto& a, auto& b) { return a - b; }},
          {"mul", [](auto& a, auto& b) { return a * b; }},
          {"div", [](auto& a, auto& b) { return a / (b * b + 1); }},
          {"neg", [](auto& a, auto&) { return -a; }},
          {"abs", [](auto& a, auto&) { return a.abs(); }},
          {"relu", [](auto& a, auto&) { return a.relu(); }},
          {"sign", [](auto& a, auto&) { return a.sign(); }},
          {"square", [](auto& a, auto&) { return a.square(); }},
          {"sigmoid", [](auto& a, auto&) { return a.sigmoid(); }},
          {"exp", [](auto& a, auto&) { return a.exp(); }},
          {"sin", [](auto& a, auto&) { return a.sin(); }},
          {"sqrt", [](auto& a, auto&) { return (a * a).sqrt(); }},
          {"pow", [](auto& a, auto&) { return pow(a, 2); }},
          {"pow_tensor", [](auto& a, auto& b) { return pow(a.abs() + 1, b.abs()); }},
          {"clamp", [](auto& a, auto&) { return a.clamp(-1, 2); }},
          {"minimum", [](auto& a, auto& b) { return minimum(a, b); }},
          {"maximum", [](auto& a, auto& b) { return maximum(a, b); }},
          {"where", [](auto& a, auto& b) { return where(gt(a, 0), a, b); }},
          {"less", [](auto& a, auto& b) { return lt(a, b); }},
          {"equal", [](auto& a, auto& b) { return eq(a, b); }},
          {"ge", [](auto& a, auto&) { return ge(a, 1); }},
          {"remainder", [](auto& a, auto& b) { return remainder(a, b.abs() + 1); }},
          {"fmod", [](auto& a, auto& b) { return fmod(a, b.abs() + 1); }},
          {"floor_divide", [](auto& a, auto& b) { return floor_divide(a, b.abs() + 1); }},
          {"floor", [](auto& a, auto&) { return a.floor(); }},
          {"sum", [](auto& a, auto&) { return a.sum({1}); }},
          {"prod", [](auto& a, auto&) { return a.prod(1); }},
          {"amax", [](auto& a, auto&) { return a.amax({0}); }},
          {"max", [](auto& a, auto&) { return a.max(1).second; }},
          {"any", [](auto& a, auto&) { return a.any(1); }},
          {"cumsum", [](auto& a, auto&) { return cumsum(a, 1); }},
          {"sort", [](auto& a, auto&) { return a.sort(1).first; }},
          {"topk", [](auto& a, auto&) { return a.topk(2, 1).first; }},
          {"gather",
           [](auto& a, auto&) { return gather(a, 1, zeros({3, 2}, {.dtype = DType::kI64})); }},
          {"matmul", [](auto& a, auto& b) { return matmul(a, b.t()); }},
          {"to_f32", [](auto& a, auto&) { return a.to(DType::kF32); }},
          {"to_i64", [](auto& a, auto&) { return a.to(DType::kI64); }},
          {"to_bool", [](auto& a, auto&) { return a.to(DType::kBool); }},
          {"to_u8", [](auto& a, auto&) { return a.abs().to(DType::kU8); }},
          {"cat", [](auto& a, auto& b) { return cat({a, b}, 1); }},
          {"pad", [](auto& a, auto&) { return pad(a, {1, 1}); }},
          {"flip", [](auto& a, auto&) { return a.flip({1}); }},
          {"tril", [](auto& a, auto&) { return tril(a); }},
          {"transpose", [](auto& a, auto&) { return a.t().contiguous(); }},
          {"expand", [](auto& a, auto&) { return a.unsqueeze(0).expand({2, 3, 4}); }},
          {"fill",
           [](auto& a, auto&) { return zeros_like(a) + full({4}, 2, {.dtype = a.dtype()}); }},
      };
  // Functions of numbers are none of bool.
  constexpr std::string_view kOfBool[] = {
      "sign",   "sigmoid", "minimum", "maximum", "where",  "less",      "equal",
      "sum",    "amax",    "max",     "any",     "cumsum", "sort",      "topk",
      "gather", "to_f32",  "cat",     "flip",    "tril",   "transpose", "expand"};
  for (const auto& [function, act] : functions) {
    const auto call = act;
    if (dtype == DType::kBool && std::ranges::count(kOfBool, function) == 0) continue;
    to.fixed(
        name + "_" + function,
        [=](In in) { return Out{shown(call(in[0].to(dtype), in[1].to(dtype)))}; }, calls({3, 4}));
  }
  if (!is_floating(dtype)) return;
  const std::vector<std::pair<const char*, std::function<Tensor(const Tensor&)>>> floating = {
      {"softmax", [](auto& a) { return softmax(a, 1); }},
      {"log_softmax", [](auto& a) { return log_softmax(a, 1); }},
      {"logsumexp", [](auto& a) { return a.logsumexp({1}); }},
      {"gelu", [](auto& a) { return gelu(a); }},
      {"gelu_tanh", [](auto& a) { return gelu(a, GeluForm::kTanh); }},
      {"silu", [](auto& a) { return a.silu(); }},
      {"mish", [](auto& a) { return a.mish(); }},
      {"softplus", [](auto& a) { return softplus(a); }},
      {"elu", [](auto& a) { return elu(a); }},
      {"selu", [](auto& a) { return a.selu(); }},
      {"celu", [](auto& a) { return celu(a, 0.5); }},
      {"leaky_relu", [](auto& a) { return leaky_relu(a); }},
      {"hardswish", [](auto& a) { return a.hardswish(); }},
      {"hardsigmoid", [](auto& a) { return a.hardsigmoid(); }},
      {"softshrink", [](auto& a) { return softshrink(a); }},
      {"relu6", [](auto& a) { return a.relu6(); }},
      {"threshold", [](auto& a) { return threshold(a, 0.5, -1); }},
      {"tanh", [](auto& a) { return a.tanh(); }},
      {"erf", [](auto& a) { return a.erf(); }},
      {"log1p", [](auto& a) { return a.abs().log1p(); }},
      {"expm1", [](auto& a) { return a.expm1(); }},
      {"trunc", [](auto& a) { return a.trunc(); }},
      {"round", [](auto& a) { return a.round(); }},
      {"isnan", [](auto& a) { return isnan(a / a.relu()); }},
      {"isinf", [](auto& a) { return isinf(a / a.relu()); }},
      {"nan_to_num", [](auto& a) { return nan_to_num(a / a.relu(), 1, 2, 3); }},
      {"mean", [](auto& a) { return a.mean({1}); }},
      {"std", [](auto& a) { return a.std({1}); }},
      {"norm", [](auto& a) { return a.norm(2, {1}); }},
      {"layer_norm", [](auto& a) { return layer_norm(a, {4}); }},
      {"atan", [](auto& a) { return a.atan(); }},
      {"cosh", [](auto& a) { return a.cosh(); }},
  };
  for (const auto& [function, act] : floating) {
    const auto call = act;
    to.fixed(name + "_" + function, [=](In in) { return Out{shown(call(in[0].to(dtype)))}; },
             {{given(randn({3, 4}))}, {given(randn({3, 4}) * 3)}});
  }
  const auto layer = [&](const std::string& what, auto made, const Shape& shape) {
    const auto model = std::make_shared<decltype(made)>(std::move(made));
    model->to(dtype).eval();
    to.fixed(name + "_" + what, [=](In in) { return Out{shown((*model)(in[0].to(dtype)))}; },
             {{given(randn(shape))}, {given(randn(shape))}});
  };
  layer("conv2d", nn::Conv2d(2, 3, 3), {2, 2, 6, 5});
  layer("conv_transpose2d", nn::ConvTranspose2d(2, 3, 3), {2, 2, 6, 5});
  layer("max_pool2d", nn::MaxPool2d(2), {2, 2, 6, 5});
  layer("avg_pool2d", nn::AvgPool2d(2), {2, 2, 6, 5});
  layer("batch_norm", nn::BatchNorm2d(2), {2, 2, 6, 5});
  layer("group_norm", nn::GroupNorm(2, 4), {2, 4, 6, 5});
  layer("linear", nn::Linear(4, 3), {2, 4});
  layer("upsample", nn::Upsample({.scale_factor = 2, .mode = UpsampleMode::kBilinear}),
        {2, 2, 3, 4});
  layer("nearest", nn::Upsample({.scale_factor = 2}), {2, 2, 3, 4});
}

}  // namespace

void write_dtypes(Writer& writer) {
  const std::pair<const char*, DType> dtypes[] = {
      {"f32", DType::kF32}, {"f64", DType::kF64},  {"f16", DType::kF16}, {"bf16", DType::kBF16},
      {"i64", DType::kI64}, {"i32", DType::kI32},  {"i16", DType::kI16}, {"i8", DType::kI8},
      {"u8", DType::kU8},   {"bool", DType::kBool}};
  for (const auto& [name, dtype] : dtypes) write_dtype(Edges{writer}, name, dtype);
}

}  // namespace dl::onnx
