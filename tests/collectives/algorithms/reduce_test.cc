#include "collectives/algorithms/reduce.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "collectives/descriptor.h"
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
