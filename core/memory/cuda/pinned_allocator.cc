#include "core/memory/cuda/pinned_allocator.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <utility>

#include "core/base/error.h"
#include "core/base/log/log.h"
#include "core/base/mutex.h"
#include "core/memory/cuda/stream_use.h"

namespace dl::cuda {
namespace {

constexpr std::size_t kLeast = 4096;
constexpr std::size_t kMost = std::size_t{1} << 46;

}  // namespace

PinnedAllocator::~PinnedAllocator() {
  try {
    empty_cache();
  } catch (...) {  // the device is lost; the memory goes with the process
  }
}

void* PinnedAllocator::allocate(int device, std::size_t bytes) {
  DL_CHECK(bytes <= kMost, kInvalidArgument,
           "pinned memory: {} bytes are more than a process can have", bytes);
  const std::size_t size = std::bit_ceil(std::max(bytes, kLeast));
  const Lock lock(mutex_);
  process_events();
  if (const auto found = free_.find(size); found != free_.end()) {
    const Blocks::iterator block = found->second;
    free_.erase(found);
    block->second.in_use = true;
    return block->first;
  }
  void* data = runtime_.allocate_pinned(device, size);
  if (data == nullptr) {
    for (const auto& [free_size, block] : std::exchange(free_, {})) {
      runtime_.deallocate_pinned(block->first);
      blocks_.erase(block);
    }
    data = runtime_.allocate_pinned(device, size);
  }
  count_ = blocks_.size();
  DL_CHECK(data != nullptr, kInvalidArgument,
           "pinned memory: {} bytes were wanted, and the system has no more of it (the limit may "
           "be that of locked memory: ulimit -l)",
           bytes);
  blocks_.emplace(static_cast<char*>(data), Block{.size = size, .in_use = true});
  count_ = blocks_.size();
  return data;
}

PinnedAllocator::Blocks::iterator PinnedAllocator::find(const void* data) {
  auto* const address = static_cast<char*>(const_cast<void*>(data));
  auto after = blocks_.upper_bound(address);
  if (after == blocks_.begin()) return blocks_.end();
  --after;
  return address < after->first + after->second.size ? after : blocks_.end();
}

PinnedAllocator::Blocks::const_iterator PinnedAllocator::find(const void* data) const {
  return const_cast<PinnedAllocator*>(this)->find(data);
}

void PinnedAllocator::deallocate(void* data) noexcept {
  if (data == nullptr) return;
  const Lock lock(mutex_);
  const auto block = blocks_.find(static_cast<char*>(data));
  if (block == blocks_.end()) return;
  block->second.in_use = false;
  free_or_hold_back(block);
}

void PinnedAllocator::free_or_hold_back(Blocks::iterator block) {
  Block& freed = block->second;
  std::erase_if(freed.streams, [&](const auto& use) DL_REQUIRES(mutex_) {
    const auto [device, stream] = use;
    if (is_captured(runtime_, stream)) return false;
    if (void* const event = event_behind(runtime_, device, stream)) {
      waiting_.push_back({event, block});
      ++freed.events;
    }
    return true;
  });
  if (!freed.streams.empty()) {
    after_capture_.push_back(block);
  } else if (freed.events == 0) {
    free_.emplace(freed.size, block);
  }
}

void PinnedAllocator::record_use(const void* data, const Stream& stream) {
  const Lock lock(mutex_);
  const auto block = find(data);
  if (block != blocks_.end()) block->second.streams.emplace(stream.device.index, stream.handle);
}

bool PinnedAllocator::owns(const void* data) const noexcept {
  if (count_.load(std::memory_order_relaxed) == 0) return false;
  const Lock lock(mutex_);
  const auto block = find(data);
  return block != blocks_.end() && block->second.in_use;
}

void PinnedAllocator::process_events() {
  for (const Blocks::iterator block : std::exchange(after_capture_, {})) free_or_hold_back(block);
  for (auto at = waiting_.begin(); at != waiting_.end();) {
    Block& block = at->block->second;
    try {
      if (!runtime_.query_event(at->event)) {
        ++at;
        continue;
      }
      --block.events;
    } catch (const Error& error) {
      // It is unknown when the block's copy ends: never reuse this block; the others stay usable.
      log::warning("pinned memory: {} bytes are not used again: {}", block.size, error.what());
    }
    runtime_.destroy_event(at->event);
    if (block.events == 0 && block.streams.empty()) free_.emplace(block.size, at->block);
    at = waiting_.erase(at);
  }
}

void PinnedAllocator::empty_cache() {
  const Lock lock(mutex_);
  process_events();
  for (const auto& [size, block] : std::exchange(free_, {})) {
    runtime_.deallocate_pinned(block->first);
    blocks_.erase(block);
  }
  count_ = blocks_.size();
}

}  // namespace dl::cuda
