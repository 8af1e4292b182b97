// Memory that all ranks of a shm group see: allocated by it, or registered with it.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <latch>
#include <vector>

#include "collectives/shm/layout/layout.h"
#include "collectives/shm/segment/memories.h"
#include "collectives/shm/segment/segment.h"
#include "core/base/sanitizers.h"
#include "tests/collectives/patterns.h"
#include "tests/collectives/shm/groups.h"

namespace dl::collectives {
namespace {

using namespace testing;
using namespace shm;

// Above the exchange, also if ranks share cores: in one chunk of the slots, and in several.
constexpr std::size_t kOneChunk = 12'007;  // f32
constexpr std::size_t kManyChunks = 100'003;
static_assert(kOneChunk * 4 > kOversubscribedExchangeBytes && kOneChunk * 4 < kSlotBytes);

void put_in(std::byte* to, const Bytes& from) {
  std::copy(from.begin(), from.end(), to);
}

void expect_sums(const std::byte* result, DType dtype, ReduceOp op, std::size_t count, int size) {
  const Bytes got(result, result + count * size_of(dtype));
  for (std::size_t i = 0; i < count; i = next_look(i, count)) {
    ASSERT_EQ(get(got, dtype, i), rounded(dtype, expected(dtype, op, size, i)))
        << short_name(dtype) << " " << name_of(op) << " at " << i << " of " << count;
  }
}

class SymmetricMemories : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, SymmetricMemories, ::testing::Values(2, 3, 4));

TEST_P(SymmetricMemories, AllReduceOfEveryDTypeAndOperation) {
  const int size = GetParam();
  rendezvous::MemoryStore store;
  run_threads(size, [&](int rank) {
    const Ref<ProcessGroup> group = join(store, rank, {.size = size});
    const Ref<SymmetricMemory> memory = group->allocate_symmetric(kManyChunks * 4 + 64);
    ASSERT_TRUE(memory->is_shared());
    for (const DType dtype : kAllDTypes) {
      for (const ReduceOp op : kAllOps) {
        if (!allowed(dtype, op) || !exact(dtype, op, size)) continue;
        const std::size_t count = kOversubscribedExchangeBytes / size_of(dtype) + 1003;
        // Ranks' offsets may differ.
        std::byte* const x = memory->data() + 8 * rank;
        put_in(x, filled(dtype, rank, count));
        const Ref<Work> work =
            group->all_reduce({.input = x, .output = x, .count = count, .dtype = dtype, .op = op});
        work->wait();
        expect_sums(x, dtype, op, count, size);
        ASSERT_EQ(work->algorithm(), "symmetric");
      }
    }
    group->barrier()->wait();
  });
}

// Which values round how shows in sums that are not exact.
TEST_P(SymmetricMemories, HaveTheSameBitsAsTheStagedPath) {
  const int size = GetParam();
  rendezvous::MemoryStore store;
  run_threads(size, [&](int rank) {
    const Ref<ProcessGroup> group = join(store, rank, {.size = size});
    const Ref<SymmetricMemory> memory = group->allocate_symmetric(kManyChunks * 4);
    for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF64}) {
      for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kAvg}) {
        const std::size_t count = kManyChunks * 4 / size_of(dtype);
        Bytes staged(kManyChunks * 4);
        constexpr std::size_t kPattern = 1009;
        for (std::size_t i = 0; i < kPattern; ++i) {
          put(staged, dtype, i, 1.0 / static_cast<double>(1 + (i * 31 + 7 * rank) % kPattern));
        }
        const std::size_t pattern_bytes = kPattern * size_of(dtype);
        for (std::size_t at = pattern_bytes; at < staged.size(); at += pattern_bytes) {
          std::copy_n(staged.begin(), std::min(pattern_bytes, staged.size() - at),
                      staged.begin() + static_cast<std::ptrdiff_t>(at));
        }
        put_in(memory->data(), staged);
        const auto reduce_at = [&](std::byte* x) {
          const Ref<Work> work = group->all_reduce(
              {.input = x, .output = x, .count = count, .dtype = dtype, .op = op});
          work->wait();
          return work->algorithm();
        };
        ASSERT_EQ(reduce_at(staged.data()), "staged");
        ASSERT_EQ(reduce_at(memory->data()), "symmetric");
        ASSERT_TRUE(std::equal(staged.begin(), staged.end(), memory->data()))
            << short_name(dtype) << " " << name_of(op);
      }
    }
  });
}

