#include <gtest/gtest.h>

#include "nn/layers/activation/activation.h"
#include "nn/layers/activation/dropout.h"
#include "nn/layers/conv/conv.h"
#include "nn/layers/linear.h"
#include "nn/layers/pool/pool.h"
#include "nn/layers/shape/shape.h"
#include "nn/module/sequential.h"
#include "tests/nn/support.h"

namespace dl::nn {
namespace {

TEST(Layers, PrintAsPyTorchDoes) {
  std::string text;
  const auto add = [&](const Module& module) {
    if (!text.empty()) text += '\n';
    text += module.str();
  };
  add(Linear(5, 2));
  add(Linear(5, 2, {.bias = false}));
  add(Conv2d(1, 32, 3));
  add(Conv2d(4, 8, {3, 5}, {.stride = 2, .padding = {0, 1}, .bias = false}));
  add(Conv2d(4, 8, 3, {.dilation = 2, .groups = 2}));
  add(ReLU());
  add(ReLU({.inplace = true}));
  add(MaxPool2d(2));
  add(MaxPool2d({3, 2}, {.stride = 2, .padding = 1}));
  add(MaxPool2d(3, {.stride = {{2, 1}}, .dilation = 2, .ceil_mode = true}));
  add(Flatten());
  add(Flatten({.start_dim = 0, .end_dim = 2}));
  add(Dropout());
  add(Dropout(0.0));
  add(Dropout(1e-05));
  add(Identity());
  add(Sequential());
  add(Sequential{Sequential{ReLU()}, Identity()});
  EXPECT_EQ(text, text_of(parity::Arrays("modules"), "layers.text"));
}

TEST(Layers, GELUPrintsItsForm) {
  EXPECT_EQ(GELU().str(), "GELU(approximate='none')");
  EXPECT_EQ(GELU({.approximate = "tanh"}).str(), "GELU(approximate='tanh')");
}

TEST(Layers, RefuseBadArguments) {
  EXPECT_ERROR(GELU({.approximate = "erf"}), kInvalidArgument,
               "gelu: approximate is 'erf', wanted 'none' or 'tanh'");
  EXPECT_ERROR(Linear(-1, 2), kInvalidArgument, "Linear: in_features is -1, wanted at least 0");
  EXPECT_ERROR(Linear(1, -2), kInvalidArgument, "Linear: out_features is -2, wanted at least 0");
  EXPECT_ERROR(Conv2d(0, 2, 3), kInvalidArgument,
               "Conv2d: in_channels is 0, wanted a positive multiple of groups = 1");
  EXPECT_ERROR(Conv2d(4, 3, 3, {.groups = 2}), kInvalidArgument,
               "Conv2d: out_channels is 3, wanted a positive multiple of groups = 2");
  EXPECT_ERROR(Conv2d(4, 3, 3, {.groups = 0}), kInvalidArgument,
               "Conv2d: groups is 0, wanted at least 1");
  EXPECT_ERROR(Conv2d(4, 3, {3, 0}), kInvalidArgument,
               "Conv2d: kernel_size is (3, 0), wanted at least 1");
  EXPECT_ERROR(Conv2d(4, 3, 3, {.stride = 0}), kInvalidArgument,
               "Conv2d: stride is 0, wanted at least 1");
  EXPECT_ERROR(Conv2d(4, 3, 3, {.padding = -1}), kInvalidArgument,
               "Conv2d: padding is -1, wanted at least 0");
  EXPECT_ERROR(Conv2d(4, 3, 3, {.dilation = 0}), kInvalidArgument,
               "Conv2d: dilation is 0, wanted at least 1");
  EXPECT_ERROR(Dropout(1.5), kInvalidArgument, "Dropout: p is 1.5, wanted a probability, 0 to 1");
}

}  // namespace
}  // namespace dl::nn
