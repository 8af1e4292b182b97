#include "core/memory/storage.h"

#include <utility>

#include "core/base/error.h"
#include "core/device/cuda/cuda.h"
#include "core/memory/allocator.h"
#include "core/memory/cuda/cuda_memory.h"
#include "core/profiler/span.h"

namespace dl {
namespace {

// The Storage object is at the head of its block; the aligned data follows it.
constexpr std::size_t kHeader = memory::kAlignment;
static_assert(sizeof(Storage) <= kHeader);

// Returns a block to its allocator when the last tensor is destroyed.
class BlockOwner final : public RefCounted {
 public:
  BlockOwner(void* data, Device device) noexcept : data_(data), device_(device) {}
  static void* operator new(std::size_t bytes) { return memory::allocate(bytes); }
  static void operator delete(void* self) noexcept { memory::deallocate(self, sizeof(BlockOwner)); }

 private:
  ~BlockOwner() override {
    if (device_.type == DeviceType::kCUDA) {
      cuda::deallocate(device_.index, data_);
    } else {
      cuda::deallocate_pinned(data_);
    }
  }
  void* data_;
  Device device_;
};

class DeleterOwner final : public RefCounted {
 public:
  DeleterOwner(void* data, std::function<void(void*)> deleter) noexcept
      : data_(data), deleter_(std::move(deleter)) {}

 private:
  ~DeleterOwner() override {
    if (deleter_) deleter_(data_);
  }
  void* data_;
  std::function<void(void*)> deleter_;
};

}  // namespace

Storage::Storage(void* data, std::size_t bytes, Device device, std::size_t block_bytes,
                 Ref<RefCounted> owner) noexcept
    : device_(device),
      data_(data),
      bytes_(bytes),
      block_bytes_(block_bytes),
      owner_(std::move(owner)) {}

Ref<Storage> Storage::make(std::size_t bytes, Device device) {
  if (device.type == DeviceType::kCUDA) {
    void* const data = cuda::allocate(device.index, bytes, cuda::current_stream(device.index));
    return Ref<Storage>(new (memory::allocate(kHeader)) Storage(
        data, bytes, device, kHeader, make_ref<BlockOwner>(data, device)));
  }
  char* const block = static_cast<char*>(memory::allocate(kHeader + bytes));
  profiler::note_memory(static_cast<std::int64_t>(bytes));
  Ref<Storage> storage(new (block)
                           Storage(block + kHeader, bytes, device, kHeader + bytes, nullptr));
  if (detail::thread_watch != nullptr) [[unlikely]]
    detail::thread_watch->made(*storage);
  return storage;
}

Ref<Storage> Storage::make_pinned(std::size_t bytes) {
  void* const data = cuda::allocate_pinned(bytes);
  return Ref<Storage>(new (memory::allocate(kHeader))
                          Storage(data, bytes, {}, kHeader, make_ref<BlockOwner>(data, Device{})));
}

Ref<Storage> Storage::wrap(void* data, std::size_t bytes, Device device, Ref<RefCounted> owner) {
  DL_CHECK(data != nullptr || bytes == 0, kInvalidArgument,
           "storage: a null pointer cannot hold {} bytes", bytes);
  return Ref<Storage>(new (memory::allocate(kHeader))
                          Storage(data, bytes, device, kHeader, std::move(owner)));
}

Ref<Storage> Storage::wrap(void* data, std::size_t bytes, Device device,
                           std::function<void(void*)> deleter) {
  return wrap(data, bytes, device, make_ref<DeleterOwner>(data, std::move(deleter)));
}

Ref<Storage> Storage::make_deferred(std::size_t bytes, Device device, Ref<DeferredBytes> deferred) {
  Ref<Storage> storage(new (memory::allocate(kHeader))
                           Storage(nullptr, bytes, device, kHeader, nullptr));
  storage->deferred_ = std::move(deferred);
  return storage;
}

void Storage::operator delete(Storage* self, std::destroying_delete_t) noexcept {
  const std::size_t block_bytes = self->block_bytes_;
  if (detail::thread_watch != nullptr) [[unlikely]]
    detail::thread_watch->freed(*self);
  self->~Storage();
  memory::deallocate(self, block_bytes);
  // The block has 0 bytes for device, pinned and wrapped memory.
  profiler::note_memory(-static_cast<std::int64_t>(block_bytes - kHeader));
}

}  // namespace dl
