// Every row of DL_UNARY and DL_UNARY_WITH in core/elementwise/list.def: gradients, dtypes, layouts,
// special values, the form in place, the method. The reference is the row's own float64 result, and
// PyTorch's values and slopes in tests/parity/arrays/elementwise.safetensors.
#include "tests/core/ops/rows.h"
#include "core/base/sanitizers.h"
#include "core/ops/dispatch/kernel_names.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>

#include "core/autograd/gradcheck.h"
#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/reduce/reduce.h"
#include "tests/core/ops/gradcheck_cases.h"
#include "tests/core/support.h"
#include "tests/parity/arrays.h"

namespace dl::testing {
namespace {

using Numbers = std::vector<double>;

constexpr DType kFloats[] = {DType::kF16, DType::kBF16, DType::kF32, DType::kF64};
constexpr DType kIntegers[] = {DType::kI8,  DType::kU8,  DType::kI16, DType::kU16,
                               DType::kI32, DType::kU32, DType::kI64, DType::kU64};

#ifdef __SANITIZE_ADDRESS__
constexpr std::int64_t kLarge = 5'003;
#else
constexpr std::int64_t kLarge = 100'003;
#endif

// The distance to the next number of this dtype, of one this size.
double unit(DType dtype, double size) {
  const int bits = dtype == DType::kF16    ? 10
                   : dtype == DType::kBF16 ? 7
                   : dtype == DType::kF32  ? 23
                                           : 52;
  const double least = dtype == DType::kF16 ? 0x1p-14 : std::numeric_limits<float>::min();
  return std::ldexp(1.0, std::ilogb(std::max(std::abs(size), least)) - bits);
}

// `share` of the largest magnitude, and one unit of the dtype's last place.
void expect_near(const Tensor& got, const Numbers& wanted, double share, const std::string& what) {
  const Numbers numbers = values<double>(got);
  ASSERT_EQ(numbers.size(), wanted.size()) << what;
  double largest = 0;
  for (const double x : wanted) {
    if (std::isfinite(x)) largest = std::max(largest, std::abs(x));
  }
  const bool is_short = size_of(got.dtype()) == 2;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const double of_place = is_short ? unit(got.dtype(), wanted[i]) : 0;
    if (std::isnan(wanted[i])) {
      EXPECT_TRUE(std::isnan(numbers[i])) << what << " [" << i << "] is " << numbers[i];
    } else if (std::isinf(wanted[i])) {
      EXPECT_EQ(numbers[i], wanted[i]) << what << " [" << i << "]";
    } else {
      EXPECT_NEAR(numbers[i], wanted[i], share * largest + of_place) << what << " [" << i << "]";
    }
  }
}

double share_of(DType dtype) {
  return dtype == DType::kF64 ? 1e-12 : 1e-6;
}

void expect_same_bits(const Tensor& got, const Tensor& wanted, const std::string& what) {
  ASSERT_EQ(got.sizes(), wanted.sizes()) << what;
  ASSERT_EQ(got.dtype(), wanted.dtype()) << what;
  const Numbers a = values<double>(got);
  const Numbers b = values<double>(wanted);
  for (std::size_t i = 0; i < a.size(); ++i) {
    ASSERT_TRUE(a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i])))
        << what << " [" << i << "]: " << a[i] << ", wanted " << b[i];
  }
}

TEST(Rows, GradientsAreTheSlopes) {
  for (const UnaryFacts& row : kUnaryFacts) {
    const auto f = [&](const std::vector<Tensor>& in) { return apply(row, in[0]); };
    for (const Shape& shape : {Shape{3, 4}, Shape{}, Shape{0}, Shape{61}}) {
      const Tensor x = numbers_for(row, shape).requires_grad_();
      EXPECT_NO_THROW(gradcheck(row.name, f, {x})) << row.name;
      if (shape.size() != 1) check_second(row.name, f, {x});
    }
    const auto turned = [&](const std::vector<Tensor>& in) { return apply(row, in[0].t()); };
    EXPECT_NO_THROW(gradcheck(row.name, turned, {numbers_for(row, {3, 2}).requires_grad_()}));
    check_second(row.name, turned, {numbers_for(row, {3, 2}).requires_grad_()});
  }
}

