#include "nn/module/init.h"

#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "core/tensor/factories.h"
#include "nn/layers/embedding.h"
#include "nn/layers/linear.h"
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

// torch.nn.init's numbers after torch.manual_seed(5).
TEST(Init, DrawsPyTorchsHalves) {
  const auto expect = [](DType dtype, std::int64_t count, const std::function<void(Tensor&)>& fill,
                         const std::vector<float>& wanted) {
    manual_seed(5);
    Tensor weight = empty({count}, {.dtype = dtype});
    fill(weight);
    EXPECT_EQ(values<float>(weight.to(DType::kF32)), wanted);
  };
  const auto uniform = [](Tensor& w) { uniform_(w, -0.3, 0.7); };
  const auto normal = [](Tensor& w) { normal_(w, 0.3, 0.77); };
  const auto wide = [](Tensor& w) { trunc_normal_(w, 0, 1, -0.5, 0.5); };
  const auto narrow = [](Tensor& w) { trunc_normal_(w, 0, 1, 1.3, 1.5); };
  expect(DType::kBF16, 8, uniform,
         {0.53125, -0.173828125, 0.609375, 0.51953125, 0.62109375, -0.18359375, -0.1357421875,
          0.4375});
  expect(DType::kF16, 8, uniform,
         {0.5302734375, -0.173828125, 0.607421875, 0.52001953125, 0.6201171875, -0.183349609375,
          -0.1356201171875, 0.43798828125});
  expect(DType::kBF16, 5, normal,
         {-0.07470703125, -0.1650390625, -0.1298828125, 0.8125, 0.1484375});
  expect(DType::kF16, 17, normal,
         {1.71875, 2.44140625, 1.2412109375, 0.040924072265625, -0.443115234375, 0.2001953125,
          -0.163330078125, 0.41162109375, 0.1846923828125, -0.03680419921875, 0.89990234375,
          0.255126953125, -1.263671875, 1.44140625, 0.68017578125, 0.491943359375, 1.6455078125});
  expect(DType::kBF16, 8, wide,
         {-0.486328125, -0.083984375, 0.05712890625, 0.470703125, -0.197265625, -0.259765625,
          0.4296875, 0.2119140625});
  expect(DType::kBF16, 8, narrow,
         {1.46875, 1.4296875, 1.484375, 1.4609375, 1.484375, 1.3203125, 1.3359375, 1.4453125});
  expect(DType::kF16, 8, narrow,
         {1.4658203125, 1.4296875, 1.4814453125, 1.4638671875, 1.484375, 1.3232421875, 1.3330078125,
          1.447265625});
  expect(DType::kBF16, 8,
         [](Tensor& w) {
           Tensor m = w.view({4, 2});
           sparse_(m, 0.5, 0.1);
         },
         {-0.048583984375, 0, 0, 0, -0.019775390625, 0.1943359375, 0, -0.076171875});
}

TEST(Init, HalvesNeverReachTheUpperEnd) {
  // 1.004 is 1.0078125 in bfloat16, and what rounds to it becomes 1.
  Tensor weight = empty({1000}, {.dtype = DType::kBF16});
  manual_seed(5);
  uniform_(weight, 1, 1.004);
  EXPECT_EQ(values<float>(weight.to(DType::kF32)), std::vector<float>(1000, 1.0F));
}

TEST(Init, LayersOfHalvesBeginAsPyTorchs) {
  manual_seed(5);
  const Linear linear(3, 2, {.dtype = DType::kBF16});
  EXPECT_EQ(values<float>(linear.weight.to(DType::kF32)),
            (std::vector<float>{0.380859375, -0.431640625, 0.470703125, 0.369140625, 0.484375,
                                -0.443359375}));
  EXPECT_EQ(values<float>(linear.bias.to(DType::kF32)),
            (std::vector<float>{-0.38671875, 0.275390625}));
  manual_seed(5);
  const Embedding embedding(2, 3, {.dtype = DType::kF16});
  EXPECT_EQ(values<float>(embedding.weight.to(DType::kF32)),
            (std::vector<float>{-0.48681640625, -0.60400390625, -0.55810546875, 0.66748046875,
                                -0.1973876953125, 1.9423828125}));
}

// PyTorch gives the generator to normal_ only.
TEST(Init, SparseTakesItsZerosFromTheDefaultGenerator) {
  manual_seed(0);
  Generator generator(1);
  Tensor weight = zeros({3, 2});
  sparse_(weight, 0.5, 0.01, generator);
  EXPECT_EQ(values<float>(weight),
            (std::vector<float>{0, 0.0026692410465329885F, 0.0006167725659906864F, 0, 0, 0}));
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
               "uniform_: int64 is not supported; wanted a floating dtype");
  Tensor halves = empty({2, 2}, {.dtype = DType::kF16});
  EXPECT_ERROR(orthogonal_(halves), kDType,
               "orthogonal_: float16 is not supported; wanted float32 or float64");
}

TEST(Init, LeavesAnEmptyWeightAsItIs) {
  Tensor none = empty({0});
  EXPECT_EQ(kaiming_uniform_(none).numel(), 0);
  EXPECT_EQ(kaiming_normal_(none).numel(), 0);
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

TEST(NoInitGuard, LeavesTensorsAndTheGeneratorAlone) {
  manual_seed(5);
  Tensor x = full({4, 4}, 7.0);
  {
    const NoInitGuard no_init;
    {
      const NoInitGuard inner;
    }
    uniform_(x);
    normal_(x);
    ones_(x);
    trunc_normal_(x);
    eye_(x);
    orthogonal_(x);
    sparse_(x, 0.5);
    kaiming_uniform_(x);
    Tensor kernels = full({2, 2, 3}, 7.0);
    dirac_(kernels);
    EXPECT_EQ(values<float>(kernels), std::vector<float>(12, 7));
  }
  EXPECT_EQ(values<float>(x), std::vector<float>(16, 7));
  normal_(x);
  manual_seed(5);
  Tensor first = empty({4, 4});
  normal_(first);
  EXPECT_EQ(values<float>(x), values<float>(first));
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
