#include "core/tensor/factories.h"

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/tensor/layout/deferred.h"

namespace dl {
namespace {

Tensor make(const Shape& shape, const Strides& strides, DType dtype, Device device) {
  const std::size_t bytes = byte_count(shape, dtype, "empty");
  return Tensor(make_ref<TensorImpl>(Storage::make(bytes, device), shape, strides, 0, dtype));
}

constexpr std::size_t kMostOperands = 3;

// The strides of an element-wise operation's result.
Strides strides_for(const Shape& shape, std::span<const Tensor* const> operands) {
  const bool row_major = std::ranges::all_of(operands, [&](const Tensor* each) {
    return each->sizes() == shape && each->is_contiguous();
  });
  if (row_major) return contiguous_strides(shape);
  const Strides& first = operands[0]->strides();
  const bool alike = std::ranges::all_of(operands, [&](const Tensor* each) {
    return each->sizes() == shape && each->strides() == first;
  });
  if (alike && is_dense(shape, first)) return first;
  std::array<Strides, kMostOperands> broadcast;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    broadcast[i] = broadcast_strides(operands[i]->sizes(), operands[i]->strides(), shape);
  }
  return dense_strides(shape, {broadcast.data(), operands.size()});
}

// True if a tensor is row-major and not deferred. Its strides along dimensions of size 1 must be
// row-major as well, although they address nothing: then results of such operands are row-major,
// broadcast or not.
bool is_plain(const Tensor* tensor) {
  const TensorImpl& impl = *tensor->impl();
  if (!impl.contiguous || !impl.is_materialized()) return false;
  std::int64_t expected = 1;
  for (std::size_t d = impl.shape.size(); d-- > 0;) {
    if (impl.strides[d] != expected) return false;
    expected *= std::max<std::int64_t>(impl.shape[d], 1);
  }
  return true;
}

// empty_for() of operands that are not all row-major.
Tensor empty_for_mixed_orders(const Shape& shape, std::span<const Tensor* const> operands,
                              DType dtype, Device device) {
  const Strides visible = strides_for(shape, operands);
  const auto is_materialized = [](const Tensor* each) { return each->impl()->is_materialized(); };
  if (std::ranges::all_of(operands, is_materialized)) return make(shape, visible, dtype, device);
  std::array<std::optional<StoredOrder>, kMostOperands> stored;
  for (std::size_t i = 0; i < operands.size(); ++i) stored[i].emplace(*operands[i]);
  // Deferred operands come first: they determine the order of the result, so that it can be
  // deferred as well.
  std::array<const Tensor*, kMostOperands> ordered{};
  std::size_t count = 0;
  bool is_deferred = false;
  for (const bool decides : {true, false}) {
    for (std::size_t i = 0; i < operands.size(); ++i) {
      const bool follows = stored[i]->is_deferred() && operands[i]->sizes() == shape;
      if (follows == decides) ordered[count++] = &**stored[i];
      is_deferred |= follows;
    }
  }
  if (!is_deferred) return make(shape, visible, dtype, device);
  return with_visible_strides(
      make(shape, strides_for(shape, {ordered.data(), count}), dtype, device), visible);
}

Tensor wrap(const Ref<Storage>& storage, const Shape& shape, DType dtype) {
  return Tensor(make_ref<TensorImpl>(storage, shape, contiguous_strides(shape), 0, dtype));
}

template <typename C>
Tensor filled_from(const C* values, const Shape& shape, DType dtype, const TensorOptions& options) {
  Tensor result = empty(shape, {.dtype = dtype, .pin_memory = options.pin_memory});
  visit_all(dtype, [&]<typename E>() {
    E* out = result.data<E>();
    for (std::int64_t i = 0; i < result.numel(); ++i) {
      const Scalar value = values[i];
      if (!value.fits<E>()) [[unlikely]]
        check_fits(value, dtype, "tensor");
      out[i] = detail::convert<E>(values[i]);
    }
  });
  result = result.to(options.device);
  if (options.requires_grad) result.requires_grad_();
  return result;
}

}  // namespace

Tensor detail::from_gathered(const double* values, const Shape& shape, DType dtype,
                             TensorOptions options) {
  return filled_from(values, shape, dtype, options);
}

Tensor detail::from_gathered(const std::int64_t* values, const Shape& shape, DType dtype,
                             TensorOptions options) {
  return filled_from(values, shape, dtype, options);
}

Tensor detail::from_gathered(const std::uint64_t* values, const Shape& shape, DType dtype,
                             TensorOptions options) {
  return filled_from(values, shape, dtype, options);
}

