// Division by a loop-invariant number with a multiplication and a shift (Granlund and Montgomery,
// "Division by invariant integers using multiplication", 1994). A GPU's division takes some twenty
// instructions, and computing offsets from an element's number consists of divisions.
#pragma once

#include <cstdint>

#include "core/tensor/half.h"

namespace dl::kernels {

class FastDivisor {
 public:
  FastDivisor() = default;  // by 1
  // 1 <= divisor < 2^31
  explicit FastDivisor(std::uint32_t divisor) : divisor_(divisor) {
    while ((std::uint64_t{1} << shift_) < divisor) ++shift_;
    const std::uint64_t rest = (std::uint64_t{1} << shift_) - divisor;
    magic_ = static_cast<std::uint32_t>((rest << 32) / divisor + 1);
  }

  // value < 2^31
  DL_HOST_DEVICE std::uint32_t divide(std::uint32_t value) const {
    const auto high = static_cast<std::uint32_t>(static_cast<std::uint64_t>(value) * magic_ >> 32);
    return (high + value) >> shift_;
  }
  DL_HOST_DEVICE std::uint32_t divisor() const { return divisor_; }

 private:
  std::uint32_t divisor_ = 1;
  std::uint32_t magic_ = 1;
  std::uint32_t shift_ = 0;
};

}  // namespace dl::kernels
