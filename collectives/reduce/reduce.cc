// Highway compiles this file once for each instruction set and picks one at run time. The loops are
// plain, so that the compiler vectorises them for each instruction set.
#include "collectives/reduce/reduce.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "collectives/reduce/reduce.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
//
#include <hwy/highway.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "collectives/reduce/float_mode.h"

HWY_BEFORE_NAMESPACE();
namespace dl::collectives {
namespace HWY_NAMESPACE {

// Storage types whose values are not C++ arithmetic types.
struct Half {
  std::uint16_t bits;
};
struct BFloat16 {
  std::uint16_t bits;
};
struct Boolean {
  std::uint8_t byte;
};
__extension__ using Int128 = __int128;
__extension__ using UInt128 = unsigned __int128;

inline float load(Half x) noexcept {
  const std::uint32_t sign = std::uint32_t{x.bits & 0x8000u} << 16;
  const std::uint32_t magnitude = x.bits & 0x7fffu;
  // A subnormal is its integer times 2^-24, which f32 represents as a normal number.
  const auto subnormal =
      std::bit_cast<std::uint32_t>(static_cast<float>(static_cast<int>(magnitude)) * 0x1p-24f);
  const std::uint32_t normal = (magnitude << 13) + (magnitude >= 0x7c00u ? 224u << 23 : 112u << 23);
  return std::bit_cast<float>(sign | (magnitude < 0x0400u ? subnormal : normal));
}
inline float load(BFloat16 x) noexcept {
  return std::bit_cast<float>(std::uint32_t{x.bits} << 16);
}
inline std::uint8_t load(Boolean x) noexcept {
  return x.byte != 0 ? 1 : 0;
}
template <typename T>
inline T load(T x) noexcept {
  return x;
}

// Rounds to nearest, ties to even; NaN stays NaN.
inline void store(Half& to, float value) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000u;
  const std::uint32_t x = bits & 0x7fffffffu;
  const std::uint32_t normal = (x + 0xfffu + ((x >> 13) & 1u) - (112u << 23)) >> 13;
  // One ulp of 0.5f is one f16 subnormal, so the addition rounds.
  const std::uint32_t subnormal =
      std::bit_cast<std::uint32_t>(std::bit_cast<float>(std::min(x, 0x38800000u)) + 0.5f) -
      0x3f000000u;
  const std::uint32_t special = x > 0x7f800000u ? 0x7e00u | ((x >> 13) & 0x3ffu) : 0x7c00u;
  const std::uint32_t finite = x < 0x38800000u ? subnormal : normal;
  to.bits = static_cast<std::uint16_t>(sign | (x >= 0x47800000u ? special : finite));
}
inline void store(BFloat16& to, float value) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  const std::uint32_t quiet = (bits >> 16) | 0x40u;
  to.bits = static_cast<std::uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? quiet : rounded);
}
inline void store(Boolean& to, std::uint8_t value) noexcept {
  to.byte = value;
}
template <typename T, typename V>
inline void store(T& to, V value) noexcept {
  to = static_cast<T>(value);
}

// Integers are added and multiplied as unsigned numbers of at least 32 bits, for which wrapping is
// defined.
template <typename T>
struct Wrapping {
  using type =
      std::conditional_t<(sizeof(T) > 8), UInt128,
                         std::conditional_t<(sizeof(T) > 4), std::uint64_t, std::uint32_t>>;
};

// Always returns the same NaN. Otherwise the result would depend on the loop: the compiler chooses
// which of two NaN operands an addition returns.
template <typename T>
inline T one_nan(T x) noexcept {
  return std::isnan(x) ? std::numeric_limits<T>::quiet_NaN() : x;
}

template <ReduceOp kOp, typename T>
inline T apply(T a, T b) noexcept {
  constexpr bool kIsFloat = std::is_floating_point_v<T>;
  using U = typename Wrapping<T>::type;
  if constexpr (kOp == ReduceOp::kSum || kOp == ReduceOp::kAvg) {
    if constexpr (kIsFloat)
      return one_nan(a + b);
    else
      return static_cast<T>(static_cast<U>(a) + static_cast<U>(b));
  } else if constexpr (kOp == ReduceOp::kProd) {
    if constexpr (kIsFloat)
      return one_nan(a * b);
    else
      return static_cast<T>(static_cast<U>(a) * static_cast<U>(b));
  } else if constexpr (kOp == ReduceOp::kMin) {
    if constexpr (kIsFloat)
      return ((a < b) | (a != a)) ? a : b;  // NOLINT(misc-redundant-expression): a NaN is passed on
    else
      return a < b ? a : b;
  } else if constexpr (kOp == ReduceOp::kMax) {
    if constexpr (kIsFloat)
      return ((a > b) | (a != a)) ? a : b;  // NOLINT(misc-redundant-expression): as above
    else
      return a > b ? a : b;
  } else if constexpr (kOp == ReduceOp::kBand) {
    return static_cast<T>(a & b);
  } else if constexpr (kOp == ReduceOp::kBor) {
    return static_cast<T>(a | b);
  } else {
    return static_cast<T>(a ^ b);
  }
}

