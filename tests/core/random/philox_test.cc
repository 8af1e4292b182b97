#include "core/random/philox.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <limits>
#include <span>

#include "core/ops/index/index.h"
#include "core/random/tensor_random.h"
#include "tests/core/support.h"

namespace dl {
namespace {

void expect_words(const random::PhiloxWords& got, const random::PhiloxWords& wanted) {
  for (int i = 0; i < 4; ++i) EXPECT_EQ(got.word[i], wanted.word[i]) << i;
}

// The known answers that Random123 publishes (kat_vectors, philox4x32 10).
TEST(Philox, GivesTheKnownAnswers) {
  expect_words(random::philox4x32_10({{0, 0, 0, 0}}, 0, 0),
               {{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}});
  constexpr std::uint32_t kOnes = 0xffffffff;
  expect_words(random::philox4x32_10({{kOnes, kOnes, kOnes, kOnes}}, kOnes, kOnes),
               {{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}});
  expect_words(random::philox4x32_10({{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}}, 0xa4093822,
                                     0x299f31d0),
               {{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}});
}

TEST(Philox, AnOffsetIsWordsInSteps) {
  const random::PhiloxSeed start{42, 0};
  const random::PhiloxSeed later{42, 12};
  expect_words(random::philox_block(later, 2), random::philox_block(start, 5));
}

TEST(PhiloxGenerator, TakesWholeBlocksAndRestartsWithTheSeed) {
  Generator generator(7);
  EXPECT_EQ(generator.philox(5).offset, 0u);
  EXPECT_EQ(generator.philox(1).offset, 8u);
  EXPECT_EQ(generator.philox_offset(), 12u);
  EXPECT_EQ(generator.clone()->philox_offset(), 12u);
  generator.manual_seed(8);
  const random::PhiloxSeed seed = generator.philox(4);
  EXPECT_EQ(seed.seed, 8u);
  EXPECT_EQ(seed.offset, 0u);
  EXPECT_ERROR(generator.set_philox_offset(6), kInvalidArgument,
               "Generator::set_philox_offset: got 6, wanted a multiple of 4");
}

TEST(PhiloxTensors, AreInRangeAndHaveTheirMoments) {
  for (const DType dtype : {DType::kF32, DType::kF64, DType::kF16, DType::kBF16}) {
    Generator generator(1);
    const auto unit = values<double>(detail::philox_rand({9999}, {.dtype = dtype}, generator));
    double sum = 0;
    for (const double u : unit) {
      ASSERT_GE(u, 0);
      ASSERT_LT(u, 1);
      sum += u;
    }
    EXPECT_NEAR(sum / 9999, 0.5, 0.02);
    const auto normal = values<double>(detail::philox_randn({9999}, {.dtype = dtype}, generator));
    double mean = 0;
    double square = 0;
    for (const double x : normal) {
      mean += x / 9999;
      square += x * x / 9999;
    }
    EXPECT_NEAR(mean, 0, 0.05);
    EXPECT_NEAR(square, 1, 0.06);
  }
}

// An element's number does not depend on how many there are.
TEST(PhiloxTensors, AreOneStream) {
  Generator one(3);
  Generator two(3);
  const auto many = values<float>(detail::philox_rand({103}, {}, one));
  const auto few = values<float>(detail::philox_rand({5}, {}, two));
  EXPECT_TRUE(std::equal(few.begin(), few.end(), many.begin()));
  const auto next = values<float>(detail::philox_rand({3}, {}, two));
  EXPECT_TRUE(std::equal(next.begin(), next.end(), many.begin() + 8));
}

// What randint() draws on a GPU, drawn on the CPU.
Tensor philox_randint(std::int64_t low, std::int64_t high, const Shape& shape, DType dtype,
                      Generator& generator) {
  const Tensor out = empty(shape, {.dtype = dtype});
  detail::philox_fill_randint(out, low, high, generator);
  return out;
}

// Pearson's statistic for counts that are wanted equal. With 9 degrees of freedom it exceeds 27.9
// once in a thousand streams; the stream here is fixed.
double chi_squared(std::span<const std::int64_t> counts) {
  double total = 0;
  for (const std::int64_t count : counts) total += static_cast<double>(count);
  const double wanted = total / static_cast<double>(counts.size());
  double result = 0;
  for (const std::int64_t count : counts) {
    const double off = static_cast<double>(count) - wanted;
    result += off * off / wanted;
  }
  return result;
}

TEST(PhiloxRandint, IsEvenOverItsRangeWhateverTheDType) {
  const auto draw = [](DType dtype) {
    Generator generator(3);
    return values<std::int64_t>(philox_randint(100, 110, {20001}, dtype, generator));
  };
  const auto drawn = draw(DType::kI64);
  std::array<std::int64_t, 10> counts{};
  for (const std::int64_t each : drawn) {
    ASSERT_GE(each, 100);
    ASSERT_LT(each, 110);
    ++counts[static_cast<std::size_t>(each - 100)];
  }
  EXPECT_LT(chi_squared(counts), 27.9);
  for (const DType dtype : {DType::kI32, DType::kU8, DType::kF32, DType::kF64}) {
    EXPECT_EQ(draw(dtype), drawn) << name_of(dtype);
  }
}

TEST(PhiloxRandint, CoversTheWholeRangeOfInt64) {
  Generator generator(1);
  const auto drawn = values<std::int64_t>(philox_randint(std::numeric_limits<std::int64_t>::min(),
                                                         std::numeric_limits<std::int64_t>::max(),
                                                         {1001}, DType::kI64, generator));
  EXPECT_LT(std::ranges::min(drawn), std::int64_t{-1} << 62);
  EXPECT_GT(std::ranges::max(drawn), std::int64_t{1} << 62);
}

TEST(PhiloxBernoulli, TakesEachElementsProbability) {
  for (const DType dtype : {DType::kF32, DType::kF64}) {
    Generator generator(2);
    const Tensor p = cat({full({5000}, 0.3), zeros({1001}), ones({1001})}).to(dtype);
    const auto drawn = values<double>(detail::philox_bernoulli(p, generator));
    double ones_among = 0;
    for (std::size_t i = 0; i < 5000; ++i) ones_among += drawn[i];
    EXPECT_NEAR(ones_among / 5000, 0.3, 0.03);
    for (std::size_t i = 5000; i < drawn.size(); ++i) ASSERT_EQ(drawn[i], i < 6001 ? 0 : 1) << i;
  }
  Generator generator(2);
  EXPECT_ERROR(detail::philox_bernoulli(tensor({0.5F, 1.5F, -1.0F}), generator), kInvalidArgument,
               "bernoulli: element 1 is 1.5, wanted a probability of [0, 1]");
}

TEST(PhiloxRandperm, IsAPermutationAndEachIsAsLikely) {
  Generator generator(4);
  auto order = values<std::int64_t>(detail::philox_randperm(10007, Device{}, generator));
  EXPECT_FALSE(std::ranges::is_sorted(order));
  std::ranges::sort(order);
  for (std::size_t i = 0; i < order.size(); ++i) ASSERT_EQ(order[i], static_cast<std::int64_t>(i));

  // Which of ten comes first, second and last.
  for (const std::size_t place : {0, 1, 9}) {
    std::array<std::int64_t, 10> counts{};
    for (int i = 0; i < 2000; ++i) {
      const auto ten = values<std::int64_t>(detail::philox_randperm(10, Device{}, generator));
      ++counts[static_cast<std::size_t>(ten[place])];
    }
    EXPECT_LT(chi_squared(counts), 27.9) << place;
  }
  EXPECT_EQ(detail::philox_randperm(0, Device{}, generator).numel(), 0);
}

TEST(PhiloxDraws, StartAgainFromTheSeedAndFollowEachOther) {
  const auto draw = [](Generator& generator) {
    std::vector<std::int64_t> all;
    for (const Tensor& each : {philox_randint(0, 1000, {7}, DType::kI64, generator),
                               detail::philox_randperm(9, Device{}, generator),
                               detail::philox_bernoulli(full({11}, 0.5), generator)}) {
      const auto drawn = values<std::int64_t>(each);
      all.insert(all.end(), drawn.begin(), drawn.end());
    }
    return all;
  };
  Generator generator(6);
  const auto first = draw(generator);
  // Two words an element, in whole blocks of four.
  EXPECT_EQ(generator.philox_offset(), 16u + 20u + 24u);
  EXPECT_NE(draw(generator), first);
  generator.manual_seed(6);
  EXPECT_EQ(draw(generator), first);
}

TEST(PhiloxDropout, KeepsAShareScaledAndBackwardDrawsTheSame) {
  Generator generator(5);
  const Tensor x = ones({1001}, {.requires_grad = true});
  const Tensor y = detail::philox_dropout(x, 0.25, generator);
  y.backward(ones({1001}));
  const auto out = values<float>(y);
  EXPECT_EQ(out, values<float>(x.grad()));
  std::int64_t kept = 0;
  for (const float v : out) {
    EXPECT_TRUE(v == 0 || v == 1.0F / 0.75F) << v;
    kept += v != 0 ? 1 : 0;
  }
  EXPECT_NEAR(static_cast<double>(kept) / 1001, 0.75, 0.05);
  EXPECT_ERROR(detail::philox_dropout(x, 1.0, generator), kInvalidArgument,
               "dropout: p is 1, wanted at least 0 and less than 1");
}

}  // namespace
}  // namespace dl
