#include "core/tensor/factories.h"

#include <utility>

namespace dl {
namespace {

Tensor make(const Shape& shape, const Strides& strides, DType dtype, Device device) {
  const std::int64_t count = element_count(shape, "empty");
  std::size_t bytes = 0;
  DL_CHECK(!__builtin_mul_overflow(static_cast<std::size_t>(count), size_of(dtype), &bytes), kShape,
           "empty: the shape {} has too many bytes", shape.str());
  return Tensor(make_ref<TensorImpl>(Storage::make(bytes, device), shape, strides, 0, dtype));
}

Tensor wrap(const Ref<Storage>& storage, const Shape& shape, DType dtype) {
  return Tensor(make_ref<TensorImpl>(storage, shape, contiguous_strides(shape), 0, dtype));
}

std::size_t bytes_of(const Shape& shape, DType dtype) {
  return static_cast<std::size_t>(element_count(shape, "from_blob")) * size_of(dtype);
}

template <typename C>
Tensor filled_from(const C* values, const Shape& shape, DType dtype, const TensorOptions& options) {
  Tensor result = empty(shape, {.dtype = dtype, .device = options.device});
  visit_all(dtype, [&]<typename E>() {
    E* out = result.data<E>();
    for (std::int64_t i = 0; i < result.numel(); ++i) out[i] = convert<E>(values[i]);
  });
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

Tensor empty(const Shape& shape, TensorOptions options) {
  return empty(shape, MemoryFormat::kContiguous, options);
}

Tensor empty(const Shape& shape, MemoryFormat format, TensorOptions options) {
  const Strides strides = format == MemoryFormat::kChannelsLast ? channels_last_strides(shape)
                                                                : contiguous_strides(shape);
  Tensor result = make(shape, strides, options.dtype.value_or(DType::kF32), options.device);
  if (options.requires_grad) result.requires_grad_();
  return result;
}

Tensor empty_like(const Tensor& like, MemoryFormat format) {
  if (format == MemoryFormat::kPreserve && !like.is_contiguous() &&
      is_dense(like.sizes(), like.strides())) {
    return make(like.sizes(), like.strides(), like.dtype(), like.device());
  }
  const Strides strides = format == MemoryFormat::kChannelsLast
                              ? channels_last_strides(like.sizes())
                              : contiguous_strides(like.sizes());
  return make(like.sizes(), strides, like.dtype(), like.device());
}

Tensor from_blob(void* data, const Shape& shape, DType dtype, Ref<RefCounted> owner) {
  return wrap(Storage::wrap(data, bytes_of(shape, dtype), {}, std::move(owner)), shape, dtype);
}

Tensor from_blob(void* data, const Shape& shape, DType dtype, std::function<void(void*)> deleter) {
  if (deleter == nullptr) return from_blob(data, shape, dtype, Ref<RefCounted>());
  return wrap(Storage::wrap(data, bytes_of(shape, dtype), {}, std::move(deleter)), shape, dtype);
}

Tensor from_blob(void* data, const Shape& shape, const Strides& strides, DType dtype,
                 Ref<RefCounted> owner) {
  DL_CHECK(shape.size() == strides.size(), kShape, "from_blob: {} sizes and {} strides",
           shape.size(), strides.size());
  std::int64_t last = 0;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    DL_CHECK(strides[i] >= 0, kShape, "from_blob: the strides {} are negative", strides.str());
    last += std::max<std::int64_t>(shape[i] - 1, 0) * strides[i];
  }
  const std::int64_t held = element_count(shape, "from_blob") == 0 ? 0 : last + 1;
  return Tensor(make_ref<TensorImpl>(
      Storage::wrap(data, static_cast<std::size_t>(held) * size_of(dtype), {}, std::move(owner)),
      shape, strides, 0, dtype));
}

}  // namespace dl
