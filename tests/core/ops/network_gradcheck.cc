// The gradient checks of a network's operations: convolution, pooling, products and losses.
#include <gtest/gtest.h>

#include "core/ops/conv.h"
#include "core/ops/linear.h"
#include "core/ops/loss.h"
#include "tests/core/ops/gradcheck_cases.h"
#include "tests/core/ops/random_tensor.h"

namespace dl::testing {
namespace {

using Inputs = std::vector<Tensor>;

Tensor leaf(const Shape& shape, std::uint64_t seed) {
  return random_tensor(shape, DType::kF64, seed).requires_grad_();
}

void expect_right(std::string_view what, const std::function<Tensor(const Inputs&)>& f,
                  const Inputs& inputs) {
  try {
    gradcheck(what, f, inputs);
  } catch (const Error& error) {
    ADD_FAILURE() << error.what();
  }
}

}  // namespace

void gradcheck_conv2d() {
  for (const Conv2dArgs& args : {Conv2dArgs{}, Conv2dArgs{.stride = {2, 1}, .padding = {1, 2}},
                                 Conv2dArgs{.dilation = {2, 1}}, Conv2dArgs{.relu = true}}) {
    const auto f = [&](const Inputs& in) { return conv2d(in[0], in[1], in[2], args); };
    expect_right("conv2d", f, {leaf({2, 2, 5, 4}, 1), leaf({3, 2, 3, 2}, 2), leaf({3}, 3)});
  }
  const auto grouped = [](const Inputs& in) { return conv2d(in[0], in[1], {}, {.groups = 2}); };
  expect_right("conv2d", grouped, {leaf({1, 4, 4, 4}, 1), leaf({6, 2, 2, 2}, 2)});
  const auto from_view = [](const Inputs& in) { return conv2d(in[0].transpose(2, 3), in[1]); };
  expect_right("conv2d", from_view, {leaf({1, 2, 4, 5}, 1), leaf({2, 2, 2, 2}, 2)});
}

void gradcheck_max_pool2d() {
  for (const MaxPool2dArgs& args :
       {MaxPool2dArgs{.kernel = {2, 2}, .stride = {2, 2}},
        MaxPool2dArgs{.kernel = {3, 2}, .stride = {1, 2}, .padding = {1, 1}},
        MaxPool2dArgs{.kernel = {2, 2}, .stride = {2, 2}, .ceil_mode = true},
        MaxPool2dArgs{.kernel = {2, 2}, .stride = {2, 2}, .relu = true}}) {
    const auto f = [&](const Inputs& in) { return max_pool2d(in[0], args); };
    expect_right("max_pool2d", f, {leaf({2, 3, 5, 6}, 1)});
  }
}

void gradcheck_matmul() {
  const auto f = [](const Inputs& in) { return matmul(in[0], in[1]); };
  expect_right("matmul", f, {leaf({3, 4}, 1), leaf({4, 2}, 2)});
  expect_right("matmul", f, {leaf({2, 1, 3, 4}, 1), leaf({3, 4, 2}, 2)});
  expect_right("matmul", f, {leaf({4}, 1), leaf({4}, 2)});
  expect_right("matmul", f, {leaf({2, 3, 4}, 1), leaf({4}, 2)});
  expect_right("matmul", f, {leaf({2, 0}, 1), leaf({0, 3}, 2)});
  const auto turned = [](const Inputs& in) { return matmul(in[0].t(), in[1].t()); };
  expect_right("matmul", turned, {leaf({4, 3}, 1), leaf({2, 4}, 2)});
}

void gradcheck_linear() {
  for (const Activation activation :
       {Activation::kNone, Activation::kRelu, Activation::kGeluTanh}) {
    const auto f = [&](const Inputs& in) {
      return linear(in[0], in[1], in[2], {.activation = activation});
    };
    expect_right("linear", f, {leaf({3, 4}, 1), leaf({2, 4}, 2), leaf({2}, 3)});
    expect_right("linear", f, {leaf({2, 3, 4}, 1), leaf({2, 4}, 2), leaf({2}, 3)});
  }
  const auto without_bias = [](const Inputs& in) { return linear(in[0], in[1]); };
  expect_right("linear", without_bias, {leaf({4}, 1), leaf({2, 4}, 2)});
}

void gradcheck_cross_entropy() {
  const Tensor target = tensor({1, 0, -100, 2});
  const auto f = [&](const Inputs& in) { return cross_entropy(in[0], target); };
  expect_right("cross_entropy", f, {leaf({4, 3}, 1)});
  const auto turned = [&](const Inputs& in) { return cross_entropy(in[0].t(), target); };
  expect_right("cross_entropy", turned, {leaf({3, 4}, 1)});
}

void gradcheck_mse_loss() {
  const auto f = [](const Inputs& in) { return mse_loss(in[0], in[1]); };
  expect_right("mse_loss", f, {leaf({3, 4}, 1), leaf({3, 4}, 2)});
  const auto turned = [](const Inputs& in) { return mse_loss(in[0].t(), in[1]); };
  expect_right("mse_loss", turned, {leaf({4, 3}, 1), leaf({3, 4}, 2)});
}

}  // namespace dl::testing
