// Element-wise kernels on plain memory: between elementwise.cc, which knows tensors, and the .cu
// files, which know no header of the host's that is slow to compile.
//
// f16, bf16 and f32 whose operands lie alike go through kernels of their own, 16 bytes a load;
// every other case goes through strided kernels for four types of arithmetic, whose loads and
// stores choose by dtype at run time.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "core/kernels/cuda/offsets.h"
#include "core/tensor/dtype.h"

namespace dl::kernels::cuda {

enum class BinaryOp : std::uint8_t {
  kAdd,
  kAddScaled,
  kSub,
  kMul,
  kDiv,
  kMinimum,
  kMaximum,
  kReluBackward,
  kTanhBackward,
  kSigmoidBackward,
  kGeluBackward,
  kGeluTanhBackward,
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual
};
enum class UnaryOp : std::uint8_t {
  kNeg,
  kRelu,
  kExp,
  kLog,
  kSqrt,
  kTanh,
  kSigmoid,
  kGelu,
  kGeluTanh,
  kPow
};

// One operand: an array, or one value for all elements, which stands on the host or on the device.
struct BinaryOperand {
  const void* data = nullptr;  // null: host_value
  bool one = false;            // data points at one element
  double floating = 0;         // the host's value, in the type of the arithmetic
  std::int64_t integer = 0;
};

// kAddScaled's alpha, for floating and for integer arithmetic.
struct BinaryFactor {
  double floating = 0;
  std::int64_t integer = 0;
};

// `out` is of the operands' dtype, or bool for comparisons. False where the flat kernel does not
// serve: for other dtypes, and for pointers that are not aligned to 16 bytes.
bool binary_flat(BinaryOp op, DType dtype, const BinaryOperand& a, const BinaryOperand& b,
                 BinaryFactor factor, void* out, std::int64_t count, cudaStream_t stream);
// Operands of `map`: out, a, b. `first` of each is applied already. A host value has strides 0.
void binary_strided(BinaryOp op, DType dtype, const BinaryOperand& a, const BinaryOperand& b,
                    BinaryFactor factor, void* out, const OffsetMap<3>& map, cudaStream_t stream);

bool unary_flat(UnaryOp op, DType dtype, const void* in, double parameter, void* out,
                std::int64_t count, cudaStream_t stream);
void unary_strided(UnaryOp op, DType dtype, const void* in, double parameter, void* out,
                   const OffsetMap<2>& map, cudaStream_t stream);

}  // namespace dl::kernels::cuda
