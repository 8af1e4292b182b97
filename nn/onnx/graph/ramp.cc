#include "nn/onnx/graph/ramp.h"

#include <cmath>
#include <cstddef>

namespace dl::onnx {
namespace {

// The numbers as int64; an undefined tensor if a number is not whole.
Tensor whole_numbers(const Tensor& tensor) {
  if (!is_floating(tensor.dtype())) return tensor.to(DType::kI64);
  constexpr double kExact = 0x1p53;
  const Tensor reals = tensor.to(DType::kF64);
  for (std::int64_t i = 0; i < reals.numel(); ++i) {
    const double number = reals.data<double>()[i];
    const bool is_whole = std::abs(number) < kExact && std::trunc(number) == number;
    if (!is_whole || (number == 0 && std::signbit(number))) return {};
  }
  return reals.to(DType::kI64);
}

}  // namespace

std::optional<Ramp> ramp_of(const Tensor& tensor) {
  const Shape& sizes = tensor.sizes();
  if (tensor.dtype() == DType::kBool || tensor.numel() == 0) return std::nullopt;
  const Tensor whole = whole_numbers(tensor);
  if (!whole.defined()) return std::nullopt;
  const auto* const numbers = whole.data<std::int64_t>();
  // Unsigned: differences of any two numbers are defined.
  const auto at = [&](std::int64_t i) { return static_cast<std::uint64_t>(numbers[i]); };
  std::vector<std::uint64_t> steps(sizes.size(), 0);
  std::int64_t stride = 1;
  for (std::size_t d = sizes.size(); d-- > 0; stride *= sizes[d]) {
    if (sizes[d] > 1) steps[d] = at(stride) - at(0);
  }
  for (std::int64_t i = 0; i < whole.numel(); ++i) {
    std::int64_t rest = i;
    std::uint64_t wanted = at(0);
    for (std::size_t d = sizes.size(); d-- > 0; rest /= sizes[d]) {
      wanted += static_cast<std::uint64_t>(rest % sizes[d]) * steps[d];
    }
    if (at(i) != wanted) return std::nullopt;
  }
  Ramp ramp{.base = numbers[0], .steps = {}};
  for (const std::uint64_t step : steps) ramp.steps.push_back(static_cast<std::int64_t>(step));
  return ramp;
}

}  // namespace dl::onnx
