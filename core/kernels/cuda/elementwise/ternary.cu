// Functions of three operands: see elementwise_kernels.h.
#include "core/kernels/cuda/elementwise/operands.h"

namespace dl::kernels::cuda {
namespace {

template <typename T>
__global__ void __launch_bounds__(kThreads)
    where_kernel(const bool* condition, FlatOperand<T> b, FlatOperand<T> c, T* out,
                 std::int64_t count) {
  constexpr int kCount = kPackOf<T>;
  const std::int64_t first = thread_number() * kCount;
  if (first + kCount <= count) {
    const auto conditions = *reinterpret_cast<const Pack<bool, kCount>*>(condition + first);
    Wide<T> yes[kCount];
    Wide<T> no[kCount];
    load_pack(b, first, yes);
    load_pack(c, first, no);
    Pack<T, kCount> pack;
    for (int i = 0; i < kCount; ++i) {
      pack.at[i] = narrow<T>(conditions.at[i] ? yes[i] : no[i]);
    }
    *reinterpret_cast<Pack<T, kCount>*>(out + first) = pack;
    return;
  }
  for (std::int64_t i = first; i < count; ++i) {
    out[i] = narrow<T>(condition[i] ? load_one(b, i) : load_one(c, i));
  }
}

// Rows with a strided kernel for compute type M.
template <typename M>
constexpr bool has_value(TernaryFn fn) {
  return std::is_floating_point_v<M> || computes_integers(facts(fn).takes);
}

template <typename M>
__device__ M value_at(TernaryFn fn, NumberOf<M> a, NumberOf<M> b, NumberOf<M> c,
                      const Given<NumberOf<M>>& p) {
  switch (fn) {
#define DL_TERNARY(enumerator, name, Formula, ...)                          \
  case TernaryFn::enumerator:                                               \
    if constexpr (has_value<M>(TernaryFn::enumerator)) {                    \
      return element_of(formulas::value_of<formulas::Formula>(a, b, c, p)); \
    }                                                                       \
    break;
#include "core/elementwise/list.def"
  }
  return element_of(a);
}

template <typename M>
__global__ void __launch_bounds__(kThreads)
    ternary_kernel(TernaryFn fn, bool is_condition, DType dtype, Operand a, Operand b, Operand c,
                   Given<NumberOf<M>> p, void* out, OffsetMap<4> map) {
  const std::int64_t element = thread_number();
  if (element >= map.count) return;
  const Offsets<4> at = map(static_cast<std::uint32_t>(element));
  M first;
  if (is_condition) {
    first = static_cast<M>(operand_at<std::int64_t>(a, DType::kBool, at.at[1]));
  } else {
    first = operand_at<M>(a, dtype, at.at[1]);
  }
  const NumberOf<M> second(operand_at<M>(b, dtype, at.at[2]));
  const NumberOf<M> third(operand_at<M>(c, dtype, at.at[3]));
  store_as<M>(out, dtype, at.at[0], value_at<M>(fn, NumberOf<M>(first), second, third, p));
}

}  // namespace

bool where_flat(const Operand& condition, const Operand& b, const Operand& c, DType dtype,
                void* out, std::int64_t count, cudaStream_t stream) {
  if (condition.one || !is_aligned(condition.data) || !is_flat(b) || !is_flat(c) ||
      !is_aligned(out)) {
    return false;
  }
  return visit_flat(dtype, [&]<typename T>() {
    const unsigned blocks = blocks_for((count + kPackOf<T> - 1) / kPackOf<T>);
    where_kernel<T><<<blocks, kThreads, 0, stream>>>(static_cast<const bool*>(condition.data),
                                                     flat<T>(b), flat<T>(c), static_cast<T*>(out),
                                                     count);
    return true;
  });
}

void ternary_strided(TernaryFn fn, bool is_condition, DType dtype, const Operand& a,
                     const Operand& b, const Operand& c, const Parameters& parameters, void* out,
                     const OffsetMap<4>& map, cudaStream_t stream) {
  with_loaded(dtype, [&]<typename M>() {
    ternary_kernel<M><<<blocks_for(map.count), kThreads, 0, stream>>>(
        fn, is_condition, dtype, a, b, c, given<M>(parameters), out, map);
  });
}

}  // namespace dl::kernels::cuda
