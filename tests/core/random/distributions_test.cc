// The streams against arrays made by PyTorch: not close, equal.
#include "core/random/distributions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <vector>

#include "core/base/error.h"
#include "tests/parity/arrays.h"

namespace dl::random {
namespace {

const parity::Arrays& arrays() {
  static const parity::Arrays arrays("random");
  return arrays;
}

// `fill(out, generator)` with seed 123, against the array of that name.
template <typename T, typename Fill>
void expect_equal(const std::string& name, Fill fill) {
  const std::vector<T> want = arrays().get<T>(name);
  const auto got = std::make_unique<T[]>(want.size());  // a vector<bool> has no span
  Generator generator(123);
  fill(std::span<T>(got.get(), want.size()), generator);
  for (std::size_t i = 0; i < want.size(); ++i) {
    ASSERT_EQ(got[i], want[i]) << name << ", element " << i;
  }
}

TEST(Uniform, HasPyTorchsBits) {
  expect_equal<float>("uniform_f32", [](auto out, auto& g) { fill_uniform(out, -0.3, 0.3, g); });
  expect_equal<double>("uniform_f64", [](auto out, auto& g) { fill_uniform(out, -0.3, 0.3, g); });
  expect_equal<float>("rand_f32", [](auto out, auto& g) { fill_uniform(out, 0, 1, g); });
}

TEST(Uniform, SeedsBeyond32BitsAndNoSeedAreAsInPyTorch) {
  std::vector<float> got(5);
  Generator large((std::uint64_t{5} << 32) + 9);
  fill_uniform(got, 0, 1, large);
  EXPECT_EQ(got, arrays().get<float>("rand_large_seed"));
  Generator unseeded;
  fill_uniform(got, 0, 1, unseeded);
  EXPECT_EQ(got, arrays().get<float>("rand_unseeded"));
}

TEST(Uniform, NeverReachesTheUpperEnd) {
  std::vector<float> got(100000);
  Generator generator(1);
  fill_uniform(got, 1.0, std::nextafter(1.0F, 2.0F), generator);
  EXPECT_EQ(std::ranges::max(got), 1.0F);
}

TEST(Uniform, RefusesAnEmptyOrEndlessRange) {
  std::vector<float> out(3);
  Generator generator(1);
  EXPECT_THAT([&] { fill_uniform(out, 2, 1, generator); },
              testing::ThrowsMessage<Error>("uniform: got the range [2, 1), wanted low <= high"));
  EXPECT_THROW(fill_uniform(out, 0, std::numeric_limits<double>::infinity(), generator), Error);
  EXPECT_THROW(fill_uniform(out, 0, std::nan(""), generator), Error);
}

TEST(Normal, HasPyTorchsBitsAtEverySize) {
  for (const int n : {1, 2, 3, 15, 16, 17, 31, 32, 1000}) {
    const auto fill = [](auto out, auto& g) { fill_normal(out, 0, 1, g); };
    expect_equal<float>("randn_f32_" + std::to_string(n), fill);
    expect_equal<double>("randn_f64_" + std::to_string(n), fill);
  }
}

TEST(Normal, TakesMeanAndStandardDeviation) {
  expect_equal<float>("normal_f32", [](auto out, auto& g) { fill_normal(out, 2.5, 0.7, g); });
  expect_equal<double>("normal_f64", [](auto out, auto& g) { fill_normal(out, 2.5, 0.7, g); });
}

TEST(Normal, KeepsTheSecondOfAPairForTheNextSmallCall) {
  expect_equal<float>("mixed", [](std::span<float> out, Generator& g) {
    fill_normal(out.first(3), 0, 1, g);
    fill_uniform(out.subspan(3, 2), 0, 1, g);
    fill_normal(out.subspan(5, 2), 0, 1, g);
    fill_normal(out.subspan(7, 20), 0, 1, g);
    fill_normal(out.subspan(27, 1), 0, 1, g);
  });
}

TEST(Normal, HasTheMomentsItWasAskedFor) {
  std::vector<float> out(1 << 20);
  Generator generator(5);
  fill_normal(out, 3, 2, generator);
  const double mean =
      std::accumulate(out.begin(), out.end(), 0.0) / static_cast<double>(out.size());
  double square = 0;
  for (const float x : out) square += (x - mean) * (x - mean);
  EXPECT_NEAR(mean, 3, 0.01);
  EXPECT_NEAR(std::sqrt(square / static_cast<double>(out.size())), 2, 0.01);
}

TEST(Normal, RefusesANegativeDeviation) {
  std::vector<float> out(3);
  Generator generator(1);
  EXPECT_THAT([&] { fill_normal(out, 0, -1, generator); },
              testing::ThrowsMessage<Error>("normal: got std = -1, wanted at least 0"));
}

TEST(Bernoulli, HasPyTorchsBits) {
  expect_equal<float>("bernoulli_p", [](auto out, auto& g) { fill_bernoulli(out, 0.3, g); });
  expect_equal<float>("bernoulli_tensor_f32", [](std::span<float> out, Generator& g) {
    // torch.linspace computes the upper half from the end.
    const float step = 1.0F / 299.0F;
    for (std::size_t i = 0; i < 300; ++i) {
      out[i] = i < 150 ? step * static_cast<float>(i) : 1.0F - step * static_cast<float>(299 - i);
    }
    fill_bernoulli(out, std::span<const float>(out), g);
  });
  expect_equal<double>("bernoulli_tensor_f64", [](std::span<double> out, Generator& g) {
    for (std::size_t i = 0; i < 300; ++i) out[i] = static_cast<double>(i) / 299.0;
    fill_bernoulli(out, std::span<const double>(out), g);
  });
}

TEST(Bernoulli, IsTheSameDrawForEveryType) {
  std::vector<float> f(100);
  std::vector<std::uint8_t> u(100);
  Generator a(1);
  Generator b(1);
  fill_bernoulli(std::span(f), 0.5, a);
  fill_bernoulli(std::span(u), 0.5, b);
  EXPECT_TRUE(std::ranges::equal(f, u));
}

TEST(Bernoulli, TakesTheEndsAndNothingBeyondThem) {
  std::vector<float> out(100);
  Generator generator(1);
  fill_bernoulli(std::span(out), 0.0, generator);
  EXPECT_THAT(out, testing::Each(0.0F));
  fill_bernoulli(std::span(out), 1.0, generator);
  EXPECT_THAT(out, testing::Each(1.0F));
  EXPECT_THROW(fill_bernoulli(std::span(out), -0.1, generator), Error);
  EXPECT_THROW(fill_bernoulli(std::span(out), std::nan(""), generator), Error);
  out[42] = 1.5F;
  EXPECT_THAT([&] { fill_bernoulli(std::span(out), std::span<const float>(out), generator); },
              testing::ThrowsMessage<Error>(
                  "bernoulli: element 42 is 1.5, wanted a probability of [0, 1]"));
}

TEST(Randint, HasPyTorchsNumbers) {
  expect_equal<std::int64_t>("randint_small",
                             [](auto out, auto& g) { fill_randint(out, -7, 1000, g); });
  expect_equal<std::int64_t>("randint_wide",
                             [](auto out, auto& g) { fill_randint(out, -5, 1LL << 40, g); });
  expect_equal<float>("randint_f32", [](auto out, auto& g) { fill_randint(out, 0, 1000, g); });
  expect_equal<std::int64_t>("random_i64", [](auto out, auto& g) { fill_random(out, g); });
}

TEST(Randint, CoversTheWholeRangeOfInt64) {
  std::vector<std::int64_t> out(1000);
  Generator generator(1);
  fill_randint(std::span(out), std::numeric_limits<std::int64_t>::min(),
               std::numeric_limits<std::int64_t>::max(), generator);
  EXPECT_LT(std::ranges::min(out), 0);
  EXPECT_GT(std::ranges::max(out), 0);
}

TEST(Randint, RefusesARangeThatTheDtypeDoesNotHold) {
  std::vector<std::uint8_t> out(3);
  Generator generator(1);
  EXPECT_THAT([&] { fill_randint(std::span(out), 0, 257, generator); },
              testing::ThrowsMessage<Error>(
                  "randint: the range [0, 257) does not fit the dtype of the result"));
  EXPECT_NO_THROW(fill_randint(std::span(out), 0, 256, generator));
  EXPECT_THROW(fill_randint(std::span(out), 5, 5, generator), Error);
}

TEST(Randperm, HasPyTorchsOrder) {
  for (const int n : {1, 2, 10, 1000}) {
    expect_equal<std::int64_t>("randperm_" + std::to_string(n),
                               [](auto out, auto& g) { fill_randperm(out, g); });
  }
}

TEST(Distributions, DrawNothingForNoElements) {
  Generator generator(1);
  fill_uniform(std::span<float>(), 0, 1, generator);
  fill_normal(std::span<float>(), 0, 1, generator);
  fill_randperm({}, generator);
  EXPECT_EQ(generator.random(), Generator(1).random());
}

}  // namespace
}  // namespace dl::random
