// Element-wise kernels, of which copying is the simplest. There is one for each family of
// core/elementwise/list.def; these broadcast operands to the output's shape. Operands have the
// output's dtype, which the row accepts; for comparisons they have one dtype and the output is
// bool; a 0-d operand next to float16 or bfloat16 may be float32. An output may be one of the
// operands.
#pragma once

#include "core/args/part_work.h"
#include "core/elementwise/list.h"
#include "core/kernels/kernel.h"

namespace dl::kernels {

// `source` has the destination's shape (broadcast dimensions have stride 0). They must not overlap
// unless they are the same view.
DL_KERNEL(void, copy, (const Tensor& source, const Tensor& destination))
DL_KERNEL(void, fill, (const Tensor& destination, Scalar value))

DL_KERNEL(void, unary,
          (UnaryFn fn, const Tensor& input, const Parameters& parameters, const Tensor& out))
// The gradient of the input, from the gradient of the output and the tensor that the row saves, the
// input or the output. For a row that saves nothing, pass `grad` as `saved`.
DL_KERNEL(void, unary_backward,
          (UnaryFn fn, const Tensor& grad, const Tensor& saved, const Parameters& parameters,
           const Tensor& out))
DL_KERNEL(void, binary,
          (BinaryFn fn, const Tensor& a, const Tensor& b, const Parameters& parameters,
           const Tensor& out))
// An operand may also be bool (the condition of `where`).
DL_KERNEL(void, ternary,
          (TernaryFn fn, const Tensor& a, const Tensor& b, const Tensor& c,
           const Parameters& parameters, const Tensor& out))

// What these kernels do with a part of the elements; empty if operands differ in layout, or the
// output is not dense. It holds the operands' addresses, not the tensors.
namespace cpu {
PartWork unary_in_parts(UnaryFn fn, const Tensor& input, const Parameters& parameters,
                        const Tensor& out);
PartWork unary_backward_in_parts(UnaryFn fn, const Tensor& grad, const Tensor& saved,
                                 const Parameters& parameters, const Tensor& out);
PartWork binary_in_parts(BinaryFn fn, const Tensor& a, const Tensor& b,
                         const Parameters& parameters, const Tensor& out);
}  // namespace cpu

}  // namespace dl::kernels
