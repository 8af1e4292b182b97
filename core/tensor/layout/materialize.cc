// Access to the memory of a deferred storage. A file of its own, because the CUDA module compiles a
// copy of it; the deferred bytes that it calls are core's.
#include "core/memory/storage.h"
#include "core/tensor/tensor_impl.h"

namespace dl {

void* Storage::materialize() const {
  if (!deferred_) return nullptr;
  void* const data = deferred_->materialize();
  if (device_.type != DeviceType::kCUDA) data_.store(data, std::memory_order_release);
  return data;
}

void* TensorImpl::materialize() const {
  auto* const memory = static_cast<char*>(storage->data());
  if (memory == nullptr) return nullptr;
  void* const first = memory + offset * static_cast<std::int64_t>(size_of(dtype));
  if (storage->data_or_null() != nullptr) data_.store(first, std::memory_order_release);
  return first;
}

}  // namespace dl
