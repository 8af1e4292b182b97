// Scalar: a number with a kind (bool, integer, floating), as an argument of an operation.
//
// The kind determines type promotion as in PyTorch: a number changes a tensor's dtype only if its
// kind is higher (integer tensor + 0.5 gives float32).
//
// A number that becomes an element of an integer dtype must fit into it, by torch.full's rule:
// fractions are truncated; negative integers wrap in unsigned dtypes if their magnitude is in range
// (-1 is 255 as uint8); NaN, infinities and other numbers out of range throw. bool and floating
// dtypes accept every number; a number that is stored unchanged (fill_) must not become infinite.
#pragma once

#include <bit>
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
  // Converts to T, whether or not the number fits.
  template <typename T>
  T to() const {
    if (kind_ == Kind::kFloating) return detail::convert<T>(floating_);
    return above_int64_ ? detail::convert<T>(bits()) : detail::convert<T>(integer_);
  }
  // True if the number may become an element of type T (see above).
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
  // True if both numbers have the same kind and the same bits.
  bool operator==(const Scalar& other) const noexcept {
    return kind_ == other.kind_ && above_int64_ == other.above_int64_ && stored() == other.stored();
  }

 private:
  std::uint64_t stored() const noexcept {
    return kind_ == Kind::kFloating ? std::bit_cast<std::uint64_t>(floating_) : bits();
  }
  std::uint64_t bits() const noexcept { return static_cast<std::uint64_t>(integer_); }

  union {
    std::int64_t integer_;
    double floating_;
  };
  Kind kind_;
  bool above_int64_ = false;  // integer_ has the bits of a uint64
};

// Throws kInvalidArgument with operation, number and range if the number may not become an element
// of `dtype`.
void check_fits(const Scalar& value, DType dtype, std::string_view op);
// check_fits(), and also throws kInvalidArgument for a finite number that is infinite in `dtype`:
// PyTorch's rule for fill_ and other operations that store or compare a number. Arithmetic rounds
// instead: x + 1e5 is infinite in float16.
void check_storable(const Scalar& value, DType dtype, std::string_view op);

// The number converted to `dtype`, as the low bytes of an integer.
inline std::uint64_t element_bits(const Scalar& value, DType dtype) {
  return visit_all(dtype, [&]<typename T>() {
    const T element = value.to<T>();
    std::uint64_t bits = 0;
    std::memcpy(&bits, &element, sizeof(T));
    return bits;
  });
}

namespace detail {
// Throws the error of Tensor::item<T>() for an integer type of this width.
[[noreturn]] void refuse_item(const Scalar& value, std::size_t width, bool is_signed);
}  // namespace detail

}  // namespace dl
