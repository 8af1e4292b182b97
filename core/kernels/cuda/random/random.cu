#include <limits>

#include "core/kernels/cuda/common/row_packs.h"
#include "core/kernels/cuda/random/random_kernels.h"

namespace dl::kernels::cuda {
namespace {

// The pack of a thread. It begins at a block of the generator, whatever the tensor's alignment, so
// that a block is computed once. Calls f(words, k) for each of the pack's blocks, of `kEach`
// elements from element k on.
template <int kCount, int kEach, typename F>
__device__ bool for_each_block(std::int64_t count, const random::PhiloxSeed& seed,
                               RowPack<kCount>& pack, const F& f) {
  constexpr int kBlocks = kCount / kEach;
  const RowPacks<kCount> packs{count};
  const std::int64_t number = thread_number();
  if (!packs.has(number)) return false;
  pack = packs.pack(number);
#pragma unroll
  for (int i = 0; i < kBlocks; ++i) {
    f(random::philox_block(seed, static_cast<std::uint64_t>(number * kBlocks + i)), i * kEach);
  }
  return true;
}

template <typename M, typename Draw>
__device__ void draw_pack(DType dtype, void* out, std::int64_t count,
                          const random::PhiloxSeed& seed, const Draw& draw) {
  constexpr int kEach = random::kPhiloxElements<M>;
  RowPack<kRowPack<M>> pack{};
  M values[pack.kCount];
  const bool present = for_each_block<pack.kCount, kEach>(
      count, seed, pack, [&](const random::PhiloxWords& words, int first) {
        M block[kEach];
        draw(words, block);
        for (int k = 0; k < kEach; ++k) values[first + k] = block[k];
      });
  if (present) pack.store(out, dtype, 0, values);
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
  draw_pack<M>(dtype, out, count, seed, [&](const random::PhiloxWords& words, auto& values) {
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
  draw_pack<M>(dtype, out, count, seed, [&](const random::PhiloxWords& words, auto& values) {
    random::philox_normal_block<M>(words, mean, std, values);
  });
}

template <typename M>
inline constexpr int kDropped = sizeof(M) == 8 ? 4 : 8;  // elements of a thread

template <typename M>
__global__ void __launch_bounds__(kThreads)
    dropout_kernel(DType dtype, const void* in, void* out, std::int64_t count, float keep, M scale,
                   random::PhiloxSeed seed) {
  RowPack<kDropped<M>> pack{};
  M factors[pack.kCount];
  const bool present = for_each_block<pack.kCount, 4>(
      count, seed, pack, [&](const random::PhiloxWords& words, int first) {
        for (int k = 0; k < 4; ++k) {
          factors[first + k] = random::unit_float(words.word[k]) < keep ? scale : M(0);
        }
      });
  if (!present) return;
  M values[pack.kCount];
  pack.load(in, dtype, 0, values);
  for (int k = 0; k < pack.kCount; ++k) {
    values[k] = factors[k] != 0 ? values[k] * factors[k] : M(0);
  }
  pack.store(out, dtype, 0, values);
}

// Two elements share a block of the generator.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    randint_kernel(T* out, std::int64_t count, std::uint64_t low, std::uint64_t range,
                   random::PhiloxSeed seed) {
  RowPack<kPackOf<T>> pack{};
  T values[pack.kCount];
  const bool present = for_each_block<pack.kCount, 2>(
      count, seed, pack, [&](const random::PhiloxWords& words, int first) {
        for (int k = 0; k < 2; ++k) {
          const std::uint64_t above = random::scaled_down(random::word64(words, k), range);
          values[first + k] = static_cast<T>(static_cast<std::int64_t>(low + above));
        }
      });
  if (present) pack.store(out, values);
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    bernoulli_kernel(const T* probabilities, T* out, std::int64_t count, random::PhiloxSeed seed,
                     dl::cuda::FaultPlace fault) {
  RowPack<kPackOf<T>> pack{};
  double units[pack.kCount];
  const bool present = for_each_block<pack.kCount, 2>(
      count, seed, pack, [&](const random::PhiloxWords& words, int first) {
        for (int k = 0; k < 2; ++k) {
          units[first + k] = random::unit_double(words.word[2 * k], words.word[2 * k + 1]);
        }
      });
  if (!present) return;
  T values[pack.kCount];
  pack.load(probabilities, values);
  for (int k = 0; k < pack.kCount; ++k) {
    const double p = values[k];
    values[k] = static_cast<T>(units[k] < p);
    if (random::is_probability(p)) continue;
    dl::cuda::fault::report_probability(fault, pack.at + k, p);
    values[k] = std::numeric_limits<T>::quiet_NaN();
  }
  pack.store(out, values);
}

template <int kCount>
unsigned pack_blocks(std::int64_t count) {
  return blocks_for((count + kCount - 1) / kCount);
}

}  // namespace

void philox_uniform_launch(DType dtype, void* out, std::int64_t count, double low, double high,
                           const random::PhiloxSeed& seed, cudaStream_t stream) {
  with_arithmetic(dtype, [&]<typename M>() {
    uniform_kernel<M><<<pack_blocks<kRowPack<M>>(count), kThreads, 0, stream>>>(
        dtype, out, count, static_cast<M>(low), static_cast<M>(high), seed);
  });
}

void philox_normal_launch(DType dtype, void* out, std::int64_t count, double mean, double std,
                          const random::PhiloxSeed& seed, cudaStream_t stream) {
  with_arithmetic(dtype, [&]<typename M>() {
    normal_kernel<M><<<pack_blocks<kRowPack<M>>(count), kThreads, 0, stream>>>(
        dtype, out, count, static_cast<M>(mean), static_cast<M>(std), seed);
  });
}

void philox_dropout_launch(DType dtype, const void* in, void* out, std::int64_t count, double p,
                           const random::PhiloxSeed& seed, cudaStream_t stream) {
  with_arithmetic(dtype, [&]<typename M>() {
    dropout_kernel<M><<<pack_blocks<kDropped<M>>(count), kThreads, 0, stream>>>(
        dtype, in, out, count, static_cast<float>(1 - p), static_cast<M>(1 / (1 - p)), seed);
  });
}

void philox_randint_launch(DType dtype, void* out, std::int64_t count, std::int64_t low,
                           std::uint64_t range, const random::PhiloxSeed& seed,
                           cudaStream_t stream) {
  const auto launch = [&]<typename T>() {
    randint_kernel<T><<<pack_blocks<kPackOf<T>>(count), kThreads, 0, stream>>>(
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
    bernoulli_kernel<T><<<pack_blocks<kPackOf<T>>(count), kThreads, 0, stream>>>(
        static_cast<const T*>(probabilities), static_cast<T*>(out), count, seed, fault);
  });
}

}  // namespace dl::kernels::cuda
