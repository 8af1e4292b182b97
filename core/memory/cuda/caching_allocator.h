// CachingAllocator: the memory of one CUDA device, taken in large segments and given out in blocks.
//
// A block belongs to the stream for which it was allocated. A freed block may be reused on that
// stream at once, because the stream's order keeps the two uses apart. If other streams use the
// block (record_stream), it is reused only after an event on each of them has passed. Blocks of up
// to 1 MiB are cut from segments of 2 MiB, blocks below 10 MiB from segments of 20 MiB; a larger
// one has a segment of its own, rounded up to 2 MiB. A large enough rest is split off, and free
// neighbours are merged. If the device is out of memory, all free segments but those of private
// pools in use are returned to it before the allocation is retried.
//
// With Caching::kOff each block is an allocation of its own of exactly the bytes asked for, so that
// compute-sanitizer sees what leaves it, and the device gets it back when it is free.
//
// Between begin_pool() and end_pool(), while a graph is captured, the captured stream and the
// streams that join its capture allocate from a private pool. Each replay uses the same addresses,
// so no other allocation may use them until release_pool(), but captures of graphs that never run
// at once may share a pool.
//
// Written against Runtime, so that a unit test needs no GPU. Thread-safety: any thread may call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <set>
#include <thread>
#include <unordered_map>
#include <vector>

#include "core/base/mutex.h"
#include "core/device/cuda/module/runtime.h"

namespace dl::cuda {

// A counter with its history, as PyTorch's "<name>.all.current", ".peak", ".allocated" and
// ".freed".
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
  Stat segment;                        // segments allocated from the device
  Stat allocated_bytes;                // in blocks in use
  Stat reserved_bytes;                 // in segments
  Stat active_bytes;                   // in use, or held back for another stream
  Stat requested_bytes;                // as asked for, before rounding
  std::int64_t num_alloc_retries = 0;  // allocations that had to return free segments first
  std::int64_t num_ooms = 0;
  std::int64_t num_device_alloc = 0;
  std::int64_t num_device_free = 0;
};

using PoolId = std::uint64_t;

enum class Caching : bool { kOff, kOn };

// While it lives, what this thread allocates in a capture keeps its values after a launch, until
// the next launch of the same graph: it has memory that no other graph uses.
class OutlivingMemory {
 public:
  OutlivingMemory() noexcept;
  ~OutlivingMemory();
  OutlivingMemory(const OutlivingMemory&) = delete;
  OutlivingMemory& operator=(const OutlivingMemory&) = delete;
  // True if this thread captures a graph that needs it, because others use the same memory.
  static bool is_needed() noexcept;
};

class CachingAllocator {
 public:
  CachingAllocator(Runtime& runtime, int device, Caching caching = Caching::kOn);
  CachingAllocator(const CachingAllocator&) = delete;
  CachingAllocator& operator=(const CachingAllocator&) = delete;
  ~CachingAllocator();

  // At least `bytes` > 0 bytes, aligned to 512, and uncached to what CUDA gives. Throws
  // kInvalidArgument if the device is out of memory: the text has the bytes requested, free, in
  // use, cached, and used by other processes.
  void* allocate(std::size_t bytes, void* stream);
  void deallocate(void* block) noexcept;
  // Another stream uses the block; `stream` must outlive the block.
  void record_stream(void* block, void* stream);

  // Returns free segments to the device.
  void empty_cache();
  AllocatorStats stats() const;
  void reset_peak_stats();

  PoolId make_pool();
  // From now on, allocations on `stream`, and on streams that join the capture, come from a new
  // pool, or again from pool `id`. Those under an OutlivingMemory come from pool `outliving`, if
  // that is not 0. Call it on the capturing thread.
  PoolId begin_pool(void* stream, PoolId id = 0, PoolId outliving = 0);
  // The blocks that were allocated since begin_pool(stream), without those in `outliving`, and are
  // in use.
  std::vector<void*> blocks_left(void* stream) const;
  void end_pool(void* stream);
  // The graphs are destroyed: the pool's free blocks may return to the device; blocks in use follow
  // when they are freed.
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
    std::uint64_t capture = 0;  // which has allocated it from its pool; 0: none
    int events = 0;             // on other streams, not passed yet
    std::set<void*> streams{};  // other streams that use it, without an event yet
  };
  struct BySize {
    bool operator()(const Block* a, const Block* b) const noexcept;
  };
  struct Pool {
    std::set<Block*, BySize> small;
    std::set<Block*, BySize> large;
    PoolId id = 0;  // 0: the shared pool
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
    Pool* outliving;  // may be null
    std::uint64_t number;
    std::thread::id thread;
  };
  struct Place {
    Pool& pool;
    std::uint64_t capture;
  };

  Place place_for(void* stream) DL_REQUIRES(mutex_);
  Pool& living_pool(PoolId id) DL_REQUIRES(mutex_);
  Block* take_free(Pool& pool, std::size_t size, void* stream) DL_REQUIRES(mutex_);
  Block* take_segment(Pool& pool, std::size_t size, void* stream) DL_REQUIRES(mutex_);
  void split(Block* block, std::size_t size) DL_REQUIRES(mutex_);
  void free_block(Block* block) DL_REQUIRES(mutex_);
  void join(Block* block, Block* neighbour) DL_REQUIRES(mutex_);
  void free_or_hold_back(Block* block) DL_REQUIRES(mutex_);
  // Frees blocks whose events have passed; with `wait`, waits for all events.
  void process_events(bool wait) DL_REQUIRES(mutex_);
  // True if anything was returned.
  bool give_back_segments() DL_REQUIRES(mutex_);
  void drop_segment(Block* block) DL_REQUIRES(mutex_);
  [[noreturn]] void out_of_memory(std::size_t bytes) DL_REQUIRES(mutex_);
  static std::set<Block*, BySize>& free_list(Pool& pool, bool small) noexcept;

  Runtime& runtime_;
  const int device_;
  const bool caches_;
  mutable Mutex mutex_;
  AllocatorStats stats_ DL_GUARDED_BY(mutex_);
  Pool shared_ DL_GUARDED_BY(mutex_);
  std::map<PoolId, std::unique_ptr<Pool>> pools_ DL_GUARDED_BY(mutex_);
  std::map<void*, Capture> capturing_ DL_GUARDED_BY(mutex_);  // by the stream on which it began
  PoolId next_pool_ DL_GUARDED_BY(mutex_) = 1;
  std::uint64_t next_capture_ DL_GUARDED_BY(mutex_) = 1;
  std::unordered_map<void*, Block*> in_use_ DL_GUARDED_BY(mutex_);
  std::deque<Waiting> waiting_ DL_GUARDED_BY(mutex_);
  std::vector<Block*> after_capture_
      DL_GUARDED_BY(mutex_);  // freed while a stream that uses them was captured
};

}  // namespace dl::cuda