// All subsets of the ranks have their buffers in symmetric memory: all ranks take one way.
TEST(SymmetricMemory, IsUsedIfAllBuffersAreInIt) {
  constexpr int kSize = 3;
  rendezvous::MemoryStore store;
  run_threads(kSize, [&](int rank) {
    const Ref<ProcessGroup> group = join(store, rank, {.size = kSize});
    const Ref<SymmetricMemory> memory = group->allocate_symmetric(kSize * kManyChunks * 4);
    Bytes ordinary(memory->bytes()), other(memory->bytes());
    for (int mask = 0; mask < 1 << kSize; ++mask) {
      std::byte* const x = (mask >> rank & 1) != 0 ? memory->data() : ordinary.data();
      const std::string_view way = mask == (1 << kSize) - 1 ? "symmetric" : "staged";
      for (const std::size_t count : {kOneChunk, kManyChunks}) {
        SCOPED_TRACE(fmt::format("ranks {:03b}, {} elements", mask, count));
        const Bytes mine = filled(DType::kF32, rank, count);
        const std::size_t bytes = mine.size();
        const auto finish = [&](const Ref<Work>& work) {
          work->wait();
          EXPECT_EQ(work->algorithm(), way);
        };
        put_in(x, mine);
        finish(group->all_reduce({.input = x, .output = x, .count = count}));
        expect_sums(x, DType::kF32, ReduceOp::kSum, count, kSize);

        put_in(x, mine);
        finish(group->broadcast({.buffer = x, .count = count, .root = 1}));
        EXPECT_TRUE(std::equal(x, x + bytes, filled(DType::kF32, 1, count).begin()));

        for (const bool in_place : {true, false}) {
          std::byte* const all = in_place ? x : other.data();
          std::byte* const part = in_place ? x + rank * bytes : x;
          put_in(part, mine);
          finish(group->all_gather({.input = part, .output = all, .count = count}));
          for (int r = 0; r < kSize; ++r) {
            EXPECT_TRUE(std::equal(all + r * bytes, all + (r + 1) * bytes,
                                   filled(DType::kF32, r, count).begin()));
          }
        }
        for (const bool in_place : {true, false}) {
          for (int r = 0; r < kSize; ++r) put_in(x + r * bytes, mine);
          std::byte* const sum = in_place ? x + rank * bytes : other.data();
          finish(group->reduce_scatter({.input = x, .output = sum, .count = count}));
          expect_sums(sum, DType::kF32, ReduceOp::kSum, count, kSize);
        }
      }
    }
    // Out of place a sum has no buffer that all may write.
    group->all_reduce({.input = memory->data(), .output = other.data(), .count = kManyChunks})
        ->wait();
    group->barrier()->wait();
  });
}

TEST(SymmetricMemory, OutlivesItsGroupAndGivesBackWhatItTook) {
  rendezvous::MemoryStore store;
  std::pair<std::ptrdiff_t, int> before;
  for (int round = 0; round < 3; ++round) {
    if (round == 1) before = held();
    run_threads(3, [&](int rank) {
      const auto joined = [&](std::string_view name) {
        return join(store, rank, {.size = 3, .name = fmt::format("{}{}", name, round)});
      };
      Ref<ProcessGroup> group = joined("first");
      Ref<SymmetricMemory> kept = group->allocate_symmetric(kOneChunk * 4);
      group->allocate_symmetric(1 << 20);
      sum_once(*group, 100);
      group = nullptr;
      kept->data()[kept->bytes() - 1] = std::byte{1};
      // To another group it is memory like any other.
      group = joined("second");
      const Ref<Work> work =
          group->all_reduce({.input = kept->data(), .output = kept->data(), .count = kOneChunk});
      work->wait();
      EXPECT_EQ(work->algorithm(), "staged");
      kept->check("all_reduce");
    });
  }
  EXPECT_EQ(held(), before);
}

