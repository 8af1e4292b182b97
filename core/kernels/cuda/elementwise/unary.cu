// Functions of one operand, and their gradients: see elementwise_kernels.h.
#include "core/kernels/cuda/elementwise/operands.h"

namespace dl::kernels::cuda {
namespace {

template <typename F, typename T>
__global__ void __launch_bounds__(kThreads)
    flat_kernel(const T* in, Given<Wide<T>> p, T* out, std::int64_t count) {
  constexpr int kCount = kPackOf<T>;
  const std::int64_t first = thread_number() * kCount;
  if (first + kCount <= count) {
    auto pack = *reinterpret_cast<const Pack<T, kCount>*>(in + first);
    for (int i = 0; i < kCount; ++i) {
      pack.at[i] = narrow<T>(formulas::value_of<F>(wide(pack.at[i]), p));
    }
    *reinterpret_cast<Pack<T, kCount>*>(out + first) = pack;
    return;
  }
  for (std::int64_t i = first; i < count; ++i) {
    out[i] = narrow<T>(formulas::value_of<F>(wide(in[i]), p));
  }
}

template <typename F, typename T>
__global__ void __launch_bounds__(kThreads)
    flat_gradient_kernel(FlatOperand<T> grad, FlatOperand<T> saved, Given<Wide<T>> p, T* out,
                         std::int64_t count) {
  flat_pair(grad, saved, out, count,
            [&](Wide<T> g, Wide<T> s) { return formulas::gradient_of<F>(g, s, p); });
}

// Calls launch.operator()<Formula>() for a row with dedicated kernels.
template <typename Launch>
bool with_hot(UnaryFn fn, const Launch& launch) {
  switch (fn) {
#define DL_UNARY_FN(enumerator, name, Formula, ...)                      \
  case UnaryFn::enumerator:                                              \
    if constexpr (facts(UnaryFn::enumerator).cuda == CudaKernel::kHot) { \
      launch.template operator()<formulas::Formula>();                   \
      return true;                                                       \
    }                                                                    \
    return false;
#include "core/elementwise/list.def"
  }
  return false;
}

// Rows with a strided kernel for compute type M.
template <typename M>
constexpr bool has_value(UnaryFn fn) {
  return std::is_floating_point_v<M> || computes_integers(facts(fn).takes);
}

template <typename M>
__device__ M value_at(UnaryFn fn, M x, const Given<NumberOf<M>>& p) {
  switch (fn) {
#define DL_UNARY_FN(enumerator, name, Formula, ...)                                \
  case UnaryFn::enumerator:                                                        \
    if constexpr (has_value<M>(UnaryFn::enumerator)) {                             \
      return element_of(formulas::value_of<formulas::Formula>(NumberOf<M>(x), p)); \
    }                                                                              \
    break;
#include "core/elementwise/list.def"
  }
  return x;
}

template <typename M>
__device__ M gradient_at(UnaryFn fn, M g, M saved, const Given<M>& p) {
  switch (fn) {
#define DL_UNARY_FN(enumerator, name, Formula, ...)                 \
  case UnaryFn::enumerator:                                         \
    if constexpr (has_value<M>(UnaryFn::enumerator)) {              \
      return formulas::gradient_of<formulas::Formula>(g, saved, p); \
    }                                                               \
    break;
#include "core/elementwise/list.def"
  }
  return g;
}

template <typename M>
__global__ void __launch_bounds__(kThreads)
    strided_kernel(UnaryFn fn, DType dtype, const void* in, Given<NumberOf<M>> p, void* out,
                   OffsetMap<2> map) {
  const std::int64_t element = thread_number();
  if (element >= map.count) return;
  const Offsets<2> at = map(static_cast<std::uint32_t>(element));
  store_as<M>(out, dtype, at.at[0], value_at<M>(fn, load_as<M>(in, dtype, at.at[1]), p));
}

template <typename M>
__global__ void __launch_bounds__(kThreads)
    strided_gradient_kernel(UnaryFn fn, DType dtype, Operand grad, Operand saved, Given<M> p,
                            void* out, OffsetMap<3> map) {
  const std::int64_t element = thread_number();
  if (element >= map.count) return;
  const Offsets<3> at = map(static_cast<std::uint32_t>(element));
  const M g = operand_at<M>(grad, dtype, at.at[1]);
  const M s = operand_at<M>(saved, dtype, at.at[2]);
  store_as<M>(out, dtype, at.at[0], gradient_at<M>(fn, g, s, p));
}

template <typename M>
void launch_strided(UnaryFn fn, DType dtype, const void* in, const Parameters& parameters,
                    void* out, const OffsetMap<2>& map, cudaStream_t stream) {
  strided_kernel<M><<<blocks_for(map.count), kThreads, 0, stream>>>(fn, dtype, in,
                                                                    given<M>(parameters), out, map);
}

template <typename M>
void launch_strided_gradient(UnaryFn fn, DType dtype, const Operand& grad, const Operand& saved,
                             const Parameters& parameters, void* out, const OffsetMap<3>& map,
                             cudaStream_t stream) {
  strided_gradient_kernel<M><<<blocks_for(map.count), kThreads, 0, stream>>>(
      fn, dtype, grad, saved, given<M>(parameters), out, map);
}

}  // namespace

bool unary_flat(UnaryFn fn, DType dtype, const void* in, const Parameters& parameters, void* out,
                std::int64_t count, cudaStream_t stream) {
  if (!is_aligned(in) || !is_aligned(out)) return false;
  return visit_flat(dtype, [&]<typename T>() {
    const unsigned blocks = blocks_for((count + kPackOf<T> - 1) / kPackOf<T>);
    return with_hot(fn, [&]<typename F>() {
      flat_kernel<F, T><<<blocks, kThreads, 0, stream>>>(
          static_cast<const T*>(in), given<Wide<T>>(parameters), static_cast<T*>(out), count);
    });
  });
}

bool gradient_flat(UnaryFn fn, DType dtype, const Operand& grad, const Operand& saved,
                   const Parameters& parameters, void* out, std::int64_t count,
                   cudaStream_t stream) {
  if (!is_flat(grad) || !is_flat(saved) || !is_aligned(out)) return false;
  return visit_flat(dtype, [&]<typename T>() {
    const unsigned blocks = blocks_for((count + kPackOf<T> - 1) / kPackOf<T>);
    return with_hot(fn, [&]<typename F>() {
      flat_gradient_kernel<F, T><<<blocks, kThreads, 0, stream>>>(
          flat<T>(grad), flat<T>(saved), given<Wide<T>>(parameters), static_cast<T*>(out), count);
    });
  });
}

void unary_strided(UnaryFn fn, DType dtype, const void* in, const Parameters& parameters, void* out,
                   const OffsetMap<2>& map, cudaStream_t stream) {
  with_loaded(
      dtype, [&]<typename M>() { launch_strided<M>(fn, dtype, in, parameters, out, map, stream); });
}

void gradient_strided(UnaryFn fn, DType dtype, const Operand& grad, const Operand& saved,
                      const Parameters& parameters, void* out, const OffsetMap<3>& map,
                      cudaStream_t stream) {
  if (dtype == DType::kF64) {
    return launch_strided_gradient<double>(fn, dtype, grad, saved, parameters, out, map, stream);
  }
  launch_strided_gradient<float>(fn, dtype, grad, saved, parameters, out, map, stream);
}

}  // namespace dl::kernels::cuda
