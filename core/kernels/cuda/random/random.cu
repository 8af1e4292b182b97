#include <limits>

#include "core/kernels/cuda/common/device_types.h"
#include "core/kernels/cuda/random/random_kernels.h"

namespace dl::kernels::cuda {
namespace {

// Each thread computes one block of the generator.
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
    // Rounding to fewer bits may give `high`, which is outside the range.
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

// Each thread computes two elements, which share a block of the generator.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    randint_kernel(T* out, std::int64_t count, std::uint64_t low, std::uint64_t range,
                   random::PhiloxSeed seed) {
  const std::int64_t block = thread_number();
  const std::int64_t first = 2 * block;
  if (first >= count) return;
  const random::PhiloxWords words = random::philox_block(seed, static_cast<std::uint64_t>(block));
  for (int i = 0; i < 2 && first + i < count; ++i) {
    const std::uint64_t above = random::scaled_down(random::word64(words, i), range);
    out[first + i] = static_cast<T>(static_cast<std::int64_t>(low + above));
  }
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    bernoulli_kernel(const T* probabilities, T* out, std::int64_t count, random::PhiloxSeed seed,
                     dl::cuda::FaultPlace fault) {
  const std::int64_t block = thread_number();
  const std::int64_t first = 2 * block;
  if (first >= count) return;
  const random::PhiloxWords words = random::philox_block(seed, static_cast<std::uint64_t>(block));
  for (int i = 0; i < 2 && first + i < count; ++i) {
    const double p = probabilities[first + i];
    if (!random::is_probability(p)) {
      dl::cuda::fault::report_probability(fault, first + i, p);
      out[first + i] = std::numeric_limits<T>::quiet_NaN();
      continue;
    }
    const double unit = random::unit_double(words.word[2 * i], words.word[2 * i + 1]);
    out[first + i] = static_cast<T>(unit < p);
  }
}

template <typename M>
unsigned draw_blocks(std::int64_t count) {
  return blocks_for((count + random::kPhiloxElements<M> - 1) / random::kPhiloxElements<M>);
}

}  // namespace

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

void philox_randint_launch(DType dtype, void* out, std::int64_t count, std::int64_t low,
                           std::uint64_t range, const random::PhiloxSeed& seed,
                           cudaStream_t stream) {
  const auto launch = [&]<typename T>() {
    randint_kernel<T><<<blocks_for((count + 1) / 2), kThreads, 0, stream>>>(
        static_cast<T*>(out), count, static_cast<std::uint64_t>(low), range, seed);
  };
  switch (dtype) {
    case DType::kI32:
      return launch.template operator()<std::int32_t>();
    case DType::kU8:
      return launch.template operator()<std::uint8_t>();
    case DType::kF32:
      return launch.template operator()<float>();
    case DType::kF64:
      return launch.template operator()<double>();
    default:
      return launch.template operator()<std::int64_t>();
  }
}

void philox_bernoulli_launch(DType dtype, const void* probabilities, void* out, std::int64_t count,
                             const random::PhiloxSeed& seed, dl::cuda::FaultPlace fault,
                             cudaStream_t stream) {
  with_arithmetic(dtype, [&]<typename T>() {
    bernoulli_kernel<T><<<blocks_for((count + 1) / 2), kThreads, 0, stream>>>(
        static_cast<const T*>(probabilities), static_cast<T*>(out), count, seed, fault);
  });
}

}  // namespace dl::kernels::cuda
