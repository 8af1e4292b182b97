// docs/reference/operations.md is what the lists of operations say.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include "core/elementwise/list.h"
#include "core/ops/dispatch/dispatch.h"
#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/elementwise/numeric.h"
#include "core/ops/logic/logic.h"

namespace dl {
namespace {

std::string text_of(Takes takes) {
  switch (takes) {
    case Takes::kAll:
      return "all";
    case Takes::kNumbers:
      return "all but bool";
    case Takes::kFloating:
      return "floating";
    case Takes::kIntoFloat:
      return "all; integers and bool become float32";
    case Takes::kWhole:
      return "integers and bool";
    case Takes::kIntegers:
      return "integers";
  }
  return "";
}

std::string text_of(CudaKernel kernel) {
  switch (kernel) {
    case CudaKernel::kHot:
      return "own";
    case CudaKernel::kShared:
      return "shared";
  }
  return "";
}

std::string text_of(AutocastPolicy policy) {
  switch (policy) {
    case AutocastPolicy::kLow:
      return "to the guard's dtype";
    case AutocastPolicy::kFull:
      return "to float32";
    default:
      return "";
  }
}

std::string text_of(Reduced gives) {
  switch (gives) {
    case Reduced::kInput:
      return "the input's";
    case Reduced::kLong:
      return "the input's; int64 of integers and bool";
    case Reduced::kTruth:
      return "bool; uint8 of uint8";
    case Reduced::kIndex:
      return "int64";
  }
  return "";
}

// Which operands of a function of two elements may be numbers, as it is declared.
std::string numbers_of(BinaryFn fn) {
  const auto text = [](bool a, bool b) { return a && b ? "a or b" : b ? "b" : ""; };
  switch (fn) {
#define DL_BINARY(enumerator, name, ...)                                               \
  case BinaryFn::enumerator:                                                           \
    return [&]<typename T>(const T& x) {                                               \
      return text(requires { name(Scalar(0), x); }, requires { name(x, Scalar(0)); }); \
    }(Tensor());
#include "core/elementwise/list.def"
  }
  return "";
}

struct ComposedRow {
  std::string_view name;
  std::string_view call;
  std::string_view text;
  Gradient gradient;
};
constexpr ComposedRow kComposedRows[] = {
#define DL_COMPOSED_OP(name, call, text, gradient) {#name, call, text, Gradient::gradient},
#include "core/ops/composed.def"
};

struct AliasRow {
  std::string_view alias;
  std::string_view name;
};
constexpr AliasRow kAliases[] = {
#define DL_ALIAS_UNARY(alias, name) {#alias, #name},
#define DL_ALIAS_OF_TWO DL_ALIAS_UNARY
#define DL_ALIAS_OF_TENSORS DL_ALIAS_UNARY
#define DL_ALIAS_OF_LIST DL_ALIAS_UNARY
#define DL_ALIAS(Result, alias, name, ...) {#alias, #name},
#include "core/tensor/aliases.def"
};

// A cell's text: a bar would end it.
std::string cell(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '|') result += '\\';
    result += c;
  }
  return result;
}

template <typename... Cells>
void add_row(std::string& page, const Cells&... cells) {
  page += "|";
  ((page += " " + cell(cells) + " |"), ...);
  page += "\n";
}

