// Storage: the memory that tensors are views of.
//
// A Storage owns its memory, or wraps memory of another owner (a DDP bucket, a mapped file, another
// library's array) and holds a reference to the owner while tensors use it. Owned host memory and
// the Storage object share one block, so that a tensor's data costs one allocation.
//
// The version counts in-place writes. All tensors on the storage share it, so that a tensor saved
// for backward can detect that its values were overwritten.
//
// A deferred storage allocates its memory at the first access: see DeferredBytes.
//
// Thread-safety: the counts are atomic and any thread may call data(); the user synchronises access
// to the bytes.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <new>
#include <source_location>
#include <string_view>

#include "core/base/lifetime/ref.h"
#include "core/device/stream.h"

namespace dl {

class Storage;

// What repeats an event that a tape cannot repeat.
enum class RepeatedBy : bool { kNothing, kGraph };

// Hears what its thread does to memory outside of kernels, and to gradients: a tape records with it
// (core/tape), and a CUDA graph (nn/compile). Each thread has at most one. Without one, each of
// these events costs one load.
class ThreadWatch {
 public:
  virtual void made(const Storage& storage) = 0;
  virtual void freed(const Storage& storage) noexcept = 0;
  // The program got the address of memory in the storage, or, in the line `reader`, a value.
  virtual void accessed(const Storage& storage, const std::source_location* reader) = 0;
  // The program did something that a tape cannot repeat: "random numbers".
  virtual void unrepeatable(std::string_view what, RepeatedBy by) = 0;
  // The host changed `object`, a leaf's gradient, and `again` does it in a repetition.
  virtual void changed(std::string_view what, std::function<void()> again) = 0;
  // A repetition needs the condition, unless settled() came for `object` before. `restore` undoes
  // what the host changes in the object from here on.
  virtual void needs(const void* object, std::function<bool()> condition,
                     std::function<void()> restore) = 0;
  // From here on, what is repeated determines the state of `object` itself.
  virtual void settled(const void* object) = 0;

 protected:
  ~ThreadWatch() = default;
};

namespace detail {
inline thread_local constinit ThreadWatch* thread_watch = nullptr;

inline void not_repeatable(std::string_view what, RepeatedBy by = RepeatedBy::kGraph) {
  if (thread_watch != nullptr) [[unlikely]]
    thread_watch->unrepeatable(what, by);
}
}  // namespace detail

// The bytes of a deferred storage, which are elsewhere in a different order until data() is called
// (core/tensor/layout/deferred.h). Belongs to one storage and lives as long. Any thread may call.
class DeferredBytes : public RefCounted {
 public:
  // The first call allocates the storage's memory and fills it; later calls return the same. On a
  // device, the current stream may use it. Throws what allocation throws.
  virtual void* materialize() = 0;
  // The storage's version was raised.
  virtual void bump_version() noexcept = 0;
  // True if others hold references to the memory that has the bytes now.
  virtual bool is_shared() const noexcept = 0;
};

class Storage final : public RefCounted {
 public:
  // Allocates uninitialised memory, aligned to 64 bytes. Throws if there is none.
  static Ref<Storage> make(std::size_t bytes, Device device);
  // Allocates pinned host memory, which CUDA devices access directly. Throws without CUDA.
  static Ref<Storage> make_pinned(std::size_t bytes);
  // Wraps memory of another owner. `owner` may be null if the memory outlives every tensor on it.
  static Ref<Storage> wrap(void* data, std::size_t bytes, Device device, Ref<RefCounted> owner);
  // Wraps memory, and calls a function with `data` when the last tensor is destroyed; it must not
  // throw.
  static Ref<Storage> wrap(void* data, std::size_t bytes, Device device,
                           std::function<void(void*)> deleter);

  // Has no memory until the first call of data().
  static Ref<Storage> make_deferred(std::size_t bytes, Device device, Ref<DeferredBytes> deferred);

  void* data() const {
    void* const data = data_.load(std::memory_order_acquire);
    return data != nullptr ? data : materialize();
  }
  // Null if data() would call DeferredBytes::materialize(). That is always so for a deferred
  // storage on a device: each use must be ordered after the stream that filled the memory.
  void* data_or_null() const noexcept { return data_.load(std::memory_order_acquire); }
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

  void* materialize() const;

  Device device_;
  mutable std::atomic<void*> data_;
  std::size_t bytes_;
  std::size_t block_bytes_;  // of the block that contains this object
  Ref<RefCounted> owner_;
  Ref<DeferredBytes> deferred_;
  std::atomic<std::uint32_t> version_{0};
};

}  // namespace dl
