// Element-wise operations against naive float64 references: odd shapes, every dtype, error texts.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <numbers>

#include "core/ops/elementwise/activation.h"
#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/index/index.h"
#include "core/tensor/factories.h"
#include "core/tensor/scalar/promote.h"
#include "tests/core/support.h"

namespace dl {
namespace {

using Numbers = std::vector<double>;

constexpr DType kNumericTypes[] = {DType::kF16, DType::kBF16, DType::kF32, DType::kF64,
                                   DType::kI8,  DType::kU8,   DType::kI16, DType::kU16,
                                   DType::kI32, DType::kU32,  DType::kI64, DType::kU64};
constexpr DType kFloatingTypes[] = {DType::kF16, DType::kBF16, DType::kF32, DType::kF64};

// Relative rounding error of one operation.
double tolerance_of(DType dtype) {
  switch (dtype) {
    case DType::kF16:
      return 1.0 / 1024;
    case DType::kBF16:
      return 1.0 / 128;
    case DType::kF32:
      return 1e-6;
    default:
      return 1e-14;
  }
}

// Small whole numbers, exact in every dtype: 1, 2, ... 7, 1, ...
Tensor small_numbers(const Shape& shape, DType dtype, std::int64_t first = 1) {
  const std::int64_t count = element_count(shape, "test");
  std::vector<std::int64_t> numbers;
  for (std::int64_t i = 0; i < count; ++i) numbers.push_back((first + i) % 7 + 1);
  return tensor(numbers, {.dtype = dtype}).view(shape);
}

// Element (i, j, ...) of a tensor read as `shape`, by broadcasting.
Numbers broadcast_values(const Tensor& tensor, const Shape& shape) {
  return values<double>(tensor.expand(shape));
}

struct BinaryCase {
  const char* name;
  std::function<Tensor(const Tensor&, const Tensor&)> apply;
  std::function<double(double, double)> reference;
  bool floating_only = false;
};

const std::vector<BinaryCase>& binary_cases() {
  static const std::vector<BinaryCase> cases{
      {"add", [](const Tensor& a, const Tensor& b) { return a + b; }, std::plus<>()},
      {"sub", [](const Tensor& a, const Tensor& b) { return a - b; }, std::minus<>()},
      {"mul", [](const Tensor& a, const Tensor& b) { return a * b; }, std::multiplies<>()},
      {"div", [](const Tensor& a, const Tensor& b) { return a / b; }, std::divides<>(), true},
      {"minimum", [](const Tensor& a, const Tensor& b) { return minimum(a, b); },
       [](double a, double b) { return std::min(a, b); }},
      {"maximum", [](const Tensor& a, const Tensor& b) { return maximum(a, b); },
       [](double a, double b) { return std::max(a, b); }},
      {"eq", [](const Tensor& a, const Tensor& b) { return eq(a, b); }, std::equal_to<>()},
      {"ne", [](const Tensor& a, const Tensor& b) { return ne(a, b); }, std::not_equal_to<>()},
      {"lt", [](const Tensor& a, const Tensor& b) { return lt(a, b); }, std::less<>()},
      {"le", [](const Tensor& a, const Tensor& b) { return le(a, b); }, std::less_equal<>()},
      {"gt", [](const Tensor& a, const Tensor& b) { return gt(a, b); }, std::greater<>()},
      {"ge", [](const Tensor& a, const Tensor& b) { return ge(a, b); }, std::greater_equal<>()}};
  return cases;
}

bool is_unsigned(DType dtype) {
  return dtype == DType::kU8 || dtype == DType::kU16 || dtype == DType::kU32 ||
         dtype == DType::kU64;
}

void check_binary(const BinaryCase& c, const Tensor& a, const Tensor& b) {
  SCOPED_TRACE(std::string(c.name) + " " + a.sizes().str() + " " + b.sizes().str() + " " +
               std::string(name_of(a.dtype())));
  const Tensor out = c.apply(a, b);
  const Numbers x = broadcast_values(a, out.sizes());
  const Numbers y = broadcast_values(b, out.sizes());
  Numbers expected;
  for (std::size_t i = 0; i < x.size(); ++i) expected.push_back(c.reference(x[i], y[i]));
  expect_near(out, expected, tolerance_of(out.dtype()));
}

TEST(Binary, AllDtypes) {
  for (const BinaryCase& c : binary_cases()) {
    for (const DType dtype : kNumericTypes) {
      if (c.floating_only && !is_floating(dtype)) continue;
      // No negative results for unsigned dtypes: minuends are 8 larger.
      const Tensor a = small_numbers({3, 5}, dtype, 2);
      const Tensor shifted = is_unsigned(dtype) ? a + 8 : a;
      check_binary(c, shifted, small_numbers({3, 5}, dtype));
    }
  }
}

TEST(Binary, OddShapes) {
  for (const BinaryCase& c : binary_cases()) {
    for (const DType dtype : {DType::kF32, DType::kBF16, DType::kI64}) {
      if (c.floating_only && !is_floating(dtype)) continue;
      const Tensor matrix = small_numbers({4, 6}, dtype, 3);
      check_binary(c, small_numbers({}, dtype), small_numbers({}, dtype, 4));
      check_binary(c, matrix, small_numbers({}, dtype));
      check_binary(c, small_numbers({1}, dtype), matrix);
      check_binary(c, matrix, small_numbers({6}, dtype));
      check_binary(c, small_numbers({4, 1}, dtype), small_numbers({1, 6}, dtype));
      check_binary(c, small_numbers({6, 4}, dtype).t(), matrix);
      check_binary(c, matrix.slice(1, 0, 6, 2), small_numbers({3}, dtype));
      check_binary(c, small_numbers({0, 3}, dtype), small_numbers({3}, dtype));
      check_binary(c, small_numbers({2, 3, 4, 5}, dtype).contiguous(MemoryFormat::kChannelsLast),
                   small_numbers({3, 1, 1}, dtype));
      check_binary(c, small_numbers({1, 2, 1, 2, 1, 2, 2}, dtype),
                   small_numbers({2, 1, 2, 1, 2, 1}, dtype));
    }
  }
}

TEST(Binary, LargeTensorsOnSeveralThreads) {
  const Tensor a = small_numbers({100'003}, DType::kF32);
  const Tensor b = small_numbers({100'003}, DType::kF32, 5);
  for (const BinaryCase& c : binary_cases()) check_binary(c, a, b);
}

TEST(Binary, ChannelsLastStaysChannelsLast) {
  const Tensor x = ones({2, 3, 4, 5}).contiguous(MemoryFormat::kChannelsLast);
  EXPECT_TRUE((x + x).is_channels_last());
  EXPECT_TRUE((x * 2).is_channels_last());
  EXPECT_TRUE((1.0 - x).is_channels_last());
  EXPECT_TRUE(relu(x).is_channels_last());
}

TEST(Binary, IntegersWrapAround) {
  const auto largest = std::numeric_limits<std::int64_t>::max();
  const Tensor a = tensor({largest});
  EXPECT_EQ((a + 1).item<std::int64_t>(), std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ((a * 2).item<std::int64_t>(), -2);
  const Tensor b = tensor({100}, {.dtype = DType::kI8});
  EXPECT_EQ((b + b).item<int>(), -56);
  const Tensor c = tensor({200}, {.dtype = DType::kU8});
  EXPECT_EQ((c + c).item<int>(), 144);
  const Tensor d = tensor({-1}, {.dtype = DType::kU64});
  EXPECT_TRUE(lt(tensor({1}, {.dtype = DType::kU64}), d).item<bool>());
}

TEST(Binary, NaNWinsMinimumAndMaximum) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Tensor a = tensor({nan, 1.0, nan});
  const Tensor b = tensor({1.0, nan, nan});
  expect_near(minimum(a, b), {nan, nan, nan}, 0);
  expect_near(maximum(a, b), {nan, nan, nan}, 0);
  EXPECT_EQ(values<int>(eq(a, a)), (std::vector<int>{0, 1, 0}));
}

TEST(Comparison, OfBools) {
  const Tensor a = tensor({true, false, true, false});
  const Tensor b = tensor({true, true, false, false});
  const auto bits = [](const Tensor& t) { return values<int>(t); };
  EXPECT_EQ(bits(eq(a, a)), (std::vector<int>{1, 1, 1, 1}));
  EXPECT_EQ(bits(eq(a, b)), (std::vector<int>{1, 0, 0, 1}));
  EXPECT_EQ(bits(ne(a, b)), (std::vector<int>{0, 1, 1, 0}));
  EXPECT_EQ(bits(lt(a, b)), (std::vector<int>{0, 1, 0, 0}));
  EXPECT_EQ(bits(le(a, b)), (std::vector<int>{1, 1, 0, 1}));
  EXPECT_EQ(bits(gt(a, b)), (std::vector<int>{0, 0, 1, 0}));
  EXPECT_EQ(bits(ge(a, b)), (std::vector<int>{1, 0, 1, 1}));
  EXPECT_EQ(bits(eq(a, false)), (std::vector<int>{0, 1, 0, 1}));
  EXPECT_EQ(bits(lt(a, true)), (std::vector<int>{0, 1, 0, 1}));
  EXPECT_EQ(bits(eq(a.t(), tensor(true))), (std::vector<int>{1, 0, 1, 0}));
}

// PyTorch: half to each at ties, the whole gradient to both if neither is smaller, and 0 to the
// larger one.
TEST(MinimumAndMaximum, ShareGradientsAsPyTorchDoes) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double inf = std::numeric_limits<double>::infinity();
  for (const DType dtype : kFloatingTypes) {
    const auto gradients = [&](bool of_minimum, double incoming) {
      const Tensor a = tensor({nan, 1.0, nan, 2.0, 3.0, 1.0}, {.dtype = dtype}).requires_grad_();
      const Tensor b = tensor({1.0, nan, nan, 2.0, 1.0, 3.0}, {.dtype = dtype}).requires_grad_();
      (of_minimum ? minimum(a, b) : maximum(a, b)).backward(full({6}, incoming, {.dtype = dtype}));
      return std::pair(a.grad(), b.grad());
    };
    SCOPED_TRACE(name_of(dtype));
    const auto [small_a, small_b] = gradients(true, 4);
    expect_near(small_a, {4, 4, 4, 2, 0, 4}, 0);
    expect_near(small_b, {4, 4, 4, 2, 4, 0}, 0);
    const auto [large_a, large_b] = gradients(false, 4);
    expect_near(large_a, {4, 4, 4, 2, 4, 0}, 0);
    expect_near(large_b, {4, 4, 4, 2, 0, 4}, 0);
    const auto [infinite_a, infinite_b] = gradients(true, inf);
    expect_near(infinite_a, {inf, inf, inf, inf, 0, inf}, 0);
    expect_near(infinite_b, {inf, inf, inf, inf, inf, 0}, 0);
  }
  // Broadcast: the share is summed.
  const Tensor a = tensor({nan, 1.0, nan, 2.0, 3.0, 1.0}).requires_grad_();
  const Tensor b = tensor(2.0).requires_grad_();
  maximum(a, b).backward(ones({6}));
  expect_near(a.grad(), {1, 0, 1, 0.5, 1, 0}, 0);
  expect_near(b.grad(), {4.5}, 0);
}

TEST(Promotion, FollowsPyTorch) {
  const auto type = [](const Tensor& t) { return t.dtype(); };
  const Tensor i = ones({2}, {.dtype = DType::kI32});
  const Tensor f = ones({2});
  const Tensor u = ones({2}, {.dtype = DType::kU8});
  EXPECT_EQ(type(i + f), DType::kF32);
  EXPECT_EQ(type(i + 1), DType::kI32);
  EXPECT_EQ(type(i + 1.5), DType::kF32);
  EXPECT_EQ(type(i / i), DType::kF32);
  EXPECT_EQ(type(u + ones({2}, {.dtype = DType::kI8})), DType::kI16);
  EXPECT_EQ(type(ones({2}, {.dtype = DType::kF16}) + ones({2}, {.dtype = DType::kBF16})),
            DType::kF32);
  EXPECT_EQ(type(f + tensor(1.0, {.dtype = DType::kF64})), DType::kF32);  // no dimensions
  EXPECT_EQ(type(i + tensor(1.0, {.dtype = DType::kF64})), DType::kF64);
  EXPECT_EQ(type(f + ones({2}, {.dtype = DType::kF64})), DType::kF64);
  EXPECT_EQ(type(ones({2}, {.dtype = DType::kBool}) + i), DType::kI32);
  EXPECT_EQ(type(ones({2}, {.dtype = DType::kU16}) + f), DType::kF32);
  EXPECT_ERROR(ones({2}, {.dtype = DType::kU16}) + i, kDType,
               "add: uint16 and int32 have no common dtype; convert one of them with to()");
}

// What a number gives with a tensor that holds `element`.
double beside_number(double element, DType dtype, const std::function<Tensor(const Tensor&)>& apply,
                     const Shape& shape) {
  const Tensor result = apply(full(shape, element, {.dtype = dtype}));
  EXPECT_EQ(result.dtype(), dtype);
  EXPECT_EQ(result.sizes(), shape);
  return values<double>(result).back();
}

// PyTorch's results; each number is more than f16 holds, or is rounded by bf16.
TEST(Binary, NumbersAreNotRoundedToShortDtypes) {
  const auto in_place = [](const auto& change) {
    return [change](const Tensor& x) {
      Tensor copy = x.clone();
      change(copy);
      return copy;
    };
  };
  for (const Shape& shape : {Shape{}, Shape{5}, Shape{3, 300}}) {
    const auto f16 = [&](double element, const std::function<Tensor(const Tensor&)>& apply) {
      return beside_number(element, DType::kF16, apply, shape);
    };
    EXPECT_EQ(f16(0.25, [](const Tensor& x) { return x * 131072.0; }), 32768);
    EXPECT_EQ(f16(0.25, [](const Tensor& x) { return x * std::int64_t{131072}; }), 32768);
    EXPECT_EQ(f16(1024, [](const Tensor& x) { return x / 131072.0; }), 0.0078125);
    EXPECT_EQ(f16(1024, [](const Tensor& x) { return 131072.0 / x; }), 128);
    EXPECT_EQ(f16(-60000, [](const Tensor& x) { return x + 70000.0; }), 10000);
    EXPECT_EQ(f16(60000, [](const Tensor& x) { return x - 70000.0; }), -10000);
    EXPECT_EQ(f16(60000, [](const Tensor& x) { return 70000.0 - x; }), 10000);
    EXPECT_EQ(f16(0.25, in_place([](Tensor& x) { x.mul_(131072.0); })), 32768);
    EXPECT_EQ(f16(1024, in_place([](Tensor& x) { x.div_(131072.0); })), 0.0078125);
    EXPECT_EQ(f16(-60000, in_place([](Tensor& x) { x.add_(70000.0); })), 10000);
    EXPECT_EQ(f16(0.25, in_place([](Tensor& x) { x.mul_(tensor(131072.0)); })), 32768);
    // 256 + 1.003 is beyond the tie that 256 + 1 is on.
    EXPECT_EQ(
        beside_number(256, DType::kBF16, [](const Tensor& x) { return x + 1.003; }, shape), 258);
    if (shape.size() == 0) continue;  // two tensors without dimensions are promoted
    EXPECT_EQ(f16(0.25, [](const Tensor& x) { return x * tensor(131072.0); }), 32768);
    EXPECT_EQ(f16(0.25, [](const Tensor& x) { return tensor(std::int64_t{131072}) * x; }), 32768);
  }
  // In a comparison a number is an element.
  const Tensor infinite = full({1}, INFINITY, {.dtype = DType::kF16});
  EXPECT_FALSE(gt(infinite, 1e5).item<bool>());
}

TEST(Binary, GradientsOfShortDtypesMeetNumbersAsTheyAre) {
  const Tensor x = full({4}, 0.0625, {.dtype = DType::kF16}).requires_grad_();
  (x * 131072.0).backward(full({4}, 0.0625, {.dtype = DType::kF16}));
  EXPECT_EQ(values<double>(x.grad()), Numbers(4, 8192));
}

TEST(Binary, ErrorsSayWhatIsWrong) {
  EXPECT_ERROR(ones({2, 3}) * ones({2}), kShape,
               "mul: the shapes [2, 3] and [2] cannot be broadcast together: 3 against 2 in "
               "dimension 1");
  EXPECT_ERROR(add(Tensor(), ones({1})), kInvalidArgument,
               "add: the first operand is an undefined tensor");
  EXPECT_ERROR(add(ones({1}), Tensor()), kInvalidArgument,
               "add: the second operand is an undefined tensor");
  EXPECT_ERROR(tensor({true}) + tensor({true}), kDType,
               "add: bool is not supported; wanted a number");
  EXPECT_ERROR(gelu(ones({1}, {.dtype = DType::kI64})), kDType,
               "gelu: int64 is not supported; wanted a floating dtype");
}

struct UnaryCase {
  const char* name;
  std::function<Tensor(const Tensor&)> apply;
  std::function<double(double)> reference;
};

const std::vector<UnaryCase>& unary_cases() {
  static const std::vector<UnaryCase> cases{
      {"neg", [](const Tensor& x) { return neg(x); }, [](double x) { return -x; }},
      {"exp", [](const Tensor& x) { return exp(x); }, [](double x) { return std::exp(x); }},
      {"log", [](const Tensor& x) { return log(x); }, [](double x) { return std::log(x); }},
      {"sqrt", [](const Tensor& x) { return sqrt(x); }, [](double x) { return std::sqrt(x); }},
      {"tanh", [](const Tensor& x) { return tanh(x); }, [](double x) { return std::tanh(x); }},
      {"sigmoid", [](const Tensor& x) { return sigmoid(x); },
       [](double x) { return 1 / (1 + std::exp(-x)); }},
      {"gelu", [](const Tensor& x) { return gelu(x); },
       [](double x) { return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0))); }},
      {"gelu, tanh form", [](const Tensor& x) { return gelu(x, GeluForm::kTanh); },
       [](double x) {
         const double inner = std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x);
         return 0.5 * x * (1 + std::tanh(inner));
       }},
      {"relu", [](const Tensor& x) { return relu(x); }, [](double x) { return x < 0 ? 0 : x; }},
      {"pow 2", [](const Tensor& x) { return pow(x, 2); }, [](double x) { return x * x; }},
      {"pow -0.5", [](const Tensor& x) { return pow(x, -0.5); },
       [](double x) { return std::pow(x, -0.5); }}};
  return cases;
}

void check_unary(const UnaryCase& c, const Tensor& x) {
  SCOPED_TRACE(std::string(c.name) + " " + x.sizes().str() + " " + std::string(name_of(x.dtype())));
  Numbers expected;
  for (const double value : values<double>(x)) expected.push_back(c.reference(value));
  const Tensor out = c.apply(x);
  EXPECT_EQ(out.dtype(), x.dtype());
  expect_near(out, expected, 2 * tolerance_of(x.dtype()));
}

TEST(Unary, AllFloatingDtypesAndOddShapes) {
  for (const UnaryCase& c : unary_cases()) {
    for (const DType dtype : kFloatingTypes) {
      const Tensor x = (arange(0, 24).to(DType::kF64) / 8.0 - 1.5).to(dtype).view({4, 6});
      check_unary(c, x);
      check_unary(c, x.t());
      check_unary(c, x.slice(1, 0, 6, 2));
      check_unary(c, x[0][3]);
      check_unary(c, x.slice(0, 0, 0));
      check_unary(c, x[1].expand({3, 6}));
    }
    check_unary(c, arange(0, 100'003).to(DType::kF32) / 50'000.0 - 1.0);
  }
}

// torch.nn.functional.gelu and its gradients, in float64.
TEST(Unary, GeluIsPyTorchs) {
  struct Form {
    GeluForm form;
    Numbers y, dx;
  };
  const std::vector<Form> forms = {
      {GeluForm::kErf,
       {-4.884981308350689e-15, -0.00404969409489031, -0.158655253931457, 0, 0.1496765814207309,
        2.48447583668556},
       {-3.980754600475131e-14, -0.01194564720418392, -0.08331547058768635, 0.5, 0.6953733548836361,
        1.037611085908145}},
      {GeluForm::kTanh,
       {0, -0.003637392081772994, -0.1588080093917233, 0, 0.149675350701685, 2.484915733910001},
       {0, -0.01158416663096965, -0.08296408384578258, 0.5, 0.6953540951510604,
        1.037951576212666}}};
  for (const Form& each : forms) {
    const Tensor x = tensor({-8.0, -3.0, -1.0, 0.0, 0.25, 2.5}, {.dtype = DType::kF64});
    const Tensor leaf = x.clone().requires_grad_();
    const Tensor y = gelu(leaf, each.form);
    y.backward(ones_like(x));
    expect_near(y, each.y, 1e-15);
    expect_near(leaf.grad(), each.dx, 1e-15);
  }
}

TEST(Unary, SpecialValues) {
  const double inf = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const DType dtype : kFloatingTypes) {
    // Long enough for every path of a vectorised loop.
    const Tensor x = tensor({inf, -inf, nan, 0.0, -0.0}, {.dtype = dtype}).expand({20, 5});
    for (const UnaryCase& c : unary_cases()) check_unary(c, x.contiguous());
  }
}

TEST(Unary, IntegersHaveReluAndNeg) {
  for (const DType dtype : {DType::kI8, DType::kI16, DType::kI32, DType::kI64}) {
    const Tensor x = tensor({-3, 0, 4}, {.dtype = dtype});
    expect_near(relu(x), {0, 0, 4}, 0);
    expect_near(-x, {3, 0, -4}, 0);
  }
}

TEST(Unary, LargeUint64AreNotNegative) {
  const Tensor x = tensor({-1, 3}, {.dtype = DType::kU64});  // 2^64 - 1
  EXPECT_EQ(values<std::uint64_t>(relu(x)), (std::vector<std::uint64_t>{UINT64_MAX, 3}));
}

TEST(Dropout, KeepsAndScalesWhatTheMaskKeeps) {
  for (const DType dtype : kFloatingTypes) {
    const Tensor x = tensor({{1, 2}, {3, 4}}, {.dtype = dtype});
    const Tensor mask = tensor({{true, false}, {false, true}});
    expect_near(dropout_with_mask(x, mask, 0.5), {2, 0, 0, 8}, 0);
    expect_near(dropout_with_mask(x.t(), mask, 0.5), {2, 0, 0, 8}, 0);
  }
  EXPECT_ERROR(dropout_with_mask(ones({2}), ones({2}), 0.5), kInvalidArgument,
               "dropout: the mask is float32 of shape [2], wanted bool of the input's shape [2]");
  EXPECT_ERROR(dropout_with_mask(ones({2}), tensor({true, true}), 1.0), kInvalidArgument,
               "dropout: p is 1, wanted at least 0 and less than 1");
}

}  // namespace
}  // namespace dl
