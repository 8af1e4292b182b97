// Numbers that become elements: which an integer dtype takes, and that every way in asks the same.
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/elementwise/numeric.h"
#include "core/ops/index/indexing.h"
#include "core/ops/logic/logic.h"
#include "core/tensor/factories.h"
#include "tests/core/support.h"

namespace dl {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr std::uint64_t kTop = std::uint64_t{1} << 63;

Tensor one_of(Scalar value, DType dtype) {
  return full({2}, value, {.dtype = dtype});
}

// torch.full's answers.
TEST(Numbers, FractionsAreCutAndSmallNegativeIntegersWrap) {
  const auto given = [](Scalar value, DType dtype) {
    return one_of(value, dtype)[1].item<std::int64_t>();
  };
  EXPECT_EQ(given(255.9, DType::kU8), 255);
  EXPECT_EQ(given(127.9, DType::kI8), 127);
  EXPECT_EQ(given(-2.9, DType::kI8), -2);
  EXPECT_EQ(given(-1, DType::kU8), 255);
  EXPECT_EQ(given(-255, DType::kU8), 1);
  EXPECT_EQ(given(-65535, DType::kU16), 1);
  EXPECT_EQ(given(-1, DType::kU32), 4294967295);
  EXPECT_EQ(given(-9223372036854775808.0, DType::kI64), std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(given(true, DType::kI8), 1);
  EXPECT_EQ(one_of(1e19, DType::kU64)[0].item<double>(), 1e19);
  EXPECT_EQ(one_of(-1, DType::kU64)[0].item<std::uint64_t>(), UINT64_MAX);
  EXPECT_EQ(one_of(kTop, DType::kU64)[0].item<std::uint64_t>(), kTop);
  for (const Scalar value : {Scalar(kNaN), Scalar(kInf), Scalar(0.5), Scalar(5), Scalar(-1)}) {
    EXPECT_EQ(given(value, DType::kBool), 1);
  }
}

TEST(Numbers, OutOfAnIntegersRangeAreRefused) {
  struct Case {
    Scalar value;
    DType dtype;
  };
  for (const Case& c : std::vector<Case>{{300, DType::kU8},
                                         {-256, DType::kU8},
                                         {256.0, DType::kU8},
                                         {-1.5, DType::kU8},
                                         {-128.9, DType::kI8},
                                         {128, DType::kI8},
                                         {-65536, DType::kU16},
                                         {std::int64_t{1} << 32, DType::kU32},
                                         {-1e19, DType::kU64},
                                         {2e19, DType::kU64},
                                         {9223372036854775808.0, DType::kI64},
                                         {kTop, DType::kI64},
                                         {kNaN, DType::kI64},
                                         {kInf, DType::kI32},
                                         {-kInf, DType::kI16}}) {
    try {
      one_of(c.value, c.dtype);
      ADD_FAILURE() << c.value.as_double() << " was taken as " << name_of(c.dtype);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    }
  }
}

TEST(Numbers, EveryWayIntoAnIntegerTensorAsksTheSame) {
  const Tensor u8 = tensor({1, 2}, {.dtype = DType::kU8});
  const std::vector<std::pair<std::string, std::function<void()>>> ways{
      {"full", [] { full({0}, 300, {.dtype = DType::kU8}); }},
      {"fill_", [&] { u8.clone().fill_(300); }},
      {"tensor", [] { tensor(300, {.dtype = DType::kU8}); }},
      {"tensor", [] { tensor({1, 300}, {.dtype = DType::kU8}); }},
      {"tensor", [] { tensor({{1}, {300}}, {.dtype = DType::kU8}); }},
      {"tensor", [] { tensor(std::vector<std::int64_t>{300}, {.dtype = DType::kU8}); }},
      {"arange", [] { arange(0, 301, 10, {.dtype = DType::kU8}); }},
      {"arange", [] { arange(300, 0, -10, {.dtype = DType::kU8}); }},
      {"remainder", [&] { remainder(u8, 300); }},
      {"floor_divide", [&] { floor_divide(u8, 300); }},
      {"bitwise_left_shift", [&] { bitwise_left_shift(u8, 300); }},
      {"add_", [&] { u8.clone().add_(u8, 300); }}};
  for (const auto& [op, way] : ways) {
    EXPECT_ERROR(way(), kInvalidArgument,
                 op + ": 300 does not fit into uint8, wanted -255 to 255 (negative integers wrap); "
                      "choose a dtype that holds it");
  }
  EXPECT_ERROR(
      full({2}, kNaN, {.dtype = DType::kI32}), kInvalidArgument,
      "full: nan does not fit into int32, wanted -2147483648 to 2147483647; choose a dtype "
      "that holds it");
  EXPECT_ERROR(tensor({1.0, kInf}, {.dtype = DType::kI64}), kInvalidArgument,
               "tensor: inf does not fit into int64, wanted -9223372036854775808 to "
               "9223372036854775807; choose a dtype that holds it");
  EXPECT_ERROR(tensor({kTop}), kInvalidArgument,
               "tensor: 9223372036854775808 does not fit into int64, wanted -9223372036854775808 "
               "to 9223372036854775807; choose a dtype that holds it");
  EXPECT_EQ(values<int>(arange(-3, 3, 1, {.dtype = DType::kU8})),
            (std::vector<int>{253, 254, 255, 0, 1, 2}));
}

TEST(Numbers, SumsAndProductsOfIntegersWrapAround) {
  for (const DType dtype : {DType::kI8, DType::kU8, DType::kI16, DType::kI32, DType::kI64}) {
    const Tensor x = tensor({100, 3}, {.dtype = dtype});
    for (const Scalar number : {Scalar(300), Scalar(-200), Scalar(std::int64_t{1} << 40),
                                Scalar(kTop), Scalar(std::numeric_limits<std::uint64_t>::max())}) {
      SCOPED_TRACE(std::string(name_of(dtype)) + " " + number.str());
      // In int64, whose low bits are those of all integers.
      const Tensor wide = x.to(DType::kI64);
      const Tensor other =
          full({2}, static_cast<std::int64_t>(number.to<std::uint64_t>()), {.dtype = DType::kI64});
      const auto expect = [&](const Tensor& got, const Tensor& wanted) {
        EXPECT_EQ(got.dtype(), dtype);
        EXPECT_EQ(values<std::int64_t>(got), values<std::int64_t>(wanted.to(dtype)));
      };
      expect(x + number, wide + other);
      expect(x - number, wide - other);
      expect(number - x, other - wide);
      expect(x * number, wide * other);
      expect(bitwise_and(x, number), bitwise_and(wide, other));
      expect(bitwise_or(x, number), bitwise_or(wide, other));
      expect(bitwise_xor(x, number), bitwise_xor(wide, other));
      expect(x.clone().add_(number), wide + other);
      expect(x.clone().sub_(number), wide - other);
      expect(x.clone().mul_(number), wide * other);
    }
  }
}

// PyTorch wraps the number before it compares: 100 is not below 300 in int8.
TEST(Numbers, BeyondADtypeCompareAsTheyAre) {
  using Truths = std::vector<bool>;
  const auto expect = [](const Tensor& x, Scalar number, bool above) {
    SCOPED_TRACE(std::string(name_of(x.dtype())) + " " + number.str());
    const Truths all(static_cast<std::size_t>(x.numel()), true);
    const Truths none(all.size(), false);
    EXPECT_EQ(values<bool>(lt(x, number)), above ? all : none);
    EXPECT_EQ(values<bool>(le(x, number)), above ? all : none);
    EXPECT_EQ(values<bool>(gt(x, number)), above ? none : all);
    EXPECT_EQ(values<bool>(ge(x, number)), above ? none : all);
    EXPECT_EQ(values<bool>(eq(x, number)), none);
    EXPECT_EQ(values<bool>(ne(x, number)), all);
    EXPECT_EQ(values<bool>(x.clone().lt_(number)), above ? all : none);
  };
  for (const DType dtype : {DType::kI8, DType::kU8}) {
    const Tensor x = tensor({{100, 3}, {0, 127}}, {.dtype = dtype}).t();
    expect(x, 300, true);
    expect(x, kTop, true);
    expect(x, -300, false);
  }
  expect(tensor({5, -3}), kTop, true);
  expect(zeros({0}, {.dtype = DType::kI8}), 300, true);
  EXPECT_EQ(values<bool>(eq(tensor({255, 1}, {.dtype = DType::kU8}), -1)), (Truths{true, false}));
}

TEST(Numbers, AStoredNumberMustBeFiniteInItsFloatingDType) {
  const Tensor half = zeros({2}, {.dtype = DType::kF16});
  const Tensor mask = tensor({true, false});
  const Tensor index = tensor({0});
  const std::vector<std::pair<std::string, std::function<void()>>> ways{
      {"full", [] { full({0}, 65505.0, {.dtype = DType::kF16}); }},
      {"full_like", [&] { full_like(half, 65505); }},
      {"fill_", [&] { half.clone().fill_(65505.0); }},
      {"masked_fill", [&] { masked_fill(half, mask, 65505.0); }},
      {"scatter_",
       [&] {
         Tensor copy = half.clone();
         scatter_(copy, 0, index, 65505.0);
       }},
      {"clamp", [&] { clamp(half, 65505.0, std::nullopt); }}};
  for (const auto& [op, way] : ways) {
    EXPECT_ERROR(way(), kInvalidArgument,
                 op + ": 65505 does not fit into float16, wanted -65504 to 65504; choose a dtype "
                      "that holds it");
  }
  EXPECT_THROW(full({1}, 3.5e38, {.dtype = DType::kF32}), Error);
  EXPECT_NO_THROW(full({1}, 3.5e38, {.dtype = DType::kF64}));
  EXPECT_THROW(full({1}, 3.4e38, {.dtype = DType::kBF16}), Error);
  EXPECT_NO_THROW(full({1}, 3.4e38, {.dtype = DType::kF32}));
  EXPECT_EQ(half.clone().fill_(-65504).to(DType::kF64).sum().item<double>(), -2 * 65504.0);
  EXPECT_EQ(half.clone().fill_(-kInf).sum().item<float>(), -kInf);
  EXPECT_EQ((half + 1e5).sum().item<float>(), kInf);  // arithmetic rounds
}

// PyTorch's answers on x86.
TEST(Numbers, OutOfRangeConversionsAgreeOnEveryPath) {
  constexpr std::int64_t kLeast = std::numeric_limits<std::int32_t>::min();
  constexpr std::int64_t kLowest = std::numeric_limits<std::int64_t>::min();
  const std::vector<double> numbers{1e20, -1e20, 3e9, -2147483648, kInf, kNaN, 70000, -300.5};
  const std::vector<std::pair<DType, std::vector<std::int64_t>>> wanted{
      {DType::kI8, {0, 0, 0, 0, 0, 0, 112, -44}},
      {DType::kU8, {0, 0, 0, 0, 0, 0, 112, 212}},
      {DType::kI16, {0, 0, 0, 0, 0, 0, 4464, -300}},
      {DType::kU16, {0, 0, 0, 0, 0, 0, 4464, 65236}},
      {DType::kI32, {kLeast, kLeast, kLeast, kLeast, kLeast, kLeast, 70000, -300}},
      {DType::kU32, {0, 0, 3'000'000'000, 2147483648, 0, 0, 70000, 4294966996}},
      {DType::kI64, {kLowest, kLowest, 3'000'000'000, kLeast, kLowest, kLowest, 70000, -300}},
      {DType::kU64, {0, kLowest, 3'000'000'000, kLeast, 0, kLowest, 70000, -300}}};
  for (const auto& [to, each] : wanted) {
    for (const DType from : {DType::kF32, DType::kF64}) {
      const Tensor x = tensor(numbers, {.dtype = from});
      const std::string what = std::string(name_of(from)) + " to " + std::string(name_of(to));
      EXPECT_EQ(values<std::int64_t>(x.to(to)), each) << what;
      EXPECT_EQ(values<std::int64_t>(x.repeat(2, 1).t().to(to).select(1, 1)), each) << what;
      const Tensor many = x.repeat(37).to(to);  // more than a vector of each
      EXPECT_EQ(values<std::int64_t>(many.narrow(0, 36 * 8, 8)), each) << what;
      EXPECT_EQ(values<std::int64_t>(many.narrow(0, 8, 8)), each) << what;
      EXPECT_EQ(values<std::int64_t>(zeros({8}, {.dtype = to}).copy_(x)), each) << what;
    }
  }
  EXPECT_EQ(tensor(1e20, {.dtype = DType::kBF16}).to(DType::kI32).item<std::int64_t>(), kLeast);
  EXPECT_EQ(tensor(-2147483648.9, {.dtype = DType::kF64}).to(DType::kI32).item<int>(), kLeast);
}

TEST(Numbers, LargeUnsignedOnesKeepTheirValue) {
  EXPECT_EQ(full({1}, kTop, {.dtype = DType::kF32}).item<double>(), 0x1p63);
  EXPECT_EQ(tensor({kTop}, {.dtype = DType::kF64}).item<double>(), 0x1p63);
  EXPECT_EQ((ones({1}) * kTop).item<double>(), 0x1p63);
  EXPECT_EQ(tensor({kTop}, {.dtype = DType::kU64}).item<float>(), 0x1p63F);
}

TEST(Numbers, ItemRefusesWhatItsTypeDoesNotHold) {
  EXPECT_EQ(tensor(3.7).item<int>(), 3);
  EXPECT_EQ(tensor(kNaN).item<bool>(), true);
  EXPECT_EQ(tensor(-1).item<std::uint8_t>(), 255);
  EXPECT_ERROR(tensor(kNaN).item<std::int64_t>(), kInvalidArgument,
               "item: nan does not fit into the integer asked for, wanted "
               "-9223372036854775808 to 9223372036854775807");
  EXPECT_ERROR(tensor(3'000'000'000).item<int>(), kInvalidArgument,
               "item: 3000000000 does not fit into the integer asked for, wanted "
               "-2147483648 to 2147483647");
}

}  // namespace
}  // namespace dl
