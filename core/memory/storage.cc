#include "core/memory/storage.h"

#include <utility>

#include "core/base/error.h"
#include "core/memory/allocator.h"

namespace dl {
namespace {

// The object's own room at the head of a block; the data begins behind it, aligned.
constexpr std::size_t kHeader = memory::kAlignment;
static_assert(sizeof(Storage) <= kHeader);

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
  DL_CHECK(device.type == DeviceType::kCPU, kNotImplemented,
           "storage: no memory on {} in this build, which knows the cpu only", device.str());
  char* const block = static_cast<char*>(memory::allocate(kHeader + bytes));
  return Ref<Storage>(new (block)
                          Storage(block + kHeader, bytes, device, kHeader + bytes, nullptr));
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

void Storage::operator delete(Storage* self, std::destroying_delete_t) noexcept {
  const std::size_t block_bytes = self->block_bytes_;
  self->~Storage();
  memory::deallocate(self, block_bytes);
}

}  // namespace dl
