#include "core/kernels/cuda/alignment.h"
#include "core/kernels/cuda/device_types.h"
#include "core/kernels/cuda/elementwise_kernels.h"
#include "core/kernels/functors.h"

namespace dl::kernels::cuda {
namespace {

// One operand of a flat kernel, in the type that arithmetic is done in.
template <typename T>
struct FlatOperand {
  const T* data;  // null: value
  bool one;
  Wide<T> value;
};

template <typename T>
FlatOperand<T> flat(const BinaryOperand& operand) {
  return {static_cast<const T*>(operand.data), operand.one, static_cast<Wide<T>>(operand.floating)};
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

template <typename F, typename T, typename Out>
__global__ void __launch_bounds__(kThreads)
    flat_kernel(F f, FlatOperand<T> a, FlatOperand<T> b, Out* out, std::int64_t count) {
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

template <typename T, typename Launch>
void with_functor(BinaryOp op, BinaryFactor factor, const Launch& launch) {
  switch (op) {
    case BinaryOp::kAdd:
      return launch.template operator()<Add, T>(Add{});
    case BinaryOp::kAddScaled:
      return launch.template operator()<AddScaled<Wide<T>>, T>(
          AddScaled<Wide<T>>{static_cast<Wide<T>>(factor.floating)});
    case BinaryOp::kSub:
      return launch.template operator()<Sub, T>(Sub{});
    case BinaryOp::kMul:
      return launch.template operator()<Mul, T>(Mul{});
    case BinaryOp::kDiv:
      return launch.template operator()<Div, T>(Div{});
    case BinaryOp::kMinimum:
      return launch.template operator()<Minimum, T>(Minimum{});
    case BinaryOp::kMaximum:
      return launch.template operator()<Maximum, T>(Maximum{});
    case BinaryOp::kReluBackward:
      return launch.template operator()<ReluBackward, T>(ReluBackward{});
    case BinaryOp::kTanhBackward:
      return launch.template operator()<TanhBackward, T>(TanhBackward{});
    case BinaryOp::kSigmoidBackward:
      return launch.template operator()<SigmoidBackward, T>(SigmoidBackward{});
    case BinaryOp::kGeluBackward:
      return launch.template operator()<GeluBackward, T>(GeluBackward{});
    case BinaryOp::kGeluTanhBackward:
      return launch.template operator()<GeluTanhBackward, T>(GeluTanhBackward{});
    case BinaryOp::kEqual:
      return launch.template operator()<Equal, bool>(Equal{});
    case BinaryOp::kNotEqual:
      return launch.template operator()<NotEqual, bool>(NotEqual{});
    case BinaryOp::kLess:
      return launch.template operator()<Less, bool>(Less{});
    case BinaryOp::kLessEqual:
      return launch.template operator()<LessEqual, bool>(LessEqual{});
  }
}

template <typename T>
void launch_flat(BinaryOp op, const BinaryOperand& a, const BinaryOperand& b, BinaryFactor factor,
                 void* out, std::int64_t count, cudaStream_t stream) {
  const unsigned blocks = blocks_for((count + kPackOf<T> - 1) / kPackOf<T>);
  with_functor<T>(op, factor, [&]<typename F, typename Out>(F f) {
    flat_kernel<F, T, Out>
        <<<blocks, kThreads, 0, stream>>>(f, flat<T>(a), flat<T>(b), static_cast<Out*>(out), count);
  });
}

constexpr bool compares(BinaryOp op) {
  return op >= BinaryOp::kEqual;
}

template <typename M>
__device__ M arithmetic(BinaryOp op, M a, M b, M factor) {
  switch (op) {
    case BinaryOp::kAdd:
      return Add()(a, b);
    case BinaryOp::kAddScaled:
      return AddScaled<M>{factor}(a, b);
    case BinaryOp::kSub:
      return Sub()(a, b);
    case BinaryOp::kMul:
      return Mul()(a, b);
    case BinaryOp::kMinimum:
      return Minimum()(a, b);
    case BinaryOp::kMaximum:
      return Maximum()(a, b);
    default:
      break;
  }
  if constexpr (std::is_floating_point_v<M>) {
    switch (op) {
      case BinaryOp::kDiv:
        return Div()(a, b);
      case BinaryOp::kReluBackward:
        return ReluBackward()(a, b);
      case BinaryOp::kTanhBackward:
        return TanhBackward()(a, b);
      case BinaryOp::kGeluBackward:
        return GeluBackward()(a, b);
      case BinaryOp::kGeluTanhBackward:
        return GeluTanhBackward()(a, b);
      default:
        return SigmoidBackward()(a, b);
    }
  }
  return a;
}

template <typename M>
__device__ bool comparison(BinaryOp op, M a, M b) {
  switch (op) {
    case BinaryOp::kEqual:
      return Equal()(a, b);
    case BinaryOp::kNotEqual:
      return NotEqual()(a, b);
    case BinaryOp::kLess:
      return Less()(a, b);
    default:
      return LessEqual()(a, b);
  }
}

template <typename M>
__device__ inline M operand_at(const BinaryOperand& operand, DType dtype, std::int64_t at) {
  if (operand.data != nullptr) return load_as<M>(operand.data, dtype, at);
  return std::is_floating_point_v<M> ? static_cast<M>(operand.floating)
                                     : static_cast<M>(operand.integer);
}

template <typename M>
__global__ void __launch_bounds__(kThreads)
    strided_kernel(BinaryOp op, DType dtype, BinaryOperand a, BinaryOperand b, M factor, void* out,
                   OffsetMap<3> map) {
  const std::int64_t element = thread_number();
  if (element >= map.count) return;
  const Offsets<3> at = map(static_cast<std::uint32_t>(element));
  const M left = operand_at<M>(a, dtype, at.at[1]);
  const M right = operand_at<M>(b, dtype, at.at[2]);
  if (compares(op)) {
    static_cast<bool*>(out)[at.at[0]] = comparison(op, left, right);
  } else {
    store_as<M>(out, dtype, at.at[0], arithmetic(op, left, right, factor));
  }
}

template <typename M>
void launch_strided(BinaryOp op, DType dtype, const BinaryOperand& a, const BinaryOperand& b,
                    BinaryFactor factor, void* out, const OffsetMap<3>& map, cudaStream_t stream) {
  const M alpha = std::is_floating_point_v<M> ? static_cast<M>(factor.floating)
                                              : static_cast<M>(factor.integer);
  strided_kernel<M>
      <<<blocks_for(map.count), kThreads, 0, stream>>>(op, dtype, a, b, alpha, out, map);
}

}  // namespace

bool binary_flat(BinaryOp op, DType dtype, const BinaryOperand& a, const BinaryOperand& b,
                 BinaryFactor factor, void* out, std::int64_t count, cudaStream_t stream) {
  if (!(a.one || is_aligned(a.data)) || !(b.one || is_aligned(b.data)) || !is_aligned(out)) {
    return false;
  }
  switch (dtype) {
    case DType::kF16:
      launch_flat<Half>(op, a, b, factor, out, count, stream);
      return true;
    case DType::kBF16:
      launch_flat<BFloat16>(op, a, b, factor, out, count, stream);
      return true;
    case DType::kF32:
      launch_flat<float>(op, a, b, factor, out, count, stream);
      return true;
    default:
      return false;
  }
}

void binary_strided(BinaryOp op, DType dtype, const BinaryOperand& a, const BinaryOperand& b,
                    BinaryFactor factor, void* out, const OffsetMap<3>& map, cudaStream_t stream) {
  switch (dtype) {
    case DType::kF16:
    case DType::kBF16:
    case DType::kF32:
      return launch_strided<float>(op, dtype, a, b, factor, out, map, stream);
    case DType::kF64:
      return launch_strided<double>(op, dtype, a, b, factor, out, map, stream);
    case DType::kU64:
      return launch_strided<std::uint64_t>(op, dtype, a, b, factor, out, map, stream);
    default:
      return launch_strided<std::int64_t>(op, dtype, a, b, factor, out, map, stream);
  }
}

}  // namespace dl::kernels::cuda
