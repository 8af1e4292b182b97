// Reductions on plain memory.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "core/kernels/cuda/common/line_group.h"
#include "core/kernels/cuda/common/offsets.h"
#include "core/reductions/list.h"
#include "core/tensor/dtype.h"

namespace dl {
class Tensor;
}

namespace dl::kernels::cuda {

// One result for each element of the map `kept`, over the elements of the map `reduced`. A thread
// merges eight floating elements in their compute type, and the results of that in float64.
// Integers and bool are merged in int64.
struct ReduceArgs {
  ReduceFn fn{};
  const void* in = nullptr;
  DType dtype = DType::kF32;
  void* out = nullptr;
  DType out_dtype = DType::kF32;
  OffsetMap<2> kept;     // out, in
  OffsetMap<1> reduced;  // in
  double p = 0;          // the reduction's argument
  bool accumulate = false;
  // By the number of the result: what is subtracted from the elements first; and the place of the
  // results, if `out` is null.
  const double* pivots = nullptr;
  double* numbered_out = nullptr;
  Lines lines{};
  // Each result is divided into `parts`, so that a few long ones use the whole device. More than
  // one part needs `partial`, 8 bytes for each part and result. Sums of different numbers of parts
  // may differ in their last bits.
  std::uint32_t parts = 1;
  void* partial = nullptr;
};
void reduce_launch(const ReduceArgs& args, cudaStream_t stream);

struct ExtremeArgs {
  ExtremeFn fn{};
  const void* in = nullptr;
  DType dtype = DType::kF32;
  std::int64_t size = 0;  // along the reduced dimension
  std::int64_t step = 0;
  void* values = nullptr;
  std::int64_t* indices = nullptr;
  OffsetMap<3> kept;  // values, indices, in
  Lines lines{};
};
// The first of the extreme elements; NaN is the extreme.
void extreme_launch(const ExtremeArgs& args, cudaStream_t stream);

// The sum of (a[i] - b[i])^2 over n elements in f64, divided by n, written to the element at `out`.
// `partial`: kSquareParts doubles, of which a short tensor needs less.
inline constexpr int kSquareParts = 512;
void mean_square_launch(DType dtype, const void* a, const void* b, std::int64_t count,
                        double* partial, void* out, cudaStream_t stream);

// Writes or adds the column sums of a row-major [rows, columns] array to out[columns]: gradients of
// biases.
void sum_columns(const void* in, std::int64_t rows, std::int64_t columns, bool accumulate,
                 const Tensor& out);

}  // namespace dl::kernels::cuda
