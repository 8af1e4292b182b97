// Rows: the inner loops of element-wise operations, over a dense run of elements. The outer loops
// (loops.h) handle strides, broadcasting, threads and narrower dtypes. A row works on float,
// double, int64 or uint64, and on bfloat16 if the operation is kHot.
#pragma once

#include <cstdint>

#include "core/elementwise/list.h"
#include "core/tensor/dtype.h"

namespace dl::kernels::cpu {

// A step is 1, or 0 for a broadcast scalar. A scalar is repeated over kSplat bytes at `in`, so that
// a vector load works; in a bfloat16 row it is float32.
inline constexpr std::int64_t kSplat = 64;

struct RowArguments {
  const void* in[3];  // rows of fewer operands use the first ones
  std::int64_t step[3];
  void* out;
  std::int64_t count;
  Parameters parameters;
};
using Row = void (*)(const RowArguments& run);

// The rows of an operation by the type of its elements.
struct Rows {
  Row f32 = nullptr;
  Row bf16 = nullptr;  // computed as float32; null: elements are converted to blocks of float32
  Row f64 = nullptr;
  Row i64 = nullptr;
  Row u64 = nullptr;
  bool give_bool = false;  // rows write bools
};

Rows rows_of(UnaryFn fn) noexcept;
// Rows for the gradient of the input, from the gradient of the output and the saved tensor.
Rows gradient_rows_of(UnaryFn fn) noexcept;
Rows rows_of(BinaryFn fn) noexcept;
Rows rows_of(TernaryFn fn) noexcept;

// Rows in Highway's vectors, for the CPU at hand. Only the most used loops exist twice, because of
// compile time.
struct VectorRows {
  Row f32 = nullptr;
  Row bf16 = nullptr;
};
VectorRows vector_rows_of(UnaryFn fn) noexcept;
VectorRows vector_gradient_rows_of(UnaryFn fn) noexcept;
VectorRows vector_rows_of(BinaryFn fn) noexcept;  // null for comparisons and integer rows
Row vector_row_of(TernaryFn fn) noexcept;

}  // namespace dl::kernels::cpu
