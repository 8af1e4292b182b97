#include "core/random/tensor_random.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/parity/arrays.h"

namespace dl {
namespace {

const parity::Arrays& arrays() {
  static const parity::Arrays arrays("random");
  return arrays;
}

template <typename T>
void expect_elements(const Tensor& got, const std::string& name) {
  const T* first = got.data<T>();
  EXPECT_EQ(std::vector<T>(first, first + got.numel()), arrays().get<T>(name)) << name;
}

void expect_same(const Tensor& got, const Tensor& wanted) {
  for (std::int64_t i = 0; i < wanted.numel(); ++i) {
    EXPECT_EQ(got[i].item<float>(), wanted[i].item<float>()) << "element " << i;
  }
}

TEST(RandomTensors, AreThoseOfTorchWithTheSameSeed) {
  manual_seed(123);
  expect_elements<float>(rand({5, 10}), "rand_f32");
  manual_seed(123);
  expect_elements<float>(randn({10, 100}), "randn_f32_1000");
  manual_seed(123);
  expect_elements<double>(randn({17}, {.dtype = DType::kF64}), "randn_f64_17");
  manual_seed(123);
  expect_elements<std::int64_t>(randint(-7, 1000, {100}), "randint_small");
  manual_seed(123);
  expect_elements<float>(randint(0, 1000, {100}, {.dtype = DType::kF32}), "randint_f32");
  manual_seed(123);
  expect_elements<std::int64_t>(randperm(1000), "randperm_1000");
}

TEST(RandomTensors, DrawFromTheGeneratorTheyAreGiven) {
  manual_seed(1);
  Generator generator(123);
  expect_elements<float>(rand({50}, {}, generator), "rand_f32");
  EXPECT_EQ(default_generator().random(), Generator(1).random());
}

TEST(RandomTensors, HalvesAreTheRoundedFloats) {
  for (const std::int64_t size : {5, 16, 48}) {
    for (const DType dtype : {DType::kF16, DType::kBF16}) {
      manual_seed(5);
      const Tensor f = randn({size});
      manual_seed(5);
      const Tensor h = randn({size}, {.dtype = dtype});
      EXPECT_TRUE(h.dtype() == dtype);
      expect_same(h, f.to(dtype));
    }
  }
}

// torch.manual_seed(5); torch.randn(17, dtype=torch.float16), and bfloat16.
TEST(RandomTensors, HalvesOfARaggedSizeAreThoseOfTorch) {
  manual_seed(5);
  expect_same(
      randn({17}, {.dtype = DType::kF16}),
      tensor({1.8427734375, 2.779296875, 1.2216796875, -0.33642578125, -0.96484375, -0.129638671875,
              -0.6015625, 0.14501953125, -0.1497802734375, -0.4375, 0.779296875, -0.058349609375,
              -2.03125, 1.4833984375, 0.494140625, 0.249267578125, 1.7470703125},
             {.dtype = DType::kF16}));
  manual_seed(5);
  expect_same(randn({17}, {.dtype = DType::kBF16}),
              tensor({1.84375, 2.78125, 1.21875, -0.3359375, -0.96484375, -0.1298828125, -0.6015625,
                      0.14453125, -0.1494140625, -0.4375, 0.77734375, -0.058349609375, -2.03125,
                      1.484375, 0.494140625, 0.2490234375, 1.75},
                     {.dtype = DType::kBF16}));
}

TEST(RandomTensors, HalvesNeverReachOne) {
  manual_seed(5);
  const Tensor h = rand({20000}, {.dtype = DType::kBF16}).to(DType::kF32);
  EXPECT_LT(*std::max_element(h.data<float>(), h.data<float>() + h.numel()), 1.0F);
}

TEST(RandomTensors, BernoulliReadsAViewElementByElement) {
  const Tensor p = tensor({{0.0, 1.0}, {1.0, 0.0}, {0.0, 1.0}}).t();
  const Tensor got = bernoulli(p);
  EXPECT_EQ(got.sizes(), Shape({2, 3}));
  EXPECT_EQ(got.at<float>({0, 1}), 1.0F);
  EXPECT_EQ(got.at<float>({1, 1}), 0.0F);
  EXPECT_EQ(got.at<float>({1, 2}), 1.0F);
}

TEST(RandomTensors, RefuseDTypesWithoutSuchNumbers) {
  EXPECT_THAT(
      [] { rand({3}, {.dtype = DType::kI64}); },
      testing::ThrowsMessage<Error>("rand: int64 is not supported; wanted a floating dtype"));
  EXPECT_THAT([] { randint(0, 2, {3}, {.dtype = DType::kBool}); },
              testing::ThrowsMessage<Error>("randint: bool is not supported; wanted int64, int32, "
                                            "uint8, float32 or float64"));
  EXPECT_THROW(randperm(-1), Error);
}

}  // namespace
}  // namespace dl
