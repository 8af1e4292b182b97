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
// floating inputs by that device's policy in op_list.def and core/elementwise/list.def: products
// and convolutions to `dtype`, losses to float32, on CUDA exponentials and sums as well; all others
// compute in what they are given (operands of different dtypes in the wider one). float64 and
// integers are left alone, and so are operations in place. Parameters stay float32 and so do their
// gradients: the cast is recorded. It is spelled as PyTorch's, and nests as PyTorch's: the
// innermost guard counts, and one with enabled = false switches it off. Backward runs with all
// guards switched off.
//
// A float32 leaf that requires gradients (a weight) is cast once: the result is kept until the
// thread's outermost guard ends, or the leaf is written to.
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
// What a guard of this thread asked for, or the device's default.
DType get_autocast_dtype(DeviceType device) noexcept;

namespace detail {
struct AutocastState {
  std::array<bool, 2> enabled{};  // by DeviceType
  std::array<DType, 2> dtype{DType::kBF16, DType::kF16};
  bool cache_enabled = true;
  friend bool operator==(const AutocastState&, const AutocastState&) noexcept = default;
};
extern constinit thread_local AutocastState autocast_state;

// A weight's cast that is still good, or an undefined tensor; and a place for a new one. `tracked`:
// whether the cast is recorded for backward.
Tensor find_autocast(const Tensor& weight, DType dtype, bool tracked);
void keep_autocast(const Tensor& weight, const Tensor& cast, bool tracked);
}  // namespace detail

// While it lives, nothing is cast on its thread: inside an operation that has cast its inputs, and
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
  // Throws kDType for a dtype that is not of half width.
  explicit autocast(DeviceType device, AutocastOptions options = {});
  ~autocast();
  autocast(const autocast&) = delete;
  autocast& operator=(const autocast&) = delete;

 private:
  detail::AutocastState before_;
};

}  // namespace dl
