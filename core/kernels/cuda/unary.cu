#include "core/kernels/cuda/alignment.h"
#include "core/kernels/cuda/device_types.h"
#include "core/kernels/cuda/elementwise_kernels.h"
#include "core/kernels/functors.h"

namespace dl::kernels::cuda {
namespace {

// With the exponent that the other functions ignore.
template <typename F>
struct Plain {
  template <typename M>
  __device__ M operator()(M x, M) const {
    return F()(x);
  }
};

struct Pow {
  template <typename M>
  __device__ M operator()(M x, M exponent) const {
    return exponent == M(2) ? x * x : std::pow(x, exponent);
  }
};

template <typename F, typename T>
__global__ void __launch_bounds__(kThreads)
    flat_kernel(const T* in, Wide<T> parameter, T* out, std::int64_t count) {
  constexpr int kCount = kPackOf<T>;
  const std::int64_t first = thread_number() * kCount;
  if (first + kCount <= count) {
    auto pack = *reinterpret_cast<const Pack<T, kCount>*>(in + first);
    for (int i = 0; i < kCount; ++i) pack.at[i] = narrow<T>(F()(wide(pack.at[i]), parameter));
    *reinterpret_cast<Pack<T, kCount>*>(out + first) = pack;
    return;
  }
  for (std::int64_t i = first; i < count; ++i) out[i] = narrow<T>(F()(wide(in[i]), parameter));
}

template <typename Launch>
void with_functor(UnaryOp op, const Launch& launch) {
  switch (op) {
    case UnaryOp::kNeg:
      return launch.template operator()<Plain<Neg>>();
    case UnaryOp::kRelu:
      return launch.template operator()<Plain<Relu>>();
    case UnaryOp::kExp:
      return launch.template operator()<Plain<Exp>>();
    case UnaryOp::kLog:
      return launch.template operator()<Plain<Log>>();
    case UnaryOp::kSqrt:
      return launch.template operator()<Plain<Sqrt>>();
    case UnaryOp::kTanh:
      return launch.template operator()<Plain<Tanh>>();
    case UnaryOp::kSigmoid:
      return launch.template operator()<Plain<Sigmoid>>();
    case UnaryOp::kGelu:
      return launch.template operator()<Plain<Gelu>>();
    case UnaryOp::kGeluTanh:
      return launch.template operator()<Plain<GeluTanh>>();
    case UnaryOp::kPow:
      return launch.template operator()<Pow>();
  }
}

template <typename T>
void launch_flat(UnaryOp op, const void* in, double parameter, void* out, std::int64_t count,
                 cudaStream_t stream) {
  const unsigned blocks = blocks_for((count + kPackOf<T> - 1) / kPackOf<T>);
  with_functor(op, [&]<typename F>() {
    flat_kernel<F, T><<<blocks, kThreads, 0, stream>>>(
        static_cast<const T*>(in), static_cast<Wide<T>>(parameter), static_cast<T*>(out), count);
  });
}

template <typename M>
__device__ M apply(UnaryOp op, M x, M parameter) {
  switch (op) {
    case UnaryOp::kNeg:
      return Neg()(x);
    case UnaryOp::kRelu:
      return Relu()(x);
    default:
      break;
  }
  if constexpr (std::is_floating_point_v<M>) {
    switch (op) {
      case UnaryOp::kExp:
        return Exp()(x);
      case UnaryOp::kLog:
        return Log()(x);
      case UnaryOp::kSqrt:
        return Sqrt()(x);
      case UnaryOp::kTanh:
        return Tanh()(x);
      case UnaryOp::kSigmoid:
        return Sigmoid()(x);
      case UnaryOp::kGelu:
        return Gelu()(x);
      case UnaryOp::kGeluTanh:
        return GeluTanh()(x);
      default:
        return Pow()(x, parameter);
    }
  }
  return x;
}

template <typename M>
__global__ void __launch_bounds__(kThreads)
    strided_kernel(UnaryOp op, DType dtype, const void* in, M parameter, void* out,
                   OffsetMap<2> map) {
  const std::int64_t element = thread_number();
  if (element >= map.count) return;
  const Offsets<2> at = map(static_cast<std::uint32_t>(element));
  store_as<M>(out, dtype, at.at[0], apply(op, load_as<M>(in, dtype, at.at[1]), parameter));
}

template <typename M>
void launch_strided(UnaryOp op, DType dtype, const void* in, double parameter, void* out,
                    const OffsetMap<2>& map, cudaStream_t stream) {
  strided_kernel<M><<<blocks_for(map.count), kThreads, 0, stream>>>(
      op, dtype, in, static_cast<M>(parameter), out, map);
}

}  // namespace

bool unary_flat(UnaryOp op, DType dtype, const void* in, double parameter, void* out,
                std::int64_t count, cudaStream_t stream) {
  if (!is_aligned(in) || !is_aligned(out)) return false;
  switch (dtype) {
    case DType::kF16:
      launch_flat<Half>(op, in, parameter, out, count, stream);
      return true;
    case DType::kBF16:
      launch_flat<BFloat16>(op, in, parameter, out, count, stream);
      return true;
    case DType::kF32:
      launch_flat<float>(op, in, parameter, out, count, stream);
      return true;
    default:
      return false;
  }
}

void unary_strided(UnaryOp op, DType dtype, const void* in, double parameter, void* out,
                   const OffsetMap<2>& map, cudaStream_t stream) {
  switch (dtype) {
    case DType::kF16:
    case DType::kBF16:
    case DType::kF32:
      return launch_strided<float>(op, dtype, in, parameter, out, map, stream);
    case DType::kF64:
      return launch_strided<double>(op, dtype, in, parameter, out, map, stream);
    case DType::kU64:
      return launch_strided<std::uint64_t>(op, dtype, in, parameter, out, map, stream);
    default:
      return launch_strided<std::int64_t>(op, dtype, in, parameter, out, map, stream);
  }
}

}  // namespace dl::kernels::cuda
