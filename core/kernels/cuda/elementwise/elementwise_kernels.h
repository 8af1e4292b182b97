// Element-wise kernels on plain memory: the interface between elementwise.cc, which uses tensors,
// and the .cu files, which include no slow host headers.
//
// kHot rows have dedicated kernels for f16, bf16 and f32 operands of the same layout, with 16-byte
// loads. Every other case uses strided kernels for four compute types, whose operation, loads and
// stores are chosen at run time.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "core/elementwise/list.h"
#include "core/kernels/cuda/common/offsets.h"
#include "core/tensor/dtype.h"

namespace dl::kernels::cuda {

// One operand: an array, or a scalar on the host or on the device.
struct Operand {
  const void* data = nullptr;  // null: a host value
  bool one = false;            // data points to a scalar
  double floating = 0;         // the host value, in the compute type
  std::int64_t integer = 0;
};

// Flat kernels return false for rows that are not kHot, other dtypes, and pointers that are not
// aligned to 16 bytes. `out` has the operands' dtype, or bool for comparisons. For strided kernels,
// the first operand of `map` is the output; the pointers already include the first offsets. A host
// value has strides 0.

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

// `where` of a bool condition; b and c have the dtype of `out`.
bool where_flat(const Operand& condition, const Operand& b, const Operand& c, DType dtype,
                void* out, std::int64_t count, cudaStream_t stream);
// is_condition: `a` is bool. The other operands have the dtype of `out`.
void ternary_strided(TernaryFn fn, bool is_condition, DType dtype, const Operand& a,
                     const Operand& b, const Operand& c, const Parameters& parameters, void* out,
                     const OffsetMap<4>& map, cudaStream_t stream);

}  // namespace dl::kernels::cuda
