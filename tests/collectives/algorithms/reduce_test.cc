#include "collectives/reduce/reduce.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cfenv>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <span>

#include "collectives/call/checks.h"
#include "core/base/error.h"
#include "tests/collectives/values.h"

namespace dl::collectives {
namespace {

using namespace testing;

constexpr ReduceOp kAllOps[] = {ReduceOp::kSum,  ReduceOp::kAvg,  ReduceOp::kMin, ReduceOp::kMax,
                                ReduceOp::kProd, ReduceOp::kBand, ReduceOp::kBor, ReduceOp::kBxor};

bool allowed(DType dtype, ReduceOp op) {
  if (is_floating(dtype)) return op < ReduceOp::kBand;
  return dtype != DType::kBool || op != ReduceOp::kAvg;
}

double naive(DType dtype, ReduceOp op, const std::vector<double>& x) {
  double result = x[0];
  for (std::size_t i = 1; i < x.size(); ++i) {
    const auto a = static_cast<std::int64_t>(result);
    const auto b = static_cast<std::int64_t>(x[i]);
    switch (op) {
      case ReduceOp::kSum:
      case ReduceOp::kAvg:
        result += x[i];
        break;
      case ReduceOp::kMin:
        result = std::min(result, x[i]);
        break;
      case ReduceOp::kMax:
        result = std::max(result, x[i]);
        break;
      case ReduceOp::kProd:
        result *= x[i];
        break;
      case ReduceOp::kBand:
        result = static_cast<double>(a & b);
        break;
      case ReduceOp::kBor:
        result = static_cast<double>(a | b);
        break;
      case ReduceOp::kBxor:
        result = static_cast<double>(a ^ b);
        break;
    }
  }
  if (op == ReduceOp::kAvg) result /= static_cast<double>(x.size());
  if (op == ReduceOp::kAvg && !is_floating(dtype)) result = std::trunc(result);
  if (dtype == DType::kBool) result = result != 0;
  return result;
}

// Small whole numbers: every dtype holds the exact result, so that equality can be asked for.
Bytes small_numbers(DType dtype, std::size_t count, std::mt19937& random) {
  const bool is_signed = dtype != DType::kBool && dtype != DType::kU8 && dtype != DType::kU16 &&
                         dtype != DType::kU32 && dtype != DType::kU64;
  std::uniform_int_distribution<int> number(dtype == DType::kBool ? 0
                                            : is_signed           ? -3
                                                                  : 1,
                                            dtype == DType::kBool ? 1 : 3);
  Bytes bytes(count * size_of(dtype));
  for (std::size_t i = 0; i < count; ++i) put(bytes, dtype, i, number(random));
  return bytes;
}

TEST(Combine, EqualsNaiveArithmeticForEveryDTypeAndOperation) {
  std::mt19937 random(1);
  for (const DType dtype : kAllDTypes) {
    for (const ReduceOp op : kAllOps) {
      if (!allowed(dtype, op)) continue;
      for (const std::size_t count : {0u, 1u, 3u, 64u, 1023u, 1025u, 3001u}) {
        std::vector<Bytes> shares;
        std::vector<const void*> pointers;
        for (int rank = 0; rank < 4; ++rank) {
          shares.push_back(small_numbers(dtype, count, random));
        }
        for (const Bytes& share : shares) pointers.push_back(share.data());
        Bytes out(count * size_of(dtype));
        combine(dtype, op, out.data(), pointers, count);
        for (std::size_t i = 0; i < count; ++i) {
          std::vector<double> x;
          for (const Bytes& share : shares) x.push_back(get(share, dtype, i));
          ASSERT_EQ(get(out, dtype, i), naive(dtype, op, x))
              << short_name(dtype) << " " << name_of(op) << " count " << count << " at " << i;
        }
      }
    }
  }
}

TEST(Reduce, EqualsCombineOfTwoAndMayWriteIntoEitherOperand) {
  std::mt19937 random(2);
  for (const DType dtype : kAllDTypes) {
    for (const ReduceOp op : kAllOps) {
      if (!allowed(dtype, op) || op == ReduceOp::kAvg) continue;
      const std::size_t count = 1001;
      const Bytes a = small_numbers(dtype, count, random);
      const Bytes b = small_numbers(dtype, count, random);
      Bytes wanted(a.size());
      const void* const shares[] = {a.data(), b.data()};
      combine(dtype, op, wanted.data(), shares, count);
      Bytes left = a;
      reduce(dtype, op, left.data(), left.data(), b.data(), count);
      EXPECT_EQ(left, wanted) << short_name(dtype) << " " << name_of(op);
      Bytes right = b;
      reduce(dtype, op, right.data(), a.data(), right.data(), count);
      EXPECT_EQ(right, wanted) << short_name(dtype) << " " << name_of(op);
    }
  }
}

TEST(Combine, RoundsHalfPrecisionOnceAtTheEnd) {
  // In f16, 2048 + 1 is 2048 (a tie, to even), so that step by step the ones are lost.
  Bytes big(2), one(2), out(2);
  put(big, DType::kF16, 0, 2048);
  put(one, DType::kF16, 0, 1);
  const void* const shares[] = {big.data(), one.data(), one.data()};
  combine(DType::kF16, ReduceOp::kSum, out.data(), shares, 1);
  EXPECT_EQ(get(out, DType::kF16, 0), 2050);
  put(big, DType::kBF16, 0, 256);
  put(one, DType::kBF16, 0, 1);
  combine(DType::kBF16, ReduceOp::kSum, out.data(), shares, 1);
  EXPECT_EQ(get(out, DType::kBF16, 0), 258);
}

TEST(Combine, ConvertsEveryHalfPatternThereAndBack) {
  for (const DType dtype : {DType::kF16, DType::kBF16}) {
    Bytes all(65536 * 2), out(65536 * 2);
    for (std::size_t i = 0; i < 65536; ++i) put_as(all, i, static_cast<std::uint16_t>(i));
    const void* const shares[] = {all.data()};
    combine(dtype, ReduceOp::kMax, out.data(), shares, 65536);
    for (std::size_t i = 0; i < 65536; ++i) {
      if (std::isnan(get(all, dtype, i))) {
        ASSERT_TRUE(std::isnan(get(out, dtype, i))) << i;
      } else {
        ASSERT_EQ(get_as<std::uint16_t>(out, i), i) << short_name(dtype);
      }
    }
  }
}

TEST(Combine, RoundsHalfPrecisionToNearestEven) {
  std::mt19937 random(3);
  for (const DType dtype : {DType::kF16, DType::kBF16}) {
    std::uniform_int_distribution<int> pattern(0, 65535);
    const std::size_t count = 5000;
    Bytes a(count * 2), b(count * 2), out(count * 2);
    for (std::size_t i = 0; i < count; ++i) {
      put_as(a, i, static_cast<std::uint16_t>(pattern(random)));
      put_as(b, i, static_cast<std::uint16_t>(pattern(random)));
    }
    const void* const shares[] = {a.data(), b.data()};
    combine(dtype, ReduceOp::kProd, out.data(), shares, count);
    for (std::size_t i = 0; i < count; ++i) {
      const auto exact = static_cast<double>(static_cast<float>(get(a, dtype, i)) *
                                             static_cast<float>(get(b, dtype, i)));
      if (std::isnan(exact)) {
        ASSERT_TRUE(std::isnan(get(out, dtype, i)));
      } else {
        const std::uint16_t wanted =
            dtype == DType::kF16 ? nearest<half_value>(exact) : nearest<bfloat_value>(exact);
        ASSERT_EQ(get_as<std::uint16_t>(out, i), wanted) << short_name(dtype) << " " << exact;
      }
    }
  }
}

TEST(Reduce, MinAndMaxPropagateNaNFromEitherSide) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const DType dtype : {DType::kF16, DType::kBF16, DType::kF32, DType::kF64}) {
    for (const ReduceOp op : {ReduceOp::kMin, ReduceOp::kMax}) {
      const std::size_t count = 37;  // odd, so that the vectorised part and the rest both see one
      Bytes number(count * size_of(dtype)), nans(number.size()), out(number.size());
      for (std::size_t i = 0; i < count; ++i) {
        put(number, dtype, i, 1);
        put(nans, dtype, i, nan);
      }
      reduce(dtype, op, out.data(), number.data(), nans.data(), count);
      for (std::size_t i = 0; i < count; ++i) EXPECT_TRUE(std::isnan(get(out, dtype, i)));
      reduce(dtype, op, out.data(), nans.data(), number.data(), count);
      for (std::size_t i = 0; i < count; ++i) EXPECT_TRUE(std::isnan(get(out, dtype, i)));
    }
  }
}

