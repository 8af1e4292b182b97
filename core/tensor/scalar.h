// Scalar: one number of a kind (bool, integer, floating) that takes part in an operation.
//
// The kind decides type promotion as in PyTorch: a number changes a tensor's dtype only where its
// kind is higher (integer tensor + 0.5 gives float32).
#pragma once

#include <concepts>
#include <cstdint>
#include <type_traits>

#include "core/tensor/dtype_types.h"

namespace dl {

class Scalar {
 public:
  enum class Kind : std::uint8_t { kBool, kInteger, kFloating };

  template <std::integral T>
  Scalar(T value) noexcept  // NOLINT(google-explicit-constructor)
      : integer_(static_cast<std::int64_t>(value)),
        kind_(std::is_same_v<T, bool> ? Kind::kBool : Kind::kInteger) {}
  template <std::floating_point T>
  Scalar(T value) noexcept  // NOLINT(google-explicit-constructor)
      : floating_(static_cast<double>(value)), kind_(Kind::kFloating) {}

  Kind kind() const noexcept { return kind_; }
  double as_double() const noexcept {
    return kind_ == Kind::kFloating ? floating_ : static_cast<double>(integer_);
  }
  template <typename T>
  T to() const {
    return kind_ == Kind::kFloating ? convert<T>(floating_) : convert<T>(integer_);
  }

 private:
  union {
    std::int64_t integer_;
    double floating_;
  };
  Kind kind_;
};

}  // namespace dl
