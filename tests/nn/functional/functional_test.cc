#include "nn/functional/functional.h"

#include <gtest/gtest.h>

#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/logic/logic.h"
#include "core/ops/reduce/reduce.h"
#include "core/tensor/factories.h"
#include "nn/layers/activation/dropout.h"
#include "tests/nn/support.h"

namespace dl::nn {
namespace {

namespace F = functional;

Tensor counting(const Shape& shape) {
  return add(arange(element_count(shape, "counting")), 1).to(DType::kF32).view(shape);
}

TEST(Normalize, AgreesWithPyTorch) {
  const parity::Arrays arrays("reductions");
  const std::vector<double> inputs = arrays.get<double>("plain.x");
  for (const DType dtype : {DType::kF64, DType::kF32}) {
    const double tolerance = dtype == DType::kF64 ? 1e-13 : 2e-6;
    for (const auto& [name, options] :
         {std::pair{"2.1", F::NormalizeOptions{}},
          std::pair{"1.2", F::NormalizeOptions{.p = 1, .dim = -1}},
          std::pair{"3.0", F::NormalizeOptions{.p = 3, .dim = 0, .eps = 10}}}) {
      Tensor x = tensor(inputs, {.dtype = dtype}).view({3, 4, 5}).clone();
      x.requires_grad_();
      const Tensor y = F::normalize(x, options);
      sum(square(y) * y).backward();
      const std::string key = std::string("normalize.") + name;
      const auto expect_near = [&](const Tensor& got, const std::vector<double>& wanted) {
        const auto numbers = values<double>(got);
        for (std::size_t i = 0; i < wanted.size(); ++i) {
          EXPECT_NEAR(numbers[i], wanted[i], tolerance) << key << " [" << i << "]";
        }
      };
      expect_near(y.detach(), arrays.get<double>(key + ".y"));
      expect_near(x.grad(), arrays.get<double>(key + ".grad"));
    }
  }
}

TEST(Dropout, DrawsPyTorchsMask) {
  manual_seed(123);
  EXPECT_EQ(values<float>(F::dropout(counting({40}), 0.3)),
            parity::Arrays("modules").get<float>("dropout"));
}

// As PyTorch's; memory_order_test.cc compares the numbers.
TEST(Dropout, MaskIsDrawnInTheOrderOfMemory) {
  const Tensor x = counting({2, 3, 4, 5});
  const Tensor last = x.contiguous(MemoryFormat::kChannelsLast);
  Generator a(7);
  Generator b(7);
  EXPECT_EQ(values<float>(F::dropout(x.permute({0, 2, 3, 1}).contiguous(), 0.5, {}, a)),
            values<float>(F::dropout(last, 0.5, {}, b).permute({0, 2, 3, 1})));
}

TEST(Dropout, PassesTheInputThroughUnlessItTrains) {
  const Tensor x = counting({4});
  const auto state = default_generator().state();
  Dropout layer(0.5);
  EXPECT_TRUE(layer.eval().forward(x).is_same(x));
  EXPECT_TRUE(F::dropout(x, 0.0).is_same(x));
  EXPECT_EQ(values<float>(F::dropout(x, 1.0)), std::vector<float>(4, 0));
  EXPECT_TRUE(default_generator().state() == state) << "numbers were drawn for nothing";
}

TEST(Dropout, GradientIsTheMask) {
  Tensor x = ones({64}, {.requires_grad = true});
  Tensor y = F::dropout(x, 0.25);
  sum(y).backward();
  EXPECT_EQ(values<float>(x.grad()), values<float>(y));
}

TEST(Dropout, KeepsDTypeAndRefusesOthers) {
  EXPECT_EQ(F::dropout(counting({4}).to(DType::kF64)).dtype(), DType::kF64);
  EXPECT_EQ(F::dropout(counting({4}).to(DType::kBF16)).dtype(), DType::kBF16);
  EXPECT_EQ(F::dropout(zeros({0, 3})).sizes(), Shape({0, 3}));
  EXPECT_ERROR(F::dropout(arange(3)), kDType, "dropout: wanted a floating tensor, got int64");
  EXPECT_ERROR(F::dropout(counting({4}), -0.5), kInvalidArgument,
               "dropout: p is -0.5, wanted a probability, 0 to 1");
}

TEST(ReLU, OverwritesItsInputIfAsked) {
  const Tensor x = tensor({-1.0, 2.0});
  const Tensor y = F::relu(x);
  EXPECT_EQ(values<float>(x), (std::vector<float>{-1, 2}));
  const Tensor z = F::relu(x, {.inplace = true});
  EXPECT_EQ(values<float>(x), (std::vector<float>{0, 2}));
  EXPECT_TRUE(z.is_same(x));
  EXPECT_EQ(values<float>(y), values<float>(z));
}

TEST(Functional, HasTheNormsOfPyTorchsModule) {
  const Tensor x = counting({2, 4, 3});
  const Tensor weight = tensor({1.0, 2.0, 3.0});
  EXPECT_TRUE(equal(F::layer_norm(x, {3}, weight), dl::layer_norm(x, {3}, weight)));
  EXPECT_TRUE(equal(F::rms_norm(x, {3}, weight), dl::rms_norm(x, {3}, weight)));
  EXPECT_TRUE(equal(F::group_norm(x, 2), dl::group_norm(x, 2)));
  const Tensor mean = zeros({4});
  const Tensor var = ones({4});
  const Tensor y = F::batch_norm(x, mean, var, {}, {}, {.training = true, .momentum = 1});
  EXPECT_EQ(values<float>(mean), (std::vector<float>{8, 11, 14, 17}));
  // From PyTorch 2.15.
  expect_near(y[0][0], {-1.1560117, -0.9908672, -0.8257227}, 1e-5);
  expect_near(F::batch_norm(x, mean, ones({4}))[1][3], {4.9999747, 5.9999702, 6.9999652}, 1e-5);
}

TEST(Functional, EmbeddingTakesTheIndexFirst) {
  const Tensor table = counting({4, 2}).requires_grad_();
  const Tensor index = tensor({{1, 3}, {0, 1}});
  const Tensor rows = F::embedding(index, table, -1);
  EXPECT_EQ(values<int>(rows), (std::vector<int>{3, 4, 7, 8, 1, 2, 3, 4}));
  rows.sum().backward();
  EXPECT_EQ(values<int>(table.grad()), (std::vector<int>{1, 1, 2, 2, 0, 0, 0, 0}));
  EXPECT_ERROR(F::embedding(table, index), kDType,
               "embedding: int64 is not supported; wanted a floating dtype");
}

TEST(Functional, ChannelShuffleTakesOneChannelOfEachGroupInTurn) {
  const Tensor x = arange(6).view({1, 6, 1});
  EXPECT_EQ(values<int>(F::channel_shuffle(x, 2)), (std::vector{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(values<int>(F::channel_shuffle(x, 3)), (std::vector{0, 2, 4, 1, 3, 5}));
  EXPECT_EQ(F::channel_shuffle(zeros({2, 0, 4}), 3).sizes(), (Shape{2, 0, 4}));
  EXPECT_ERROR(F::channel_shuffle(x, 0), kInvalidArgument,
               "channel_shuffle: groups is 0, wanted at least 1");
  EXPECT_ERROR(F::channel_shuffle(x, 4), kShape,
               "channel_shuffle: the input has shape [1, 6, 1], wanted [N, C, ...] of at least 3 "
               "dimensions with a multiple of 4 channels");
  EXPECT_ERROR(F::channel_shuffle(zeros({6, 6}), 2), kShape,
               "channel_shuffle: the input has shape [6, 6], wanted [N, C, ...] of at least 3 "
               "dimensions with a multiple of 2 channels");
  EXPECT_ERROR(F::channel_shuffle(Tensor(), 2), kInvalidArgument,
               "channel_shuffle: the input is an undefined tensor");
}

TEST(Functional, HasPadAndOneHot) {
  const Tensor x = counting({2, 2});
  EXPECT_EQ(values<int>(F::pad(x, {1, 0})), (std::vector<int>{0, 1, 2, 0, 3, 4}));
  EXPECT_EQ(values<int>(F::pad(x, {0, 1}, F::PadMode::kReplicate)),
            (std::vector<int>{1, 2, 2, 3, 4, 4}));
  EXPECT_EQ(values<int>(F::one_hot(tensor({1, 0}), 3)), (std::vector<int>{0, 1, 0, 1, 0, 0}));
}

}  // namespace
}  // namespace dl::nn
