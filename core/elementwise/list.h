// The rows of list.def as values: the enums UnaryFn, BinaryFn and TernaryFn, and what each row
// says.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace dl::kernels {

// What backward needs besides the gradient of the output.
enum class Saves : std::uint8_t { kNothing, kInput, kOutput };

// Dtypes that an operation accepts.
enum class Takes : std::uint8_t {
  kAll,
  kNumbers,    // all but bool
  kFloating,   // floating ones only
  kIntoFloat,  // all; integers and bool are converted to float32 first
  kWhole,      // integers and bool
  kIntegers,   // integers only
};
constexpr bool computes_integers(Takes takes) noexcept {
  return takes != Takes::kFloating && takes != Takes::kIntoFloat;
}
constexpr bool computes_floats(Takes takes) noexcept {
  return takes != Takes::kWhole && takes != Takes::kIntegers;
}

enum class Gives : std::uint8_t { kSame, kBool };  // the result's dtype: the operands', or bool

// How CUDA computes an operation. On CPUs, kHot adds loops for bfloat16.
enum class CudaKernel : std::uint8_t {
  kHot,     // dedicated kernels for dense float16, bfloat16 and float32
  kShared,  // one kernel for all such rows, which chooses at run time
};

// What autocast does to an operation's floating inputs on a device.
enum class AutocastPolicy : std::uint8_t {
  kLow,     // cast to the low precision dtype: matmul, convolution
  kFull,    // cast to float32: losses; on CUDA also exp, sums, softmax
  kWidest,  // no cast: operands of different dtypes are promoted, as without autocast
  kKeep,    // no cast, as kWidest: only the reference tells them apart, as PyTorch does
};

enum class Gradient : std::uint8_t { kGradcheck, kNoGradient };

// Scalar arguments of an operation: the exponent of pow, the alpha of add_.
struct Parameters {
  double a = 0;
  double b = 0;
  std::int64_t whole = 0;  // a as an integer, for integer dtypes
  bool operator==(const Parameters&) const = default;
};

enum class UnaryFn : std::uint8_t {
#define DL_UNARY_FN(enumerator, ...) enumerator,
#include "core/elementwise/list.def"
};
enum class BinaryFn : std::uint8_t {
#define DL_BINARY(enumerator, ...) enumerator,
#include "core/elementwise/list.def"
};
enum class TernaryFn : std::uint8_t {
#define DL_TERNARY(enumerator, ...) enumerator,
#include "core/elementwise/list.def"
};

struct UnaryFacts {
  UnaryFn fn;
  std::string_view name;
  std::string_view text;  // for the reference
  Saves saves;
  Takes takes;
  double low, high;  // numbers for tests
  AutocastPolicy on_cpu, on_cuda;
  CudaKernel cuda;
  Parameters sample;  // for tests
  bool has_method;    // x.name(); false for rows of DL_UNARY_WITH
};
struct BinaryFacts {
  BinaryFn fn;
  std::string_view name;
  std::string_view text;  // for the reference
  Takes takes;
  Gives gives;
  AutocastPolicy on_cpu, on_cuda;
  CudaKernel cuda;
  Gradient gradient;
};
struct TernaryFacts {
  TernaryFn fn;
  std::string_view name;
  std::string_view text;  // for the reference
  Takes takes;
};

// clang-format off
inline constexpr UnaryFacts kUnaryFacts[] = {
#define DL_UNARY_ROW(enumerator, name, Formula, text, saves, takes, low, high, on_cpu, on_cuda, cuda, a, b, method)   \
  {UnaryFn::enumerator, #name, text, Saves::saves, Takes::takes, low, high, AutocastPolicy::on_cpu,                  \
   AutocastPolicy::on_cuda, CudaKernel::cuda, {a, b, 0}, method},
#define DL_UNARY(...) DL_UNARY_ROW(__VA_ARGS__, 0, 0, true)
#define DL_UNARY_WITH(...) DL_UNARY_ROW(__VA_ARGS__, false)
#include "core/elementwise/list.def"
#undef DL_UNARY_ROW
};
inline constexpr BinaryFacts kBinaryFacts[] = {
#define DL_BINARY(enumerator, name, Formula, text, takes, gives, on_cpu, on_cuda, cuda, gradcheck)                    \
  {BinaryFn::enumerator, #name, text, Takes::takes, Gives::gives, AutocastPolicy::on_cpu, AutocastPolicy::on_cuda,   \
   CudaKernel::cuda, Gradient::gradcheck},
#include "core/elementwise/list.def"
};
inline constexpr TernaryFacts kTernaryFacts[] = {
#define DL_TERNARY(enumerator, name, Formula, text, takes) {TernaryFn::enumerator, #name, text, Takes::takes},
#include "core/elementwise/list.def"
};
// clang-format on

constexpr const UnaryFacts& facts(UnaryFn fn) noexcept {
  return kUnaryFacts[static_cast<std::size_t>(fn)];
}
constexpr const BinaryFacts& facts(BinaryFn fn) noexcept {
  return kBinaryFacts[static_cast<std::size_t>(fn)];
}
constexpr const TernaryFacts& facts(TernaryFn fn) noexcept {
  return kTernaryFacts[static_cast<std::size_t>(fn)];
}

}  // namespace dl::kernels
