#include "core/memory/allocator.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>

#include "core/base/error.h"
#include "core/base/mutex.h"
#include "core/base/sanitizers.h"

namespace dl::memory {
namespace {

#if defined(__SANITIZE_ADDRESS__)
constexpr bool kCaching = false;
#else
constexpr bool kCaching = true;
#endif

constexpr std::size_t kLinearLimit = 512;               // classes are multiples of 64 up to here
constexpr std::size_t kThreadLimit = 64 * 1024;         // largest block in a thread's lists
constexpr std::size_t kThreadBytesAClass = 256 * 1024;  // a longer list overflows into the pool
constexpr std::size_t kSpare = 64 * 1024 * 1024;  // the pool keeps this much beyond 1.25 x the peak
// The size of a process's address space.
constexpr std::size_t kMostBytes = std::size_t{1} << 46;
constexpr std::size_t kHugePage = 2 * 1024 * 1024;
constexpr int kClassCount = 8 + 4 * (64 - 9);

// 1..64 -> 0, 65..128 -> 1, ... 449..512 -> 7, then four classes between powers of two.
int class_of(std::size_t bytes) noexcept {
  if (bytes <= kLinearLimit) return bytes == 0 ? 0 : static_cast<int>((bytes - 1) / kAlignment);
  const std::size_t last = bytes - 1;
  const int log2 = 63 - std::countl_zero(last);  // >= 9
  const int quarter = static_cast<int>((last >> (log2 - 2)) & 3);
  return 8 + 4 * (log2 - 9) + quarter;
}

constexpr std::size_t bytes_of(int size_class) noexcept {
  if (size_class < 8) return static_cast<std::size_t>(size_class + 1) * kAlignment;
  const int log2 = 9 + (size_class - 8) / 4;
  const std::size_t quarter = static_cast<std::size_t>((size_class - 8) % 4);
  return (std::size_t{1} << log2) + ((quarter + 1) << (log2 - 2));
}

constexpr int kThreadClassCount = 8 + 4 * (std::countr_zero(kThreadLimit) - 9);

// The most blocks of each class in a thread's list. A table, because every deallocation reads it.
constexpr auto kThreadBlocks = [] {
  std::array<std::uint32_t, kThreadClassCount> blocks{};
  for (int i = 0; i < kThreadClassCount; ++i) {
    blocks[static_cast<std::size_t>(i)] = static_cast<std::uint32_t>(
        std::clamp<std::size_t>(kThreadBytesAClass / bytes_of(i), 4, 256));
  }
  return blocks;
}();

struct Block {
  Block* next;
};

void* from_system(std::size_t bytes) noexcept {
  // The kernel backs large blocks with huge pages, if it has them: a TLB miss for each 4 KiB costs
  // operations that only read memory up to a tenth of their time.
  const std::size_t alignment = bytes >= 2 * kHugePage ? kHugePage : kAlignment;
  const std::size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  void* const block = std::aligned_alloc(alignment, rounded);
  if (block != nullptr && alignment == kHugePage) {
    static_cast<void>(madvise(block, rounded, MADV_HUGEPAGE));  // a kernel may lack huge pages
  }
  return block;
}

// All of its memory is constant-initialised and has no destructor: tensors may outlive every
// static.
struct Pool {
  Mutex mutex;
  Block* free[kClassCount] DL_GUARDED_BY(mutex) = {};
  Statistics statistics DL_GUARDED_BY(mutex);

  void* take(int size_class) noexcept {
    const std::size_t bytes = bytes_of(size_class);
    const Lock lock(mutex);
    void* block = free[size_class];
    if (block != nullptr) {
      free[size_class] = free[size_class]->next;
      statistics.cached_bytes -= bytes;
    } else {
      block = from_system(bytes);
      if (block == nullptr) {
        drop_all();
        block = from_system(bytes);
      }
      if (block == nullptr) return nullptr;
      ++statistics.system_allocations;
    }
    statistics.live_bytes += bytes;
    statistics.peak_bytes = std::max(statistics.peak_bytes, statistics.live_bytes);
    return block;
  }

