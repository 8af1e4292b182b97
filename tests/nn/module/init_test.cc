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

TEST(Init, DoesNotDependOnTheLayout) {
  Generator a(7);
  Generator b(7);
  Tensor plain = empty({2, 3, 4, 5});
  Tensor channels_last = empty({2, 3, 4, 5}, MemoryFormat::kChannelsLast);
  EXPECT_EQ(values<float>(uniform_(plain, 0, 1, a)),
            values<float>(uniform_(channels_last, 0, 1, b)));
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

}  // namespace
}  // namespace dl::nn::init