template <typename T, ReduceOp kOp>
void reduce_loop(T* dst, const T* a, const T* b, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    store(dst[i], apply<kOp>(load(a[i]), load(b[i])));
  }
}

// How many operations follow when share `s` is read. Left to right: one. In a tree: one for each
// aligned block of 2^k shares that `s` completes.
inline int joins_after(std::size_t s, Order order) noexcept {
  return order == Order::kTree ? std::countr_zero(s + 1) : s > 0;
}

template <typename T, ReduceOp kOp>
void combine_loop(T* dst, std::span<const void* const> shares, std::size_t count, Order order) {
  using Value = decltype(load(T{}));
  constexpr bool kWide = kOp == ReduceOp::kAvg && std::is_integral_v<Value>;
  using Accumulator =
      std::conditional_t<kWide, std::conditional_t<sizeof(Value) == 8, Int128, std::int64_t>,
                         Value>;
  constexpr std::size_t kBlock = 4096 / sizeof(Accumulator);
  // Partial sums of blocks of shares; each block is smaller than the one before. From left to right
  // there is only one.
  Accumulator sums[32][kBlock];
  for (std::size_t begin = 0; begin < count; begin += kBlock) {
    const std::size_t n = std::min(kBlock, count - begin);
    std::size_t depth = 0;
    const auto join = [&](const auto* right) {
      Accumulator* const left = sums[depth - 1];
      for (std::size_t i = 0; i < n; ++i) {
        left[i] = apply<kOp>(left[i], static_cast<Accumulator>(load(right[i])));
      }
    };
    for (std::size_t s = 0; s < shares.size(); ++s) {
      const T* const share = static_cast<const T*>(shares[s]) + begin;
      int joins = joins_after(s, order);
      if (joins == 0) {
        Accumulator* const fresh = sums[depth++];
        for (std::size_t i = 0; i < n; ++i) fresh[i] = static_cast<Accumulator>(load(share[i]));
        continue;
      }
      for (join(share); joins > 1; --joins) join(sums[--depth]);
    }
    while (depth > 1) join(sums[--depth]);
    T* out = dst + begin;
    const Accumulator* const sum = sums[0];
    const auto ranks = static_cast<Accumulator>(shares.size());
    for (std::size_t i = 0; i < n; ++i) {
      if constexpr (kOp == ReduceOp::kAvg) {
        store(out[i], sum[i] / ranks);
      } else {
        store(out[i], sum[i]);
      }
    }
  }
}

template <typename T>
void divide_loop(T* x, std::size_t count, int ranks) {
  using Value = decltype(load(T{}));
  for (std::size_t i = 0; i < count; ++i) {
    store(x[i], static_cast<Value>(load(x[i]) / static_cast<Value>(ranks)));
  }
}

// A reduction; canonical() maps those with the same instructions to one pair.
struct Pair {
  DType dtype;
  ReduceOp op;
  constexpr bool operator==(const Pair&) const = default;
};

// bool has "or", "and" and "xor" only. Signed and unsigned integers in two's complement differ only
// in comparisons and divisions. Each remaining pair adds one loop to the binary, and tenths of a
// second of compilation for each instruction set.
constexpr Pair canonical(Pair pair) noexcept {
  const auto [dtype, op] = pair;
  if (dtype == DType::kBool) {
    switch (op) {
      case ReduceOp::kSum:
      case ReduceOp::kAvg:
      case ReduceOp::kMax:
        return {dtype, ReduceOp::kBor};
      case ReduceOp::kProd:
      case ReduceOp::kMin:
        return {dtype, ReduceOp::kBand};
      default:
        return pair;
    }
  }
  if (op == ReduceOp::kMin || op == ReduceOp::kMax || op == ReduceOp::kAvg) return pair;
  switch (dtype) {
    case DType::kI8:
      return {DType::kU8, op};
    case DType::kI16:
      return {DType::kU16, op};
    case DType::kI32:
      return {DType::kU32, op};
    case DType::kI64:
      return {DType::kU64, op};
    default:
      return pair;
  }
}

template <ReduceOp kOp>
using OpTag = std::integral_constant<ReduceOp, kOp>;

// Calls f with a null pointer of the dtype's storage type and the operation's tag. For canonical
// pairs only, and never for bitwise operations on floats, which call/checks.h refuses.
template <DType kDType, typename T, ReduceOp kOp, typename F>
void call(const F& f) {
  constexpr bool kRefused = is_floating(kDType) && kOp >= ReduceOp::kBand;
  if constexpr (!kRefused && canonical({kDType, kOp}) == Pair{kDType, kOp}) {
    f(static_cast<T*>(nullptr), OpTag<kOp>());
  }
}

