#include "core/memory/cuda/caching_allocator.h"

#include <gtest/gtest.h>

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

TEST_F(CachingAllocatorTest, SmallBlocksShareASegmentAndLargeOnesAnother) {
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

TEST_F(CachingAllocatorTest, ABlockThatAnotherStreamUsesIsHeldBackUntilThatIsDone) {
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

TEST_F(CachingAllocatorTest, EmptyCacheGivesWholeSegmentsBackAndKeepsWhatIsInUse) {
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

TEST_F(CachingAllocatorTest, WhatIsCachedIsGivenBackBeforeMemoryIsShort) {
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

TEST_F(CachingAllocatorTest, APoolOfAGraphIsNobodyElses) {
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

TEST_F(CachingAllocatorTest, WhatOutlivesItsGraphGoesWithItsLastBlock) {
  const PoolId pool = memory_.begin_pool(stream_);
  void* const result = memory_.allocate(1000, stream_);
  memory_.end_pool(stream_);
  memory_.release_pool(pool);
  memory_.empty_cache();
  EXPECT_EQ(runtime_.blocks.size(), 1U);
  memory_.deallocate(result);
  EXPECT_EQ(runtime_.blocks.size(), 0U);
}

TEST_F(CachingAllocatorTest, InACaptureNoEventIsRecorded) {
  void* const block = memory_.allocate(1000, stream_);
  memory_.record_stream(block, other_);
  const PoolId pool = memory_.begin_pool(stream_);
  memory_.deallocate(block);
  EXPECT_EQ(runtime_.event_count(), 0U);
  memory_.end_pool(stream_);
  EXPECT_EQ(memory_.allocate(1000, stream_), block) << "settled once the capture was over";
  memory_.release_pool(pool);
}

TEST(PinnedAllocator, KeepsBlocksAndWaitsForTheirCopies) {
  test::FakeRuntime runtime;
  PinnedAllocator memory(runtime);
  char place = 0;
  const Stream stream{{DeviceType::kCUDA, 0}, &place};
  void* const block = memory.allocate(5000);
  EXPECT_TRUE(memory.owns(static_cast<char*>(block) + 4999));
  EXPECT_FALSE(memory.owns(&place));
  memory.record_use(static_cast<char*>(block) + 100, stream);
  runtime.busy = {stream.handle};
  memory.deallocate(block);
  EXPECT_FALSE(memory.owns(block));
  void* const second = memory.allocate(8000);
  EXPECT_NE(second, block);
  runtime.busy = {};
  EXPECT_EQ(memory.allocate(8000), block);
  memory.deallocate(block);
  memory.deallocate(second);
  memory.empty_cache();
  EXPECT_TRUE(runtime.pinned.empty());
}

}  // namespace
}  // namespace dl::cuda
