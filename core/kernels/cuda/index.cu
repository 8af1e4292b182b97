#include "core/kernels/cuda/device_types.h"
#include "core/kernels/cuda/index_kernels.h"

namespace dl::kernels::cuda {
namespace {

// One row of the result a threadIdx.y.
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

// One thread for each element of a row adds all that go there, so that the order is that of the
// index.
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

// One block of the generator a thread.
template <typename M, typename Draw>
__device__ void draw_block(DType dtype, void* out, std::int64_t count,
                           const random::PhiloxSeed& seed, const Draw& draw) {
  constexpr int kWidth = random::kPhiloxElements<M>;
  const std::int64_t block = thread_number();
  const std::int64_t first = block * kWidth;
  if (first >= count) return;
  M values[kWidth];
  draw(random::philox_block(seed, static_cast<std::uint64_t>(block)), values);
  for (int i = 0; i < kWidth && first + i < count; ++i) {
    store_as<M>(out, dtype, first + i, values[i]);
  }
}

template <typename M>
__device__ M rounded(DType dtype, M value) {
  if (dtype == DType::kF16) return wide(narrow<Half>(static_cast<float>(value)));
  if (dtype == DType::kBF16) return wide(narrow<BFloat16>(static_cast<float>(value)));
  return value;
}

template <typename M>
__global__ void __launch_bounds__(kThreads)
    uniform_kernel(DType dtype, void* out, std::int64_t count, M low, M high,
                   random::PhiloxSeed seed) {
  draw_block<M>(dtype, out, count, seed, [&](const random::PhiloxWords& words, auto& values) {
    random::philox_uniform_block<M>(words, low, high, values);
    // Fewer bits may round up to the end that is not in the range.
    for (M& value : values) {
      if (rounded(dtype, value) >= high) value = low;
    }
  });
}

template <typename M>
__global__ void __launch_bounds__(kThreads)
    normal_kernel(DType dtype, void* out, std::int64_t count, M mean, M std,
                  random::PhiloxSeed seed) {
  draw_block<M>(dtype, out, count, seed, [&](const random::PhiloxWords& words, auto& values) {
    random::philox_normal_block<M>(words, mean, std, values);
  });
}

template <typename M>
__global__ void __launch_bounds__(kThreads)
    dropout_kernel(DType dtype, const void* in, void* out, std::int64_t count, float keep, M scale,
                   random::PhiloxSeed seed) {
  const std::int64_t block = thread_number();
  const std::int64_t first = block * 4;
  if (first >= count) return;
  const random::PhiloxWords words = random::philox_block(seed, static_cast<std::uint64_t>(block));
  for (int i = 0; i < 4 && first + i < count; ++i) {
    const bool kept = random::unit_float(words.word[i]) < keep;
    store_as<M>(out, dtype, first + i, kept ? load_as<M>(in, dtype, first + i) * scale : M(0));
  }
}

template <typename Launch>
void with_arithmetic(DType dtype, const Launch& launch) {
  if (dtype == DType::kF64) return launch.template operator()<double>();
  launch.template operator()<float>();
}

template <typename M>
unsigned draw_blocks(std::int64_t count) {
  return blocks_for((count + random::kPhiloxElements<M> - 1) / random::kPhiloxElements<M>);
}

}  // namespace

void index_select_launch(const IndexArgs& args, std::size_t width, const void* in, void* out,
                         dl::cuda::FaultPlace fault, cudaStream_t stream) {
  unsigned across = 1;
  while (across < kThreads && across < args.inner) across *= 2;
  const dim3 threads(across, kThreads / across);
  const auto blocks = static_cast<unsigned>((args.outer * args.count + threads.y - 1) / threads.y);
  const auto launch = [&]<typename Bits>() {
    select_kernel<<<blocks, threads, 0, stream>>>(args, static_cast<const Bits*>(in),
                                                  static_cast<Bits*>(out), fault);
  };
  switch (width) {
    case 1:
      return launch.template operator()<std::uint8_t>();
    case 2:
      return launch.template operator()<std::uint16_t>();
    case 4:
      return launch.template operator()<std::uint32_t>();
    default:
      return launch.template operator()<std::uint64_t>();
  }
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

void philox_uniform_launch(DType dtype, void* out, std::int64_t count, double low, double high,
                           const random::PhiloxSeed& seed, cudaStream_t stream) {
  with_arithmetic(dtype, [&]<typename M>() {
    uniform_kernel<M><<<draw_blocks<M>(count), kThreads, 0, stream>>>(
        dtype, out, count, static_cast<M>(low), static_cast<M>(high), seed);
  });
}

void philox_normal_launch(DType dtype, void* out, std::int64_t count, double mean, double std,
                          const random::PhiloxSeed& seed, cudaStream_t stream) {
  with_arithmetic(dtype, [&]<typename M>() {
    normal_kernel<M><<<draw_blocks<M>(count), kThreads, 0, stream>>>(
        dtype, out, count, static_cast<M>(mean), static_cast<M>(std), seed);
  });
}

void philox_dropout_launch(DType dtype, const void* in, void* out, std::int64_t count, double p,
                           const random::PhiloxSeed& seed, cudaStream_t stream) {
  with_arithmetic(dtype, [&]<typename M>() {
    dropout_kernel<M><<<blocks_for((count + 3) / 4), kThreads, 0, stream>>>(
        dtype, in, out, count, static_cast<float>(1 - p), static_cast<M>(1 / (1 - p)), seed);
  });
}

}  // namespace dl::kernels::cuda
