#include "core/tensor/scalar/promote.h"

#include <optional>

#include "core/base/error.h"

namespace dl {
namespace {

constexpr int category(DType dtype) noexcept {
  return dtype == DType::kBool ? 0 : is_floating(dtype) ? 2 : 1;
}

constexpr bool is_bare_unsigned(DType dtype) noexcept {
  return dtype == DType::kU16 || dtype == DType::kU32 || dtype == DType::kU64;
}

}  // namespace

DType promote_types(DType a, DType b, std::string_view op) {
  if (a == b) return a;
  const int kind_a = category(a);
  const int kind_b = category(b);
  if (kind_a == 2 || kind_b == 2) {
    if (kind_a != kind_b) return kind_a > kind_b ? a : b;
    if (size_of(a) == size_of(b)) return DType::kF32;  // float16 and bfloat16
    return size_of(a) > size_of(b) ? a : b;
  }
  DL_CHECK(!is_bare_unsigned(a) && !is_bare_unsigned(b), kDType,
           "{}: {} and {} have no common dtype; convert one of them with to()", op, name_of(a),
           name_of(b));
  if (kind_a != kind_b) return kind_a > kind_b ? a : b;
  if (a == DType::kU8 || b == DType::kU8) {
    const DType other = a == DType::kU8 ? b : a;
    return other == DType::kI8 ? DType::kI16 : other;
  }
  return size_of(a) > size_of(b) ? a : b;
}

DType result_type(const Tensor& a, const Tensor& b, std::string_view op) {
  if (a.dtype() == b.dtype()) return a.dtype();
  if ((a.dim() == 0) == (b.dim() == 0)) return promote_types(a.dtype(), b.dtype(), op);
  const Tensor& leading = a.dim() == 0 ? b : a;
  const Tensor& scalar = a.dim() == 0 ? a : b;
  if (category(scalar.dtype()) <= category(leading.dtype())) return leading.dtype();
  return promote_types(leading.dtype(), scalar.dtype(), op);
}

DType result_type(const Tensor& a, const Tensor& b, const Tensor& c, std::string_view op) {
  std::optional<DType> of_dims;
  std::optional<DType> of_numbers;
  for (const Tensor* each : {&a, &b, &c}) {
    std::optional<DType>& common = each->dim() == 0 ? of_numbers : of_dims;
    common = common ? promote_types(*common, each->dtype(), op) : each->dtype();
  }
  if (!of_dims || !of_numbers) return of_dims ? *of_dims : *of_numbers;
  if (category(*of_numbers) <= category(*of_dims)) return *of_dims;
  return promote_types(*of_dims, *of_numbers, op);
}

DType result_type(const Tensor& a, Scalar b) noexcept {
  const int kind = static_cast<int>(b.kind());
  if (kind <= category(a.dtype())) return a.dtype();
  return kind == 2 ? DType::kF32 : DType::kI64;
}

}  // namespace dl