std::string operations_page() {
  std::string page =
      "# Operations\n\n"
      "Made from the lists in `core/elementwise/`, `core/reductions/` and "
      "`core/ops/op_list.def`; the test\n`Reference.OfOperations` compares "
      "them. Names and results are PyTorch's unless a text says otherwise. All operations\n"
      "run on the CPU. What PyTorch has and dlrun has not stands in [missing.md](missing.md).\n\n"
      "## Functions of one element\n\n"
      "A function `f` of the first table is written `f(x)`, `f_(x)`, `x.f()` or `x.f_()`; the "
      "forms with `_` write the\n"
      "result into `x`. The second table has functions with numbers beside their tensor. Shape, "
      "layout and dtype stay.\n"
      "All have a gradient; that of a step is zero. Under \"CUDA\", `own` has kernels of its own "
      "for dense float16, bfloat16\n"
      "and float32, and `shared` is a case in the kernel of all.\n\n";
  const char* const head =
      "| operation | result | dtypes | CUDA | autocast on CUDA |\n|---|---|---|---|---|\n";
  for (const bool has_method : {true, false}) {
    page += head;
    for (const UnaryFacts& row : kUnaryFacts) {
      if (row.has_method != has_method) continue;
      add_row(page, "`" + std::string(row.name) + "`", row.text, text_of(row.takes),
              text_of(row.cuda), text_of(row.on_cuda));
    }
    page += "\n";
  }
  page +=
      "## Functions of two elements\n\n"
      "Operands are broadcast and promoted by PyTorch's rules. The column \"number\" says which "
      "operand of the function may be\n"
      "a number; the operators take one on either side. `gt` and `ge` are `lt` and `le` the other "
      "way round; `add_scaled` is\n"
      "`a.add_(b, alpha)`.\n\n"
      "| operation | result | dtypes | number | gradient | CUDA |\n|---|---|---|---|---|---|\n";
  for (const BinaryFacts& row : kBinaryFacts) {
    const bool differentiable =
        row.gradient == Gradient::kGradcheck || row.fn == BinaryFn::kAddScaled;
    add_row(page, "`" + std::string(row.name) + "`", row.text, text_of(row.takes),
            numbers_of(row.fn), differentiable ? "yes" : "no", text_of(row.cuda));
  }
  page +=
      "\n## Functions of three elements\n\n"
      "Operands are broadcast; a number may stand in the place of `where`'s tensors and of "
      "`lerp`'s weight. Gradients go to all\n"
      "but the condition.\n\n"
      "| operation | result | dtypes |\n|---|---|---|\n";
  for (const TernaryFacts& row : kTernaryFacts) {
    add_row(page, "`" + std::string(row.name) + "`", row.text, text_of(row.takes));
  }
  page +=
      "\n## Made of others\n\n"
      "`core/ops/composed.def`. They take all dtypes that their parts take; most are methods "
      "too.\n\n"
      "In brackets: whether the operation has a gradient.\n\n";
  for (const ComposedRow& row : kComposedRows) {
    page += "- `" + std::string(row.call) + "` (" +
            (row.gradient == Gradient::kGradcheck ? "gradient" : "no gradient") + "):\n  " +
            std::string(row.text) + "\n";
  }
  page +=
      "\n## Other names\n\n"
      "`core/tensor/aliases.def`: PyTorch's other names of functions, which are functions and "
      "methods.\n\n"
      "| name | is |\n|---|---|\n";
  std::string_view before;
  for (const AliasRow& row : kAliases) {
    if (row.alias != before) {
      add_row(page, "`" + std::string(row.alias) + "`", "`" + std::string(row.name) + "`");
    }
    before = row.alias;
  }
  page +=
      "\n## Linear algebra\n\n"
      "`core/ops/linalg/linalg.h`, in `dl::linalg`: matrices are the last two dimensions of a "
      "batch, "
      "float32 or float64. All\n"
      "have a gradient. LAPACK computes them on the CPU "
      "([installing](../guides/installing.md#cmake)), "
      "also those of a GPU.\n\n"
      "- `vector_norm(x, ord, dims)`, `matrix_norm(x, ord, dims)`, `norm(x, ord, dims)`: norms; "
      "these "
      "need no LAPACK, except\n  \"nuc\", 2 and -2 of matrices\n"
      "- `inv(x)`, `solve(a, b)`, `det(x)`, `slogdet(x)`: inverses, solutions of a x = b, "
      "determinants\n"
      "- `cholesky(x, {.upper})`, `qr(x, mode)`, `svd(x, {.full_matrices})`, `svdvals(x)`: "
      "decompositions\n";
  page +=
      "\n## Losses of two elements\n\n"
      "`f(input, target, options)`: x is an element of the input and t one of the target. "
      "Floating dtypes, a gradient for both,\n"
      "autocast to float32 on both devices. `core/ops/loss/loss.h` has the options. On CUDA there "
      "is "
      "only `mse_loss` so far.\n\n"
      "| loss | of one element |\n|---|---|\n";
  for (const PairLossFacts& row : kPairLossFacts) {
    add_row(page, "`" + std::string(row.name) + "`", row.text);
  }
  page +=
      "\n## Reductions\n\n"
      "`f(x)` and `x.f()` are over all dimensions, `x.f(1)` and `x.f({0, 1}, {.keepdim = true})` "
      "over some. Each result is\n"
      "merged in one order, whatever the number of threads.\n\n"
      "| operation | result | dtypes | result's dtype | gradient | CUDA | autocast on CUDA |\n"
      "|---|---|---|---|---|---|---|\n";
  for (const ReductionFacts& row : kReductionFacts) {
    add_row(page, "`" + std::string(row.name) + "`", row.text, text_of(row.takes),
            text_of(row.gives), row.gradient == Gradient::kGradcheck ? "yes" : "no",
            text_of(row.cuda), text_of(row.on_cuda));
  }
  page +=
      "\nThese give a pair: `auto [values, indices] = x.max(1)`. `x.max()` of all elements is the "
      "value alone. Along a\n"
      "dimension the first of equals gets the gradient; of all elements they share it.\n\n"
      "| operation | indices alone | result | CUDA |\n|---|---|---|---|\n";
  for (const ExtremeFacts& row : kExtremeFacts) {
    add_row(page, "`" + std::string(row.name) + "`", "`" + std::string(row.arg_name) + "`",
            row.text, text_of(row.cuda));
  }
  page +=
      "\n## All others\n\n"
      "Operations with a gradient and a kernel of their own; `core/ops/` and `nn/functional/` "
      "declare them.\n\n"
      "| operation | autocast on the CPU | autocast on CUDA |\n|---|---|---|\n";
  for (std::size_t i = 0; i < kOpCount; ++i) {
    const Op op = static_cast<Op>(i);
    const bool is_cast = policy_of(op, DeviceType::kCUDA) == AutocastPolicy::kLow;
    if (info(op).gradient != Gradient::kGradcheck && !is_cast) continue;
    add_row(page, "`" + std::string(info(op).name) + "`", text_of(policy_of(op, DeviceType::kCPU)),
            text_of(policy_of(op, DeviceType::kCUDA)));
  }
  return page;
}