TEST(Rows, EveryFloatingDtypeIsRoundedOnce) {
  for (const UnaryFacts& row : kUnaryFacts) {
    for (const DType dtype : kFloats) {
      const Tensor x = numbers_for(row, {61}).to(dtype);
      const Tensor exact = x.to(DType::kF64).clone().requires_grad_();
      const Tensor leaf = x.clone().requires_grad_();
      const Tensor wanted = apply(row, exact);
      const Tensor got = apply(row, leaf);
      const std::string what = std::string(row.name) + " in " + std::string(name_of(dtype));
      EXPECT_EQ(got.dtype(), dtype) << what;
      expect_near(got.detach(), values<double>(wanted), share_of(dtype), what);
      // A gradient from the output knows the rounded one.
      const double roundings = row.saves == Saves::kOutput && size_of(dtype) == 2 ? 0x1p-7 : 0;
      wanted.backward(ones({61}, {.dtype = DType::kF64}));
      got.backward(ones({61}, {.dtype = dtype}));
      EXPECT_EQ(leaf.grad().dtype(), dtype) << what;
      expect_near(leaf.grad(), values<double>(exact.grad()), share_of(dtype) + roundings,
                  what + ", gradient");
    }
  }
}

TEST(Rows, LayoutsChangeNothing) {
  for (const UnaryFacts& row : kUnaryFacts) {
    for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF64}) {
      const std::string what = std::string(row.name) + " in " + std::string(name_of(dtype));
      const auto check = [&](const Tensor& x, const std::string& how) {
        const Tensor plain = x.contiguous().clone().requires_grad_();
        const Tensor leaf = x.detach().requires_grad_();
        const Tensor wanted = apply(row, plain);
        const Tensor got = apply(row, leaf);
        expect_same_bits(got, wanted, what + ", " + how);
        sum(wanted).backward();
        sum(got).backward();
        expect_same_bits(leaf.grad(), plain.grad(), what + ", gradient, " + how);
      };
      const Tensor x = numbers_for(row, {12, 66}).to(dtype);
      check(x.t(), "transposed");
      check(x.slice(1, 1, 66, 3), "sliced");
      check(x.narrow(1, 1, 33), "with gaps");
      check(x[3].expand({5, 66}), "expanded");
      check(x[3][4].expand({9, 67}), "one element, expanded");
      check(x[3][4], "no dimensions");
      check(x.slice(0, 0, 0), "empty");
      check(x.view({2, 6, 6, 11}).contiguous(MemoryFormat::kChannelsLast), "channels-last");
    }
  }
}

TEST(Rows, AValueDoesNotDependOnItsPlace) {
  for (const UnaryFacts& row : kUnaryFacts) {
    for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
      const Tensor x = numbers_for(row, {70}).to(dtype);
      const Tensor wanted = apply(row, x);
      for (const std::int64_t begin : {0, 1, 5}) {
        for (const std::int64_t count : {1, 2, 7, 8, 15, 16, 17, 33, 63}) {
          expect_same_bits(apply(row, x.narrow(0, begin, count)), wanted.narrow(0, begin, count),
                           std::string(row.name) + " of " + std::to_string(count));
        }
      }
    }
    const Tensor large = numbers_for(row, {kLarge}).to(DType::kF32);
    expect_same_bits(apply(row, large).narrow(0, kLarge - 9, 9),
                     apply(row, large.narrow(0, kLarge - 9, 9)), std::string(row.name));
  }
}

TEST(Rows, SpecialValuesAreThoseOfFloat64) {
  const double inf = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Tensor exact = tensor({inf, -inf, nan, 0.0, -0.0, 1.0, -1.0, 60000.0, -60000.0});
  for (const UnaryFacts& row : kUnaryFacts) {
    for (const DType dtype : kFloats) {
      // 65504 is the most that float16 holds.
      const Tensor x = exact.to(dtype);
      const Numbers wanted = values<double>(apply(row, x.to(DType::kF64)).to(dtype));
      const Tensor got = apply(row, x);
      for (std::int64_t i = 0; i < x.numel(); ++i) {
        expect_near(got.narrow(0, i, 1), {wanted[static_cast<std::size_t>(i)]}, share_of(dtype),
                    std::string(row.name) + " in " + std::string(name_of(dtype)) + " of element " +
                        std::to_string(i));
      }
    }
  }
}

TEST(Rows, InPlaceGivesTheSameValuesAndGradients) {
  for (const UnaryFacts& row : kUnaryFacts) {
    for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF64}) {
      const std::string what = std::string(row.name) + "_ in " + std::string(name_of(dtype));
      const Tensor x = numbers_for(row, {5, 13}).to(dtype);
      const Tensor plain = x.clone().requires_grad_();
      const Tensor leaf = x.clone().requires_grad_();
      Tensor self = mul(leaf, 1.0);
      const std::uint32_t before = self.version();
      EXPECT_TRUE(unary_(row.fn, self, row.sample).is_same(self)) << what;
      EXPECT_EQ(self.version(), before + 1) << what;
      const Tensor wanted = apply(row, plain);
      expect_same_bits(self, wanted, what);
      sum(wanted).backward();
      sum(self).backward();
      expect_same_bits(leaf.grad(), plain.grad(), what + ", gradient");
      Tensor column = x.clone().t()[2];
      const Tensor wanted_column = apply(row, column);
      unary_(row.fn, column, row.sample);
      expect_same_bits(column, wanted_column, what + ", strided");
    }
  }
}

