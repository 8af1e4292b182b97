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
  manual_seed(5);
  const Tensor f = randn({40});
  for (const DType dtype : {DType::kF16, DType::kBF16}) {
    manual_seed(5);
    const Tensor h = randn({40}, {.dtype = dtype}).to(DType::kF32);
    for (std::int64_t i = 0; i < 40; ++i) EXPECT_NEAR(h.at<float>({i}), f.at<float>({i}), 0.02);
  }
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
