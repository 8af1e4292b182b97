#include "core/kernels/declared/pool.h"

#include "core/kernels/cpu/common/half_width.h"
#include "core/kernels/cpu/pool/max_pool2d.h"

namespace dl::kernels::cpu {
namespace {

Pool2dShape pool_shape(const Shape& x, const MaxPool2dArgs& args) {
  return {.n = x[0],
          .c = x[1],
          .h = x[2],
          .w = x[3],
          .kh = args.kernel[0],
          .kw = args.kernel[1],
          .stride_h = args.stride[0],
          .stride_w = args.stride[1],
          .pad_h = args.padding[0],
          .pad_w = args.padding[1],
          .dilation_h = args.dilation[0],
          .dilation_w = args.dilation[1],
          .ceil_mode = args.ceil_mode,
          .relu = args.relu};
}

}  // namespace

void max_pool2d(const Tensor& x, const MaxPool2dArgs& args, const Tensor& y, const Tensor& winner) {
  if (is_half_width(x)) {
    const Tensor wide = wide_like(y);
    max_pool2d(widened(x), args, wide, winner);
    return round_into(wide, y);
  }
  visit_f32_f64(x, "max_pool2d", [&]<typename T>() {
    max_pool2d_forward(pool_shape(x.sizes(), args), x.data<T>(), y.data<T>(),
                       winner.data<std::uint16_t>());
  });
}

void max_pool2d_backward(const Tensor& dy, const Tensor& winner, const MaxPool2dArgs& args,
                         const Tensor& dx) {
  if (is_half_width(dy)) {
    const Tensor wide = wide_like(dx);
    max_pool2d_backward(widened(dy), winner, args, wide);
    return round_into(wide, dx);
  }
  visit_f32_f64(dy, "max_pool2d", [&]<typename T>() {
    kernels::max_pool2d_backward(pool_shape(dx.sizes(), args), dy.data<T>(),
                                 winner.data<std::uint16_t>(), dx.data<T>());
  });
}

}  // namespace dl::kernels::cpu
