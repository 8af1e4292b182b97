// Elements in device code: their compute type, hardware conversions, and packs of 16 bytes. Device
// code, except for with_arithmetic().
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/tensor/dtype.h"
#include "core/tensor/half.h"

namespace dl::kernels::cuda {

template <typename T>
inline constexpr bool kIsHalfWidth = std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>;
template <typename T>
using Wide = std::conditional_t<kIsHalfWidth<T>, float, T>;

// Whether the device has an instruction for the conversion; false when compiled for the host.
#if defined(__CUDA_ARCH__)
inline constexpr bool kConvertsHalf = true;
inline constexpr bool kConvertsBFloat16 = __CUDA_ARCH__ >= 800;
#else
inline constexpr bool kConvertsHalf = false;
inline constexpr bool kConvertsBFloat16 = false;
#endif

template <typename T>
__device__ inline Wide<T> wide(T value) {
  if constexpr (kConvertsHalf && std::is_same_v<T, Half>) {
    float result;
    asm("cvt.f32.f16 %0, %1;" : "=f"(result) : "h"(value.bits));
    return result;
  } else {
    return value;
  }
}

template <typename T>
__device__ inline T narrow(Wide<T> value) {
  if constexpr (kConvertsHalf && std::is_same_v<T, Half>) {
    T result;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(result.bits) : "f"(value));
    return result;
  } else if constexpr (kConvertsBFloat16 && std::is_same_v<T, BFloat16>) {
    T result;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(result.bits) : "f"(value));
    return result;
  } else {
    return T(value);
  }
}

// Elements that are loaded and stored together.
template <typename T, int kCount>
struct alignas(sizeof(T) * kCount) Pack {
  T at[kCount];
};
template <typename T>
inline constexpr int kPackOf = 16 / static_cast<int>(sizeof(T));

// Calls f.operator()<T>(). T is the type in which elements of a dtype that load_as() loads as M are
// stored, and unsigned char for bool. All threads take the same branch.
template <typename M, typename F>
__device__ inline void with_stored(DType dtype, const F& f) {
  if constexpr (std::is_same_v<M, float>) {
    switch (dtype) {
      case DType::kF16:
        return f.template operator()<Half>();
      case DType::kBF16:
        return f.template operator()<BFloat16>();
      default:
        return f.template operator()<float>();
    }
  } else if constexpr (std::is_same_v<M, std::int64_t>) {
    switch (dtype) {
      case DType::kI8:
        return f.template operator()<std::int8_t>();
      case DType::kU8:
      case DType::kBool:
        return f.template operator()<std::uint8_t>();
      case DType::kI16:
        return f.template operator()<std::int16_t>();
      case DType::kU16:
        return f.template operator()<std::uint16_t>();
      case DType::kI32:
        return f.template operator()<std::int32_t>();
      case DType::kU32:
        return f.template operator()<std::uint32_t>();
      default:
        return f.template operator()<std::int64_t>();
    }
  } else {
    return f.template operator()<M>();
  }
}

// Loads and stores elements of a dtype known at run time as M: float for f16, bf16 and f32, double
// for f64, int64 for integers and bool, uint64 for u64. All threads take the same branch.
template <typename M>
__device__ inline M load_as(const void* data, DType dtype, std::int64_t at) {
  M value{};
  with_stored<M>(dtype, [&]<typename T>() { value = wide(static_cast<const T*>(data)[at]); });
  return value;
}

template <typename M>
__device__ inline void store_as(void* data, DType dtype, std::int64_t at, M value) {
  if constexpr (std::is_same_v<M, float>) {
    switch (dtype) {
      case DType::kF16:
        static_cast<Half*>(data)[at] = narrow<Half>(value);
        return;
      case DType::kBF16:
        static_cast<BFloat16*>(data)[at] = narrow<BFloat16>(value);
        return;
      default:
        static_cast<float*>(data)[at] = value;
    }
  } else if constexpr (std::is_same_v<M, std::int64_t>) {
    switch (dtype) {
      case DType::kBool:
        static_cast<bool*>(data)[at] = value != 0;
        return;
      case DType::kI8:
      case DType::kU8:
        static_cast<std::uint8_t*>(data)[at] = static_cast<std::uint8_t>(value);
        return;
      case DType::kI16:
      case DType::kU16:
        static_cast<std::uint16_t*>(data)[at] = static_cast<std::uint16_t>(value);
        return;
      case DType::kI32:
      case DType::kU32:
        static_cast<std::uint32_t*>(data)[at] = static_cast<std::uint32_t>(value);
        return;
      default:
        static_cast<std::int64_t*>(data)[at] = value;
    }
  } else {
    static_cast<M*>(data)[at] = value;
  }
}

// Elements of any floating dtype as double.
__device__ inline double load_double(const void* data, DType dtype, std::int64_t at) {
  if (dtype == DType::kF64) return static_cast<const double*>(data)[at];
  return static_cast<double>(load_as<float>(data, dtype, at));
}
__device__ inline void store_double(void* data, DType dtype, std::int64_t at, double value) {
  if (dtype == DType::kF64) {
    static_cast<double*>(data)[at] = value;
  } else {
    store_as<float>(data, dtype, at, static_cast<float>(value));
  }
}

inline constexpr int kThreads = 256;  // of an element-wise block

// The number of blocks if each thread gets one element (or pack).
inline unsigned blocks_for(std::int64_t threads) {
  return static_cast<unsigned>((threads + kThreads - 1) / kThreads);
}
__device__ inline std::int64_t thread_number() {
  return static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
}

// Host code: calls launch.operator()<M>(). M is the type in which a floating dtype is computed.
template <typename Launch>
void with_arithmetic(DType dtype, const Launch& launch) {
  if (dtype == DType::kF64) return launch.template operator()<double>();
  launch.template operator()<float>();
}
// The same for any dtype: M is int64 for integers and bool.
template <typename Launch>
void with_any_arithmetic(DType dtype, const Launch& launch) {
  if (is_floating(dtype)) return with_arithmetic(dtype, launch);
  launch.template operator()<std::int64_t>();
}
// Calls launch.operator()<M>(). M is the type as which load_as() loads elements of any dtype.
template <typename Launch>
void with_loaded(DType dtype, const Launch& launch) {
  if (dtype == DType::kU64) return launch.template operator()<std::uint64_t>();
  with_any_arithmetic(dtype, launch);
}
// Calls launch.operator()<T>(). T is the type in which elements of a floating dtype are stored.
template <typename Launch>
void with_element(DType dtype, const Launch& launch) {
  switch (dtype) {
    case DType::kF16:
      return launch.template operator()<Half>();
    case DType::kBF16:
      return launch.template operator()<BFloat16>();
    case DType::kF64:
      return launch.template operator()<double>();
    default:
      return launch.template operator()<float>();
  }
}

}  // namespace dl::kernels::cuda
