// What a NaN becomes in the operations of a network, on every path that their kernels have and
// beside the same computed by separate operations in f64. For every device.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "core/ops/conv/conv.h"
#include "core/ops/dispatch/kernel_names.h"
#include "core/ops/elementwise/activation.h"
#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/linear/linear.h"
#include "core/ops/loss/loss.h"
#include "core/ops/reduce/reduce.h"
#include "core/ops/softmax/softmax.h"
#include "tests/core/ops/random_tensor.h"
#include "tests/core/support.h"

namespace dl::testing {

struct NanCase {
  using Function = std::function<Tensor(const std::vector<Tensor>&)>;
  std::string name;
  Function fused;
  Function plain;
  std::vector<Shape> inputs;
};

inline void add_convolutions(std::vector<NanCase>& cases) {
  struct Path {
    const char* name;
    Shape input, weight;
    Conv2dArgs args;
  };
  const std::vector<Path> paths = {
      {"few channels", {2, 3, 6, 7}, {9, 3, 3, 3}, {.padding = {1, 1}}},
      {"many tiles", {10, 16, 7, 8}, {17, 16, 3, 3}, {.padding = {1, 1}}},
      {"few tiles", {2, 16, 5, 4}, {16, 16, 3, 3}, {.padding = {1, 1}}},
      {"stride", {2, 8, 7, 6}, {16, 8, 3, 3}, {.stride = {2, 2}, .padding = {1, 1}}},
      {"1x1", {2, 16, 4, 5}, {16, 16, 1, 1}, {}},
      {"1x1 with stride", {2, 8, 5, 5}, {16, 8, 1, 1}, {.stride = {2, 2}}},
      {"dilation", {1, 8, 7, 7}, {8, 8, 3, 3}, {.padding = {2, 2}, .dilation = {2, 2}}},
      {"groups", {2, 8, 5, 5}, {12, 2, 3, 3}, {.padding = {1, 1}, .groups = 4}},
      {"depthwise", {2, 16, 5, 5}, {16, 1, 3, 3}, {.padding = {1, 1}, .groups = 16}},
      {"odd channels", {2, 5, 6, 5}, {7, 5, 3, 2}, {.stride = {2, 1}}}};
  for (const Path& path : paths) {
    Conv2dArgs with_relu = path.args;
    with_relu.relu = true;
    const auto fused = [=](const auto& in) { return conv2d(in[0], in[1], in[2], with_relu); };
    const auto plain = [=](const auto& in) { return relu(conv2d(in[0], in[1], in[2], path.args)); };
    const std::vector<Shape> inputs{path.input, path.weight, {path.weight[0]}};
    cases.push_back({std::string("conv2d and relu, ") + path.name, fused, plain, inputs});
    cases.push_back({std::string("conv2d, relu after it, ") + path.name, plain, plain, inputs});
  }
}

inline void add_linears(std::vector<NanCase>& cases) {
  for (const std::int64_t rows : {5, 64}) {  // a small product, and one of a library
    const std::int64_t in = rows == 5 ? 9 : 80;
    const std::int64_t out = rows == 5 ? 7 : 72;
    const std::vector<Shape> inputs{{rows, in}, {out, in}, {out}};
    for (const Activation each : {Activation::kRelu, Activation::kGeluTanh}) {
      const auto activated = [each](const Tensor& x) {
        return each == Activation::kRelu ? relu(x) : gelu(x, GeluForm::kTanh);
      };
      const std::string name = each == Activation::kRelu ? "linear and relu " : "linear and gelu ";
      cases.push_back(
          {name + std::to_string(rows),
           [=](const auto& x) { return linear(x[0], x[1], x[2], {.activation = each}); },
           [=](const auto& x) { return activated(add(matmul(x[0], x[1].t()), x[2])); }, inputs});
      const std::vector<Shape> two{{rows, in}, {out, in}, {out}, {in, out}};
      cases.push_back({name + "between two, " + std::to_string(rows),
                       [=](const auto& x) {
                         return linear(linear(x[0], x[1], x[2], {.activation = each}), x[3]);
                       },
                       [=](const auto& x) {
                         return matmul(activated(add(matmul(x[0], x[1].t()), x[2])), x[3].t());
                       },
                       two});
    }
  }
}

inline void add_pools(std::vector<NanCase>& cases) {
  const std::vector<MaxPool2dArgs> windows = {
      {.kernel = {2, 2}, .stride = {2, 2}},
      {.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}},
      {.kernel = {3, 2}, .stride = {1, 1}, .dilation = {1, 2}},
      {.kernel = {1, 1}, .stride = {1, 1}}};
  for (const MaxPool2dArgs& window : windows) {
    MaxPool2dArgs with_relu = window;
    with_relu.relu = true;
    const auto fused = [=](const auto& in) { return max_pool2d(in[0], with_relu); };
    const auto plain = [=](const auto& in) { return max_pool2d(relu(in[0]), window); };
    const std::string size =
        std::to_string(window.kernel[0]) + "x" + std::to_string(window.kernel[1]);
    cases.push_back({"relu and max_pool2d " + size, fused, plain, {{2, 19, 6, 6}}});
    cases.push_back({"max_pool2d " + size, plain, plain, {{2, 19, 6, 6}}});
  }
}