// A result must not depend on the end of a slice, because slices end at different elements on every
// rank: not with NaNs of different bits, zeros of both signs, infinities and denormals.
Bytes awkward_numbers(DType dtype, std::size_t count, std::mt19937& random) {
  const std::size_t element = size_of(dtype);
  Bytes bytes(count * element);
  for (std::size_t i = 0; i < count; ++i) {
    // Random bits, with an exponent of all ones or all zeros in every second element.
    std::uint64_t bits = std::uint64_t{random()} << 32 | random();
    const int exponent_bits = dtype == DType::kF16 ? 5 : dtype == DType::kF64 ? 11 : 8;
    const int mantissa_bits = static_cast<int>(8 * element) - 1 - exponent_bits;
    const std::uint64_t exponent = ((std::uint64_t{1} << exponent_bits) - 1) << mantissa_bits;
    if (i % 4 == 0) bits |= exponent;
    if (i % 4 == 1) bits &= ~exponent;
    if (i % 16 < 3) bits &= ~((std::uint64_t{1} << mantissa_bits) - 1);  // zero, infinity
    std::memcpy(bytes.data() + i * element, &bits, element);
  }
  return bytes;
}

// The same tree by its definition: the larger block on the left is the largest power of two.
float tree_sum(std::span<const float> x) {
  if (x.size() == 1) return x[0];
  const std::size_t left = std::bit_floor(x.size() - 1);
  return tree_sum(x.first(left)) + tree_sum(x.subspan(left));
}