TEST(SymmetricMemory, IsMadeByAllRanksOrByNone) {
  rendezvous::MemoryStore store;
  run_threads(2, [&](int rank) {
    const Ref<ProcessGroup> group = join(store, rank, {});
    const Thrown other_size =
        thrown_by([&] { group->allocate_symmetric(rank == 0 ? 4096 : 5000); });
    EXPECT_EQ(other_size.kind, ErrorKind::kMismatch);
    EXPECT_NE(other_size.text.find(") wants 5000"), std::string::npos) << other_size.text;
    const Thrown too_large = thrown_by([&] { group->allocate_symmetric(std::size_t{1} << 50); });
    EXPECT_EQ(too_large.kind, ErrorKind::kIo);
    // The group is as good as before.
    const Ref<SymmetricMemory> memory = group->allocate_symmetric(0);
    EXPECT_EQ(memory->bytes(), 0u);
    sum_once(*group, 100'000);
  });
}

TEST(SymmetricMemory, OfAFailedOperationIsOutOfReachOfOthers) {
  rendezvous::MemoryStore store;
  std::latch made(2), failed(2);
  run_threads(2, [&](int rank) {
    const Ref<ProcessGroup> group = join(store, rank, {});
    const Ref<SymmetricMemory> used = group->allocate_symmetric(kManyChunks * 4);
    const Ref<SymmetricMemory> idle = group->allocate_symmetric(4096);
    made.arrive_and_wait();
    const auto reduce_it = [&](std::chrono::nanoseconds timeout) {
      group
          ->all_reduce({.input = used->data(),
                        .output = used->data(),
                        .count = kManyChunks,
                        .call = {.timeout = timeout}})
          ->wait();
    };
    if (rank == 0) {
      EXPECT_EQ(thrown_by([&] { reduce_it(100ms); }).kind, ErrorKind::kTimeout);
      const Thrown thrown = thrown_by([&] { used->check("all_reduce"); });
      EXPECT_EQ(thrown.kind, ErrorKind::kAborted);
      EXPECT_NE(thrown.text.find("make a new group and new memory"), std::string::npos);
    }
    idle->check("all_reduce");
    failed.arrive_and_wait();
    // Late, and only now: the first cause, and no byte of the other has changed.
    if (rank == 1) {
      EXPECT_EQ(thrown_by([&] { reduce_it(30s); }).kind, ErrorKind::kTimeout);
    }
  });
}

// Private pages of its own.
struct Pages {
  explicit Pages(std::size_t size) : bytes(size) {
    data = static_cast<std::byte*>(
        ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  }
  ~Pages() { ::munmap(data, bytes); }
  std::byte* data;
  std::size_t bytes;
};

TEST(RegisteredMemory, ThatCannotBeSharedIsStagedOnAllRanks) {
  rendezvous::MemoryStore store;
  run_threads(2, [&](int rank) {
    const Ref<ProcessGroup> group = join(store, rank, {});
    Pages pages(1 << 20);
    std::byte* const x = pages.data + (rank == 0 ? 0 : 64);
    const std::size_t bytes = pages.bytes / 2;
    const Ref<SymmetricMemory> memory = group->register_symmetric(x, bytes);
    EXPECT_FALSE(memory->is_shared());
    EXPECT_EQ(memory->data(), x);
#if !defined(__SANITIZE_THREAD__)
    EXPECT_NE(memory->why_not().find(rank == 0 ? ") cannot share its" : "are not whole pages"),
              std::string::npos)
        << memory->why_not();
#endif
    const Ref<Work> work = group->all_reduce({.input = x, .output = x, .count = kOneChunk});
    work->wait();
    EXPECT_EQ(work->algorithm(), "staged");
    // Of others' memory nothing is touched.
    const Segment file = Segment::make(8192);
    EXPECT_FALSE(group->register_symmetric(file.data(), 8192)->is_shared());
  });
}

#if !defined(__SANITIZE_THREAD__)  // under which ranks share one mapping
TEST(RegisteredMemory, IsSharedInItsPlaceWhileTheHandleLives) {
  rendezvous::MemoryStore store;
  run_threads(3, [&](int rank) {
    const Ref<ProcessGroup> group = join(store, rank, {.size = 3});
    Pages pages(2 << 20);
    auto* const x = pages.data;
    put_in(x, filled(DType::kF32, rank, kManyChunks));
    const auto way = [&] {
      const Ref<Work> work = group->all_reduce({.input = x, .output = x, .count = kManyChunks});
      work->wait();
      return work->algorithm();
    };
    Ref<SymmetricMemory> memory = group->register_symmetric(x, pages.bytes);
    ASSERT_TRUE(memory->is_shared()) << memory->why_not();
    EXPECT_EQ(way(), "symmetric");
    expect_sums(x, DType::kF32, ReduceOp::kSum, kManyChunks, 3);
    memory = nullptr;
    expect_sums(x, DType::kF32, ReduceOp::kSum, kManyChunks, 3);
    group->barrier()->wait();
    EXPECT_EQ(way(), "staged");
  });
  EXPECT_EQ(held().second, 0);
}

TEST(SymmetricMemory, DetachedMemoryKeepsContentsAndIgnoresAWriter) {
  std::vector<Segment> segments(1);
  segments[0] = Segment::make(4 * 4096);
  const Segment peers =
      Segment::map(UniqueFd(::fcntl(segments[0].fd(), F_DUPFD_CLOEXEC, 0)), 4 * 4096);
  const Ref<Mapped> memory = make_ref<Mapped>(1, 0, std::move(segments), nullptr);
  std::byte* const own = memory->data();
  const std::size_t inside[] = {4096, 2 * 4096, 3 * 4096 - 1};
  for (const std::size_t i : inside) own[i] = std::byte{1};
  memory->cut_off(4096 + 100, 4096);
  for (const std::size_t i : inside) {
    peers.data()[i] = std::byte{2};
    EXPECT_EQ(own[i], std::byte{1});
    own[i] = std::byte{3};
  }
  peers.data()[4095] = std::byte{4};
  EXPECT_EQ(own[4095], std::byte{4});
}
#endif

}  // namespace
}  // namespace dl::collectives
