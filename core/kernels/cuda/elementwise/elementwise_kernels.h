// Element-wise kernels on plain memory: between elementwise.cc, which knows tensors, and the .cu
// files, which know no header of the host's that is slow to compile.
//
// Rows that are kHot have kernels of their own for f16, bf16 and f32 whose operands lie alike, 16
// bytes a load; every other case goes through strided kernels for four types of arithmetic, whose
// operation, loads and stores are chosen at run time.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "core/elementwise/list.h"
#include "core/kernels/cuda/common/offsets.h"
#include "core/tensor/dtype.h"

namespace dl::kernels::cuda {

// One operand: an array, or one value for all elements, which stands on the host or on the device.
struct Operand {
  const void* data = nullptr;  // null: a value of the host
  bool one = false;            // data points at one element
  double floating = 0;         // the host's value, in the type of the arithmetic
  std::int64_t integer = 0;
};

// Flat kernels return false where they do not serve: for rows that are not kHot, for other dtypes,
// and for pointers that are not aligned to 16 bytes. `out` is of the operands' dtype, or bool for
// comparisons. Of strided kernels the operands of `map` are the output first; their first offsets
// are applied already. A host value has strides 0.

bool unary_flat(UnaryFn fn, DType dtype, const void* in, const Parameters& parameters, void* out,
                std::int64_t count, cudaStream_t stream);
void unary_strided(UnaryFn fn, DType dtype, const void* in, const Parameters& parameters, void* out,
                   const OffsetMap<2>& map, cudaStream_t stream);

bool gradient_flat(UnaryFn fn, DType dtype, const Operand& grad, const Operand& saved,
                   const Parameters& parameters, void* out, std::int64_t count,
                   cudaStream_t stream);
void gradient_strided(UnaryFn fn, DType dtype, const Operand& grad, const Operand& saved,
                      const Parameters& parameters, void* out, const OffsetMap<3>& map,
                      cudaStream_t stream);

bool binary_flat(BinaryFn fn, DType dtype, const Operand& a, const Operand& b,
                 const Parameters& parameters, void* out, std::int64_t count, cudaStream_t stream);
void binary_strided(BinaryFn fn, DType dtype, const Operand& a, const Operand& b,
                    const Parameters& parameters, void* out, const OffsetMap<3>& map,
                    cudaStream_t stream);

}  // namespace dl::kernels::cuda
