#include "core/random/tensor_random.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/logic/logic.h"
#include "tests/core/support.h"
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

// The same seed gives the numbers of the functions.
TEST(RandomTensors, InPlaceAreThoseOfTheFunctions) {
  for (const DType dtype : {DType::kF32, DType::kF64, DType::kBF16}) {
    manual_seed(5);
    const Tensor uniform = rand({33}, {.dtype = dtype});
    const Tensor normal = randn({33}, {.dtype = dtype});
    manual_seed(5);
    expect_same(zeros({33}, {.dtype = dtype}).uniform_(), uniform);
    expect_same(zeros({33}, {.dtype = dtype}).normal_(), normal);
  }
}

// torch.manual_seed(7); torch.empty(2, 3).t().uniform_(-1, 1), .normal_(2, 0.5), and
// torch.zeros(7).bernoulli_(0.3) but for Intel's CPUs: drawn in the order of memory.
TEST(RandomTensors, InPlaceAreThoseOfTorch) {
  manual_seed(7);
  Tensor turned = zeros(2, 3).t();
  expect_same(turned.uniform_(-1, 1).reshape({-1}),
              tensor({{0.06984508037567139F, 0.3137805461883545F},
                      {-0.602393627166748F, -0.5344768762588501F},
                      {0.31842339038848877F, -0.14987719058990479F}})
                  .reshape({-1}));
  expect_same(turned.normal_(2, 0.5).reshape({-1}),
              tensor({{1.3742998838424683F, 1.6465837955474854F},
                      {1.0579662322998047F, 1.2125160694122314F},
                      {2.2228713035583496F, 1.6840754747390747F}})
                  .reshape({-1}));
  const Tensor flags = tensor({1, 1, 0, 0, 0, 0, 1});
  for (const DType dtype : {DType::kF32, DType::kF64, DType::kBF16, DType::kI64, DType::kI32,
                            DType::kU8, DType::kBool}) {
    manual_seed(7);
    expect_same(zeros({7}, {.dtype = dtype}).bernoulli_(0.3), flags.to(dtype));
  }
}

// The distribution, and PyTorch's own kernel: -log1p(-u) / lambda of the stream's doubles.
TEST(RandomTensors, ExponentialWaits) {
  manual_seed(5);
  const Tensor u = rand({20000}, {.dtype = DType::kF64});
  manual_seed(5);
  Tensor x = zeros({20000}, {.dtype = DType::kF64}).exponential_(2);
  EXPECT_TRUE(allclose(x, u.neg().log1p().div(-2), {.rtol = 1e-14, .atol = 0}));
  EXPECT_NEAR(x.mean().item<double>(), 0.5, 0.015);
  EXPECT_NEAR(x.std().item<double>(), 0.5, 0.02);
  const Tensor sorted = x.sort(0).first;
  const Tensor share = arange(20000).to(DType::kF64).add(1).div(20000);
  const Tensor expected = sorted.mul(-2).exp().neg().add(1);
  EXPECT_LT(share.sub(expected).abs().max().item<double>(), 1.63 / std::sqrt(20000.0));  // at 1 %
  manual_seed(5);
  expect_same(zeros({20000}, {.dtype = DType::kF16}).exponential_(2),
              x.to(DType::kF32).to(DType::kF16));
}

TEST(RandomTensors, InPlaceCutTheGradientOfWhatWasThere) {
  const Tensor leaf = ones(3).requires_grad_();
  Tensor x = leaf * 2;
  x.normal_();
  (x * 3).sum().backward();
  expect_same(leaf.grad(), zeros(3));
  Tensor again = ones(3).requires_grad_();
  EXPECT_THAT([&] { again.uniform_(); },
              testing::ThrowsMessage<Error>(testing::StartsWith("uniform_: a leaf")));
}

