// Functions of two operands: see elementwise_kernels.h.
#include "core/kernels/cuda/elementwise/operands.h"

namespace dl::kernels::cuda {
namespace {

template <typename F, typename T, typename Out>
__global__ void __launch_bounds__(kThreads)
    flat_kernel(FlatOperand<T> a, FlatOperand<T> b, Given<Wide<T>> p, Out* out,
                std::int64_t count) {
  flat_pair(a, b, out, count, [&](Wide<T> x, Wide<T> y) { return formulas::value_of<F>(x, y, p); });
}

// Calls launch.operator()<Formula, Out>() for a row with dedicated kernels.
template <typename T, typename Launch>
bool with_hot(BinaryFn fn, const Launch& launch) {
  switch (fn) {
#define DL_BINARY(enumerator, name, Formula, ...)                             \
  case BinaryFn::enumerator:                                                  \
    if constexpr (constexpr BinaryFacts kFacts = facts(BinaryFn::enumerator); \
                  kFacts.cuda == CudaKernel::kHot) {                          \
      using Out = std::conditional_t<kFacts.gives == Gives::kBool, bool, T>;  \
      launch.template operator()<formulas::Formula, Out>();                   \
      return true;                                                            \
    }                                                                         \
    return false;
#include "core/elementwise/list.def"
  }
  return false;
}

// Rows of arithmetic or comparisons with a strided kernel for compute type M.
template <typename M>
constexpr bool has_value(BinaryFn fn, Gives gives) {
  return facts(fn).gives == gives &&
         (std::is_floating_point_v<M> ? computes_floats(facts(fn).takes)
                                      : computes_integers(facts(fn).takes));
}

template <typename M>
__device__ M value_at(BinaryFn fn, NumberOf<M> a, NumberOf<M> b, const Given<NumberOf<M>>& p) {
  switch (fn) {
#define DL_BINARY(enumerator, name, Formula, ...)                        \
  case BinaryFn::enumerator:                                             \
    if constexpr (has_value<M>(BinaryFn::enumerator, Gives::kSame)) {    \
      return element_of(formulas::value_of<formulas::Formula>(a, b, p)); \
    }                                                                    \
    break;
#include "core/elementwise/list.def"
  }
  return element_of(a);
}

template <typename M>
__device__ bool comparison_at(BinaryFn fn, NumberOf<M> a, NumberOf<M> b) {
  switch (fn) {
#define DL_BINARY(enumerator, name, Formula, ...)                     \
  case BinaryFn::enumerator:                                          \
    if constexpr (has_value<M>(BinaryFn::enumerator, Gives::kBool)) { \
      return formulas::Formula::value(a, b);                          \
    }                                                                 \
    break;
#include "core/elementwise/list.def"
  }
  return false;
}

template <typename M>
__global__ void __launch_bounds__(kThreads)
    strided_kernel(BinaryFn fn, bool gives_bool, DType dtype, Operand a, Operand b,
                   Given<NumberOf<M>> p, void* out, OffsetMap<3> map) {
  const std::int64_t element = thread_number();
  if (element >= map.count) return;
  const Offsets<3> at = map(static_cast<std::uint32_t>(element));
  const NumberOf<M> left(operand_at<M>(a, dtype, at.at[1]));
  const NumberOf<M> right(operand_at<M>(b, dtype, at.at[2]));
  if (gives_bool) {
    static_cast<bool*>(out)[at.at[0]] = comparison_at<M>(fn, left, right);
  } else {
    store_as<M>(out, dtype, at.at[0], value_at<M>(fn, left, right, p));
  }
}

template <typename M>
void launch_strided(BinaryFn fn, DType dtype, const Operand& a, const Operand& b,
                    const Parameters& parameters, void* out, const OffsetMap<3>& map,
                    cudaStream_t stream) {
  strided_kernel<M><<<blocks_for(map.count), kThreads, 0, stream>>>(
      fn, facts(fn).gives == Gives::kBool, dtype, a, b, given<M>(parameters), out, map);
}

}  // namespace

bool binary_flat(BinaryFn fn, DType dtype, const Operand& a, const Operand& b,
                 const Parameters& parameters, void* out, std::int64_t count, cudaStream_t stream) {
  if (!is_flat(a) || !is_flat(b) || !is_aligned(out)) return false;
  return visit_flat(dtype, [&]<typename T>() {
    const unsigned blocks = blocks_for((count + kPackOf<T> - 1) / kPackOf<T>);
    return with_hot<T>(fn, [&]<typename F, typename Out>() {
      flat_kernel<F, T, Out><<<blocks, kThreads, 0, stream>>>(
          flat<T>(a), flat<T>(b), given<Wide<T>>(parameters), static_cast<Out*>(out), count);
    });
  });
}

void binary_strided(BinaryFn fn, DType dtype, const Operand& a, const Operand& b,
                    const Parameters& parameters, void* out, const OffsetMap<3>& map,
                    cudaStream_t stream) {
  with_loaded(dtype, [&]<typename M>() {
    launch_strided<M>(fn, dtype, a, b, parameters, out, map, stream);
  });
}

}  // namespace dl::kernels::cuda