TEST(Combine, InTreeOrderAddsNeighboursFirstForAnyNumberOfShares) {
  constexpr std::size_t kCount = 3000;  // several blocks of the loop, the last one short
  std::mt19937 random(7);
  std::uniform_real_distribution<float> numbers(-1, 1);
  std::size_t differ = 0;
  for (std::size_t size = 1; size <= 17; ++size) {
    std::vector<std::vector<float>> shares(size, std::vector<float>(kCount));
    std::vector<const void*> pointers;
    for (auto& share : shares) {
      for (float& x : share) x = numbers(random);
      pointers.push_back(share.data());
    }
    std::vector<float> sum(kCount), mean(kCount), plain(kCount);
    combine(DType::kF32, ReduceOp::kSum, sum.data(), pointers, kCount, Order::kTree);
    combine(DType::kF32, ReduceOp::kAvg, mean.data(), pointers, kCount, Order::kTree);
    combine(DType::kF32, ReduceOp::kSum, plain.data(), pointers, kCount);
    std::vector<float> column(size);
    for (std::size_t i = 0; i < kCount; ++i) {
      for (std::size_t s = 0; s < size; ++s) column[s] = shares[s][i];
      ASSERT_EQ(sum[i], tree_sum(column)) << size << " shares, element " << i;
      ASSERT_EQ(mean[i], tree_sum(column) / static_cast<float>(size));
      differ += sum[i] != plain[i] ? 1 : 0;
    }
    // The result may overwrite a share.
    combine(DType::kF32, ReduceOp::kSum, shares[size / 2].data(), pointers, kCount, Order::kTree);
    ASSERT_EQ(shares[size / 2], sum);
  }
  EXPECT_GT(differ, kCount);
}

