// Asking for the memory of a deferred storage. Apart from the rest of tensors and storages because
// the CUDA module, which has its own copy of this file, asks, too; what it finds is core's.
#include "core/memory/storage.h"
#include "core/tensor/tensor_impl.h"

namespace dl {

void* Storage::settle() const {
  if (!deferred_) return nullptr;
  void* const data = deferred_->settle();
  if (device_.type != DeviceType::kCUDA) data_.store(data, std::memory_order_release);
  return data;
}

void* TensorImpl::settle() const {
  auto* const memory = static_cast<char*>(storage->data());
  if (memory == nullptr) return nullptr;
  void* const first = memory + offset * static_cast<std::int64_t>(size_of(dtype));
  if (storage->settled_data() != nullptr) data_.store(first, std::memory_order_release);
  return first;
}

}  // namespace dl
