#include "core/tensor/scalar/scalar.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

namespace dl {
namespace {

// "-128 to 127"; an unsigned type also accepts negative integers down to minus its maximum.
std::string range_of(const Scalar& value, std::size_t width, bool is_signed) {
  const std::uint64_t most = ~std::uint64_t{0} >> (64 - 8 * width + (is_signed ? 1 : 0));
  if (is_signed) return fmt::format("{} to {}", -static_cast<std::int64_t>(most) - 1, most);
  if (value.kind() == Scalar::Kind::kFloating) return fmt::format("0 to {}", most);
  return fmt::format("-{} to {} (negative integers wrap)", most, most);
}

double largest_of(DType floating) {
  switch (floating) {
    case DType::kF16:
      return 65504;
    case DType::kBF16:
      return 0x1.FEp127;
    case DType::kF32:
      return std::numeric_limits<float>::max();
    default:
      return std::numeric_limits<double>::max();
  }
}

}  // namespace

std::string Scalar::str() const {
  switch (kind_) {
    case Kind::kBool:
      return integer_ != 0 ? "true" : "false";
    case Kind::kInteger:
      return above_int64_ ? fmt::format("{}", bits()) : fmt::format("{}", integer_);
    case Kind::kFloating:
      break;
  }
  return std::isnan(floating_) ? "nan" : fmt::format("{}", floating_);
}

void check_fits(const Scalar& value, DType dtype, std::string_view op) {
  visit_all(dtype, [&]<typename T>() {
    if (value.fits<T>()) return;
    throw_error(ErrorKind::kInvalidArgument,
                "{}: {} does not fit into {}, wanted {}; choose a dtype that holds it", op,
                value.str(), name_of(dtype), range_of(value, sizeof(T), std::is_signed_v<T>));
  });
}

void check_storable(const Scalar& value, DType dtype, std::string_view op) {
  check_fits(value, dtype, op);
  if (!is_floating(dtype) || !std::isfinite(value.as_double())) return;
  const double largest = largest_of(dtype);
  DL_CHECK(std::abs(value.as_double()) <= largest, kInvalidArgument,
           "{}: {} does not fit into {}, wanted {} to {}; choose a dtype that holds it", op,
           value.str(), name_of(dtype), -largest, largest);
}

void detail::refuse_item(const Scalar& value, std::size_t width, bool is_signed) {
  throw_error(ErrorKind::kInvalidArgument,
              "item: {} does not fit into the integer asked for, wanted {}", value.str(),
              range_of(value, width, is_signed));
}

}  // namespace dl
