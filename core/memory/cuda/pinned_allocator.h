// PinnedAllocator: a caching allocator of pinned host memory, which CUDA devices access directly.
//
// Pinning memory costs milliseconds and makes every device wait, so blocks are cached, in sizes of
// powers of two. A freed block that a stream still copies from or to (record_use) is reused after
// an event on that stream has passed. While the stream is captured, no event is recorded. Written
// against Runtime, so that a unit test needs no GPU. Thread-safety: any thread may call.
#pragma once

#include <atomic>
#include <cstddef>
#include <deque>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "core/base/mutex.h"
#include "core/device/cuda/module/runtime.h"
#include "core/device/stream.h"

namespace dl::cuda {

class PinnedAllocator {
 public:
  explicit PinnedAllocator(Runtime& runtime) : runtime_(runtime) {}
  PinnedAllocator(const PinnedAllocator&) = delete;
  PinnedAllocator& operator=(const PinnedAllocator&) = delete;
  ~PinnedAllocator();

  // At least `bytes` > 0 bytes, aligned to 64; new memory is allocated in the context of `device`.
  // Throws kInvalidArgument if there is none.
  void* allocate(int device, std::size_t bytes);
  void deallocate(void* data) noexcept;
  // `stream` copies from or to memory inside a block.
  void record_use(const void* data, const Stream& stream);
  // True if `data` points into a block in use.
  bool owns(const void* data) const noexcept;
  // Returns free blocks to the system.
  void empty_cache();

 private:
  struct Block {
    std::size_t size = 0;
    bool in_use = false;
    int events = 0;
    // Device and handle of streams that use it, without an event yet.
    std::set<std::pair<int, void*>> streams{};
  };
  using Blocks = std::map<char*, Block>;
  struct Waiting {
    void* event;
    Blocks::iterator block;
  };

  Blocks::iterator find(const void* data) DL_REQUIRES(mutex_);
  Blocks::const_iterator find(const void* data) const DL_REQUIRES(mutex_);
  void free_or_hold_back(Blocks::iterator block) DL_REQUIRES(mutex_);
  void process_events() DL_REQUIRES(mutex_);

  Runtime& runtime_;
  mutable Mutex mutex_;
  std::atomic<std::size_t> count_{0};  // of blocks, so that owns() costs nothing if there are none
  Blocks blocks_ DL_GUARDED_BY(mutex_);
  std::multimap<std::size_t, Blocks::iterator> free_ DL_GUARDED_BY(mutex_);
  std::deque<Waiting> waiting_ DL_GUARDED_BY(mutex_);
  std::vector<Blocks::iterator> after_capture_
      DL_GUARDED_BY(mutex_);  // freed while a stream that uses them was captured
};

}  // namespace dl::cuda
