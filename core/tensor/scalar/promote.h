// Type promotion, by PyTorch's rules.
#pragma once

#include <string_view>

#include "core/tensor/dtype.h"
#include "core/tensor/scalar/scalar.h"
#include "core/tensor/tensor.h"

namespace dl {

// The smallest dtype to which both convert: floating beats integer beats bool; float16 with
// bfloat16 gives float32. Throws kDType for uint16, uint32 and uint64 with any other integer or
// bool, like PyTorch.
DType promote_types(DType a, DType b, std::string_view op);

// The dtype of an operation's result. A 0-d tensor, or a number, counts only if its kind (bool,
// integer, floating) is higher than the other's.
DType result_type(const Tensor& a, const Tensor& b, std::string_view op);
DType result_type(const Tensor& a, const Tensor& b, const Tensor& c, std::string_view op);
DType result_type(const Tensor& a, Scalar b) noexcept;

}  // namespace dl
