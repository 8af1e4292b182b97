#include "core/memory/cuda/caching_allocator.h"

#include <algorithm>
#include <functional>
#include <string>
#include <utility>

#include "core/base/error.h"
#include "core/base/mutex.h"
#include "core/memory/cuda/stream_use.h"

namespace dl::cuda {
namespace {

constexpr std::size_t kKiB = 1024;
constexpr std::size_t kMiB = 1024 * kKiB;
constexpr std::size_t kUnit = 512;                // sizes are multiples of it
constexpr std::size_t kSmall = 1 * kMiB;          // largest block of the small lists
constexpr std::size_t kSmallSegment = 2 * kMiB;   // what those are cut from
constexpr std::size_t kLargeSegment = 20 * kMiB;  // the same for blocks of up to kOwnSegment
constexpr std::size_t kOwnSegment = 10 * kMiB;    // from here on a block gets its own
constexpr std::size_t kSegmentUnit = 2 * kMiB;

std::size_t rounded(std::size_t bytes, std::size_t unit) noexcept {
  return (bytes + unit - 1) / unit * unit;
}

std::size_t segment_size(std::size_t size) noexcept {
  if (size <= kSmall) return kSmallSegment;
  return size < kOwnSegment ? kLargeSegment : rounded(size, kSegmentUnit);
}

// How many OutlivingMemory this thread has, and whether its capture has memory for them.
constinit thread_local int outliving_depth = 0;
constinit thread_local bool has_outliving_pool = false;

std::string readable(double bytes) {
  if (bytes < static_cast<double>(kMiB)) return fmt::format("{:.2f} KiB", bytes / kKiB);
  if (bytes < 1024.0 * kMiB) return fmt::format("{:.2f} MiB", bytes / kMiB);
  return fmt::format("{:.2f} GiB", bytes / kMiB / 1024);
}

}  // namespace

OutlivingMemory::OutlivingMemory() noexcept {
  ++outliving_depth;
}
OutlivingMemory::~OutlivingMemory() {
  --outliving_depth;
}
bool OutlivingMemory::is_needed() noexcept {
  return has_outliving_pool;
}

void Stat::add(std::size_t amount) noexcept {
  current += static_cast<std::int64_t>(amount);
  allocated += static_cast<std::int64_t>(amount);
  peak = std::max(peak, current);
}

void Stat::remove(std::size_t amount) noexcept {
  current -= static_cast<std::int64_t>(amount);
  freed += static_cast<std::int64_t>(amount);
}

bool CachingAllocator::BySize::operator()(const Block* a, const Block* b) const noexcept {
  const std::less<const void*> before;
  if (a->stream != b->stream) return before(a->stream, b->stream);
  if (a->size != b->size) return a->size < b->size;
  return before(a->data, b->data);
}

CachingAllocator::CachingAllocator(Runtime& runtime, int device, Caching caching)
    : runtime_(runtime), device_(device), caches_(caching == Caching::kOn) {}

// Blocks in use are leaked: their holders can no longer free them.
CachingAllocator::~CachingAllocator() {
  try {
    empty_cache();
  } catch (...) {  // the device is lost, and its memory with it
  }
  std::set<Block*> left(after_capture_.begin(), after_capture_.end());
  for (const auto& [data, block] : in_use_) left.insert(block);
  for (const Waiting& waiting : waiting_) left.insert(waiting.block);
  const auto add = [&left](const Pool& pool) {
    left.insert(pool.small.begin(), pool.small.end());
    left.insert(pool.large.begin(), pool.large.end());
  };
  add(shared_);
  for (const auto& [id, pool] : pools_) add(*pool);
  for (const Block* const block : left) delete block;
}

CachingAllocator::Place CachingAllocator::place_for(void* stream) {
  const auto in = [](const Capture& capture) -> Place {
    if (outliving_depth > 0 && capture.outliving != nullptr) return {*capture.outliving, 0};
    return {*capture.pool, capture.number};
  };
  if (capturing_.empty()) return {shared_, 0};
  const auto begun = capturing_.find(stream);
  if (begun != capturing_.end()) return in(begun->second);
  if (runtime_.capture_state(stream) == CaptureState::kNone) return {shared_, 0};
  // `stream` joins a capture: that of this thread, or the only one.
  const auto own = std::ranges::find(capturing_, std::this_thread::get_id(),
                                     [](const auto& capture) { return capture.second.thread; });
  if (own != capturing_.end()) return in(own->second);
  DL_CHECK(capturing_.size() == 1, kInvalidArgument,
           "cuda:{}: {} graphs are being captured, and this thread allocates on a stream of one of "
           "them; let the thread that captures allocate",
           device_, capturing_.size());
  return in(capturing_.begin()->second);
}

std::set<CachingAllocator::Block*, CachingAllocator::BySize>& CachingAllocator::free_list(
    Pool& pool, bool small) noexcept {
  return small ? pool.small : pool.large;
}

void* CachingAllocator::allocate(std::size_t bytes, void* stream) {
  const Lock lock(mutex_);
  constexpr std::size_t kMost = std::size_t{1} << 47;
  if (bytes > kMost) out_of_memory(bytes);
  const std::size_t size = caches_ ? rounded(bytes, kUnit) : bytes;
  process_events(false);
  const auto [pool, capture] = place_for(stream);
  Block* block = take_free(pool, size, stream);
  if (block == nullptr) block = take_segment(pool, size, stream);
  if (block == nullptr) out_of_memory(bytes);
  split(block, size);
  block->in_use = true;
  block->capture = capture;
  block->requested = bytes;
  in_use_.emplace(block->data, block);
  stats_.allocation.add(1);
  stats_.allocated_bytes.add(block->size);
  stats_.active_bytes.add(block->size);
  stats_.requested_bytes.add(bytes);
  return block->data;
}

CachingAllocator::Block* CachingAllocator::take_free(Pool& pool, std::size_t size, void* stream) {
  auto& list = free_list(pool, size <= kSmall);
  Block wanted{.stream = stream, .data = nullptr, .size = size, .pool = &pool};
  const auto found = list.lower_bound(&wanted);
  if (found == list.end() || (*found)->stream != stream) return nullptr;
  if (!caches_ && (*found)->size != size) return nullptr;
  Block* const block = *found;
  list.erase(found);
  return block;
}

CachingAllocator::Block* CachingAllocator::take_segment(Pool& pool, std::size_t size,
                                                        void* stream) {
  const std::size_t bytes = caches_ ? segment_size(size) : size;
  void* data = runtime_.allocate(device_, bytes);
  if (data == nullptr) {
    ++stats_.num_alloc_retries;
    // A wait would break a capture.
    if (capturing_.empty()) process_events(true);
    if (give_back_segments()) data = runtime_.allocate(device_, bytes);
    if (data == nullptr) {
      // An event that has just passed may have freed a block of this stream.
      return take_free(pool, size, stream);
    }
  }
  ++stats_.num_device_alloc;
  stats_.segment.add(1);
  stats_.reserved_bytes.add(bytes);
  ++pool.segments;
  return new Block{.stream = stream,
                   .data = static_cast<char*>(data),
                   .size = bytes,
                   .pool = &pool,
                   .small = size <= kSmall};
}

void CachingAllocator::split(Block* block, std::size_t size) {
  const std::size_t rest = block->size - size;
  // A small rest of a large block would be useless.
  const bool worth = size <= kSmall ? rest >= kUnit : rest > kSmall;
  if (!worth) return;
  auto& list = free_list(*block->pool, block->small);
  Block* const other = new Block{.stream = block->stream,
                                 .data = block->data + size,
                                 .size = rest,
                                 .pool = block->pool,
                                 .before = block,
                                 .after = block->after,
                                 .small = block->small};
  if (other->after != nullptr) other->after->before = other;
  block->after = other;
  block->size = size;
  list.insert(other);
}

void CachingAllocator::deallocate(void* data) noexcept {
  if (data == nullptr) return;
  const Lock lock(mutex_);
  const auto found = in_use_.extract(data);
  if (found.empty()) return;  // not from this allocator
  Block* const block = found.mapped();
  block->in_use = false;
  stats_.allocation.remove(1);
  stats_.allocated_bytes.remove(block->size);
  stats_.requested_bytes.remove(block->requested);
  free_or_hold_back(block);
}

void CachingAllocator::free_or_hold_back(Block* block) {
  std::erase_if(block->streams, [&](void* stream) DL_REQUIRES(mutex_) {
    if (is_captured(runtime_, stream)) return false;
    if (void* const event = event_behind(runtime_, device_, stream)) {
      waiting_.push_back({event, stream, block});
      ++block->events;
    }
    return true;
  });
  if (!block->streams.empty()) {
    after_capture_.push_back(block);
  } else if (block->events == 0) {
    free_block(block);
  }
}

void CachingAllocator::free_block(Block* block) {
  stats_.active_bytes.remove(block->size);
  for (Block* const neighbour : {block->before, block->after}) {
    if (neighbour != nullptr && !neighbour->in_use && neighbour->events == 0 &&
        free_list(*block->pool, block->small).erase(neighbour) != 0) {
      join(block, neighbour);
    }
  }
  free_list(*block->pool, block->small).insert(block);
  Pool& pool = *block->pool;
  // A graph's memory stays its own without caching, too: each replay uses the same addresses.
  const bool is_kept = pool.id == 0 ? caches_ : !pool.released;
  if (!is_kept && block->before == nullptr && block->after == nullptr) {
    free_list(*block->pool, block->small).erase(block);
    drop_segment(block);
    if (pool.segments == 0) pools_.erase(pool.id);
  }
}

// Merges `neighbour` into `block`.
void CachingAllocator::join(Block* block, Block* neighbour) {
  if (neighbour == block->before) {
    block->data = neighbour->data;
    block->before = neighbour->before;
    if (block->before != nullptr) block->before->after = block;
  } else {
    block->after = neighbour->after;
    if (block->after != nullptr) block->after->before = block;
  }
  block->size += neighbour->size;
  delete neighbour;
}

void CachingAllocator::record_stream(void* data, void* stream) {
  const Lock lock(mutex_);
  const auto found = in_use_.find(data);
  if (found == in_use_.end() || found->second->stream == stream) return;
  found->second->streams.insert(stream);
}

void CachingAllocator::process_events(bool wait) {
  for (Block* const block : std::exchange(after_capture_, {})) free_or_hold_back(block);
  // Events of one stream pass in order; events of different streams do not.
  std::set<void*> behind;
  for (auto at = waiting_.begin(); at != waiting_.end();) {
    if (wait) {
      runtime_.synchronize_event(at->event);
    } else if (behind.contains(at->stream) || !runtime_.query_event(at->event)) {
      behind.insert(at->stream);
      ++at;
      continue;
    }
    const Waiting passed = *at;
    at = waiting_.erase(at);
    runtime_.destroy_event(passed.event);
    if (--passed.block->events == 0 && passed.block->streams.empty()) free_block(passed.block);
  }
}

bool CachingAllocator::give_back_segments() {
  bool any = false;
  const auto give = [&](Pool& pool) DL_REQUIRES(mutex_) {
    for (auto* const list : {&pool.small, &pool.large}) {
      for (auto at = list->begin(); at != list->end();) {
        Block* const block = *at;
        if (block->before != nullptr || block->after != nullptr) {
          ++at;
          continue;
        }
        at = list->erase(at);
        drop_segment(block);
        any = true;
      }
    }
  };
  give(shared_);
  for (auto at = pools_.begin(); at != pools_.end();) {
    Pool& pool = *at->second;
    if (pool.released) give(pool);
    at = pool.released && pool.segments == 0 ? pools_.erase(at) : std::next(at);
  }
  return any;
}

void CachingAllocator::drop_segment(Block* block) {
  runtime_.deallocate(device_, block->data);
  ++stats_.num_device_free;
  stats_.segment.remove(1);
  stats_.reserved_bytes.remove(block->size);
  --block->pool->segments;
  delete block;
}

void CachingAllocator::empty_cache() {
  const Lock lock(mutex_);
  process_events(capturing_.empty());
  give_back_segments();
}

AllocatorStats CachingAllocator::stats() const {
  const Lock lock(mutex_);
  return stats_;
}

void CachingAllocator::reset_peak_stats() {
  const Lock lock(mutex_);
  for (Stat* const stat : {&stats_.allocation, &stats_.segment, &stats_.allocated_bytes,
                           &stats_.reserved_bytes, &stats_.active_bytes, &stats_.requested_bytes}) {
    stat->peak = stat->current;
  }
}

PoolId CachingAllocator::make_pool() {
  const Lock lock(mutex_);
  const PoolId id = next_pool_++;
  auto pool = std::make_unique<Pool>();
  pool->id = id;
  pools_.emplace(id, std::move(pool));
  return id;
}

CachingAllocator::Pool& CachingAllocator::living_pool(PoolId id) {
  const auto found = pools_.find(id);
  DL_CHECK(found != pools_.end() && !found->second->released, kInvalidArgument,
           "begin_pool: there is no pool {}", id);
  return *found->second;
}

PoolId CachingAllocator::begin_pool(void* stream, PoolId id, PoolId outliving) {
  if (id == 0) id = make_pool();
  const Lock lock(mutex_);
  DL_CHECK(!capturing_.contains(stream), kInvalidArgument,
           "begin_pool: the stream allocates from a pool of its own already");
  // Free blocks whose events have passed before the capture begins.
  process_events(false);
  Pool* const kept = outliving == 0 ? nullptr : &living_pool(outliving);
  capturing_.emplace(stream,
                     Capture{&living_pool(id), kept, next_capture_++, std::this_thread::get_id()});
  has_outliving_pool = kept != nullptr;
  return id;
}

std::vector<void*> CachingAllocator::blocks_left(void* stream) const {
  const Lock lock(mutex_);
  std::vector<void*> left;
  const auto begun = capturing_.find(stream);
  if (begun == capturing_.end()) return left;
  for (const auto& [data, block] : in_use_) {
    if (block->capture == begun->second.number) left.push_back(data);
  }
  return left;
}

void CachingAllocator::end_pool(void* stream) {
  const Lock lock(mutex_);
  capturing_.erase(stream);
  has_outliving_pool = false;
}

void CachingAllocator::release_pool(PoolId id) noexcept {
  const Lock lock(mutex_);
  const auto found = pools_.find(id);
  if (found == pools_.end()) return;
  found->second->released = true;
  if (found->second->segments == 0) pools_.erase(found);
}

void CachingAllocator::out_of_memory(std::size_t bytes) {
  ++stats_.num_ooms;
  const MemoryInfo memory = runtime_.memory_info(device_);
  const auto reserved = static_cast<std::size_t>(stats_.reserved_bytes.current);
  const auto in_use = static_cast<std::size_t>(stats_.active_bytes.current);
  const std::size_t taken = memory.total - memory.free;
  std::size_t graphs = 0;
  for (const auto& [id, pool] : pools_) graphs += pool->segments;
  throw_error(
      ErrorKind::kInvalidArgument,
      "cuda:{}: out of memory: {} were asked for. Of {} on the device {} are free; this process "
      "uses {} for tensors ({} at its peak) and keeps {} cached{}, everybody else on the device "
      "has "
      "{}. A smaller batch needs less; dl::cuda::empty_cache() gives what is cached to others",
      device_, readable(static_cast<double>(bytes)), readable(static_cast<double>(memory.total)),
      readable(static_cast<double>(memory.free)), readable(static_cast<double>(in_use)),
      readable(static_cast<double>(stats_.active_bytes.peak)),
      readable(static_cast<double>(reserved - in_use)),
      graphs > 0 ? fmt::format(" ({} segments belong to captured graphs)", graphs) : "",
      readable(static_cast<double>(taken - std::min(taken, reserved))));
}

}  // namespace dl::cuda
