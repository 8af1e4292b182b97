// RecordedCall: a kernel's call as a span of a profile, with its name, input shapes and FLOPs.
#pragma once

#include <span>
#include <string_view>

#include "core/profiler/span.h"
#include "core/tensor/tensor.h"

namespace dl {

enum class Op : std::uint16_t;

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