template <DType kDType, typename T, typename F>
void with_op(ReduceOp op, const F& f) {
  switch (op) {
    case ReduceOp::kSum:
      return call<kDType, T, ReduceOp::kSum>(f);
    case ReduceOp::kAvg:
      return call<kDType, T, ReduceOp::kAvg>(f);
    case ReduceOp::kMin:
      return call<kDType, T, ReduceOp::kMin>(f);
    case ReduceOp::kMax:
      return call<kDType, T, ReduceOp::kMax>(f);
    case ReduceOp::kProd:
      return call<kDType, T, ReduceOp::kProd>(f);
    case ReduceOp::kBand:
      return call<kDType, T, ReduceOp::kBand>(f);
    case ReduceOp::kBor:
      return call<kDType, T, ReduceOp::kBor>(f);
    case ReduceOp::kBxor:
      return call<kDType, T, ReduceOp::kBxor>(f);
  }
}

template <typename F>
void with_pair(Pair pair, const F& f) {
  const auto [dtype, op] = canonical(pair);
  switch (dtype) {
    case DType::kF16:
      return with_op<DType::kF16, Half>(op, f);
    case DType::kBF16:
      return with_op<DType::kBF16, BFloat16>(op, f);
    case DType::kF32:
      return with_op<DType::kF32, float>(op, f);
    case DType::kF64:
      return with_op<DType::kF64, double>(op, f);
    case DType::kI8:
      return with_op<DType::kI8, std::int8_t>(op, f);
    case DType::kU8:
      return with_op<DType::kU8, std::uint8_t>(op, f);
    case DType::kI16:
      return with_op<DType::kI16, std::int16_t>(op, f);
    case DType::kU16:
      return with_op<DType::kU16, std::uint16_t>(op, f);
    case DType::kI32:
      return with_op<DType::kI32, std::int32_t>(op, f);
    case DType::kU32:
      return with_op<DType::kU32, std::uint32_t>(op, f);
    case DType::kI64:
      return with_op<DType::kI64, std::int64_t>(op, f);
    case DType::kU64:
      return with_op<DType::kU64, std::uint64_t>(op, f);
    case DType::kBool:
      return with_op<DType::kBool, Boolean>(op, f);
  }
}

void reduce(DType dtype, ReduceOp op, void* dst, const void* a, const void* b, std::size_t count) {
  const ReduceOp adding = op == ReduceOp::kAvg ? ReduceOp::kSum : op;
  with_pair({dtype, adding}, [&](auto* type, auto tag) {
    using T = std::remove_pointer_t<decltype(type)>;
    constexpr ReduceOp kOp = decltype(tag)::value;
    if constexpr (kOp != ReduceOp::kAvg) {
      reduce_loop<T, kOp>(static_cast<T*>(dst), static_cast<const T*>(a), static_cast<const T*>(b),
                          count);
    }
  });
}

void combine(DType dtype, ReduceOp op, void* dst, std::span<const void* const> shares,
             std::size_t count, Order order) {
  with_pair({dtype, op}, [&](auto* type, auto tag) {
    using T = std::remove_pointer_t<decltype(type)>;
    combine_loop<T, decltype(tag)::value>(static_cast<T*>(dst), shares, count, order);
  });
}

void divide(DType dtype, void* x, std::size_t count, int ranks) {
  with_pair({dtype, ReduceOp::kAvg}, [&](auto* type, auto tag) {
    using T = std::remove_pointer_t<decltype(type)>;
    if constexpr (decltype(tag)::value == ReduceOp::kAvg) {
      divide_loop(static_cast<T*>(x), count, ranks);
    }
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace dl::collectives
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dl::collectives {
namespace {

HWY_EXPORT(reduce);
HWY_EXPORT(combine);
HWY_EXPORT(divide);

}  // namespace

bool needs_raw_shares(DType dtype, ReduceOp op) noexcept {
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kProd:
      return dtype == DType::kF16 || dtype == DType::kBF16;
    case ReduceOp::kAvg:
      return dtype != DType::kF32 && dtype != DType::kF64;
    default:
      return false;
  }
}

void reduce(DType dtype, ReduceOp op, void* dst, const void* a, const void* b, std::size_t count) {
  const DefaultFloatMode mode;
  HWY_DYNAMIC_DISPATCH(reduce)(dtype, op, dst, a, b, count);
}

void combine(DType dtype, ReduceOp op, void* dst, std::span<const void* const> shares,
             std::size_t count, Order order) {
  const DefaultFloatMode mode;
  HWY_DYNAMIC_DISPATCH(combine)(dtype, op, dst, shares, count, order);
}

void finish(DType dtype, ReduceOp op, void* x, std::size_t count, int ranks) {
  if (op != ReduceOp::kAvg) return;
  const DefaultFloatMode mode;
  HWY_DYNAMIC_DISPATCH(divide)(dtype, x, count, ranks);
}

}  // namespace dl::collectives
#endif  // HWY_ONCE
