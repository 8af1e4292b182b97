// The first step of an op function: casts its inputs if an autocast guard is active.
//
//     if (const auto cast = autocast_of<Op::kLinear>(input)) {
//       return linear(cast(input), cast(weight), cast(bias), args);
//     }
//
// Without a guard this is one load and one test.
#pragma once

#include "core/autocast/autocast.h"
#include "core/ops/dispatch/dispatch.h"

namespace dl {

// Casts the inputs of one call. While it lives, autocast is off on its thread, so that the op
// function that it calls does not cast again.
class InputCast {
 public:
  InputCast(AutocastPolicy policy, DeviceType device) noexcept;
  ~InputCast() { detail::autocast_state.enabled = before_; }
  InputCast(const InputCast&) = delete;
  InputCast& operator=(const InputCast&) = delete;

  explicit operator bool() const noexcept { return active_; }
  DType dtype() const noexcept { return dtype_; }
  // The input in the policy's dtype. Returns the input itself if it is undefined, float64, not
  // floating, or already of that dtype.
  Tensor operator()(const Tensor& input) const;

 private:
  std::array<bool, 2> before_;
  DType dtype_ = DType::kF32;
  DeviceType device_;
  bool active_ = false;
};

constexpr bool casts(AutocastPolicy policy) noexcept {
  return policy == AutocastPolicy::kLow || policy == AutocastPolicy::kFull;
}

// For an operation on `first` and other tensors of its device; `first` may be undefined.
template <Op op>
InputCast autocast_of(const Tensor& first) noexcept {
  constexpr AutocastPolicy kPolicies[] = {policy_of(op, DeviceType::kCPU),
                                          policy_of(op, DeviceType::kCUDA)};
  static_assert(casts(kPolicies[0]) || casts(kPolicies[1]),
                "other policies cast nothing: operands of different dtypes are promoted anyway");
  const DeviceType device = first.defined() ? first.device().type : DeviceType::kCPU;
  return {kPolicies[static_cast<std::size_t>(device)], device};
}

// For a row of core/elementwise/list.def.
template <typename Fn>
InputCast autocast_of(Fn fn, const Tensor& first) noexcept {
  const DeviceType device = first.defined() ? first.device().type : DeviceType::kCPU;
  return {policy_of(fn, device), device};
}

}  // namespace dl
