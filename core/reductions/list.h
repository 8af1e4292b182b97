// The rows of list.def as values: the enumerators ReduceFn and ExtremeFn, and what each row says.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>

#include "core/elementwise/list.h"

namespace dl::kernels {

enum class ReduceFn : std::uint8_t {
#define DL_REDUCTION_FN(enumerator, ...) enumerator,
#include "core/reductions/list.def"
};
enum class ExtremeFn : std::uint8_t {
#define DL_EXTREME(enumerator, ...) enumerator,
#include "core/reductions/list.def"
};

// The dtype of the result.
enum class Reduced : std::uint8_t {
  kInput,  // the input's dtype
  kLong,   // the input's dtype; int64 for integers and bool
  kTruth,  // bool; uint8 for uint8
  kIndex,  // int64
};

// A value that the kernel computes first and subtracts from each element.
enum class Pivot : std::uint8_t { kNone, kMean, kLargest };

enum class EmptyInput : std::uint8_t { kAllowed, kError };  // a result over no element

struct ReductionFacts {
  ReduceFn fn;
  std::string_view name;
  std::string_view text;  // for the reference
  Takes takes;
  Reduced gives;
  Pivot pivot;
  EmptyInput empty_input;
  Gradient gradient;
  AutocastPolicy on_cpu, on_cuda;
  CudaKernel cuda;
  double p;         // for tests
  bool has_method;  // name(x, dims, options); false for rows of DL_REDUCTION_WITH
};
struct ExtremeFacts {
  ExtremeFn fn;
  std::string_view name;
  std::string_view arg_name;
  ReduceFn value;  // the reduction that gives the value alone
  std::string_view text;
  CudaKernel cuda;
};

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

// clang-format off
inline constexpr ReductionFacts kReductionFacts[] = {
#define DL_REDUCTION_ROW(enumerator, name, Formula, text, takes, gives, pivot, empty_input, gradient, on_cpu, on_cuda, cuda, p, method) \
  {ReduceFn::enumerator, #name, text, Takes::takes, Reduced::gives, Pivot::pivot, EmptyInput::empty_input, Gradient::gradient,          \
   AutocastPolicy::on_cpu, AutocastPolicy::on_cuda, CudaKernel::cuda, p, method},
#define DL_REDUCTION(...) DL_REDUCTION_ROW(__VA_ARGS__, 0, true)
#define DL_REDUCTION_WITH(...) DL_REDUCTION_ROW(__VA_ARGS__, false)
#include "core/reductions/list.def"
#undef DL_REDUCTION_ROW
};
inline constexpr ExtremeFacts kExtremeFacts[] = {
#define DL_EXTREME(enumerator, name, arg_name, fn, text, cuda) \
  {ExtremeFn::enumerator, #name, #arg_name, ReduceFn::fn, text, CudaKernel::cuda},
#include "core/reductions/list.def"
};
// clang-format on

constexpr const ReductionFacts& facts(ReduceFn fn) noexcept {
  return kReductionFacts[static_cast<std::size_t>(fn)];
}
constexpr const ExtremeFacts& facts(ExtremeFn fn) noexcept {
  return kExtremeFacts[static_cast<std::size_t>(fn)];
}

}  // namespace dl::kernels
