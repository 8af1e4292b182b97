// autocast: mixed precision for the operations of a region.
//
//     Tensor loss;
//     {
//       const autocast mixed(DeviceType::kCUDA, {.dtype = DType::kBF16});
//       loss = cross_entropy(model(x), y);
//     }
//     loss.backward();
//
// While a guard lives on a thread, an operation on tensors of its device type first casts its
// floating inputs by that device's policy in op_list.def and core/elementwise/list.def: matrix
// products and convolutions to `dtype`, losses to float32, and on CUDA exponentials and sums to
// float32. All other operations keep the dtypes of their inputs (and promote different ones).
// float64, integers and in-place operations are not cast. Parameters and their gradients stay
// float32, because the cast is recorded for backward. Guards nest as in PyTorch: the innermost
// guard counts, and one with enabled = false switches autocast off. Backward runs without autocast.
//
// The cast of a float32 leaf that requires gradients (a weight) is cached until the thread's
// outermost guard ends or the leaf is written to.
// Thread-safety: a guard belongs to the thread that made it, and ends there.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "core/tensor/tensor.h"

namespace dl {

struct AutocastOptions {
  std::optional<DType> dtype{};  // float16 or bfloat16; default: float16 on CUDA, bfloat16 on CPUs
  bool enabled = true;
  bool cache_enabled = true;  // keep casts of weights
};

bool is_autocast_enabled(DeviceType device) noexcept;
// The dtype of this thread's innermost guard, or the device's default.
DType get_autocast_dtype(DeviceType device) noexcept;

namespace detail {
struct AutocastState {
  std::array<bool, 2> enabled{};  // by DeviceType
  std::array<DType, 2> dtype{DType::kBF16, DType::kF16};
  bool cache_enabled = true;
  friend bool operator==(const AutocastState&, const AutocastState&) noexcept = default;
};
extern constinit thread_local AutocastState autocast_state;

// The cache of casts. find_autocast() returns a valid cast of `weight`, or an undefined tensor.
// `tracked`: whether the cast is recorded for backward.
Tensor find_autocast(const Tensor& weight, DType dtype, bool tracked);
void keep_autocast(const Tensor& weight, const Tensor& cast, bool tracked);
void drop_autocasts() noexcept;
}  // namespace detail

// Disables autocast on its thread while it lives: inside an operation that has cast its inputs, and
// in backward.
class AutocastOff {
 public:
  AutocastOff() noexcept : before_(detail::autocast_state.enabled) {
    detail::autocast_state.enabled = {};
  }
  ~AutocastOff() { detail::autocast_state.enabled = before_; }
  AutocastOff(const AutocastOff&) = delete;
  AutocastOff& operator=(const AutocastOff&) = delete;

 private:
  std::array<bool, 2> before_;
};

class autocast {
 public:
  // Throws kDType if the dtype is neither float16 nor bfloat16.
  explicit autocast(DeviceType device, AutocastOptions options = {});
  ~autocast();
  autocast(const autocast&) = delete;
  autocast& operator=(const autocast&) = delete;

 private:
  detail::AutocastState before_;
};

}  // namespace dl