namespace {

Tensor from_scalars(const std::vector<Scalar>& values, const Shape& shape,
                    const TensorOptions& options) {
  auto kind = Scalar::Kind::kBool;
  for (const Scalar& value : values) kind = std::max(kind, value.kind());
  if (kind == Scalar::Kind::kFloating) {
    std::vector<double> numbers;
    for (const Scalar& value : values) numbers.push_back(value.as_double());
    return filled_from(numbers.data(), shape, options.dtype.value_or(DType::kF32), options);
  }
  std::vector<std::int64_t> numbers;
  for (const Scalar& value : values) {
    check_fits(value, DType::kI64, "tensor");
    numbers.push_back(value.to<std::int64_t>());
  }
  const DType dtype = kind == Scalar::Kind::kBool ? DType::kBool : DType::kI64;
  return filled_from(numbers.data(), shape, options.dtype.value_or(dtype), options);
}

}  // namespace

Tensor tensor(std::initializer_list<Scalar> values, TensorOptions options) {
  return from_scalars(values, {static_cast<std::int64_t>(values.size())}, options);
}

Tensor tensor(std::initializer_list<std::initializer_list<Scalar>> rows, TensorOptions options) {
  const std::size_t columns = rows.size() == 0 ? 0 : rows.begin()->size();
  std::vector<Scalar> flat;
  for (const auto& row : rows) {
    DL_CHECK(row.size() == columns, kShape, "tensor: a row has {} values, the first has {}",
             row.size(), columns);
    flat.insert(flat.end(), row.begin(), row.end());
  }
  return from_scalars(
      flat, {static_cast<std::int64_t>(rows.size()), static_cast<std::int64_t>(columns)}, options);
}

Tensor detail::make_empty(std::string_view op, const Shape& shape, const TensorOptions& options,
                          MemoryFormat format) {
  const DType dtype = options.dtype.value_or(DType::kF32);
  const std::size_t bytes = byte_count(shape, dtype, op);
  DL_CHECK(!options.pin_memory || options.device.type == DeviceType::kCPU, kInvalidArgument,
           "{}: pin_memory is for the cpu, the device is {}", op, options.device.str());
  const Strides strides = format == MemoryFormat::kChannelsLast ? channels_last_strides(shape)
                                                                : contiguous_strides(shape);
  Ref<Storage> storage =
      options.pin_memory ? Storage::make_pinned(bytes) : Storage::make(bytes, options.device);
  Tensor result(make_ref<TensorImpl>(std::move(storage), shape, strides, 0, dtype));
  if (options.requires_grad) result.requires_grad_();
  return result;
}

Tensor empty(const Shape& shape, TensorOptions options) {
  return detail::make_empty("empty", shape, options);
}

Tensor empty(const Shape& shape, MemoryFormat format, TensorOptions options) {
  return detail::make_empty("empty", shape, options, format);
}

Tensor detail::empty_copy(const Tensor& like, DType dtype) {
  const Shape& shape = like.sizes();
  if (is_plain(&like)) return make(shape, contiguous_strides(shape), dtype, like.device());
  const auto kept = [&](const Strides& strides) {
    return is_dense(shape, strides) ? strides : dense_strides(shape, {&strides, 1});
  };
  const StoredOrder stored(like);
  Tensor result = make(shape, kept(stored->strides()), dtype, like.device());
  return stored.is_deferred() ? with_visible_strides(result, kept(like.strides())) : result;
}

Tensor empty_like(const Tensor& like, MemoryFormat format) {
  if (!like.defined()) refuse_undefined("empty_like");
  if (format == MemoryFormat::kPreserve) return detail::empty_copy(like, like.dtype());
  const Strides strides = format == MemoryFormat::kChannelsLast
                              ? channels_last_strides(like.sizes())
                              : contiguous_strides(like.sizes());
  return make(like.sizes(), strides, like.dtype(), like.device());
}

Tensor empty_for(const Shape& shape, std::initializer_list<const Tensor*> operands, DType dtype,
                 Device device) {
  if (std::ranges::all_of(operands, &is_plain)) {
    return make(shape, contiguous_strides(shape), dtype, device);
  }
  return empty_for_mixed_orders(shape, operands, dtype, device);
}

Tensor from_blob(void* data, const Shape& shape, DType dtype, Ref<RefCounted> owner) {
  const std::size_t bytes = byte_count(shape, dtype, "from_blob");
  return wrap(Storage::wrap(data, bytes, {}, std::move(owner)), shape, dtype);
}

Tensor from_blob(void* data, const Shape& shape, DType dtype, std::function<void(void*)> deleter) {
  if (deleter == nullptr) return from_blob(data, shape, dtype, Ref<RefCounted>());
  const std::size_t bytes = byte_count(shape, dtype, "from_blob");
  return wrap(Storage::wrap(data, bytes, {}, std::move(deleter)), shape, dtype);
}

Tensor from_blob(void* data, const Shape& shape, const Strides& strides, DType dtype,
                 Ref<RefCounted> owner) {
  const std::int64_t extent = strided_extent(shape, strides, "from_blob");
  const std::size_t bytes = byte_count({extent}, dtype, "from_blob");
  return Tensor(make_ref<TensorImpl>(Storage::wrap(data, bytes, {}, std::move(owner)), shape,
                                     strides, 0, dtype));
}

}  // namespace dl
