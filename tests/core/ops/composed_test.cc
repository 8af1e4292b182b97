// Operations that are more than a row of one element: beside PyTorch (composed_cases.h), the
// gradient check, and what is their own.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "core/autograd/gradcheck.h"
#include "core/ops/dispatch/kernel_names.h"
#include "core/ops/elementwise/activation.h"
#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/elementwise/numeric.h"
#include "core/ops/index/index.h"
#include "core/ops/reduce/reduce.h"
#include "core/tensor/factories.h"
#include "tests/core/ops/composed_cases.h"
#include "tests/core/ops/gradcheck_cases.h"
#include "tests/core/support.h"
#include "tests/parity/arrays.h"

namespace dl::testing {
namespace {

using Inputs = std::vector<Tensor>;
using Numbers = std::vector<double>;

constexpr double kInfinite = std::numeric_limits<double>::infinity();

TEST(Composed, AgreeWithPyTorch) {
  const parity::Arrays arrays("composed");
  std::set<std::string> names;
  for (const ComposedCase& c : composed_cases()) {
    names.insert(c.name);
    ASSERT_TRUE(arrays.has(std::string(c.name) + ".y")) << c.name << ": run make_arrays.py";
    for (const DType dtype : {DType::kF64, DType::kF32}) {
      check_composed(c, arrays, dtype, true);
      check_composed(c, arrays, dtype, false);
    }
  }
  for (const std::string& array : arrays.names()) {
    EXPECT_TRUE(names.contains(array.substr(0, array.rfind('.')))) << array << " has no case";
  }
}

// The rows of core/ops/composed.def, which the reference lists.
TEST(Composed, EveryRowHasACase) {
  const std::string_view rows[] = {
#define DL_COMPOSED_OP(name, call, text, gradient) #name,
#include "core/ops/composed.def"
  };
  for (const std::string_view row : rows) {
    EXPECT_TRUE(std::ranges::any_of(composed_cases(), [&](const ComposedCase& c) {
      return c.name == row || std::string_view(c.name).starts_with(std::string(row) + " ");
    })) << row;
  }
}

// Rows of three elements, and rows made of others that have a gradient: one of their cases is
// checked below. Other lists are checked row by row, by rows_test.cc, reductions_test.cc,
// gradcheck_test.cc and network_gradcheck.cc.
TEST(Composed, EveryRowWithAGradientIsChecked) {
  const parity::Arrays arrays("composed");
  std::vector<std::string_view> rows{
#define DL_COMPOSED_OP(name, call, text, gradient) \
  Gradient::gradient == Gradient::kGradcheck ? #name : "",
#include "core/ops/composed.def"
  };
  for (const TernaryFacts& row : kTernaryFacts) rows.push_back(row.name);
  for (const std::string_view row : rows) {
    EXPECT_TRUE(row.empty() ||
                std::ranges::any_of(composed_cases(),
                                    [&](const ComposedCase& c) {
                                      const std::string_view name = c.name;
                                      return (name == row ||
                                              name.starts_with(std::string(row) + " ")) &&
                                             arrays.has(std::string(name) + ".g0");
                                    }))
        << row << ": no case with a gradient";
  }
}

TEST(Composed, GradientsPassTheCheck) {
  const parity::Arrays arrays("composed");
  for (const ComposedCase& c : composed_cases()) {
    if (!arrays.has(std::string(c.name) + ".g0")) continue;
    Inputs inputs = inputs_of(arrays, c.name, DType::kF64);
    for (Tensor& x : inputs) x.requires_grad_();
    EXPECT_NO_THROW(gradcheck(c.name, c.f, inputs)) << c.name;
    check_second(c.name, c.f, inputs);
  }
}

TEST(Composed, AValueThatFillsASliceTwiceHasItsGradientOnce) {
  const Tensor value = tensor(5.0, {.requires_grad = true});
  const Tensor filled = zeros({3, 2}).index_fill(0, tensor({1, 1, -2, 0}), value);
  filled.backward(tensor({{1.0, 2.0}, {3.0, 4.0}, {5.0, 6.0}}));
  EXPECT_EQ(values<double>(filled.detach()), (Numbers{5, 5, 5, 5, 0, 0}));
  EXPECT_EQ(value.grad().item<double>(), 10);
}

TEST(Composed, AGradientBesideInfinityIsFinite) {
  const Tensor weight = tensor({0.25}, {.requires_grad = true});
  const Tensor x = tensor({kInfinite, -2.0, 3.0}, {.requires_grad = true});
  prelu(x, weight).sum().backward();
  EXPECT_EQ(weight.grad().item<double>(), -2);
  EXPECT_EQ(values<double>(x.grad()), (Numbers{1, 0.25, 1}));

  // The value times the gradient would be more than float16 holds.
  const Tensor pair = tensor({30000.0, -8.0}, {.dtype = DType::kF16}).requires_grad_();
  const Tensor y = glu(pair, 0);
  y.backward(full({1}, 8.0, {.dtype = DType::kF16}));
  EXPECT_NEAR(pair.grad()[1].item<double>(), 80.45, 0.1);
}

TEST(Composed, ANumberDoesNotWidenThreeOperands) {
  const Tensor half = ones({2}, {.dtype = DType::kF16});
  const Tensor number = ones({}, {.dtype = DType::kF16});
  const Tensor wide = ones({});
  EXPECT_EQ(addcmul(number, half, wide).dtype(), DType::kF16);
  EXPECT_EQ(addcdiv(wide, number, half).dtype(), DType::kF16);
  EXPECT_EQ(clamp(number, wide, half).dtype(), DType::kF16);
  EXPECT_EQ(addcmul(tensor({1, 2}), wide, wide).dtype(), DType::kF32);
  EXPECT_EQ(bincount(empty({0}, {.dtype = DType::kI64}), empty({0}), 2).dtype(), DType::kI64);
}

// Some are made otherwise than PyTorch's, and end with another node.
TEST(Composed, NodesHavePyTorchsNames) {
  const parity::Arrays composed("composed");
  const parity::Arrays arrays("grad_fn");
  const std::map<std::string, std::string> others{
      {"scatter a number", "ScatterBackward0"},  // the number is a tensor
      // One operation, and no copy into a view.
      {"assignment to slices", "IndexPutBackward0"},
      {"assignment to a mask", "IndexPutBackward0"},
      {"assignment to mixed places", "IndexPutBackward0"},
      {"diag of a matrix", "DiagonalBackward0"},  // no view
  };
  for (const ComposedCase& c : composed_cases()) {
    const std::string name = "composed/" + std::string(c.name);
    if (!arrays.has(name)) continue;
    Inputs inputs = inputs_of(composed, c.name, DType::kF64);
    for (Tensor& x : inputs) x.requires_grad_();
    const auto bytes = arrays.get<char>(name);
    const auto other = others.find(c.name);
    const std::string wanted =
        other == others.end() ? std::string(bytes.begin(), bytes.end()) : other->second;
    const std::string text = c.f(inputs).str();
    EXPECT_NE(text.find("grad_fn=<" + wanted + ">"), std::string::npos)
        << c.name << ": wanted " << wanted << "\n"
        << text;
  }
}

}  // namespace
}  // namespace dl::testing
