// Every row of DL_BINARY_OF_TENSORS and DL_BINARY_OF_NUMBERS in core/elementwise/list.def: the
// function, the method, the form in place and numbers as operands agree, in every dtype.
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "core/ops/dispatch/kernel_names.h"
#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/elementwise/numeric.h"
#include "core/tensor/factories.h"
#include "tests/core/support.h"

namespace dl::testing {
namespace {

struct Row {
  BinaryFn fn;
  Tensor (*function)(const Tensor&, const Tensor&);
  Tensor (Tensor::*method)(const Tensor&) const;
  Tensor& (Tensor::*in_place)(const Tensor&);
};
constexpr Row kRows[] = {
#define DL_BINARY_OF_TENSORS(enumerator, name, ...) \
  {BinaryFn::enumerator, &name, &Tensor::name, &Tensor::name##_},
#define DL_BINARY_OF_NUMBERS DL_BINARY_OF_TENSORS
#include "core/elementwise/list.def"
};

struct NumberRow {
  BinaryFn fn;
  Tensor (*right)(const Tensor&, Scalar);
  Tensor (*left)(Scalar, const Tensor&);
  Tensor (Tensor::*method)(Scalar) const;
  Tensor& (Tensor::*in_place)(Scalar);
};
constexpr NumberRow kNumberRows[] = {
#define DL_BINARY_OF_NUMBERS(enumerator, name, ...) \
  {BinaryFn::enumerator, &name, &name, &Tensor::name, &Tensor::name##_},
#include "core/elementwise/list.def"
};

constexpr DType kDTypes[] = {DType::kF16, DType::kBF16, DType::kF32, DType::kF64, DType::kI8,
                             DType::kU8,  DType::kI32,  DType::kI64, DType::kU64, DType::kBool};

Tensor left(DType dtype) {
  return tensor({0.0, 1.0, 6.0, 2.0, 3.0, 12.0}).view({2, 3}).to(dtype);
}
Tensor right(DType dtype) {
  return tensor({4.0, 1.0, 0.0}).to(dtype);
}

bool takes(BinaryFn fn, DType dtype) {
  switch (facts(fn).takes) {
    case Takes::kFloating:
      return is_floating(dtype);
    case Takes::kWhole:
      return !is_floating(dtype);
    case Takes::kIntegers:
      return !is_floating(dtype) && dtype != DType::kBool;
    case Takes::kNumbers:
      return dtype != DType::kBool;
    default:
      return true;
  }
}

void expect_same(const Tensor& got, const Tensor& wanted, const std::string& what) {
  EXPECT_EQ(got.dtype(), wanted.dtype()) << what;
  EXPECT_TRUE(equal(nan_to_num(got.to(DType::kF64), -77), nan_to_num(wanted.to(DType::kF64), -77)))
      << what << ": " << got.str() << ", wanted " << wanted.str();
}

TEST(BinaryRows, MethodAndFormInPlaceAreTheFunction) {
  for (const Row& row : kRows) {
    for (const DType dtype : kDTypes) {
      const std::string what =
          std::string(facts(row.fn).name) + " of " + std::string(name_of(dtype));
      const Tensor a = left(dtype);
      const Tensor b = right(dtype);
      if (!takes(row.fn, dtype)) {
        EXPECT_THROW(row.function(a, b), Error) << what;
        continue;
      }
      const Tensor wanted = row.function(a, b);
      expect_same((a.*row.method)(b), wanted, what);
      Tensor written = a.clone();
      if (wanted.dtype() == dtype) {
        expect_same((written.*row.in_place)(b), wanted, what);
      } else {
        EXPECT_THROW((written.*row.in_place)(b), Error) << what;
      }
    }
  }
}

TEST(BinaryRows, ANumberIsATensorWithoutDimensions) {
  for (const NumberRow& row : kNumberRows) {
    for (const DType dtype : kDTypes) {
      const std::string what =
          std::string(facts(row.fn).name) + " of " + std::string(name_of(dtype));
      if (!takes(row.fn, dtype)) continue;
      const Tensor a = left(dtype);
      const Scalar number = is_floating(dtype) ? Scalar(2.0) : Scalar(1);
      const Tensor two = tensor(number.as_double()).to(dtype);
      expect_same(row.right(a, number), binary(row.fn, a, two), what);
      expect_same(row.left(number, a), binary(row.fn, two, a), what);
      expect_same((a.*row.method)(number), row.right(a, number), what);
      Tensor written = a.clone();
      if (is_floating(dtype)) {
        expect_same((written.*row.in_place)(number), row.right(a, number), what);
      }
    }
  }
}

TEST(BinaryRows, OperandsArePromotedAndBroadcast) {
  for (const Row& row : kRows) {
    if (!takes(row.fn, DType::kF32)) continue;
    const Tensor a = left(DType::kF16);
    const Tensor b = right(DType::kF32);
    expect_same(row.function(a, b), row.function(a.to(DType::kF32), b.expand({2, 3})),
                std::string(facts(row.fn).name));
  }
}

TEST(BinaryRows, ErrorsNameTheFunction) {
  for (const Row& row : kRows) {
    const std::string name(facts(row.fn).name);
    EXPECT_ERROR(row.function(Tensor(), right(DType::kF32)), kInvalidArgument,
                 name + ": the first operand is an undefined tensor");
  }
}

// In the narrowest dtype the magnitude of the least number wraps around.
TEST(Gcd, IsOfMagnitudesInEveryIntegerDtype) {
  const Tensor a = tensor({12, -12, 0, 0, 7, -128, -128, 127});
  const Tensor b = tensor({18, 18, -5, 0, 13, 6, 0, -1});
  const Tensor wanted = tensor({6, 6, 5, 0, 1, 2, 128, 1});
  for (const DType dtype : {DType::kI8, DType::kI16, DType::kI32, DType::kI64}) {
    expect_same(gcd(a.to(dtype), b.to(dtype)), wanted.to(dtype), std::string(name_of(dtype)));
  }
  const Tensor large = tensor({std::numeric_limits<std::int64_t>::min()});
  EXPECT_EQ(gcd(large, tensor({6})).item<std::int64_t>(), 2);
  EXPECT_EQ(gcd(large, large).item<std::int64_t>(), large.item<std::int64_t>());
  EXPECT_EQ(gcd(tensor({18}).to(DType::kU64), tensor({12}).to(DType::kU64)).item<std::int64_t>(),
            6);
  EXPECT_EQ(gcd(tensor({4}), tensor({true})).dtype(), DType::kI64);
  EXPECT_ERROR(gcd(tensor({true}), tensor({true})), kDType,
               "gcd: bool is not supported; wanted an integer dtype");
  EXPECT_ERROR(gcd(ones({1}), tensor({2})), kDType,
               "gcd: float32 is not supported; wanted an integer dtype");
}

// PyTorch 2.15's values and gradients for a in rows and b in columns.
TEST(Xlogy, OfSpecialNumbersIsPyTorchs) {
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  constexpr double kInf = std::numeric_limits<double>::infinity();
  constexpr double kLog2 = 0.693147180559945309;
  // clang-format off
  const Tensor wanted = tensor({
      {0.0, 0.0, 0.0, 0.0, 0.0, kNaN},
      {-kInf, 0.0, kLog2, kNaN, kInf, kNaN},
      {kInf, 0.0, -2 * kLog2, kNaN, -kInf, kNaN},
      {-kInf, kNaN, kInf, kNaN, kInf, kNaN},
      {kNaN, kNaN, kNaN, kNaN, kNaN, kNaN}});
  const Tensor wanted_of_a = tensor({
      {0.0, 0.0, kLog2, 0.0, kInf, kNaN},
      {-kInf, 0.0, kLog2, kNaN, kInf, kNaN},
      {-kInf, 0.0, kLog2, kNaN, kInf, kNaN},
      {-kInf, 0.0, kLog2, kNaN, kInf, kNaN},
      {-kInf, 0.0, kLog2, kNaN, kInf, kNaN}});
  const Tensor wanted_of_b = tensor({
      {kNaN, 0.0, 0.0, 0.0, 0.0, kNaN},
      {kInf, 1.0, 0.5, -1.0, 0.0, kNaN},
      {-kInf, -2.0, -1.0, 2.0, 0.0, kNaN},
      {kInf, kInf, kInf, -kInf, kNaN, kNaN},
      {kNaN, kNaN, kNaN, kNaN, kNaN, kNaN}});
  // clang-format on
  for (const DType dtype : {DType::kF64, DType::kF32, DType::kBF16}) {
    const Tensor a = tensor({0.0, 1.0, -2.0, kInf, kNaN}).to(dtype).view({5, 1}).expand({5, 6});
    const Tensor b = tensor({0.0, 1.0, 2.0, -1.0, kInf, kNaN}).to(dtype).expand({5, 6});
    const Tensor x = a.clone().requires_grad_();
    const Tensor y = b.clone().requires_grad_();
    const Tensor result = xlogy(x, y);
    result.sum().backward();
    const auto expect_close = [&](const Tensor& got, const Tensor& exact, const char* what) {
      const CloseOptions close{.rtol = 4e-3, .equal_nan = true};
      EXPECT_TRUE(allclose(got.to(DType::kF64), exact.to(DType::kF64), close))
          << what << " in " << name_of(dtype) << ": " << got.str();
    };
    expect_close(result.detach(), wanted, "values");
    expect_close(x.grad(), wanted_of_a, "gradients of a");
    expect_close(y.grad(), wanted_of_b, "gradients of b");
  }
}

}  // namespace
}  // namespace dl::testing
