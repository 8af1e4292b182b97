#include "core/kernels/declared/pool.h"

#include "core/kernels/cuda/common/strided.h"
#include "core/kernels/cuda/pool/max_pool2d_kernels.h"
#include "core/kernels/cuda/runtime/launch.h"

namespace dl::kernels::cuda {
namespace {

PoolArgs args_of(const Tensor& x, const MaxPool2dArgs& window, const Tensor& y) {
  DL_CHECK(x.numel() <= kMostElements && y.numel() <= kMostElements, kNotImplemented,
           "max_pool2d: an image of {} elements, CUDA's pooling takes at most {}", x.numel(),
           kMostElements);
  // Windows that reach beyond the image and its padding were refused, so all of these fit.
  const auto narrow = [](std::int64_t value) { return static_cast<std::int32_t>(value); };
  const auto divisor = [](std::int64_t value) {
    return FastDivisor(static_cast<std::uint32_t>(value));
  };
  const Shape& in = x.sizes();
  const Shape& out = y.sizes();
  return {.dtype = x.dtype(),
          .c = narrow(in[1]),
          .h = narrow(in[2]),
          .w = narrow(in[3]),
          .out_h = narrow(out[2]),
          .out_w = narrow(out[3]),
          .kh = narrow(window.kernel[0]),
          .kw = narrow(window.kernel[1]),
          .stride_h = narrow(window.stride[0]),
          .stride_w = narrow(window.stride[1]),
          .pad_h = narrow(window.padding[0]),
          .pad_w = narrow(window.padding[1]),
          .dilation_h = narrow(window.dilation[0]),
          .dilation_w = narrow(window.dilation[1]),
          .relu = window.relu,
          .in_count = static_cast<std::uint32_t>(x.numel()),
          .out_count = static_cast<std::uint32_t>(y.numel()),
          .by_c = divisor(in[1]),
          .by_w = divisor(in[3]),
          .by_h = divisor(in[2]),
          .by_out_w = divisor(out[3]),
          .by_out_h = divisor(out[2])};
}

}  // namespace

void max_pool2d(const Tensor& x, const MaxPool2dArgs& args, const Tensor& y, const Tensor& winner) {
  if (y.numel() == 0) return;
  const Launch launch;
  max_pool2d_launch(args_of(x, args, y), x.data_ptr(), y.data_ptr(), winner.data<std::uint16_t>(),
                    launch.stream());
  DL_CUDA_LAUNCHED("max_pool2d");
}

void max_pool2d_backward(const Tensor& dy, const Tensor& winner, const MaxPool2dArgs& args,
                         const Tensor& dx) {
  if (dx.numel() == 0) return;
  const Launch launch;
  max_pool2d_backward_launch(args_of(dx, args, dy), dy.data_ptr(), winner.data<std::uint16_t>(),
                             dx.data_ptr(), launch.stream());
  DL_CUDA_LAUNCHED("max_pool2d_backward");
}

}  // namespace dl::kernels::cuda
