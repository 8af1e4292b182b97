#include "core/kernels/declared/conv.h"

#include "core/kernels/cpu/common/half_width.h"
#include "core/kernels/cpu/conv/conv2d.h"
#include "core/kernels/declared/elementwise.h"

namespace dl::kernels::cpu {
namespace {

template <typename T>
T* data_or_null(const Tensor& tensor) {
  return tensor.defined() ? tensor.data<T>() : nullptr;
}

Conv2dShape conv_shape(const Shape& x, const Shape& weight, const Conv2dArgs& args) {
  return {.n = x[0],
          .c_in = x[1],
          .h = x[2],
          .w = x[3],
          .c_out = weight[0],
          .kh = weight[2],
          .kw = weight[3],
          .stride_h = args.stride[0],
          .stride_w = args.stride[1],
          .pad_h = args.padding[0],
          .pad_w = args.padding[1],
          .dilation_h = args.dilation[0],
          .dilation_w = args.dilation[1],
          .groups = args.groups};
}

}  // namespace

void conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias, const Conv2dArgs& args,
            const Tensor& y) {
  const Conv2dShape shape = conv_shape(x.sizes(), weight.sizes(), args);
  if (x.dtype() == DType::kBF16 &&
      conv2d_forward(shape, x.data<BFloat16>(), weight.data<BFloat16>(),
                     data_or_null<BFloat16>(bias), y.data<BFloat16>())) {
    if (args.relu) unary(UnaryFn::kRelu, y, {}, y);
    return;
  }
  if (is_half_width(x)) {
    const Tensor wide = wide_like(y);
    conv2d(widened(x), widened(weight), widened(bias), args, wide);
    return round_into(wide, y);
  }
  visit_f32_f64(x, "conv2d", [&]<typename T>() {
    conv2d_forward(shape, x.data<T>(), weight.data<T>(), data_or_null<T>(bias), args.relu,
                   y.data<T>());
  });
}

void conv2d_backward_data(const Tensor& dy, const Tensor& weight, const Conv2dArgs& args,
                          const Tensor& dx) {
  const Conv2dShape shape = conv_shape(dx.sizes(), weight.sizes(), args);
  if (dy.dtype() == DType::kBF16 &&
      kernels::conv2d_backward_data(shape, dy.data<BFloat16>(), weight.data<BFloat16>(),
                                    dx.data<BFloat16>())) {
    return;
  }
  if (is_half_width(dy)) {
    const Tensor wide = wide_like(dx);
    conv2d_backward_data(widened(dy), widened(weight), args, wide);
    return round_into(wide, dx);
  }
  visit_f32_f64(dy, "conv2d", [&]<typename T>() {
    kernels::conv2d_backward_data(shape, dy.data<T>(), weight.data<T>(), dx.data<T>());
  });
}

void conv2d_backward_weight(const Tensor& x, const Tensor& dy, const Conv2dArgs& args,
                            const Tensor& dweight, const Tensor& dbias) {
  const Conv2dShape shape = conv_shape(x.sizes(), dweight.sizes(), args);
  if (x.dtype() == DType::kBF16 &&
      conv2d_backward_weights(shape, x.data<BFloat16>(), dy.data<BFloat16>(),
                              dweight.data<BFloat16>(), data_or_null<BFloat16>(dbias))) {
    return;
  }
  if (is_half_width(x)) {
    const Tensor wide_weight = wide_like(dweight);
    const Tensor wide_bias = wide_like(dbias);
    conv2d_backward_weight(widened(x), widened(dy), args, wide_weight, wide_bias);
    round_into(wide_weight, dweight);
    return round_into(wide_bias, dbias);
  }
  visit_f32_f64(x, "conv2d", [&]<typename T>() {
    conv2d_backward_weights(shape, x.data<T>(), dy.data<T>(), dweight.data<T>(),
                            data_or_null<T>(dbias));
  });
}

}  // namespace dl::kernels::cpu