  void give(Block* first, int size_class) noexcept {
    const std::size_t bytes = bytes_of(size_class);
    const Lock lock(mutex);
    while (first != nullptr) {
      Block* next = first->next;
      statistics.live_bytes -= bytes;
      first->next = free[size_class];
      free[size_class] = first;
      statistics.cached_bytes += bytes;
      first = next;
    }
    trim(size_class);
  }

  // Frees the largest blocks first, and those of `size_class`, which was used last, at the end.
  void trim(int size_class) noexcept DL_REQUIRES(mutex) {
    const std::uint64_t limit = statistics.peak_bytes + statistics.peak_bytes / 4 + kSpare;
    for (int i = kClassCount; statistics.live_bytes + statistics.cached_bytes > limit && i-- > 0;) {
      if (i != size_class) drop(i, limit);
    }
    drop(size_class, limit);
  }

  void drop(int size_class, std::uint64_t limit) noexcept DL_REQUIRES(mutex) {
    Block*& head = free[size_class];
    while (head != nullptr && statistics.live_bytes + statistics.cached_bytes > limit) {
      Block* const next = head->next;
      std::free(head);
      head = next;
      statistics.cached_bytes -= bytes_of(size_class);
    }
  }

  void drop_all() noexcept DL_REQUIRES(mutex) {
    for (int i = 0; i < kClassCount; ++i) drop(i, 0);
  }
};

constinit Pool pool;

struct ThreadLists {
  Block* head[kThreadClassCount];
  std::uint32_t count[kThreadClassCount];
  bool closed;  // the thread is ending: its destructors free into the pool

  void flush() noexcept {
    for (int i = 0; i < kThreadClassCount; ++i) {
      pool.give(head[i], i);
      head[i] = nullptr;
      count[i] = 0;
    }
  }
};

// Trivial, so that it can be used before and after every other thread-local object lives.
constinit thread_local ThreadLists lists{};

struct Closer {
  ~Closer() {
    lists.flush();
    lists.closed = true;
  }
  void arm() noexcept {}
};
thread_local Closer closer;

[[noreturn]] void out_of_memory(std::size_t bytes) {
  throw_error(ErrorKind::kInvalidArgument,
              "out of memory: a block of {} bytes was wanted, {} bytes are in use by tensors",
              bytes, statistics().live_bytes);
}

}  // namespace

void* allocate(std::size_t bytes) {
  if (bytes > kMostBytes) out_of_memory(bytes);
  if constexpr (!kCaching) {
    void* block = from_system(std::max(bytes, std::size_t{1}));
    if (block == nullptr) out_of_memory(bytes);
    return block;
  }
  const int size_class = class_of(bytes);
  if (size_class < kThreadClassCount) {
    if (Block* block = lists.head[size_class]; block != nullptr) {
      lists.head[size_class] = block->next;
      --lists.count[size_class];
      return block;
    }
  }
  void* block = pool.take(size_class);
  if (block == nullptr) out_of_memory(bytes);
  return block;
}

void deallocate(void* block, std::size_t bytes) noexcept {
  if (block == nullptr) return;
  if constexpr (!kCaching) {
    std::free(block);
    return;
  }
  const int size_class = class_of(bytes);
  Block* const freed = static_cast<Block*>(block);
  freed->next = nullptr;
  if (size_class >= kThreadClassCount || lists.closed) {
    pool.give(freed, size_class);
    return;
  }
  closer.arm();
  if (lists.count[size_class] >= kThreadBlocks[static_cast<std::size_t>(size_class)]) {
    Block* const overflow = lists.head[size_class];
    lists.head[size_class] = nullptr;
    lists.count[size_class] = 0;
    pool.give(overflow, size_class);
  }
  freed->next = lists.head[size_class];
  lists.head[size_class] = freed;
  ++lists.count[size_class];
}

Statistics statistics() noexcept {
  const Lock lock(pool.mutex);
  return pool.statistics;
}

void release_cached() noexcept {
  lists.flush();
  const Lock lock(pool.mutex);
  pool.drop_all();
}

}  // namespace dl::memory
