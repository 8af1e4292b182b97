// Making tensors: empty, zeros, ones, full, arange, tensor({...}), from_blob.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

#include "core/tensor/tensor.h"

namespace dl {

struct TensorOptions {
  std::optional<DType> dtype{};  // default: float32, or the values' type
  Device device{};
  bool requires_grad = false;
  bool pin_memory = false;  // on the CPU, in pinned memory
};

// Uninitialised elements.
Tensor empty(const Shape& shape, TensorOptions options = {});
// kPreserve and kContiguous both mean row-major here.
Tensor empty(const Shape& shape, MemoryFormat format, TensorOptions options = {});
// Uninitialised, with the input's shape, dtype and device. kPreserve keeps the order of its
// dimensions in memory; the result is dense.
Tensor empty_like(const Tensor& like, MemoryFormat format = MemoryFormat::kPreserve);
// Uninitialised memory for the result of an element-wise operation. Its dimension order follows the
// operands (dense_strides()), which are broadcast to `shape`.
Tensor empty_for(const Shape& shape, std::initializer_list<const Tensor*> operands, DType dtype,
                 Device device);

// core/ops:
Tensor zeros(const Shape& shape, TensorOptions options = {});
Tensor ones(const Shape& shape, TensorOptions options = {});
Tensor zeros_like(const Tensor& like);
Tensor ones_like(const Tensor& like);
// zeros(2, 3)
Tensor empty(SizeNumber auto size, SizeNumber auto... rest) {
  return empty(detail::listed(size, rest...));
}
Tensor zeros(SizeNumber auto size, SizeNumber auto... rest) {
  return zeros(detail::listed(size, rest...));
}
Tensor ones(SizeNumber auto size, SizeNumber auto... rest) {
  return ones(detail::listed(size, rest...));
}
// The dtype follows the value: bool, int64 or float32. Here, in arange() and in tensor() a number
// that does not fit into an integer dtype throws kInvalidArgument (core/tensor/scalar/scalar.h).
Tensor full(const Shape& shape, Scalar value, TensorOptions options = {});
Tensor full_like(const Tensor& like, Scalar value);
// `steps` evenly spaced numbers from start to end, both included. float32; throws kInvalidArgument
// if steps < 0.
Tensor linspace(double start, double end, std::int64_t steps, TensorOptions options = {});
// base to the powers of linspace(start, end, steps).
Tensor logspace(double start, double end, std::int64_t steps, double base = 10,
                TensorOptions options = {});
// A matrix with 1 on the diagonal and 0 elsewhere; square if columns are not given.
Tensor eye(std::int64_t rows, TensorOptions options = {});
Tensor eye(std::int64_t rows, std::int64_t columns, TensorOptions options = {});
// start, start + step, ... below end. int64 for integers, else float32. Throws kInvalidArgument for
// a step of zero or of the wrong sign, and for 2^53 elements or more.
Tensor arange(Scalar end, TensorOptions options = {});
Tensor arange(Scalar start, Scalar end, Scalar step = 1, TensorOptions options = {});

// Wraps the caller's memory without a copy, row-major if no strides are given. `owner` keeps the
// memory alive.
Tensor from_blob(void* data, const Shape& shape, DType dtype, Ref<RefCounted> owner);
Tensor from_blob(void* data, const Shape& shape, DType dtype,
                 std::function<void(void*)> deleter = nullptr);
Tensor from_blob(void* data, const Shape& shape, const Strides& strides, DType dtype,
                 Ref<RefCounted> owner);

namespace detail {
// empty() with the name of the calling operation for error texts.
Tensor make_empty(std::string_view op, const Shape& shape, const TensorOptions& options,
                  MemoryFormat format = MemoryFormat::kContiguous);

// Uninitialised memory for a copy in this dtype. A copy of a dense tensor has the same strides,
// also along dimensions of size 1, because they affect the layout of results.
Tensor empty_copy(const Tensor& like, DType dtype);

// The dtype that C++ values get: double and float give float32, integers int64, bool bool.
template <typename T>
constexpr DType literal_dtype() {
  if constexpr (std::is_same_v<T, bool>) return DType::kBool;
  if constexpr (std::is_integral_v<T>) return DType::kI64;
  return DType::kF32;
}

// Values are passed as float64, int64 or uint64, so that the conversions are compiled once.
template <typename T>
using Gathered = std::vector<std::conditional_t<
    std::is_floating_point_v<T>, double,
    std::conditional_t<std::is_unsigned_v<T> && sizeof(T) == 8, std::uint64_t, std::int64_t>>>;

Tensor from_gathered(const double* values, const Shape& shape, DType dtype, TensorOptions options);
Tensor from_gathered(const std::int64_t* values, const Shape& shape, DType dtype,
                     TensorOptions options);
Tensor from_gathered(const std::uint64_t* values, const Shape& shape, DType dtype,
                     TensorOptions options);

template <typename T>
Tensor from_values(const Gathered<T>& values, const Shape& shape, TensorOptions options) {
  return from_gathered(values.data(), shape, options.dtype.value_or(literal_dtype<T>()), options);
}
}  // namespace detail

// tensor(1.5), tensor({1, 2, 3}), tensor({{1., 2.}, {3., 4.}}) and three levels deep.
template <typename T>
  requires std::is_arithmetic_v<T>
Tensor tensor(T value, TensorOptions options = {}) {
  return detail::from_values<T>({static_cast<typename detail::Gathered<T>::value_type>(value)}, {},
                                options);
}
template <typename T>
  requires std::is_arithmetic_v<T>
Tensor tensor(std::initializer_list<T> values, TensorOptions options = {}) {
  return detail::from_values<T>(detail::Gathered<T>(values.begin(), values.end()),
                                {static_cast<std::int64_t>(values.size())}, options);
}
template <typename T>
  requires std::is_arithmetic_v<T>
Tensor tensor(const std::vector<T>& values, TensorOptions options = {}) {
  return detail::from_values<T>(detail::Gathered<T>(values.begin(), values.end()),
                                {static_cast<std::int64_t>(values.size())}, options);
}
template <typename T>
  requires std::is_arithmetic_v<T>
Tensor tensor(std::initializer_list<std::initializer_list<T>> rows, TensorOptions options = {}) {
  const auto columns = static_cast<std::int64_t>(rows.size() == 0 ? 0 : rows.begin()->size());
  detail::Gathered<T> flat;
  for (const auto& row : rows) {
    DL_CHECK(static_cast<std::int64_t>(row.size()) == columns, kShape,
             "tensor: a row has {} values, the first has {}", row.size(), columns);
    flat.insert(flat.end(), row.begin(), row.end());
  }
  return detail::from_values<T>(flat, {static_cast<std::int64_t>(rows.size()), columns}, options);
}
template <typename T>
  requires std::is_arithmetic_v<T>
Tensor tensor(std::initializer_list<std::initializer_list<std::initializer_list<T>>> planes,
              TensorOptions options = {}) {
  const std::size_t rows = planes.size() == 0 ? 0 : planes.begin()->size();
  const std::size_t columns = rows == 0 ? 0 : planes.begin()->begin()->size();
  detail::Gathered<T> flat;
  for (const auto& plane : planes) {
    DL_CHECK(plane.size() == rows, kShape, "tensor: a plane has {} rows, the first has {}",
             plane.size(), rows);
    for (const auto& row : plane) {
      DL_CHECK(row.size() == columns, kShape, "tensor: a row has {} values, the first has {}",
               row.size(), columns);
      flat.insert(flat.end(), row.begin(), row.end());
    }
  }
  return detail::from_values<T>(
      flat,
      {static_cast<std::int64_t>(planes.size()), static_cast<std::int64_t>(rows),
       static_cast<std::int64_t>(columns)},
      options);
}

// Numbers of several kinds; the highest kind determines the dtype: tensor({1, 2.5}).
Tensor tensor(std::initializer_list<Scalar> values, TensorOptions options = {});
Tensor tensor(std::initializer_list<std::initializer_list<Scalar>> rows,
              TensorOptions options = {});

}  // namespace dl
