// RecordedCall: a kernel's call as a span of a profile, with its name, input shapes and FLOPs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "core/profiler/span.h"
#include "core/tensor/tensor.h"

namespace dl {

enum class Op : std::uint16_t;

// How to compute the FLOPs of a kernel's call from the shapes of its tensors: a column of
// op_list.def. FLOPs are counted as in PyTorch's profiler, but also in backward passes: 2 for each
// multiplication of a matrix product or convolution.
struct OpFlops {
  enum class Formula : std::uint8_t { kNone, kConv, kMatmul, kLinear, kAddMul, kAttention };
  Formula formula = Formula::kNone;
  std::size_t outputs = 0;  // position of the output among the kernel's tensors
  std::size_t weight = 0;   // position of the weights, or of their gradient; of the keys
  int products = 0;         // of attention: how many of them
};

namespace op_flops {
inline constexpr OpFlops kNoFlops{};
// Tensors a [.., k], b and c; 2 k for each element of c.
inline constexpr OpFlops kMatmulFlops{.formula = OpFlops::Formula::kMatmul, .outputs = 2};
// Tensors a, b and c; 1 for each element of c if the function is add or mul.
inline constexpr OpFlops kAddMulFlops{.formula = OpFlops::Formula::kAddMul, .outputs = 2};
// 2 for each output (or its gradient) times each weight that contributes to it.
constexpr OpFlops conv_flops(std::size_t outputs, std::size_t weight) {
  return {.formula = OpFlops::Formula::kConv, .outputs = outputs, .weight = weight};
}
// 2 for each row of the first tensor and each weight.
constexpr OpFlops linear_flops(std::size_t weight) {
  return {.formula = OpFlops::Formula::kLinear, .weight = weight};
}
// 2 for each element of the queries, each key, and each matrix product.
constexpr OpFlops attention_flops(std::size_t queries, std::size_t keys, int products) {
  return {.formula = OpFlops::Formula::kAttention,
          .outputs = queries,
          .weight = keys,
          .products = products};
}
}  // namespace op_flops

// Make one only while a profile records. `tensors`: the kernel's arguments in order, null for an
// argument that is not a tensor. Only the constructor reads them.
class RecordedCall {
 public:
  RecordedCall(Op op, std::string_view name, std::span<const Tensor* const> tensors) noexcept;

 private:
  profiler::Span span_;
};

namespace detail {
inline const Tensor* as_tensor(const Tensor& tensor) noexcept {
  return &tensor;
}
template <typename Other>
const Tensor* as_tensor(const Other&) noexcept {
  return nullptr;
}
}  // namespace detail

}  // namespace dl
