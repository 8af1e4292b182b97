#include "core/kernels/cuda/common/row_packs.h"
#include "core/kernels/cuda/norm/norm_device.h"
#include "core/kernels/cuda/norm/norm_kernels.h"
#include "core/kernels/element_width.h"

namespace dl::kernels::cuda {
namespace {

template <typename T>
__global__ void __launch_bounds__(kThreads)
    relu_gate_kernel(std::int64_t numel, const T* dy, const T* y, bool aligned, T* gated) {
  constexpr int kCount = kPackOf<T>;
  const std::int64_t first = thread_number() * kCount;
  if (aligned && first + kCount <= numel) {
    Pack<T, kCount> gs = *reinterpret_cast<const Pack<T, kCount>*>(dy + first);
    const Pack<T, kCount> ys = *reinterpret_cast<const Pack<T, kCount>*>(y + first);
    for (int k = 0; k < kCount; ++k) {
      if (!(wide(ys.at[k]) > 0)) gs.at[k] = narrow<T>(Wide<T>(0));
    }
    *reinterpret_cast<Pack<T, kCount>*>(gated + first) = gs;
    return;
  }
  for (std::int64_t i = first; i < first + kCount && i < numel; ++i) {
    gated[i] = wide(y[i]) > 0 ? dy[i] : narrow<T>(Wide<T>(0));
  }
}

}  // namespace

void relu_gate_launch(DType dtype, std::int64_t numel, const void* dy, const void* y, void* gated,
                      cudaStream_t stream) {
  const bool aligned = is_aligned(dy) && is_aligned(y) && is_aligned(gated);
  with_element(dtype, [&]<typename T>() {
    relu_gate_kernel<T><<<blocks_for((numel + kPackOf<T> - 1) / kPackOf<T>), kThreads, 0, stream>>>(
        numel, static_cast<const T*>(dy), static_cast<const T*>(y), aligned,
        static_cast<T*>(gated));
  });
}

}  // namespace dl::kernels::cuda
