#include <limits>

#include "core/kernels/cuda/common/device_types.h"
#include "core/kernels/cuda/pool/max_pool2d_kernels.h"

namespace dl::kernels::cuda {
namespace {

// Marks a window without a winner: it is empty, or the ReLU makes it 0.
constexpr std::uint16_t kNoWinner = 65535;

// An element's indices in [n][rows][columns][c].
struct Pixel {
  std::int32_t c, column, row;
  std::int64_t n;
};

__device__ inline Pixel pixel_of(std::uint32_t element, const FastDivisor& by_c,
                                 const FastDivisor& by_columns, const FastDivisor& by_rows) {
  const std::uint32_t pixel = by_c.divide(element);
  const std::uint32_t line = by_columns.divide(pixel);
  const std::uint32_t image = by_rows.divide(line);
  return {static_cast<std::int32_t>(element - pixel * by_c.divisor()),
          static_cast<std::int32_t>(pixel - line * by_columns.divisor()),
          static_cast<std::int32_t>(line - image * by_rows.divisor()), image};
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    forward_kernel(PoolArgs args, const T* x, T* y, std::uint16_t* winner) {
  using M = Wide<T>;
  const std::int64_t element = thread_number();
  if (element >= args.out_count) return;
  const Pixel at =
      pixel_of(static_cast<std::uint32_t>(element), args.by_c, args.by_out_w, args.by_out_h);
  const std::int32_t top = at.row * args.stride_h - args.pad_h;
  const std::int32_t left = at.column * args.stride_w - args.pad_w;
  M best = -std::numeric_limits<M>::infinity();
  std::uint16_t index = kNoWinner;
  for (std::int32_t ky = 0; ky < args.kh; ++ky) {
    const std::int32_t row = top + ky * args.dilation_h;
    if (row < 0 || row >= args.h) continue;
    const T* const line = x + ((at.n * args.h + row) * args.w) * args.c + at.c;
    for (std::int32_t kx = 0; kx < args.kw; ++kx) {
      const std::int32_t column = left + kx * args.dilation_w;
      if (column < 0 || column >= args.w) continue;
      const M value = wide(line[static_cast<std::int64_t>(column) * args.c]);
      // The first of equal elements wins, and the last NaN.
      const bool first = index == kNoWinner;
      if (first || value > best || value != value) {
        best = value;
        index = static_cast<std::uint16_t>(ky * args.kw + kx);
      }
    }
  }
  if (args.relu && index != kNoWinner && best <= M(0)) {
    best = M(0);
    index = kNoWinner;
  }
  y[element] = narrow<T>(best);
  winner[element] = index;
}

// Each input element sums over the windows that contain it, in order.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    backward_kernel(PoolArgs args, const T* dy, const std::uint16_t* winner, T* dx) {
  using M = Wide<T>;
  const std::int64_t element = thread_number();
  if (element >= args.in_count) return;
  const Pixel at = pixel_of(static_cast<std::uint32_t>(element), args.by_c, args.by_w, args.by_h);
  M sum = 0;
  for (std::int32_t ky = 0; ky < args.kh; ++ky) {
    const std::int32_t above = at.row + args.pad_h - ky * args.dilation_h;
    if (above < 0 || above % args.stride_h != 0) continue;
    const std::int32_t row = above / args.stride_h;
    if (row >= args.out_h) continue;
    for (std::int32_t kx = 0; kx < args.kw; ++kx) {
      const std::int32_t before = at.column + args.pad_w - kx * args.dilation_w;
      if (before < 0 || before % args.stride_w != 0) continue;
      const std::int32_t column = before / args.stride_w;
      if (column >= args.out_w) continue;
      const std::int64_t from = ((at.n * args.out_h + row) * args.out_w + column) * args.c + at.c;
      if (winner[from] != ky * args.kw + kx) continue;
      sum += wide(dy[from]);
    }
  }
  dx[element] = narrow<T>(sum);
}

}  // namespace

void max_pool2d_launch(const PoolArgs& args, const void* x, void* y, std::uint16_t* winner,
                       cudaStream_t stream) {
  with_element(args.dtype, [&]<typename T>() {
    forward_kernel<T><<<blocks_for(args.out_count), kThreads, 0, stream>>>(
        args, static_cast<const T*>(x), static_cast<T*>(y), winner);
  });
}

void max_pool2d_backward_launch(const PoolArgs& args, const void* dy, const std::uint16_t* winner,
                                void* dx, cudaStream_t stream) {
  with_element(args.dtype, [&]<typename T>() {
    backward_kernel<T><<<blocks_for(args.in_count), kThreads, 0, stream>>>(
        args, static_cast<const T*>(dy), winner, static_cast<T*>(dx));
  });
}

}  // namespace dl::kernels::cuda
