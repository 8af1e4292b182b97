// The gradients of a convolution as recorded operations, for gradients of gradients. Each of the
// three, y = conv2d(x, w), dx and dw, is linear in its two operands; their gradients are the other
// two.
#pragma once

#include "core/ops/conv/conv.h"
#include "core/tensor/tensor.h"

namespace dl {

// The gradient of conv2d's input.
//   grad    [N, O, H', W'], of the output, before the fused ReLU
//   weight  [O, C / groups, kh, kw]
//   shape   [N, C, H, W]
Tensor conv2d_input_gradient(const Tensor& grad, const Tensor& weight, const Conv2dArgs& args,
                             const Shape& shape);
// The gradient of conv2d's weight, whose shape is `shape`.
Tensor conv2d_weight_gradient(const Tensor& input, const Tensor& grad, const Conv2dArgs& args,
                              const Shape& shape);

}  // namespace dl
