// Rows: what element-wise operations do to a dense run of elements. The loops (loops.h) bring
// strides, broadcasting, threads and the narrower dtypes; a row sees float, double, or int64 and
// uint64.
#pragma once

#include <cstdint>

#include "core/elementwise/list.h"
#include "core/tensor/dtype.h"

namespace dl::kernels::cpu {

// A step is 1, or 0 for one value that stands for all. It then stands kSplat bytes long at `in`, so
// that a vector of it can be loaded.
inline constexpr std::int64_t kSplat = 64;

struct RowArguments {
  const void* in[3];  // rows of fewer operands know the first ones only
  std::int64_t step[3];
  void* out;
  std::int64_t count;
  Parameters parameters;
};
using Row = void (*)(const RowArguments& run);

// The rows of an operation by the type that it computes in.
struct Rows {
  Row f32 = nullptr;
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

// float32 on the vectors of the processor at hand.
Row vector_row_of(UnaryFn fn) noexcept;
Row vector_gradient_row_of(UnaryFn fn) noexcept;
Row vector_row_of(BinaryFn fn) noexcept;  // null for comparisons and rows of integers
Row vector_row_of(TernaryFn fn) noexcept;

}  // namespace dl::kernels::cpu
