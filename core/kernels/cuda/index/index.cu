#include "core/kernels/cuda/common/device_types.h"
#include "core/kernels/cuda/index/index_kernels.h"
#include "core/kernels/element_width.h"

namespace dl::kernels::cuda {
namespace {

// One row of the result for each threadIdx.y.
template <typename Bits>
__global__ void __launch_bounds__(kThreads)
    select_kernel(IndexArgs args, const Bits* in, Bits* out, dl::cuda::FaultPlace fault) {
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * blockDim.y + threadIdx.y;
  if (row >= args.outer * args.count) return;
  const std::int64_t block = row / args.count;
  const std::int64_t position = row - block * args.count;
  const std::int64_t wanted = args.index[position];
  const bool good = wanted >= 0 && wanted < args.size;
  if (!good && threadIdx.x == 0) dl::cuda::fault::report(fault, position, wanted, args.size);
  const Bits* const from = in + (block * args.size + (good ? wanted : 0)) * args.inner;
  for (std::int64_t i = threadIdx.x; i < args.inner; i += blockDim.x) {
    out[row * args.inner + i] = good ? from[i] : Bits(0);
  }
}

// One thread for each element of a row adds all its terms, in the order of the index.
template <typename M>
__global__ void __launch_bounds__(kThreads)
    add_kernel(IndexArgs args, DType dtype, const void* grad, void* out) {
  const std::int64_t element = thread_number();
  if (element >= args.outer * args.inner) return;
  const std::int64_t block = element / args.inner;
  const std::int64_t i = element - block * args.inner;
  for (std::int64_t k = 0; k < args.count; ++k) {
    const std::int64_t wanted = args.index[k];
    if (wanted < 0 || wanted >= args.size) continue;  // the forward pass has reported it
    const std::int64_t to = (block * args.size + wanted) * args.inner + i;
    const M value = load_as<M>(grad, dtype, (block * args.count + k) * args.inner + i);
    store_as<M>(out, dtype, to, load_as<M>(out, dtype, to) + value);
  }
}

template <typename M>
__global__ void __launch_bounds__(kThreads)
    mask_kernel(DType dtype, const void* in, const bool* mask, M scale, void* out,
                std::int64_t count) {
  const std::int64_t i = thread_number();
  if (i >= count) return;
  store_as<M>(out, dtype, i, mask[i] ? load_as<M>(in, dtype, i) * scale : M(0));
}

}  // namespace

void index_select_launch(const IndexArgs& args, std::size_t width, const void* in, void* out,
                         dl::cuda::FaultPlace fault, cudaStream_t stream) {
  unsigned across = 1;
  while (across < kThreads && across < args.inner) across *= 2;
  const dim3 threads(across, kThreads / across);
  const auto blocks = static_cast<unsigned>((args.outer * args.count + threads.y - 1) / threads.y);
  visit_width(width, [&]<typename Bits>() {
    select_kernel<Bits><<<blocks, threads, 0, stream>>>(args, static_cast<const Bits*>(in),
                                                        static_cast<Bits*>(out), fault);
  });
}

void index_add_launch(const IndexArgs& args, DType dtype, const void* grad, void* out,
                      cudaStream_t stream) {
  with_arithmetic(dtype, [&]<typename M>() {
    add_kernel<M>
        <<<blocks_for(args.outer * args.inner), kThreads, 0, stream>>>(args, dtype, grad, out);
  });
}

void mask_scale_launch(DType dtype, const void* in, const bool* mask, double scale, void* out,
                       std::int64_t count, cudaStream_t stream) {
  with_arithmetic(dtype, [&]<typename M>() {
    mask_kernel<M><<<blocks_for(count), kThreads, 0, stream>>>(dtype, in, mask,
                                                               static_cast<M>(scale), out, count);
  });
}

}  // namespace dl::kernels::cuda
