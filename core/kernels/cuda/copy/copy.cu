#include "core/kernels/cuda/common/device_types.h"
#include "core/kernels/cuda/copy/copy_kernels.h"
#include "core/kernels/element_width.h"

namespace dl::kernels::cuda {
namespace {

template <typename Bits>
__global__ void __launch_bounds__(kThreads)
    copy_kernel(const Bits* from, Bits* to, OffsetMap<2> map) {
  const std::int64_t element = thread_number();
  if (element >= map.count) return;
  const Offsets<2> at = map(static_cast<std::uint32_t>(element));
  to[at.at[0]] = from[at.at[1]];
}

template <typename Bits>
__global__ void __launch_bounds__(kThreads) fill_kernel(Bits value, Bits* to, OffsetMap<1> map) {
  const std::int64_t element = thread_number();
  if (element < map.count) to[map(static_cast<std::uint32_t>(element)).at[0]] = value;
}

template <typename Bits>
__global__ void __launch_bounds__(kThreads)
    scatter_kernel(const Bits* grad, const std::int64_t* index, std::int64_t step, Bits* out,
                   OffsetMap<3> map) {
  const std::int64_t element = thread_number();
  if (element >= map.count) return;
  const Offsets<3> at = map(static_cast<std::uint32_t>(element));
  out[at.at[0] + index[at.at[2]] * step] = grad[at.at[1]];
}

constexpr int kConverted = 4;  // elements a thread: 16 bytes of f32

template <typename From, typename To>
__global__ void __launch_bounds__(kThreads)
    convert_kernel(const From* from, To* to, std::int64_t count) {
  const std::int64_t first = thread_number() * kConverted;
  if (first + kConverted <= count) {
    const auto in = *reinterpret_cast<const Pack<From, kConverted>*>(from + first);
    Pack<To, kConverted> out;
    for (int i = 0; i < kConverted; ++i) out.at[i] = narrow<To>(wide(in.at[i]));
    *reinterpret_cast<Pack<To, kConverted>*>(to + first) = out;
    return;
  }
  for (std::int64_t i = first; i < count; ++i) to[i] = narrow<To>(wide(from[i]));
}

// Stores a value as any dtype. Floats are converted to integers through int64, so that -1.0 becomes
// 255 as u8.
template <typename M>
__device__ void store_converted(void* to, DType dtype, std::int64_t at, M value) {
  if (dtype == DType::kBool) {
    static_cast<bool*>(to)[at] = value != M(0);
  } else if (dtype == DType::kF64) {
    static_cast<double*>(to)[at] = static_cast<double>(value);
  } else if (is_floating(dtype)) {
    store_as<float>(to, dtype, at, static_cast<float>(value));
  } else {
    if constexpr (std::is_floating_point_v<M>) {
      if (dtype == DType::kU64 && value >= M(9223372036854775808.0)) {
        static_cast<std::uint64_t*>(to)[at] = static_cast<std::uint64_t>(value);
        return;
      }
    }
    store_as<std::int64_t>(to, dtype, at, static_cast<std::int64_t>(value));
  }
}

template <typename M>
__global__ void __launch_bounds__(kThreads)
    convert_strided_kernel(const void* from, DType from_dtype, void* to, DType to_dtype,
                           OffsetMap<2> map) {
  const std::int64_t element = thread_number();
  if (element >= map.count) return;
  const Offsets<2> at = map(static_cast<std::uint32_t>(element));
  store_converted<M>(to, to_dtype, at.at[0], load_as<M>(from, from_dtype, at.at[1]));
}

template <typename From, typename To>
bool launch_convert(const void* from, void* to, std::int64_t count, cudaStream_t stream) {
  convert_kernel<From, To>
      <<<blocks_for((count + kConverted - 1) / kConverted), kThreads, 0, stream>>>(
          static_cast<const From*>(from), static_cast<To*>(to), count);
  return true;
}

}  // namespace

void copy_strided(std::size_t width, const void* from, void* to, const OffsetMap<2>& map,
                  cudaStream_t stream) {
  visit_width(width, [&]<typename Bits>() {
    copy_kernel<Bits><<<blocks_for(map.count), kThreads, 0, stream>>>(
        static_cast<const Bits*>(from), static_cast<Bits*>(to), map);
  });
}

bool convert_flat(const void* from, DType from_dtype, void* to, DType to_dtype, std::int64_t count,
                  cudaStream_t stream) {
  if (!is_aligned(from) || !is_aligned(to)) return false;
  if (from_dtype == DType::kF32 && to_dtype == DType::kF16) {
    return launch_convert<float, Half>(from, to, count, stream);
  }
  if (from_dtype == DType::kF32 && to_dtype == DType::kBF16) {
    return launch_convert<float, BFloat16>(from, to, count, stream);
  }
  if (from_dtype == DType::kF16 && to_dtype == DType::kF32) {
    return launch_convert<Half, float>(from, to, count, stream);
  }
  if (from_dtype == DType::kBF16 && to_dtype == DType::kF32) {
    return launch_convert<BFloat16, float>(from, to, count, stream);
  }
  return false;
}

void convert_strided(const void* from, DType from_dtype, void* to, DType to_dtype,
                     const OffsetMap<2>& map, cudaStream_t stream) {
  with_loaded(from_dtype, [&]<typename M>() {
    convert_strided_kernel<M>
        <<<blocks_for(map.count), kThreads, 0, stream>>>(from, from_dtype, to, to_dtype, map);
  });
}

void fill_strided(std::size_t width, std::uint64_t element, void* to, const OffsetMap<1>& map,
                  cudaStream_t stream) {
  visit_width(width, [&]<typename Bits>() {
    fill_kernel<Bits><<<blocks_for(map.count), kThreads, 0, stream>>>(static_cast<Bits>(element),
                                                                      static_cast<Bits*>(to), map);
  });
}

void scatter_strided(std::size_t width, const void* grad, const std::int64_t* index,
                     std::int64_t step, void* out, const OffsetMap<3>& map, cudaStream_t stream) {
  visit_width(width, [&]<typename Bits>() {
    scatter_kernel<Bits><<<blocks_for(map.count), kThreads, 0, stream>>>(
        static_cast<const Bits*>(grad), index, step, static_cast<Bits*>(out), map);
  });
}

}  // namespace dl::kernels::cuda