inline std::vector<NanCase> nan_cases() {
  std::vector<NanCase> cases;
  add_convolutions(cases);
  add_linears(cases);
  add_pools(cases);
  const auto add_function = [&](const char* name, const NanCase::Function& f,
                                const std::vector<Shape>& inputs) {
    cases.push_back({name, f, f, inputs});
  };
  add_function("relu", [](const auto& in) { return relu(in[0]); }, {{3, 37}});
  add_function("relu in place",
               [](const auto& in) {
                 Tensor copy = mul(in[0], 1.0);
                 return relu_(copy);
               },
               {{3, 37}});
  add_function("maximum and minimum",
               [](const auto& in) { return maximum(minimum(in[0], in[1]), in[2]); },
               {{3, 37}, {3, 37}, {1}});
  add_function("max of rows", [](const auto& in) { return max(in[0], 1).first; }, {{5, 37}});
  add_function("max of columns", [](const auto& in) { return max(in[0], 0).first; }, {{37, 5}});
  add_function("softmax", [](const auto& in) { return softmax(in[0], 1); }, {{5, 37}});
  add_function("cross_entropy",
               [](const auto& in) {
                 const std::vector<std::int64_t> classes{3, 0, 36, 7, 7};
                 return cross_entropy(in[0],
                                      tensor(classes, {.dtype = DType::kI64}).to(in[0].device()));
               },
               {{5, 37}});
  add_function("mse_loss", [](const auto& in) { return mse_loss(in[0], in[1]); },
               {{5, 37}, {5, 37}});
  add_function("log_softmax", [](const auto& in) { return log_softmax(in[0], 1); }, {{5, 37}});
  return cases;
}

// How far a device promises it: an algorithm of a GPU's library may spread a NaN to neighbours.
enum class NanPlaces : std::uint8_t { kTheDefinitions, kAtLeastTheDefinitions };

inline void expect_nans(const Tensor& got, const Tensor& wanted, NanPlaces places,
                        const std::string& what) {
  ASSERT_EQ(got.sizes(), wanted.sizes()) << what;
  const auto a = values<double>(got.detach().to(Device{}));
  const auto b = values<double>(wanted.detach());
  std::int64_t lost = 0;
  std::int64_t made = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(b[i]) && !std::isnan(a[i])) ++lost;
    if (!std::isnan(b[i]) && std::isnan(a[i])) ++made;
  }
  EXPECT_EQ(lost, 0) << what << ": of " << a.size() << " elements so many are no NaN any more";
  if (places == NanPlaces::kTheDefinitions) {
    EXPECT_EQ(made, 0) << what << ": of " << a.size() << " elements so many should be no NaN";
  }
}

// With a NaN in each of the inputs in turn, and then in the gradient of the output: the output and
// all gradients have NaN in the same elements as separate operations in f64.
inline void expect_nan_stays(const NanCase& c, DType dtype, Device device, MemoryFormat format,
                             NanPlaces places) {
  for (std::size_t with_nan = 0; with_nan <= c.inputs.size(); ++with_nan) {
    const std::string what = c.name + " in " + std::string(name_of(dtype)) + ", NaN in " +
                             (with_nan < c.inputs.size() ? "input " + std::to_string(with_nan)
                                                         : "the output's gradient");
    const auto put_nan = [](const Tensor& t) {
      t.view({-1}).narrow(0, t.numel() / 2, 1).fill_(std::numeric_limits<double>::quiet_NaN());
    };
    std::vector<Tensor> exact;
    std::vector<Tensor> under_test;
    for (const Shape& shape : c.inputs) {
      const Tensor values = random_tensor(shape, dtype, exact.size() + 1);
      if (exact.size() == with_nan) put_nan(values);
      exact.push_back(values.to(DType::kF64).clone().requires_grad_());
      const bool laid_out = shape.size() == 4 && format == MemoryFormat::kChannelsLast;
      const Tensor copy = laid_out ? values.contiguous(format) : values.clone();
      under_test.push_back(copy.to(device).detach().requires_grad_());
    }
    const Tensor wanted = c.plain(exact);
    const Tensor got = c.fused(under_test);
    expect_nans(got, wanted, places, what + ", the output");
    const Tensor direction = random_tensor(wanted.sizes(), dtype, 9);
    if (with_nan == c.inputs.size()) put_nan(direction);
    wanted.backward(direction.to(DType::kF64));
    got.backward(direction.to(device));
    for (std::size_t i = 0; i < exact.size(); ++i) {
      expect_nans(under_test[i].grad(), exact[i].grad(), places,
                  what + ", gradient " + std::to_string(i));
    }
  }
}

}  // namespace dl::testing
