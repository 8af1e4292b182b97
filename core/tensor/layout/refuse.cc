// Errors that inline members of Tensor throw. The CUDA module compiles this file as well.
#include "core/tensor/tensor.h"

namespace dl {

void refuse_undefined(std::string_view op) {
  throw_error(ErrorKind::kInvalidArgument,
              "{}: the tensor is undefined (default constructed, or moved from); assign a value "
              "first, or ask defined()",
              op);
}

void detail::refuse_undefined_left_side() {
  throw_error(ErrorKind::kInvalidArgument,
              "operator=: the tensor on the left is undefined, so that nothing can be written into "
              "it; to give a parameter p a gradient, call p.set_grad(g)");
}

void Tensor::refuse_data(DType wanted) const {
  throw_error(ErrorKind::kDType, "data: the tensor holds {}, {} was asked for", name_of(dtype()),
              name_of(wanted));
}

}  // namespace dl
