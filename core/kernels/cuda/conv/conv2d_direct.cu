#include "core/kernels/cuda/common/device_types.h"
#include "core/kernels/cuda/conv/conv2d_direct.h"

namespace dl::kernels::cuda {
namespace {

// The weight that connects output channel o with channel i of its group.
__device__ inline std::int64_t weight_at(const ConvShape& s, int o, int i, int ky, int kx) {
  return ((static_cast<std::int64_t>(o) * (s.c_in / s.groups) + i) * s.kh + ky) * s.kw + kx;
}

__device__ inline std::int64_t input_at(const ConvShape& s, std::int64_t n, int row, int column,
                                        int c) {
  return ((n * s.h + row) * s.w + column) * s.c_in + c;
}

__device__ inline std::int64_t output_at(const ConvShape& s, std::int64_t n, int row, int column,
                                         int c) {
  return ((n * s.out_h + row) * s.out_w + column) * s.c_out + c;
}

template <typename M>
__global__ void __launch_bounds__(kThreads)
    forward_kernel(DType dtype, ConvShape s, const void* x, const void* weight, void* y,
                   std::int64_t count) {
  const std::int64_t element = thread_number();
  if (element >= count) return;
  const int o = static_cast<int>(element % s.c_out);
  const int column = static_cast<int>(element / s.c_out % s.out_w);
  const int row = static_cast<int>(element / s.c_out / s.out_w % s.out_h);
  const std::int64_t n = element / s.c_out / s.out_w / s.out_h;
  const int inner = s.c_in / s.groups;
  const int first = o / (s.c_out / s.groups) * inner;
  M sum = 0;
  for (int ky = 0; ky < s.kh; ++ky) {
    const int iy = row * s.stride_h - s.pad_h + ky * s.dilation_h;
    if (iy < 0 || iy >= s.h) continue;
    for (int kx = 0; kx < s.kw; ++kx) {
      const int ix = column * s.stride_w - s.pad_w + kx * s.dilation_w;
      if (ix < 0 || ix >= s.w) continue;
      for (int i = 0; i < inner; ++i) {
        sum += load_as<M>(x, dtype, input_at(s, n, iy, ix, first + i)) *
               load_as<M>(weight, dtype, weight_at(s, o, i, ky, kx));
      }
    }
  }
  store_as<M>(y, dtype, element, sum);
}

template <typename M>
__global__ void __launch_bounds__(kThreads)
    data_kernel(DType dtype, ConvShape s, const void* dy, const void* weight, void* dx,
                std::int64_t count) {
  const std::int64_t element = thread_number();
  if (element >= count) return;
  const int c = static_cast<int>(element % s.c_in);
  const int column = static_cast<int>(element / s.c_in % s.w);
  const int row = static_cast<int>(element / s.c_in / s.w % s.h);
  const std::int64_t n = element / s.c_in / s.w / s.h;
  const int inner = s.c_in / s.groups;
  const int outer = s.c_out / s.groups;
  const int first = c / inner * outer;
  M sum = 0;
  for (int ky = 0; ky < s.kh; ++ky) {
    const int above = row + s.pad_h - ky * s.dilation_h;
    if (above < 0 || above % s.stride_h != 0 || above / s.stride_h >= s.out_h) continue;
    for (int kx = 0; kx < s.kw; ++kx) {
      const int before = column + s.pad_w - kx * s.dilation_w;
      if (before < 0 || before % s.stride_w != 0 || before / s.stride_w >= s.out_w) continue;
      for (int o = first; o < first + outer; ++o) {
        sum += load_as<M>(dy, dtype, output_at(s, n, above / s.stride_h, before / s.stride_w, o)) *
               load_as<M>(weight, dtype, weight_at(s, o, c % inner, ky, kx));
      }
    }
  }
  store_as<M>(dx, dtype, element, sum);
}

template <typename M>
__global__ void __launch_bounds__(kThreads)
    weight_kernel(DType dtype, ConvShape s, const void* x, const void* dy, void* dweight,
                  std::int64_t count) {
  const std::int64_t element = thread_number();
  if (element >= count) return;
  const int inner = s.c_in / s.groups;
  const int kx = static_cast<int>(element % s.kw);
  const int ky = static_cast<int>(element / s.kw % s.kh);
  const int i = static_cast<int>(element / s.kw / s.kh % inner);
  const int o = static_cast<int>(element / s.kw / s.kh / inner);
  const int c = o / (s.c_out / s.groups) * inner + i;
  M sum = 0;
  for (std::int64_t n = 0; n < s.n; ++n) {
    for (int row = 0; row < s.out_h; ++row) {
      const int iy = row * s.stride_h - s.pad_h + ky * s.dilation_h;
      if (iy < 0 || iy >= s.h) continue;
      for (int column = 0; column < s.out_w; ++column) {
        const int ix = column * s.stride_w - s.pad_w + kx * s.dilation_w;
        if (ix < 0 || ix >= s.w) continue;
        sum += load_as<M>(x, dtype, input_at(s, n, iy, ix, c)) *
               load_as<M>(dy, dtype, output_at(s, n, row, column, o));
      }
    }
  }
  store_as<M>(dweight, dtype, element, sum);
}

}  // namespace

void conv2d_direct_launch(DType dtype, const ConvShape& s, const void* x, const void* weight,
                          void* y, cudaStream_t stream) {
  const std::int64_t count = std::int64_t{s.n} * s.out_h * s.out_w * s.c_out;
  with_arithmetic(dtype, [&]<typename M>() {
    forward_kernel<M><<<blocks_for(count), kThreads, 0, stream>>>(dtype, s, x, weight, y, count);
  });
}

void conv2d_direct_data_launch(DType dtype, const ConvShape& s, const void* dy, const void* weight,
                               void* dx, cudaStream_t stream) {
  const std::int64_t count = std::int64_t{s.n} * s.h * s.w * s.c_in;
  with_arithmetic(dtype, [&]<typename M>() {
    data_kernel<M><<<blocks_for(count), kThreads, 0, stream>>>(dtype, s, dy, weight, dx, count);
  });
}

void conv2d_direct_weight_launch(DType dtype, const ConvShape& s, const void* x, const void* dy,
                                 void* dweight, cudaStream_t stream) {
  const std::int64_t count = std::int64_t{s.c_out} * (s.c_in / s.groups) * s.kh * s.kw;
  with_arithmetic(dtype, [&]<typename M>() {
    weight_kernel<M><<<blocks_for(count), kThreads, 0, stream>>>(dtype, s, x, dy, dweight, count);
  });
}

}  // namespace dl::kernels::cuda
