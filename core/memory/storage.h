// Storage: the memory that tensors are views of.
//
// A Storage owns its memory, or wraps memory that somebody else owns (a DDP bucket, a file mapped
// into memory, another library's array) and then holds its owner until the last tensor lets go.
// Owned host memory stands in one block with the Storage itself, so that a tensor's data costs one
// allocation.
//
// The version counts writes in place; every tensor on the storage sees the same number, so that a
// tensor saved for backward can tell that its values are gone.
//
// The memory of a deferred storage is made when it is first asked for: see DeferredBytes.
//
// Thread-safety: the counts are atomic, any thread may ask for the memory, the bytes are the user's
// business.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <new>

#include "core/base/lifetime/ref.h"
#include "core/device/stream.h"

namespace dl {

// The bytes of a deferred storage, which are elsewhere in another order until the storage's memory
// is asked for (core/tensor/layout/deferred.h). Belongs to one storage and lives as long. Any
// thread may call.
class DeferredBytes : public RefCounted {
 public:
  // The storage's memory, which holds its bytes from the first call on; later calls give the same.
  // On a device the current stream may use it. Throws what allocation throws.
  virtual void* settle() = 0;
  // The storage's version was raised.
  virtual void bump_version() noexcept = 0;
  // Whether the place where the bytes are has other handles.
  virtual bool is_shared() const noexcept = 0;
};

class Storage final : public RefCounted {
 public:
  // Uninitialised memory of its own, aligned to 64 bytes. Throws where there is none.
  static Ref<Storage> make(std::size_t bytes, Device device);
  // Host memory that CUDA devices read and write themselves. Throws where there is no CUDA.
  static Ref<Storage> make_pinned(std::size_t bytes);
  // Memory of somebody else. `owner` may be null where the memory outlives every tensor on it.
  static Ref<Storage> wrap(void* data, std::size_t bytes, Device device, Ref<RefCounted> owner);
  // The same, with a function that is called with `data` when the last tensor is gone; it must not
  // throw.
  static Ref<Storage> wrap(void* data, std::size_t bytes, Device device,
                           std::function<void(void*)> deleter);

  // Without memory, until the first call of data().
  static Ref<Storage> make_deferred(std::size_t bytes, Device device, Ref<DeferredBytes> deferred);

  void* data() const {
    void* const data = data_.load(std::memory_order_acquire);
    return data != nullptr ? data : settle();
  }
  // Null if data() would call DeferredBytes::settle(): always for a deferred storage on a device,
  // where each use must be ordered after the stream that filled the memory.
  void* settled_data() const noexcept { return data_.load(std::memory_order_acquire); }
  // Null if the storage is not deferred.
  DeferredBytes* deferred() const noexcept { return deferred_.get(); }
  std::size_t bytes() const noexcept { return bytes_; }
  Device device() const noexcept { return device_; }
  const Ref<RefCounted>& owner() const noexcept { return owner_; }

  std::uint32_t version() const noexcept { return version_.load(std::memory_order_relaxed); }
  void bump_version() noexcept {
    version_.fetch_add(1, std::memory_order_relaxed);
    if (deferred_) [[unlikely]]
      deferred_->bump_version();
  }

  static void operator delete(Storage* self, std::destroying_delete_t) noexcept;

 private:
  Storage(void* data, std::size_t bytes, Device device, std::size_t block_bytes,
          Ref<RefCounted> owner) noexcept;
  ~Storage() override = default;

  void* settle() const;

  Device device_;
  mutable std::atomic<void*> data_;
  std::size_t bytes_;
  std::size_t block_bytes_;  // of the block that this object stands in
  Ref<RefCounted> owner_;
  Ref<DeferredBytes> deferred_;
  std::atomic<std::uint32_t> version_{0};
};

}  // namespace dl
