#include "core/tensor/tensor.h"

#include <utility>

#include "core/device/cuda/cuda.h"
#include "core/memory/allocator.h"
#include "core/memory/cuda/cuda_memory.h"

namespace dl {
namespace {

// The address of an element; null if the storage has no memory yet.
void* address_or_null(const Storage& storage, std::int64_t offset, DType dtype) noexcept {
  auto* const memory = static_cast<char*>(storage.data_or_null());
  if (memory == nullptr) return nullptr;
  return memory + offset * static_cast<std::int64_t>(size_of(dtype));
}

}  // namespace

TensorImpl::TensorImpl(Ref<Storage> memory, const Shape& sizes, const Strides& steps,
                       std::int64_t first, DType type)
    : storage(std::move(memory)),
      data_(address_or_null(*storage, first, type)),
      offset(first),
      numel(1),
      shape(sizes),
      strides(steps),
      dtype(type),
      contiguous(dl::is_contiguous(sizes, steps)),
      channels_last(sizes.size() == 4 && dl::is_channels_last(sizes, steps)) {
  for (const std::int64_t size : sizes) numel *= size;
}

Ref<TensorImpl> TensorImpl::alias() const {
  return make_ref<TensorImpl>(storage, shape, strides, offset, dtype);
}

void TensorImpl::take_shape_of(const TensorImpl& view) {
  shape = view.shape;
  strides = view.strides;
  contiguous = view.contiguous;
  channels_last = view.channels_last;
}

void* TensorImpl::operator new(std::size_t bytes) {
  return memory::allocate(bytes);
}

void TensorImpl::operator delete(void* impl) noexcept {
  memory::deallocate(impl, sizeof(TensorImpl));
}

void refuse_dtype(std::string_view op, DType dtype, std::string_view wanted) {
  throw_error(ErrorKind::kDType, "{}: {} is not supported; wanted {}", op, name_of(dtype), wanted);
}

Scalar Tensor::item(const std::source_location& caller) const {
  DL_CHECK(get("item").numel == 1, kShape,
           "item: a tensor of one element was wanted, its shape is {}", sizes().str());
  note_access(*impl_, &caller);
  alignas(8) char on_host[8];
  const void* at = impl_->data();
  if (is_cuda()) {
    cuda::read(on_host, at, size_of(dtype()), cuda::current_stream(device().index));
    at = on_host;
  }
  return visit_all(dtype(), [at]<typename E>() {
    const E value = *static_cast<const E*>(at);
    if constexpr (kIsReduced<E>) {
      return Scalar(static_cast<float>(value));
    } else {
      return Scalar(value);
    }
  });
}

std::int64_t Tensor::offset_of(std::initializer_list<std::int64_t> index) const {
  DL_CHECK(get("at").storage->device().type != DeviceType::kCUDA, kInvalidArgument,
           "at: the tensor is on {}; look at its cpu()", device().str());
  DL_CHECK(index.size() == rank(), kIndex, "at: {} indices for a tensor of {} dimensions",
           index.size(), rank());
  std::int64_t offset = 0;
  std::size_t d = 0;
  for (const std::int64_t i : index) {
    DL_CHECK(i >= 0 && i < sizes()[d], kIndex, "at: index {} is out of range in dimension {} of {}",
             i, d, sizes().str());
    offset += i * strides()[d++];
  }
  return offset;
}

Tensor as_strided(const Tensor& base, const Shape& shape, const Strides& strides,
                  std::int64_t offset) {
  if (!base.defined()) refuse_undefined("as_strided");
  const std::int64_t extent = strided_extent(shape, strides, "as_strided");
  const auto held = static_cast<std::int64_t>(base.storage()->bytes() / size_of(base.dtype()));
  DL_CHECK(
      offset >= 0 && (extent == 0 || extent <= held - offset), kShape,
      "as_strided: the shape {} with strides {} from element {} on reaches outside a storage of "
      "{} elements",
      shape.str(), strides.str(), offset, held);
  return Tensor(make_ref<TensorImpl>(base.storage(), shape, strides, offset, base.dtype()));
}

}  // namespace dl
