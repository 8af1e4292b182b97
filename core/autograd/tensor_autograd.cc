// Tensor's members that belong to autograd.
#include "core/tensor/tensor.h"

namespace dl {

Tensor& Tensor::requires_grad_(bool) {
  throw_error(ErrorKind::kNotImplemented, "requires_grad_: gradients are not recorded yet");
}

}  // namespace dl
