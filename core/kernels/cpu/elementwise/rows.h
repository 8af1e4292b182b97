// Rows: what element-wise operations do to a dense run of elements. The loops (loops.h) bring
// strides, broadcasting, threads and the narrower dtypes; a row sees float, double, int64 and
// uint64, or bfloat16 where it is hot.
#pragma once

#include <cstdint>

#include "core/elementwise/list.h"
#include "core/tensor/dtype.h"

namespace dl::kernels::cpu {

// A step is 1, or 0 for one value that stands for all. It then stands kSplat bytes long at `in`, so
// that a vector of it can be loaded; beside bfloat16 it is a float.
inline constexpr std::int64_t kSplat = 64;

struct RowArguments {
  const void* in[3];  // rows of fewer operands know the first ones only
  std::int64_t step[3];
  void* out;
  std::int64_t count;
  Parameters parameters;
};
using Row = void (*)(const RowArguments& run);

// The rows of an operation by the type of its elements.
struct Rows {
  Row f32 = nullptr;
  Row bf16 = nullptr;  // computed as float32; null: elements travel through blocks of float32
  Row f64 = nullptr;
  Row i64 = nullptr;
  Row u64 = nullptr;
  bool give_bool = false;  // rows write bools, whatever they read
};

Rows rows_of(UnaryFn fn) noexcept;
// The gradient of the input, from that of the output and what was saved.
Rows gradient_rows_of(UnaryFn fn) noexcept;
Rows rows_of(BinaryFn fn) noexcept;
Rows rows_of(TernaryFn fn) noexcept;

// Rows on the vectors of the processor at hand. A second copy of the hottest loops is what
// compiling time allows.
struct VectorRows {
  Row f32 = nullptr;
  Row bf16 = nullptr;
};
VectorRows vector_rows_of(UnaryFn fn) noexcept;
Row vector_gradient_row_of(UnaryFn fn) noexcept;
VectorRows vector_rows_of(BinaryFn fn) noexcept;  // none for comparisons and rows of integers
Row vector_row_of(TernaryFn fn) noexcept;

}  // namespace dl::kernels::cpu
