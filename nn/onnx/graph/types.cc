// Which dtypes a node of opset 17 takes.
#include <algorithm>
#include <initializer_list>

#include "nn/onnx/graph/graph.h"

namespace dl::onnx {
namespace {

constexpr unsigned bits_of(std::initializer_list<DType> dtypes) {
  unsigned bits = 0;
  for (const DType dtype : dtypes) bits |= 1U << static_cast<unsigned>(dtype);
  return bits;
}

constexpr unsigned kBool = bits_of({DType::kBool});
constexpr unsigned kSmall =
    kBool | bits_of({DType::kI8, DType::kI16, DType::kU8, DType::kU16});  // less than 32 bits
constexpr unsigned kUnsigned = kBool | bits_of({DType::kU8, DType::kU16, DType::kU32, DType::kU64});

// What a node does not take, beside bfloat16. Nodes of floating numbers alone have no row: what
// dlrun gives them is floating.
struct Row {
  std::string_view op;
  unsigned lacks;
};
constexpr Row kRows[] = {
    {"Abs", kBool},
    {"ArgMax", kBool},
    {"ArgMin", kBool},
    {"CumSum", kSmall},
    {"Gemm", kSmall},
    {"Greater", kBool},
    {"Less", kBool},
    {"LessOrEqual", kBool},
    {"MatMul", kSmall},
    {"Max", kBool},
    {"Min", kBool},
    {"Neg", kUnsigned},
    {"Pow", kSmall | kUnsigned},
    {"ReduceL1", kSmall},
    {"ReduceMax", bits_of({DType::kI16, DType::kU16, DType::kBool})},
    {"ReduceMin", bits_of({DType::kI16, DType::kU16, DType::kBool})},
    {"ReduceProd", kSmall},
    {"ReduceSum", kSmall},
    {"Relu", kUnsigned},
    {"Sign", kBool},
    {"TopK", kBool},
};

// Nodes that move numbers and do not look at them.
constexpr std::string_view kMoves[] = {"Cast",    "Concat", "Gather", "GatherElements", "Identity",
                                       "Reshape", "Shape",  "Slice",  "Transpose"};

}  // namespace

DType computed_as(std::string_view op, DType dtype) noexcept {
  if (dtype == DType::kBF16) {
    return std::ranges::find(kMoves, op) != std::end(kMoves) ? dtype : DType::kF32;
  }
  const auto* const row = std::ranges::find(kRows, op, &Row::op);
  if (row == std::end(kRows) || (row->lacks & bits_of({dtype})) == 0) return dtype;
  return (bits_of({dtype}) & kSmall) != 0 ? DType::kI32 : DType::kI64;
}

}  // namespace dl::onnx
