#include "core/kernels/cpu/elementwise/compute_type.h"

#include "core/tensor/dtype_types.h"

namespace dl::kernels::cpu {
namespace {

template <typename To, typename From>
void move(const From* from, std::int64_t from_step, To* to, std::int64_t to_step,
          std::int64_t count) {
  if (from_step == 1 && to_step == 1) {
    if constexpr (kIsReduced<From> && std::is_same_v<To, float>) {
      widen(from, to, count);
    } else if constexpr (kIsReduced<To> && std::is_same_v<From, float>) {
      narrow(from, to, count);
    } else {
      for (std::int64_t i = 0; i < count; ++i) to[i] = dl::detail::convert<To>(from[i]);
    }
  } else {
    for (std::int64_t i = 0; i < count; ++i)
      to[i * to_step] = dl::detail::convert<To>(from[i * from_step]);
  }
}

template <typename T, typename C>
void load(const void* from, std::int64_t step, void* block, std::int64_t count) {
  move(static_cast<const T*>(from), step, static_cast<C*>(block), 1, count);
}

template <typename C, typename T>
void store(const void* block, void* to, std::int64_t step, std::int64_t count) {
  move(static_cast<const C*>(block), 1, static_cast<T*>(to), step, count);
}

}  // namespace

Load load_as(DType dtype, DType compute_dtype) noexcept {
  return visit_all(dtype, [compute_dtype]<typename T>() -> Load {
    if (compute_dtype == DType::kF32) return &load<T, float>;
    return compute_dtype == DType::kF64 ? &load<T, double> : &load<T, std::int64_t>;
  });
}

Store store_from(DType compute_dtype, DType dtype) noexcept {
  return visit_all(dtype, [compute_dtype]<typename T>() -> Store {
    if (compute_dtype == DType::kF32) return &store<float, T>;
    return compute_dtype == DType::kF64 ? &store<double, T> : &store<std::int64_t, T>;
  });
}

}  // namespace dl::kernels::cpu