std::string read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::string source() {
  const char* const given = std::getenv("DLRUN_TEST_SOURCE");
  return given != nullptr ? given : DLRUN_SOURCE_DIR;
}

TEST(Reference, OfOperations) {
  const std::string committed = source() + "/docs/reference/operations.md";
  const std::string wanted = operations_page();
  if (read(committed) == wanted) return;
  // Beside the program, so that two checkouts do not write one file.
  const std::string made = "operations.md";
  std::ofstream(made, std::ios::binary) << wanted;
  ADD_FAILURE() << "the page differs from the lists: cp " << made << " " << committed;
}

TEST(Reference, WhatIsMissingIsNotThere) {
  const std::string page = read(source() + "/docs/reference/missing.md");
  ASSERT_FALSE(page.empty());
  for (const UnaryFacts& row : kUnaryFacts) {
    EXPECT_EQ(page.find("`" + std::string(row.name) + "`"), page.npos) << row.name << " is there";
  }
  for (const BinaryFacts& row : kBinaryFacts) {
    EXPECT_EQ(page.find("`" + std::string(row.name) + "`"), page.npos) << row.name << " is there";
  }
  for (const ReductionFacts& row : kReductionFacts) {
    EXPECT_EQ(page.find("`" + std::string(row.name) + "`"), page.npos) << row.name << " is there";
  }
  for (const ExtremeFacts& row : kExtremeFacts) {
    for (const std::string_view name : {row.name, row.arg_name}) {
      EXPECT_EQ(page.find("`" + std::string(name) + "`"), page.npos) << name << " is there";
    }
  }
  for (const AliasRow& row : kAliases) {
    EXPECT_EQ(page.find("`" + std::string(row.alias) + "`"), page.npos) << row.alias << " is there";
  }
  for (const TernaryFacts& row : kTernaryFacts) {
    EXPECT_EQ(page.find("`" + std::string(row.name) + "`"), page.npos) << row.name << " is there";
  }
  for (const ComposedRow& row : kComposedRows) {
    EXPECT_EQ(page.find("`" + std::string(row.name) + "`"), page.npos) << row.name << " is there";
  }
}

}  // namespace
}  // namespace dl
