#include "core/memory/cuda/caching_allocator.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "core/memory/cuda/pinned_allocator.h"
#include "tests/core/support.h"
#include "tests/support/fake_cuda.h"

namespace dl::cuda {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

class CachingAllocatorTest : public testing::Test {
 protected:
  char stream_places_[2] = {};
  void* const stream_ = &stream_places_[0];
  void* const other_ = &stream_places_[1];
  test::FakeRuntime runtime_{100 * kMiB};
  CachingAllocator memory_{runtime_, 0};
};

TEST_F(CachingAllocatorTest, AFreedBlockServesItsStreamAgainAtOnce) {
  void* const first = memory_.allocate(1000, stream_);
  memory_.deallocate(first);
  EXPECT_EQ(memory_.allocate(900, stream_), first);
  EXPECT_NE(memory_.allocate(900, stream_), first);
  EXPECT_EQ(runtime_.blocks.size(), 1U);
  EXPECT_EQ(memory_.stats().num_device_alloc, 1);
}

TEST_F(CachingAllocatorTest, AnotherStreamGetsMemoryOfItsOwn) {
  void* const first = memory_.allocate(1000, stream_);
  memory_.deallocate(first);
  EXPECT_NE(memory_.allocate(1000, other_), first);
  EXPECT_EQ(runtime_.blocks.size(), 2U);
}

TEST_F(CachingAllocatorTest, SmallAndLargeBlocksHaveOwnSegments) {
  auto* const a = static_cast<char*>(memory_.allocate(1, stream_));
  EXPECT_EQ(memory_.allocate(512, stream_), a + 512);
  EXPECT_EQ(memory_.allocate(1 * kMiB, stream_), a + 1024);
  auto* const large = static_cast<char*>(memory_.allocate(2 * kMiB, stream_));
  EXPECT_EQ(memory_.allocate(3 * kMiB, stream_), large + 2 * kMiB);
  EXPECT_EQ(runtime_.used(), 22 * kMiB);
  memory_.allocate(16 * kMiB, stream_);
  EXPECT_EQ(runtime_.used(), 38 * kMiB) << "its own segment";
}

TEST_F(CachingAllocatorTest, FreeNeighboursAreJoined) {
  void* const a = memory_.allocate(4 * kMiB, stream_);
  void* const b = memory_.allocate(4 * kMiB, stream_);
  void* const c = memory_.allocate(4 * kMiB, stream_);
  memory_.deallocate(a);
  memory_.deallocate(c);
  memory_.deallocate(b);
  EXPECT_EQ(memory_.allocate(20 * kMiB, stream_), a);
  EXPECT_EQ(runtime_.blocks.size(), 1U);
}

TEST_F(CachingAllocatorTest, ABlockWaitsForAnotherStreamsUse) {
  void* const block = memory_.allocate(1000, stream_);
  memory_.record_stream(block, other_);
  runtime_.busy = {other_};
  memory_.deallocate(block);
  EXPECT_EQ(memory_.stats().allocated_bytes.current, 0);
  EXPECT_EQ(memory_.stats().active_bytes.current, 1024);
  EXPECT_NE(memory_.allocate(1000, stream_), block);
  runtime_.busy = {};
  EXPECT_EQ(memory_.allocate(1000, stream_), block);
  EXPECT_EQ(runtime_.event_count(), 0U);
}

TEST_F(CachingAllocatorTest, ItsOwnStreamNeedsNoEvent) {
  void* const block = memory_.allocate(1000, stream_);
  memory_.record_stream(block, stream_);
  runtime_.busy = {stream_};
  memory_.deallocate(block);
  EXPECT_EQ(memory_.allocate(1000, stream_), block);
}

TEST_F(CachingAllocatorTest, EmptyCacheFreesOnlyUnusedSegments) {
  void* const kept = memory_.allocate(1000, stream_);
  memory_.deallocate(memory_.allocate(30 * kMiB, stream_));
  memory_.deallocate(memory_.allocate(1000, stream_));
  EXPECT_EQ(runtime_.used(), 32 * kMiB);
  memory_.empty_cache();
  EXPECT_EQ(runtime_.used(), 2 * kMiB);
  memory_.deallocate(kept);
  memory_.empty_cache();
  EXPECT_EQ(runtime_.used(), 0U);
  EXPECT_EQ(memory_.stats().reserved_bytes.current, 0);
  EXPECT_EQ(memory_.stats().reserved_bytes.peak, static_cast<std::int64_t>(32 * kMiB));
}

TEST_F(CachingAllocatorTest, FreesTheCacheBeforeItIsOutOfMemory) {
  memory_.deallocate(memory_.allocate(60 * kMiB, stream_));
  void* const held = memory_.allocate(16 * kMiB, stream_);
  memory_.record_stream(held, other_);
  runtime_.busy = {other_};
  memory_.deallocate(held);
  EXPECT_NE(memory_.allocate(90 * kMiB, other_), nullptr) << "waits for the other stream, too";
  EXPECT_EQ(memory_.stats().num_alloc_retries, 1);
  EXPECT_EQ(memory_.stats().num_ooms, 0);
}

TEST_F(CachingAllocatorTest, OutOfMemorySaysWhoHasWhat) {
  memory_.allocate(30 * kMiB, stream_);
  memory_.allocate(100, stream_);
  runtime_.allocate(0, 8 * kMiB);
  EXPECT_ERROR(
      memory_.allocate(80 * kMiB, stream_), kInvalidArgument,
      "cuda:0: out of memory: 80.00 MiB were asked for. Of 100.00 MiB on the device 60.00 MiB are "
      "free; this process uses 30.00 MiB for tensors (30.00 MiB at its peak) and keeps 2.00 MiB "
      "cached, everybody else on the device has 8.00 MiB. A smaller batch needs less; "
      "dl::cuda::empty_cache() gives what is cached to others");
  EXPECT_EQ(memory_.stats().num_ooms, 1);
}

TEST_F(CachingAllocatorTest, AGraphsPoolIsNotShared) {
  void* const before = memory_.allocate(1000, stream_);
  memory_.deallocate(before);
  const PoolId pool = memory_.begin_pool(stream_);
  void* const captured = memory_.allocate(1000, stream_);
  EXPECT_NE(captured, before);
  memory_.deallocate(captured);
  EXPECT_EQ(memory_.allocate(1000, stream_), captured) << "within the capture it is used again";
  memory_.deallocate(captured);
  memory_.end_pool(stream_);
  EXPECT_EQ(memory_.allocate(1000, stream_), before);
  EXPECT_NE(memory_.allocate(1000, stream_), captured);
  memory_.empty_cache();
  EXPECT_EQ(runtime_.blocks.size(), 2U) << "a replay still writes there";
  memory_.release_pool(pool);
  memory_.empty_cache();
  EXPECT_EQ(runtime_.blocks.size(), 1U);
}

TEST_F(CachingAllocatorTest, WithoutCachingABlockIsAnAllocation) {
  CachingAllocator uncached(runtime_, 0, Caching::kOff);
  void* const first = uncached.allocate(1000, stream_);
  void* const second = uncached.allocate(3 * kMiB, stream_);
  EXPECT_EQ(runtime_.blocks[first], 1000U);
  EXPECT_EQ(runtime_.blocks[second], 3 * kMiB);
  uncached.record_stream(second, other_);
  runtime_.busy = {other_};
  uncached.deallocate(first);
  uncached.deallocate(second);
  EXPECT_EQ(runtime_.used(), 3 * kMiB) << "another stream still uses it";
  runtime_.busy = {};
  void* const third = uncached.allocate(1000, stream_);
  EXPECT_EQ(runtime_.used(), 1000U);
  EXPECT_EQ(uncached.stats().reserved_bytes.current, 1000);
  uncached.deallocate(third);
  EXPECT_EQ(runtime_.used(), 0U);
}

TEST_F(CachingAllocatorTest, WithoutCachingAGraphKeepsItsMemory) {
  CachingAllocator uncached(runtime_, 0, Caching::kOff);
  const PoolId pool = uncached.begin_pool(stream_);
  void* const captured = uncached.allocate(1000, stream_);
  uncached.deallocate(captured);
  EXPECT_NE(uncached.allocate(900, stream_), captured) << "its end would be in another block";
  EXPECT_EQ(uncached.allocate(1000, stream_), captured);
  uncached.deallocate(captured);
  uncached.end_pool(stream_);
  EXPECT_EQ(runtime_.used(), 1900U) << "a replay still writes there";
  uncached.release_pool(pool);
  uncached.empty_cache();
  EXPECT_EQ(runtime_.used(), 900U);
}

TEST_F(CachingAllocatorTest, APoolGoesWithItsGraphsLastBlock) {
  const PoolId pool = memory_.begin_pool(stream_);
  void* const result = memory_.allocate(1000, stream_);
  memory_.end_pool(stream_);
  memory_.release_pool(pool);
  memory_.empty_cache();
  EXPECT_EQ(runtime_.blocks.size(), 1U);
  memory_.deallocate(result);
  EXPECT_EQ(runtime_.blocks.size(), 0U);
}

TEST_F(CachingAllocatorTest, WhatOutlivesALaunchHasAPoolOfItsOwn) {
  const PoolId shared = memory_.make_pool();
  const auto capture = [&](PoolId outliving, const auto& act) {
    memory_.begin_pool(stream_, shared, outliving);
    act();
    memory_.end_pool(stream_);
  };
  void* left = nullptr;
  capture(0, [&] {
    EXPECT_FALSE(OutlivingMemory::is_needed());
    memory_.deallocate(memory_.allocate(1000, stream_));
    left = memory_.allocate(5000, stream_);
    EXPECT_EQ(memory_.blocks_left(stream_), std::vector<void*>{left});
  });
  const PoolId own = memory_.make_pool();
  void* outlives = nullptr;
  capture(own, [&] {
    EXPECT_TRUE(OutlivingMemory::is_needed());
    memory_.deallocate(memory_.allocate(1000, stream_));
    {
      const OutlivingMemory outliving;
      outlives = memory_.allocate(1000, stream_);
    }
    EXPECT_EQ(memory_.blocks_left(stream_), std::vector<void*>()) << "of the other capture only";
    EXPECT_EQ(runtime_.blocks.size(), 2U) << "a segment for each pool";
  });
  EXPECT_FALSE(OutlivingMemory::is_needed());
  memory_.deallocate(left);
  memory_.release_pool(shared);
  memory_.empty_cache();
  EXPECT_EQ(runtime_.blocks.size(), 1U);
  memory_.deallocate(outlives);
  memory_.release_pool(own);
  memory_.empty_cache();
  EXPECT_EQ(runtime_.blocks.size(), 0U);
}

// Work on `waiting` comes after what `stream` has: it takes part in the stream's capture.
void join(Runtime& runtime, void* waiting, void* stream) {
  void* const event = runtime.make_event(0, false);
  runtime.record_event(event, stream);
  runtime.wait_event(waiting, event);
  runtime.destroy_event(event);
}

TEST_F(CachingAllocatorTest, InACapturedStreamNoEventIsRecorded) {
  void* const block = memory_.allocate(1000, stream_);
  memory_.record_stream(block, other_);
  runtime_.begin_capture(other_);
  memory_.deallocate(block);
  EXPECT_EQ(runtime_.event_count(), 0U);
  EXPECT_NE(memory_.allocate(1000, stream_), block);
  runtime_.destroy_graph(runtime_.end_capture(other_));
  EXPECT_EQ(memory_.allocate(1000, stream_), block) << "settled once the capture was over";
}

TEST_F(CachingAllocatorTest, AJoinedStreamUsesTheGraphsPool) {
  void* const before = memory_.allocate(1000, other_);
  memory_.deallocate(before);
  const PoolId pool = memory_.begin_pool(stream_);
  runtime_.begin_capture(stream_);
  EXPECT_EQ(memory_.allocate(1000, other_), before) << "another thread's";
  memory_.deallocate(before);
  join(runtime_, other_, stream_);
  void* const captured = memory_.allocate(1000, other_);
  EXPECT_NE(captured, before);
  memory_.deallocate(captured);
  EXPECT_EQ(memory_.allocate(1000, other_), captured) << "within the capture it is used again";
  memory_.deallocate(captured);
  runtime_.destroy_graph(runtime_.end_capture(stream_));
  memory_.end_pool(stream_);
  EXPECT_EQ(memory_.allocate(1000, other_), before);
  EXPECT_NE(memory_.allocate(1000, other_), captured) << "a replay still writes there";
  memory_.release_pool(pool);
}

TEST_F(CachingAllocatorTest, TwoCapturesHaveTheirThreadsPools) {
  const PoolId first = memory_.begin_pool(stream_);
  runtime_.begin_capture(stream_);
  void* of_first = nullptr;
  char forked = 0;
  PoolId second = 0;
  std::thread([&] {
    second = memory_.begin_pool(other_);
    runtime_.begin_capture(other_);
    join(runtime_, &forked, other_);
    void* const own = memory_.allocate(1000, &forked);
    memory_.deallocate(own);
    EXPECT_EQ(memory_.allocate(1000, &forked), own);
    std::thread([&] {
      EXPECT_ERROR(memory_.allocate(1000, &forked), kInvalidArgument,
                   "cuda:0: 2 graphs are being captured, and this thread allocates on a stream of "
                   "one of them; let the thread that captures allocate");
    }).join();
    runtime_.destroy_graph(runtime_.end_capture(other_));
    memory_.end_pool(other_);
  }).join();
  join(runtime_, &forked, stream_);
  of_first = memory_.allocate(1000, &forked);
  EXPECT_EQ(runtime_.blocks.size(), 2U);
  memory_.deallocate(of_first);
  runtime_.destroy_graph(runtime_.end_capture(stream_));
  memory_.end_pool(stream_);
  memory_.release_pool(first);
  memory_.empty_cache();
  EXPECT_EQ(runtime_.blocks.size(), 1U);
  memory_.release_pool(second);
}

TEST_F(CachingAllocatorTest, AnEventThatCannotBeRecordedIsGivenBack) {
  void* const block = memory_.allocate(1000, stream_);
  memory_.record_stream(block, other_);
  runtime_.lost = {other_};
  memory_.deallocate(block);
  EXPECT_EQ(runtime_.event_count(), 0U);
  EXPECT_EQ(memory_.allocate(1000, stream_), block);
}

TEST(PinnedAllocator, KeepsBlocksAndWaitsForTheirCopies) {
  test::FakeRuntime runtime;
  PinnedAllocator memory(runtime);
  char place = 0;
  const Stream stream{{DeviceType::kCUDA, 0}, &place};
  void* const block = memory.allocate(0, 5000);
  EXPECT_TRUE(memory.owns(static_cast<char*>(block) + 4999));
  EXPECT_FALSE(memory.owns(&place));
  memory.record_use(static_cast<char*>(block) + 100, stream);
  runtime.busy = {stream.handle};
  memory.deallocate(block);
  EXPECT_FALSE(memory.owns(block));
  void* const second = memory.allocate(0, 8000);
  EXPECT_NE(second, block);
  runtime.busy = {};
  EXPECT_EQ(memory.allocate(0, 8000), block);
  memory.deallocate(block);
  memory.deallocate(second);
  memory.empty_cache();
  EXPECT_TRUE(runtime.pinned.empty());
}

TEST(PinnedAllocator, RecordsNoEventInACapturedStream) {
  test::FakeRuntime runtime;
  PinnedAllocator memory(runtime);
  char place = 0;
  const Stream stream{{DeviceType::kCUDA, 0}, &place};
  void* const block = memory.allocate(0, 5000);
  memory.record_use(block, stream);
  runtime.begin_capture(&place);
  memory.deallocate(block);
  EXPECT_EQ(runtime.event_count(), 0U);
  EXPECT_NE(memory.allocate(0, 5000), block);
  runtime.destroy_graph(runtime.end_capture(&place));
  EXPECT_EQ(memory.allocate(0, 5000), block);
  EXPECT_EQ(runtime.event_count(), 0U);
}

TEST(PinnedAllocator, OneEventsFailureEndsOneBlock) {
  test::FakeRuntime runtime;
  PinnedAllocator memory(runtime);
  char places[2] = {};
  void* blocks[2] = {};
  for (int i : {0, 1}) {
    blocks[i] = memory.allocate(0, 5000);
    memory.record_use(blocks[i], {{DeviceType::kCUDA, 0}, &places[i]});
  }
  runtime.busy = {&places[0], &places[1]};
  for (void* const block : blocks) memory.deallocate(block);
  runtime.lost = {&places[0]};
  runtime.busy = {};
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(memory.allocate(0, 5000), blocks[1]);
  EXPECT_NE(::testing::internal::GetCapturedStderr().find("8192 bytes are not used again"),
            std::string::npos);
  void* const third = memory.allocate(0, 5000);
  EXPECT_NE(third, blocks[0]);
  EXPECT_EQ(runtime.event_count(), 0U);
  // No event can be recorded: nothing is copied any more.
  memory.record_use(third, {{DeviceType::kCUDA, 0}, &places[0]});
  memory.deallocate(third);
  EXPECT_EQ(memory.allocate(0, 5000), third);
  EXPECT_EQ(runtime.event_count(), 0U);
}

}  // namespace
}  // namespace dl::cuda
