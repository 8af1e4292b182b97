// cuDNN's name of a dtype.
#pragma once

#include <cudnn.h>

#include <string_view>

#include "core/tensor/dtype_types.h"

namespace dl::kernels::cuda::dnn {

// Throws kDType, with the operation's name, for a dtype that cuDNN does not compute with.
inline cudnnDataType_t data_type_of(DType dtype, std::string_view op) {
  switch (dtype) {
    case DType::kF16:
      return CUDNN_DATA_HALF;
    case DType::kBF16:
      return CUDNN_DATA_BFLOAT16;
    case DType::kF32:
      return CUDNN_DATA_FLOAT;
    default:
      refuse_dtype(op, dtype, "float16, bfloat16 or float32");
  }
}

}  // namespace dl::kernels::cuda::dnn