TEST(Combine, GivesTheSameBitsHoweverTheLoopIsCut) {
  std::mt19937 random(5);
  const std::size_t count = 777;
  for (const DType dtype : {DType::kF16, DType::kBF16, DType::kF32, DType::kF64}) {
    const std::size_t element = size_of(dtype);
    for (const ReduceOp op :
         {ReduceOp::kSum, ReduceOp::kAvg, ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kProd}) {
      const Bytes shares[] = {awkward_numbers(dtype, count, random),
                              awkward_numbers(dtype, count, random),
                              awkward_numbers(dtype, count, random)};
      Bytes whole(count * element), whole_pair(whole.size());
      const void* const all[] = {shares[0].data(), shares[1].data(), shares[2].data()};
      combine(dtype, op, whole.data(), all, count);
      reduce(dtype, op, whole_pair.data(), all[0], all[1], count);
      for (std::size_t step = 1; step < 40; ++step) {
        Bytes cut(whole.size()), cut_pair(whole.size());
        for (std::size_t i = 0; i < count; i += step) {
          const std::size_t n = std::min(step, count - i);
          const std::size_t at = i * element;
          const void* const here[] = {shares[0].data() + at, shares[1].data() + at,
                                      shares[2].data() + at};
          combine(dtype, op, cut.data() + at, here, n);
          reduce(dtype, op, cut_pair.data() + at, here[0], here[1], n);
        }
        ASSERT_EQ(cut, whole) << short_name(dtype) << " " << name_of(op) << " step " << step;
        ASSERT_EQ(cut_pair, whole_pair) << short_name(dtype) << " " << name_of(op);
      }
    }
  }
}

TEST(Combine, KeepsDenormalsInAThreadThatHasSwitchedThemOff) {
  Bytes a(4), out(4);
  put_as(a, 0, std::numeric_limits<float>::denorm_min());
  const void* const shares[] = {a.data(), a.data()};
  std::fenv_t before;
  ASSERT_EQ(std::fegetenv(&before), 0);
#if defined(__x86_64__)
  __builtin_ia32_ldmxcsr(__builtin_ia32_stmxcsr() | 0x8040);  // FTZ, DAZ
#endif
  ASSERT_EQ(std::fesetround(FE_UPWARD), 0);
  combine(DType::kF32, ReduceOp::kSum, out.data(), shares, 1);
  const int rounding = std::fegetround();
  ASSERT_EQ(std::fesetenv(&before), 0);
  EXPECT_EQ(rounding, FE_UPWARD);
  EXPECT_EQ(get_as<std::uint32_t>(out, 0), 2u);
}

TEST(Combine, IntegerAverageNeitherOverflowsNorRoundsAwayFromZero) {
  Bytes a(1), b(1), out(1);
  const void* const shares[] = {a.data(), b.data()};
  put(a, DType::kI8, 0, 100);
  put(b, DType::kI8, 0, 101);
  combine(DType::kI8, ReduceOp::kAvg, out.data(), shares, 1);
  EXPECT_EQ(get(out, DType::kI8, 0), 100);
  put(a, DType::kI8, 0, -3);
  put(b, DType::kI8, 0, -4);
  combine(DType::kI8, ReduceOp::kAvg, out.data(), shares, 1);
  EXPECT_EQ(get(out, DType::kI8, 0), -3);

  Bytes c(8), d(8), e(8);
  const void* const wide[] = {c.data(), d.data()};
  put_as(c, 0, std::numeric_limits<std::int64_t>::max());
  put_as(d, 0, std::numeric_limits<std::int64_t>::max() - 2);
  combine(DType::kI64, ReduceOp::kAvg, e.data(), wide, 1);
  EXPECT_EQ(get_as<std::int64_t>(e, 0), std::numeric_limits<std::int64_t>::max() - 1);
}

TEST(CheckReduction, RefusesWhatHasNoMeaningInOneSentence) {
  try {
    check_reduction(DType::kF32, ReduceOp::kBxor, "all_reduce");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kDType);
    EXPECT_STREQ(error.what(),
                 "all_reduce: bxor has no meaning for f32; it takes integers and bool");
  }
  EXPECT_THROW(check_reduction(DType::kBool, ReduceOp::kAvg, "all_reduce"), Error);
}

}  // namespace
}  // namespace dl::collectives
