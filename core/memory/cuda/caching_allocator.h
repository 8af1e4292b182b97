// CachingAllocator: the memory of one CUDA device, taken in large segments and given out in blocks.
//
// A block belongs to the stream it was allocated for. Freed, it may go to that stream again at
// once: the stream's order keeps the two uses apart. Streams that a block was recorded for
// (record_stream) hold it back until an event in each has passed. Blocks of up to 1 MiB come out of
// segments of 2 MiB, others out of segments of at least 20 MiB (or of their own); a free rest that
// is worth it is split off, and free neighbours are joined again. Where the device has no more, all
// free segments go back to it first.
//
// A private pool holds what is allocated on one stream between begin_pool() and end_pool(), while a
// graph is captured from it, and on the streams that join this capture. Each replay uses the same
// addresses, so no other allocation may get them until release_pool().
//
// Written against Runtime, so that a unit test needs no GPU. Thread-safety: any thread may call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <unordered_map>
#include <vector>

#include "core/device/cuda/module/runtime.h"

namespace dl::cuda {

// A count and what it has been: PyTorch's "<name>.all.current" and so on.
struct Stat {
  std::int64_t current = 0;
  std::int64_t peak = 0;
  std::int64_t allocated = 0;  // sum of all increases
  std::int64_t freed = 0;      // sum of all decreases

  void add(std::size_t amount) noexcept;
  void remove(std::size_t amount) noexcept;
};

struct AllocatorStats {
  Stat allocation;                     // blocks in use
  Stat segment;                        // blocks of the device's own
  Stat allocated_bytes;                // in blocks in use
  Stat reserved_bytes;                 // in segments
  Stat active_bytes;                   // in use, or held back for another stream
  Stat requested_bytes;                // as asked for, before rounding
  std::int64_t num_alloc_retries = 0;  // times that free segments were given back to go on
  std::int64_t num_ooms = 0;
  std::int64_t num_device_alloc = 0;
  std::int64_t num_device_free = 0;
};

using PoolId = std::uint64_t;

class CachingAllocator {
 public:
  CachingAllocator(Runtime& runtime, int device);
  CachingAllocator(const CachingAllocator&) = delete;
  CachingAllocator& operator=(const CachingAllocator&) = delete;
  ~CachingAllocator();

  // At least `bytes` > 0 bytes, aligned to 512. Throws kInvalidArgument where there is no such
  // block: the text says how much was asked for, is free, in use and cached, and by whom.
  void* allocate(std::size_t bytes, void* stream);
  void deallocate(void* block) noexcept;
  // `stream`, not the block's own, has been given work on it. It must be there until the block is
  // freed.
  void record_stream(void* block, void* stream);

  // Gives free segments back to the device.
  void empty_cache();
  AllocatorStats stats() const;
  void reset_peak_stats();

  // From now on what is allocated on `stream` comes from a new pool, or again from `id`; so does
  // what is allocated on streams that are drawn into the capture. The thread that calls captures.
  PoolId begin_pool(void* stream, PoolId id = 0);
  void end_pool(void* stream);
  // The graph is gone: the pool's free blocks may go back to the device, those in use follow.
  void release_pool(PoolId id) noexcept;

 private:
  struct Pool;
  struct Block {
    void* stream;
    char* data;
    std::size_t size;
    std::size_t requested = 0;
    Pool* pool;
    Block* before = nullptr;  // neighbours in the segment
    Block* after = nullptr;
    bool small = false;  // of a segment for small blocks
    bool in_use = false;
    int events = 0;             // of other streams, not passed yet
    std::set<void*> streams{};  // others that use it, without an event yet
  };
  struct BySize {
    bool operator()(const Block* a, const Block* b) const noexcept;
  };
  struct Pool {
    std::set<Block*, BySize> small;
    std::set<Block*, BySize> large;
    PoolId id = 0;  // 0: everybody's
    std::size_t segments = 0;
    bool released = false;
  };
  struct Waiting {
    void* event;
    void* stream;
    Block* block;
  };

  struct Capture {
    Pool* pool;
    std::thread::id thread;
  };

  Pool& pool_for(void* stream);
  Block* take_free(Pool& pool, std::size_t size, void* stream);
  Block* take_segment(Pool& pool, std::size_t size, void* stream);
  void split(Block* block, std::size_t size);
  void free_block(Block* block);
  void join(Block* block, Block* neighbour);
  void hold_back(Block* block);
  // Frees what waited for events that have passed; with `wait`, for all.
  void settle_events(bool wait);
  // True where something was given back.
  bool give_back_segments();
  void drop_segment(Block* block);
  [[noreturn]] void out_of_memory(std::size_t bytes);
  static std::set<Block*, BySize>& free_list(Pool& pool, bool small) noexcept;

  Runtime& runtime_;
  const int device_;
  mutable std::mutex mutex_;
  AllocatorStats stats_;
  Pool shared_;
  std::map<PoolId, std::unique_ptr<Pool>> pools_;
  std::map<void*, Capture> capturing_;  // by the stream on which it began
  PoolId next_pool_ = 1;
  std::unordered_map<void*, Block*> in_use_;
  std::deque<Waiting> waiting_;
  std::vector<Block*> after_capture_;  // freed while a stream of theirs was captured
};

}  // namespace dl::cuda
