// Operands of element-wise kernels, which may be scalars, and parameters. Device code only.
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/kernels/cuda/common/device_types.h"
#include "core/kernels/cuda/elementwise/elementwise_kernels.h"
#include "core/kernels/element_width.h"
#include "core/kernels/formulas/scalars.h"

namespace dl::kernels::cuda {

using formulas::Given;

// Parameters in the compute type.
template <typename M>
Given<NumberOf<M>> given(const Parameters& p) {
  if constexpr (std::is_floating_point_v<M>) {
    return {static_cast<M>(p.a), static_cast<M>(p.b)};
  } else {
    return {NumberOf<M>(static_cast<M>(p.whole)), NumberOf<M>(M(0))};
  }
}

// One operand of a flat kernel, in the compute type.
template <typename T>
struct FlatOperand {
  const T* data;  // null: value
  bool one;
  Wide<T> value;
};

template <typename T>
FlatOperand<T> flat(const Operand& operand) {
  return {static_cast<const T*>(operand.data), operand.one, static_cast<Wide<T>>(operand.floating)};
}

inline bool is_flat(const Operand& operand) {
  return operand.one || is_aligned(operand.data);
}

template <typename T, int kCount>
__device__ inline void load_pack(const FlatOperand<T>& operand, std::int64_t first,
                                 Wide<T> (&values)[kCount]) {
  if (operand.data == nullptr || operand.one) {
    const Wide<T> value = operand.data == nullptr ? operand.value : wide(*operand.data);
    for (int i = 0; i < kCount; ++i) values[i] = value;
    return;
  }
  const auto pack = *reinterpret_cast<const Pack<T, kCount>*>(operand.data + first);
  for (int i = 0; i < kCount; ++i) values[i] = wide(pack.at[i]);
}

template <typename T>
__device__ inline Wide<T> load_one(const FlatOperand<T>& operand, std::int64_t at) {
  if (operand.data == nullptr) return operand.value;
  return wide(operand.data[operand.one ? 0 : at]);
}

template <typename Out, typename Result>
__device__ inline Out result_of(Result value) {
  if constexpr (std::is_same_v<Out, bool>) {
    return value;
  } else {
    return narrow<Out>(value);
  }
}

template <typename M>
__device__ inline M operand_at(const Operand& operand, DType dtype, std::int64_t at) {
  if (operand.data != nullptr) return load_as<M>(operand.data, dtype, at);
  return std::is_floating_point_v<M> ? static_cast<M>(operand.floating)
                                     : static_cast<M>(operand.integer);
}

// out[i] = f(a[i], b[i]), one pack of elements for each thread.
template <typename T, typename Out, typename F>
__device__ inline void flat_pair(const FlatOperand<T>& a, const FlatOperand<T>& b, Out* out,
                                 std::int64_t count, const F& f) {
  constexpr int kCount = kPackOf<T>;
  const std::int64_t first = thread_number() * kCount;
  if (first + kCount <= count) {
    Wide<T> left[kCount];
    Wide<T> right[kCount];
    load_pack(a, first, left);
    load_pack(b, first, right);
    Pack<Out, kCount> pack;
    for (int i = 0; i < kCount; ++i) pack.at[i] = result_of<Out>(f(left[i], right[i]));
    *reinterpret_cast<Pack<Out, kCount>*>(out + first) = pack;
    return;
  }
  for (std::int64_t i = first; i < count; ++i) {
    out[i] = result_of<Out>(f(load_one(a, i), load_one(b, i)));
  }
}

// Calls body.operator()<T>() for dtypes with flat kernels; false for others.
template <typename Body>
bool visit_flat(DType dtype, const Body& body) {
  switch (dtype) {
    case DType::kF16:
      return body.template operator()<Half>();
    case DType::kBF16:
      return body.template operator()<BFloat16>();
    case DType::kF32:
      return body.template operator()<float>();
    default:
      return false;
  }
}

}  // namespace dl::kernels::cuda
