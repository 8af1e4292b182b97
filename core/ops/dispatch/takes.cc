#include "core/ops/dispatch/takes.h"

namespace dl {

DType computed_dtype(DType dtype, Takes takes, std::string_view op) {
  switch (takes) {
    case Takes::kAll:
      return dtype;
    case Takes::kNumbers:
      if (dtype == DType::kBool) refuse_dtype(op, dtype, "a number");
      return dtype;
    case Takes::kFloating:
      if (!is_floating(dtype)) refuse_dtype(op, dtype, "a floating dtype");
      return dtype;
    case Takes::kWhole:
      if (is_floating(dtype)) refuse_dtype(op, dtype, "an integer dtype or bool");
      return dtype;
    case Takes::kIntegers:
      if (is_floating(dtype) || dtype == DType::kBool) refuse_dtype(op, dtype, "an integer dtype");
      return dtype;
    case Takes::kIntoFloat:
      return is_floating(dtype) ? dtype : DType::kF32;
  }
  return dtype;
}

Tensor promoted(const Tensor& operand, Takes takes, std::string_view op) {
  const DType dtype = computed_dtype(operand.dtype(), takes, op);
  return dtype == operand.dtype() ? operand : operand.to(dtype);
}

void check_taken_in_place(const Tensor& self, Takes takes, std::string_view op) {
  const DType dtype = computed_dtype(self.dtype(), takes, op);
  DL_CHECK(dtype == self.dtype(), kDType,
           "{}: a result of dtype {} cannot be written into a tensor of {}", op, name_of(dtype),
           name_of(self.dtype()));
}

}  // namespace dl
