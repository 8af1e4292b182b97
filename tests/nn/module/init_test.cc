#include "nn/module/init.h"

#include <gtest/gtest.h>

#include <functional>

#include "core/tensor/factories.h"
#include "tests/nn/support.h"

namespace dl::nn::init {
namespace {

TEST(Init, DrawsPyTorchsBits) {
  const parity::Arrays arrays("modules");
  const auto expect = [&](const std::string& name, const std::function<void(Tensor&)>& fill) {
    manual_seed(123);
    Tensor weight = empty({4, 3, 3, 3});
    fill(weight);
    EXPECT_EQ(values<float>(weight), arrays.get<float>("init." + name)) << name;
  };
  expect("uniform", [](Tensor& w) { uniform_(w, -2, 3); });
  expect("normal", [](Tensor& w) { normal_(w, 1, 0.5); });
  expect("xavier_uniform", [](Tensor& w) { xavier_uniform_(w, {.gain = 2}); });
  expect("xavier_normal", [](Tensor& w) { xavier_normal_(w); });
  expect("kaiming_uniform",
         [](Tensor& w) { kaiming_uniform_(w, {.a = 0.2, .mode = FanMode::kFanOut}); });
  expect("kaiming_normal", [](Tensor& w) { kaiming_normal_(w); });
}

// As PyTorch; tests/nn/layers/memory_order_test.cc compares the numbers.
TEST(Init, DrawsInTheOrderOfMemory) {
  Generator a(7);
  Generator b(7);
  Tensor plain = empty({2, 4, 5, 3});
  Tensor channels_last = empty({2, 3, 4, 5}, MemoryFormat::kChannelsLast);
  EXPECT_EQ(values<float>(uniform_(plain, 0, 1, a)),
            values<float>(uniform_(channels_last, 0, 1, b).permute({0, 2, 3, 1})));
}

TEST(Init, WritesParametersWithoutRecording) {
  Tensor weight = empty({2, 2}, {.requires_grad = true});
  const std::uint32_t version = weight.version();
  uniform_(weight);
  EXPECT_TRUE(weight.is_leaf());
  EXPECT_GT(weight.version(), version);
  EXPECT_EQ(values<float>(constant_(weight, 3)), (std::vector<float>{3, 3, 3, 3}));
  EXPECT_EQ(values<float>(ones_(weight)), (std::vector<float>{1, 1, 1, 1}));
  EXPECT_EQ(values<float>(zeros_(weight)), (std::vector<float>{0, 0, 0, 0}));
}

TEST(Init, RefusesWhatHasNoFans) {
  Tensor vector = empty({3});
  EXPECT_ERROR(kaiming_uniform_(vector), kShape,
               "nn::init: fan in and fan out need a weight of at least 2 dimensions, got [3]");
  Tensor integers = empty({3}, {.dtype = DType::kI64});
  EXPECT_ERROR(uniform_(integers), kDType,
               "uniform_: the tensor is int64, wanted float32 or float64");
}

TEST(Init, CountsFans) {
  const Fans fans = fans_of(empty({8, 4, 3, 5}));
  EXPECT_EQ(fans.in, 60);
  EXPECT_EQ(fans.out, 120);
}

TEST(Init, AgreesWithPyTorch) {
  struct Case {
    std::string name;
    Shape shape;
    std::function<void(Tensor&)> fill;
    double share;  // of the largest number; 0: the same bits
  };
  const Case cases[] = {
      {"trunc_normal", {8, 6}, [](Tensor& w) { trunc_normal_(w); }, 0},
      {"trunc_normal_tail", {8, 6}, [](Tensor& w) { trunc_normal_(w, 0.1, 0.5, 1, 1.5); }, 0},
      {"orthogonal", {8, 6}, [](Tensor& w) { orthogonal_(w, 1.5); }, 1e-6},
      {"orthogonal_wide", {3, 4, 4}, [](Tensor& w) { orthogonal_(w); }, 1e-6},
      {"sparse", {8, 6}, [](Tensor& w) { sparse_(w, 0.3); }, 0},
      {"eye", {8, 6}, [](Tensor& w) { eye_(w); }, 0},
      {"dirac", {4, 3, 2, 2}, [](Tensor& w) { dirac_(w, 2); }, 0},
      {"kaiming_tanh",
       {8, 6},
       [](Tensor& w) { kaiming_normal_(w, {.nonlinearity = Nonlinearity::kTanh}); },
       0},
  };
  const parity::Arrays arrays("inits");
  EXPECT_EQ(arrays.names().size(), std::size(cases));
  for (const Case& c : cases) {
    manual_seed(123);
    Tensor weight = empty(c.shape);
    c.fill(weight);
    const auto wanted = arrays.get<float>(c.name);
    const auto got = values<float>(weight);
    ASSERT_EQ(got.size(), wanted.size()) << c.name;
    for (std::size_t i = 0; i < got.size(); ++i) {
      EXPECT_NEAR(got[i], wanted[i], c.share) << c.name << " [" << i << "]";
    }
  }
}

TEST(Init, SaysWhatCameAndWhatWasWanted) {
  Tensor vector = empty({3});
  EXPECT_ERROR(eye_(vector), kShape, "eye_: the tensor has shape [3], wanted [rows, columns]");
  EXPECT_ERROR(
      dirac_(vector), kShape,
      "dirac_: the tensor has shape [3], wanted [out, in, kernel...] of 3 to 5 dimensions");
  EXPECT_ERROR(orthogonal_(vector), kShape,
               "orthogonal_: the tensor has shape [3], wanted at least two dimensions");
  EXPECT_ERROR(sparse_(vector, 0.5), kShape,
               "sparse_: the tensor has shape [3], wanted [rows, columns]");
  EXPECT_ERROR(trunc_normal_(vector, 0, 1, 2, 2), kInvalidArgument,
               "trunc_normal_: std is 1 and the bounds are 2 and 2, wanted std above 0 and the "
               "smaller bound first");
}

}  // namespace
}  // namespace dl::nn::init