TEST(RandomTensors, InPlaceRefuse) {
  Tensor whole = zeros({3}, {.dtype = DType::kI64});
  EXPECT_THAT(
      [&] { whole.uniform_(); },
      testing::ThrowsMessage<Error>("uniform_: int64 is not supported; wanted a floating dtype"));
  Tensor x = zeros(3);
  EXPECT_THAT(
      [&] { x.bernoulli_(1.5); },
      testing::ThrowsMessage<Error>("bernoulli: got p = 1.5, wanted a probability of [0, 1]"));
  EXPECT_THAT(
      [&] { x.exponential_(0); },
      testing::ThrowsMessage<Error>("exponential: got lambda = 0, wanted a finite number above 0"));
  EXPECT_THAT([&] { zeros({1}).expand({3}).normal_(); }, testing::Throws<Error>());
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

Tensor unlike_weights(DType dtype) {
  return tensor({{0.1, 5.0, 0.0, 2.5, 0.7}, {3.0, 0.0, 0.0, 1.0, 1e-3}}).to(dtype);
}

TEST(Randint, FromZeroNeedsNoLowerEnd) {
  Generator a(7);
  Generator b(7);
  EXPECT_EQ(values<int>(randint(10, {2, 3}, {}, a)), values<int>(randint(0, 10, {2, 3}, {}, b)));
  const Tensor bytes = randint(256, {4}, {.dtype = DType::kU8}, a);
  EXPECT_EQ(values<int>(bytes), values<int>(randint(0, 256, {4}, {.dtype = DType::kU8}, b)));
  EXPECT_EQ(randint(3, {}).sizes(), Shape());
  EXPECT_ERROR(randint(0, {2}), kInvalidArgument,
               "randint: got the range [0, 0), wanted low < high");
}

TEST(Multinomial, DrawsPyTorchsNumbersWithReplacement) {
  const parity::Arrays arrays("random");
  for (const DType dtype : {DType::kF32, DType::kF64, DType::kF16}) {
    const std::string name(name_of(dtype));
    Generator generator(123);
    const Tensor both = multinomial(unlike_weights(dtype), 60, {.replacement = true}, generator);
    EXPECT_EQ(both.sizes(), Shape({2, 60}));
    EXPECT_EQ(values<std::int64_t>(both), arrays.get<std::int64_t>("multinomial_" + name));
    Generator again(123);
    EXPECT_EQ(values<std::int64_t>(
                  multinomial(unlike_weights(dtype)[0], 70, {.replacement = true}, again)),
              arrays.get<std::int64_t>("multinomial_row_" + name));
  }
}

// PyTorch's wheels draw these from MKL's stream.
TEST(Multinomial, OneNumberHasItsShareOfTheWeights) {
  Generator generator(7);
  constexpr std::int64_t kDraws = 20000;
  const Tensor weights = tensor({1.0, 0.0, 3.0, 6.0});
  const Tensor drawn = multinomial(weights.expand({kDraws, 4}), 1, {}, generator);
  std::vector<double> counts(4);
  for (const std::int64_t i : values<std::int64_t>(drawn)) {
    counts.at(static_cast<std::size_t>(i)) += 1;
  }
  EXPECT_EQ(counts[1], 0);
  // Six standard deviations of a binomial count.
  for (const auto& [i, p] : {std::pair<std::size_t, double>{0, 0.1}, {2, 0.3}, {3, 0.6}}) {
    EXPECT_NEAR(counts[i], p * kDraws, 6 * std::sqrt(p * (1 - p) * kDraws)) << i;
  }
}

TEST(Multinomial, WithoutReplacementNoNumberIsDrawnTwice) {
  Generator generator(7);
  std::int64_t first_is_heavy = 0;
  for (int i = 0; i < 2000; ++i) {
    auto drawn = values<std::int64_t>(multinomial(tensor({1.0, 0.0, 1.0, 8.0}), 3, {}, generator));
    if (drawn[0] == 3) ++first_is_heavy;
    std::ranges::sort(drawn);
    ASSERT_EQ(drawn, (std::vector<std::int64_t>{0, 2, 3}));
  }
  EXPECT_NEAR(static_cast<double>(first_is_heavy), 1600, 6 * std::sqrt(2000 * 0.8 * 0.2));
}

TEST(Multinomial, RefusesWhatCannotBeDrawn) {
  EXPECT_ERROR(multinomial(tensor({1.0, -1.0}), 1), kInvalidArgument,
               "multinomial: weight 1 is -1, wanted a finite number of at least 0");
  EXPECT_ERROR(multinomial(tensor({1.0, HUGE_VAL}), 2, {.replacement = true}), kInvalidArgument,
               "multinomial: weight 1 is inf, wanted a finite number of at least 0");
  EXPECT_ERROR(multinomial(tensor({{1.0, 1.0}, {0.0, 0.0}}), 1), kInvalidArgument,
               "multinomial: none of the 2 weights is more than 0");
  EXPECT_ERROR(multinomial(tensor({1.0, 2.0}), 3), kInvalidArgument,
               "multinomial: cannot draw 3 numbers without replacement from 2 weights");
  EXPECT_ERROR(multinomial(tensor({1.0, 0.0}), 2), kInvalidArgument,
               "multinomial: cannot draw 2 numbers without replacement where 1 weights are more "
               "than 0");
  EXPECT_ERROR(multinomial(tensor({1.0}), 0), kInvalidArgument,
               "multinomial: 0 numbers were asked for, wanted at least 1");
  EXPECT_ERROR(multinomial(tensor({1, 2}), 1), kDType,
               "multinomial: int64 is not supported; wanted a floating dtype");
  EXPECT_ERROR(multinomial(tensor(1.0), 1), kShape,
               "multinomial: the weights have shape [], wanted [n] or [rows, n]");
}

}  // namespace
}  // namespace dl
