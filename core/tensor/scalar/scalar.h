// Scalar: one number of a kind (bool, integer, floating) that takes part in an operation.
//
// The kind decides type promotion as in PyTorch: a number changes a tensor's dtype only where its
// kind is higher (integer tensor + 0.5 gives float32).
//
// A number that is to be an element of an integer dtype must fit into it, by torch.full's rule:
// fractions are cut; negative integers wrap into unsigned dtypes as long as their size is in range
// (-1 is 255 as uint8); NaN, infinities and everything else out of range is refused. bool and
// floating dtypes take every number; if it is stored as it is (fill_), it must not become infinite.
#pragma once

#include <concepts>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>

#include "core/tensor/dtype_types.h"

namespace dl {

class Scalar {
 public:
  enum class Kind : std::uint8_t { kBool, kInteger, kFloating };

  template <std::integral T>
  Scalar(T value) noexcept  // NOLINT(google-explicit-constructor)
      : integer_(static_cast<std::int64_t>(value)),
        kind_(std::is_same_v<T, bool> ? Kind::kBool : Kind::kInteger) {
    if constexpr (std::is_unsigned_v<T> && sizeof(T) == sizeof(std::uint64_t)) {
      above_int64_ = integer_ < 0;
    }
  }
  template <std::floating_point T>
  Scalar(T value) noexcept  // NOLINT(google-explicit-constructor)
      : floating_(static_cast<double>(value)), kind_(Kind::kFloating) {}

  Kind kind() const noexcept { return kind_; }
  double as_double() const noexcept {
    if (kind_ == Kind::kFloating) return floating_;
    return above_int64_ ? static_cast<double>(bits()) : static_cast<double>(integer_);
  }
  // What an element of type T becomes, whether the number fits or not.
  template <typename T>
  T to() const {
    if (kind_ == Kind::kFloating) return detail::convert<T>(floating_);
    return above_int64_ ? detail::convert<T>(bits()) : detail::convert<T>(integer_);
  }
  // Whether an element of type T may be made of it (see above).
  template <typename T>
  bool fits() const noexcept {
    if constexpr (!std::is_integral_v<T> || std::is_same_v<T, bool>) {
      return true;
    } else {
      using Limits = std::numeric_limits<T>;
      constexpr auto kMost = static_cast<std::uint64_t>(Limits::max());
      if (kind_ == Kind::kFloating) {  // false for NaN
        constexpr double kEnd = 2.0 * static_cast<double>(std::uint64_t{1} << (Limits::digits - 1));
        return floating_ >= (Limits::is_signed ? -kEnd : 0.0) && floating_ < kEnd;
      }
      if (above_int64_ || integer_ >= 0) return bits() <= kMost;
      const std::uint64_t magnitude = std::uint64_t{0} - bits();
      return magnitude <= kMost + (Limits::is_signed ? 1 : 0);
    }
  }
  std::string str() const;

 private:
  std::uint64_t bits() const noexcept { return static_cast<std::uint64_t>(integer_); }

  union {
    std::int64_t integer_;
    double floating_;
  };
  Kind kind_;
  bool above_int64_ = false;  // integer_ has the bits of a uint64
};

// Throws kInvalidArgument, naming operation, number and range, unless elements of `dtype` may be
// made of the number.
void check_fits(const Scalar& value, DType dtype, std::string_view op);
// check_fits(), and also throws kInvalidArgument for a finite number that is infinite in `dtype`:
// PyTorch's rule for fill_ and other operations that store or compare a number. Arithmetic rounds
// instead: x + 1e5 is infinite in float16.
void check_storable(const Scalar& value, DType dtype, std::string_view op);

// The element that the number becomes, as the low bytes of an integer.
inline std::uint64_t element_bits(const Scalar& value, DType dtype) {
  return visit_all(dtype, [&]<typename T>() {
    const T element = value.to<T>();
    std::uint64_t bits = 0;
    std::memcpy(&bits, &element, sizeof(T));
    return bits;
  });
}

namespace detail {
// Throws for Tensor::item(), for an integer type of this width.
[[noreturn]] void refuse_item(const Scalar& value, std::size_t width, bool is_signed);
}  // namespace detail

}  // namespace dl
