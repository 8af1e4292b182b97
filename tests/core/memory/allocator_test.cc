#include "core/memory/allocator.h"
#include "core/base/sanitizers.h"

#include <gtest/gtest.h>

#include <cstring>
#include <thread>
#include <vector>

#include "core/base/error.h"
#include "core/memory/storage.h"

namespace dl {
namespace {

TEST(Allocator, BlocksAreAlignedAndAllOfTheirBytesUsable) {
  for (const std::size_t bytes : {0u, 1u, 63u, 64u, 65u, 511u, 512u, 513u, 640u, 641u, 1024u, 4097u,
                                  65536u, 65537u, 1000000u, 5000000u}) {
    void* block = memory::allocate(bytes);
    ASSERT_EQ(reinterpret_cast<std::uintptr_t>(block) % memory::kAlignment, 0u) << bytes;
    std::memset(block, 0x5a, bytes);
    memory::deallocate(block, bytes);
  }
}

TEST(Allocator, BlocksOfManySizesDoNotOverlap) {
  std::vector<std::pair<unsigned char*, std::size_t>> blocks;
  for (std::size_t bytes = 1; bytes < 3000; bytes += 37) {
    auto* block = static_cast<unsigned char*>(memory::allocate(bytes));
    std::memset(block, static_cast<int>(bytes & 0xff), bytes);
    blocks.emplace_back(block, bytes);
  }
  for (const auto& [block, bytes] : blocks) {
    for (std::size_t i = 0; i < bytes; ++i) ASSERT_EQ(block[i], bytes & 0xff);
    memory::deallocate(block, bytes);
  }
}

#if !defined(__SANITIZE_ADDRESS__)
TEST(Allocator, ASecondRoundOfTheSameSizesAsksTheSystemForNothing) {
  const std::vector<std::size_t> sizes{100, 3000, 70000, 1 << 20, 6 << 20};
  const auto round = [&] {
    std::vector<void*> blocks;
    for (const std::size_t bytes : sizes) blocks.push_back(memory::allocate(bytes));
    for (std::size_t i = 0; i < sizes.size(); ++i) memory::deallocate(blocks[i], sizes[i]);
  };
  round();
  const auto before = memory::statistics();
  for (int i = 0; i < 100; ++i) round();
  EXPECT_EQ(memory::statistics().system_allocations, before.system_allocations);
}

TEST(Allocator, StatisticsCountWhatIsLiveAndWhatIsKept) {
  memory::release_cached();
  const auto before = memory::statistics();
  void* block = memory::allocate(1 << 20);
  const auto during = memory::statistics();
  EXPECT_EQ(during.live_bytes - before.live_bytes, std::uint64_t{1} << 20);
  EXPECT_GE(during.peak_bytes, during.live_bytes);
  memory::deallocate(block, 1 << 20);
  EXPECT_EQ(memory::statistics().live_bytes, before.live_bytes);
  EXPECT_EQ(memory::statistics().cached_bytes, std::uint64_t{1} << 20);
  memory::release_cached();
  EXPECT_EQ(memory::statistics().cached_bytes, 0u);
}
#endif

TEST(Allocator, ABlockMayBeFreedByAnotherThread) {
  for (int round = 0; round < 50; ++round) {
    std::vector<void*> blocks;
    std::thread producer([&] {
      for (int i = 0; i < 300; ++i) blocks.push_back(memory::allocate(256));
    });
    producer.join();
    for (void* block : blocks) memory::deallocate(block, 256);
  }
  // What one thread made and another freed is used again, not piled up.
  EXPECT_LT(memory::statistics().live_bytes, std::uint64_t{64} << 20);
}

TEST(Allocator, RefusesWhatNoMachineHasWithTheNumberOfBytes) {
  try {
    memory::allocate(std::size_t{1} << 60);
    FAIL() << "a block of 2^60 bytes was given";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("a block of 1152921504606846976 bytes was wanted"),
              std::string::npos)
        << error.what();
  }
}

TEST(Storage, HoldsItsOwnerUntilTheLastHandleIsGone) {
  struct Owner : RefCounted {
    explicit Owner(bool* flag) : gone(flag) {}
    ~Owner() override { *gone = true; }
    bool* gone;
  };
  bool gone = false;
  float values[4] = {1, 2, 3, 4};
  {
    const Ref<Storage> storage =
        Storage::wrap(values, sizeof(values), {}, Ref<RefCounted>(make_ref<Owner>(&gone)));
    EXPECT_EQ(storage->data(), values);
    const Ref<Storage> second = storage;
    EXPECT_FALSE(gone);
  }
  EXPECT_TRUE(gone);
}

TEST(Storage, CallsItsDeleterOnce) {
  int calls = 0;
  char byte = 0;
  {
    const Ref<Storage> storage = Storage::wrap(&byte, 1, {}, [&](void* data) {
      EXPECT_EQ(data, &byte);
      ++calls;
    });
    EXPECT_EQ(calls, 0);
  }
  EXPECT_EQ(calls, 1);
}

TEST(Storage, OwnedMemoryIsAligned) {
  for (const std::size_t bytes : {0u, 4u, 100u, 1u << 20}) {
    const Ref<Storage> storage = Storage::make(bytes, {});
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(storage->data()) % memory::kAlignment, 0u);
    std::memset(storage->data(), 1, bytes);
  }
}

}  // namespace
}  // namespace dl