TEST(Rows, TakeTheDtypesThatTheySay) {
  for (const UnaryFacts& row : kUnaryFacts) {
    const std::string name(row.name);
    for (const DType dtype : kIntegers) {
      Tensor x = tensor({1, 2, 3, 0}, {.dtype = dtype});
      if (row.takes == Takes::kFloating) {
        const std::string refused =
            ": " + std::string(name_of(dtype)) + " is not supported; wanted a floating dtype";
        EXPECT_ERROR(apply(row, x), kDType, name + refused);
        EXPECT_ERROR(unary_(row.fn, x, row.sample), kDType, name + "_" + refused);
        continue;
      }
      const Tensor floats = x.to(DType::kF32);
      if (row.takes == Takes::kIntoFloat) {
        expect_same_bits(apply(row, x), apply(row, floats), name);
        EXPECT_ERROR(unary_(row.fn, x, row.sample), kDType,
                     name + "_: a result of dtype float32 cannot be written into a tensor of " +
                         std::string(name_of(dtype)));
      } else {
        expect_same_bits(apply(row, x), apply(row, floats).to(dtype), name);
      }
    }
    const Tensor bits = tensor({true, false, true});
    if (row.takes == Takes::kNumbers) {
      EXPECT_ERROR(apply(row, bits), kDType, name + ": bool is not supported; wanted a number");
    } else if (row.takes == Takes::kAll) {
      EXPECT_EQ(apply(row, bits).dtype(), DType::kBool) << name;
    }
    EXPECT_ERROR(apply(row, Tensor()), kInvalidArgument,
                 name + ": the input is an undefined tensor");
  }
}

struct Forms {
  UnaryFn fn;
  Tensor (*function)(const Tensor&);
  Tensor& (*in_place)(Tensor&);
  Tensor (Tensor::*method)() const;
  Tensor& (Tensor::*method_in_place)();
};
constexpr Forms kForms[] = {
#define DL_UNARY(enumerator, name, ...) \
  {UnaryFn::enumerator, &dl::name, &dl::name##_, &Tensor::name, &Tensor::name##_},
#include "core/elementwise/list.def"
};

TEST(Rows, FunctionsAndMethodsAreTheRows) {
  for (const Forms& form : kForms) {
    const UnaryFacts& row = facts(form.fn);
    const std::string name(row.name);
    const Tensor x = numbers_for(row, {7});
    const Tensor wanted = apply(row, x);
    expect_same_bits(form.function(x), wanted, name);
    expect_same_bits((x.*form.method)(), wanted, "." + name);
    Tensor y = x.clone();
    expect_same_bits(form.in_place(y), wanted, name + "_");
    Tensor z = x.clone();
    expect_same_bits((z.*form.method_in_place)(), wanted, "." + name + "_");
    EXPECT_ERROR(
        (Tensor().*form.method)(), kInvalidArgument,
        name +
            ": the tensor is undefined (default constructed, or moved from); assign a value "
            "first, or ask defined()");
  }
}

// Values and slopes from PyTorch in float64. A row without them fails: make_arrays.py makes them.
TEST(Rows, AgreeWithPyTorch) {
  const parity::Arrays arrays("elementwise");
  for (const UnaryFacts& row : kUnaryFacts) {
    const std::string name(row.name);
    const Numbers inputs = arrays.get<double>(name + ".x");
    const Numbers y = arrays.get<double>(name + ".y");
    const Numbers slope = arrays.get<double>(name + ".slope");
    // The largest error of PyTorch's own float32 functions, as a share of the largest magnitude.
    const double allowed = std::max(1e-6, 2 * arrays.get<double>(name + ".float32_error")[0]);
    const double allowed_slope =
        std::max(1e-6, 2 * arrays.get<double>(name + ".float32_slope_error")[0]);
    for (const DType dtype : {DType::kF64, DType::kF32}) {
      const bool exact = dtype == DType::kF64;
      const Tensor x = tensor(inputs, {.dtype = dtype}).requires_grad_();
      const Tensor got = apply(row, x);
      got.backward(ones_like(x));
      const std::string what = name + " in " + std::string(name_of(dtype));
      expect_near(got.detach(), y, exact ? 1e-12 : allowed, what);
      expect_near(x.grad(), slope, exact ? 1e-12 : allowed_slope, what + ", slope");
    }
  }
}

}  // namespace
}  // namespace dl::testing
