// What is special about shared memory: segments, the plan, and how a group is made. What every
// group promises is tested in tests/collectives/tcp with DLRUN_TEST_BACKEND=shm.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <latch>

#include "collectives/shm/layout.h"
#include "collectives/shm/memories.h"
#include "collectives/shm/plan.h"
#include "collectives/shm/segment.h"
#include "tests/collectives/patterns.h"
#include "tests/collectives/ranks.h"

namespace dl::collectives {
namespace {

using namespace testing;
using ::testing::Test;
using namespace shm;

TEST(ShmLayout, IsTheOneInTheProtocol) {
  EXPECT_EQ(offsetof(Block, staged), 256u);
  EXPECT_EQ(offsetof(Block, reduced), 384u);
  EXPECT_EQ(offsetof(Block, consumed), 512u);
  EXPECT_EQ(offsetof(Block, called), 640u);
  EXPECT_EQ(offsetof(Block, bell), 4864u);
  EXPECT_EQ(kSlots, 32u);
  EXPECT_EQ(kSlotBytes, 128u * 1024);
}

TEST(ShmSegment, IsSeenThroughEveryMapping) {
  Segment ours = Segment::make(8192);
  Segment theirs = Segment::map(UniqueFd(::fcntl(ours.fd(), F_DUPFD_CLOEXEC, 0)), 8192);
  ours.data()[4097] = std::byte{7};
  EXPECT_EQ(theirs.data()[4097], std::byte{7});
}

TEST(ShmSegment, CannotShrinkUnderAPeer) {
  const Segment segment = Segment::make(8192);
  EXPECT_NE(::ftruncate(segment.fd(), 0), 0);
  EXPECT_EQ(errno, EPERM);
}

TEST(ShmSegment, OfAStrangerThatMayShrinkIsRefused) {
  UniqueFd fd(::memfd_create("stranger", MFD_CLOEXEC));
  ASSERT_EQ(::ftruncate(fd.get(), 8192), 0);
  EXPECT_EQ(thrown_by([&] { Segment::map(std::move(fd), 8192); }).kind, ErrorKind::kMismatch);
}

TEST(ShmSegment, WithoutMemoryForItIsAnErrorAndNoSignal) {
  const Thrown thrown = thrown_by([] { Segment::make(std::size_t{1} << 60); });
  EXPECT_EQ(thrown.kind, ErrorKind::kIo);
  EXPECT_NE(thrown.text.find("reserve 1152921504606846976 bytes of shared memory"),
            std::string::npos)
      << thrown.text;
}

TEST(ShmPlan, ChunksCoverTheCountAndFitTheSlots) {
  for (const OpKind op :
       {OpKind::kAllReduce, OpKind::kBroadcast, OpKind::kAllGather, OpKind::kReduceScatter}) {
    for (const DType dtype : {DType::kU8, DType::kBF16, DType::kF32, DType::kI64}) {
      for (const int size : {2, 3, 8, 1024}) {
        for (const std::size_t count : {0u, 1u, 7u, 57u, 1000u, 131'073u, 5'000'001u}) {
          const shm::Plan plan = make_plan({.count = count, .op = op, .dtype = dtype}, size, false);
          const std::size_t parts =
              op == OpKind::kReduceScatter ? static_cast<std::size_t>(size) : 1;
          if (plan.path == Path::kInline) {
            EXPECT_LE(count * parts * size_of(dtype), kInlineBytes);
            continue;
          }
          EXPECT_LE(plan.chunk * parts * size_of(dtype), kSlotBytes);
          EXPECT_GE(plan.chunk * plan.chunks, count);
          EXPECT_LT(plan.chunk * (plan.chunks - 1), count);
        }
      }
    }
  }
}

TEST(ShmPlan, SlicesCoverAChunkInOrder) {
  for (const std::size_t elements : {1u, 15u, 16u, 1000u, 32'768u}) {
    for (const int size : {1, 2, 3, 7, 8}) {
      std::size_t end = 0;
      for (int r = 0; r < size; ++r) {
        const Range slice = slice_of(elements, 4, r, size);
        EXPECT_EQ(slice.begin, end);
        EXPECT_TRUE(slice.begin % 16 == 0 || slice.begin == elements);
        end = slice.end;
      }
      EXPECT_EQ(end, elements);
    }
  }
}

Ref<ProcessGroup> join(rendezvous::Store& store, int rank, ShmGroupOptions options) {
  options.rank = rank;
  options.store = &store;
  if (options.size == 1) options.size = 2;
  options.connect_timeout = 20s;
  return make_shm_group(options);
}

TEST(JoiningAShmGroup, ChecksTheGeneration) {
  rendezvous::MemoryStore store;
  run_threads(2, [&](int rank) {
    const Thrown thrown =
        thrown_by([&] { join(store, rank, {.generation = static_cast<std::uint64_t>(rank)}); });
    EXPECT_EQ(thrown.kind, ErrorKind::kMismatch);
    EXPECT_NE(thrown.text.find("belongs to generation"), std::string::npos) << thrown.text;
  });
}

TEST(JoiningAShmGroup, OfTwoNodesIsRefusedInOneSentence) {
  rendezvous::MemoryStore store;
  run_threads(2, [&](int rank) {
    const Thrown thrown =
        thrown_by([&] { join(store, rank, {.node = "node" + std::to_string(rank)}); });
    EXPECT_EQ(thrown.kind, ErrorKind::kConnection);
    EXPECT_NE(thrown.text.find("memory is shared within a node only"), std::string::npos)
        << thrown.text;
  });
}

TEST(JoiningAShmGroup, WithAnotherKeyIsRefused) {
  rendezvous::MemoryStore store;
  run_threads(2, [&](int rank) {
    const Thrown thrown = thrown_by([&] {
      make_shm_group({.rank = rank,
                      .size = 2,
                      .store = &store,
                      .key = rendezvous::JobKey::generate(),
                      .connect_timeout = 3s});
    });
    EXPECT_EQ(thrown.kind, rank == 1 ? ErrorKind::kAuthentication : ErrorKind::kTimeout)
        << thrown.text;
  });
}

// Open descriptors and mapped segments of this process.
std::pair<std::ptrdiff_t, int> held() {
  const auto descriptors = std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
  int segments = 0;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    segments += line.find("dlrun-shm") != std::string::npos ? 1 : 0;
  }
  return {descriptors, segments};
}

void sum_once(ProcessGroup& group, std::size_t count) {
  std::vector<float> x(count, 1.0f);
  group.all_reduce({.input = x.data(), .output = x.data(), .count = count})->wait();
  EXPECT_EQ(x.back(), static_cast<float>(group.size()));
}

TEST(ShmGroups, GiveBackAllMemoryAndDescriptors) {
  static_assert(kSegmentBytes < 5 << 20, "what every rank reserves");
  rendezvous::MemoryStore store;
  std::latch summed(3);
  std::pair<std::ptrdiff_t, int> before;
  for (int round = 0; round < 4; ++round) {
    // What the first one opens for good, such as a log, does not count.
    if (round == 1) before = held();
    run_threads(3, [&](int rank) {
      const Ref<ProcessGroup> group =
          join(store, rank, {.size = 3, .name = "round" + std::to_string(round)});
      sum_once(*group, 100'000);
      EXPECT_GE(held().second, 1);
      group->barrier()->wait();
      if (round < 3) return;
      // Also where it broke.
      summed.arrive_and_wait();
      if (rank == 0) group->abort("enough");
      EXPECT_EQ(thrown_by([&] {
                  for (;;) group->barrier()->wait();
                }).kind,
                ErrorKind::kAborted);
    });
  }
  EXPECT_EQ(held(), before);
  EXPECT_EQ(before.second, 0);
}

// Ends the process where the calling thread, or one that it starts, reaches into another process.
// False where filters are not to be had.
bool forbid_reaching_into_others() {
  constexpr auto nr = static_cast<std::uint32_t>(offsetof(seccomp_data, nr));
  sock_filter code[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, nr),
                        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 4, 0),
                        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_writev, 3, 0),
                        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_pidfd_getfd, 2, 0),
                        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ptrace, 1, 0),
                        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
                        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)};
  const sock_fprog filter{.len = std::size(code), .filter = code};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter) == 0;
}

TEST(ShmGroups, NeedNoRightToReachIntoOtherProcesses) {
  rendezvous::MemoryStore store;
  run_threads(2, [&](int rank) {
    if (!forbid_reaching_into_others()) GTEST_SKIP() << "no seccomp filters here";
    const Ref<ProcessGroup> group = join(store, rank, {});
    for (const std::size_t count : {4u, 1000u, 300'000u}) sum_once(*group, count);
  });
}

// A child with a /dev/shm of its own, as small as in a container.
TEST(ShmGroups, NeedNoRoomInDevShm) {
  enum Status { kWorked, kFailed, kNotAllowed };
  const pid_t child = ::fork();
  if (child == 0) {
    if (::unshare(CLONE_NEWNS) != 0 ||
        ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount("tmpfs", "/dev/shm", "tmpfs", 0, "size=64k") != 0) {
      ::_exit(kNotAllowed);
    }
    rendezvous::MemoryStore store;
    run_threads(2, [&](int rank) {
      const Ref<ProcessGroup> group = join(store, rank, {});
      for (const std::size_t count : {4u, 1000u, 300'000u}) sum_once(*group, count);
    });
    ::_exit(Test::HasFailure() ? kFailed : kWorked);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == kNotAllowed) GTEST_SKIP() << "no mount namespaces here: needs root";
  EXPECT_EQ(WEXITSTATUS(status), kWorked);
}

TEST(ShmGroups, SayWhichWayAnOperationTook) {
  rendezvous::MemoryStore store;
  run_threads(2, [&](int rank) {
    const Ref<ProcessGroup> group = join(store, rank, {});
    std::vector<float> x(100'000);
    const auto way = [&](std::size_t count) {
      const Ref<Work> work =
          group->all_reduce({.input = x.data(), .output = x.data(), .count = count});
      work->wait();
      return work->algorithm();
    };
    EXPECT_EQ(way(14), "inline");
    EXPECT_EQ(way(15), "exchange");
    EXPECT_EQ(way(100'000), "staged");
  });
}

TEST(ShmGroups, AnOperationStuckInOneDelaysNoOther) {
  rendezvous::MemoryStore store;
  std::latch looked(2);
  run_threads(2, [&](int rank) {
    const Ref<ProcessGroup> stuck = join(store, rank, {.name = "stuck"});
    const Ref<ProcessGroup> free = join(store, rank, {.name = "free"});
    std::vector<float> x(1 << 18), y(1 << 18);
    Ref<Work> waiting;
    if (rank == 0) {
      waiting = stuck->all_reduce({.input = x.data(), .output = x.data(), .count = x.size()});
    }
    for (int round = 0; round < 20; ++round) {
      free->all_reduce({.input = y.data(), .output = y.data(), .count = y.size()})->wait();
    }
    if (rank == 0) {
      EXPECT_FALSE(waiting->is_completed());
      looked.arrive_and_wait();
      waiting->wait();
    } else {
      looked.arrive_and_wait();
      stuck->all_reduce({.input = x.data(), .output = x.data(), .count = x.size()})->wait();
    }
  });
}

TEST(ShmGroups, CarryOnWhatNobodyWaitsFor) {
  rendezvous::MemoryStore store;
  run_threads(2, [&](int rank) {
    const Ref<ProcessGroup> group = join(store, rank, {});
    for (const std::size_t count : {4u, 1000u, 300'000u}) {
      std::vector<float> x(count, 1.0f);
      const Ref<Work> work =
          group->all_reduce({.input = x.data(), .output = x.data(), .count = count});
      while (!work->is_completed()) std::this_thread::yield();
      EXPECT_EQ(x.back(), 2.0f);
    }
  });
}

TEST(ShmGroups, MoreChunksThanSlotsFromAnyRootInTurn) {
  rendezvous::MemoryStore store;
  run_threads(3, [&](int rank) {
    const Ref<ProcessGroup> group = join(store, rank, {.size = 3});
    std::vector<std::uint8_t> x(kSegmentBytes + 12'345);
    for (int round = 0; round < 3; ++round) {
      const int root = round % 3;
      std::fill(x.begin(), x.end(), static_cast<std::uint8_t>(rank == root ? round + 1 : 0));
      group->broadcast({.buffer = x.data(), .count = x.size(), .dtype = DType::kU8, .root = root})
          ->wait();
      EXPECT_EQ(std::count(x.begin(), x.end(), round + 1), static_cast<std::ptrdiff_t>(x.size()));
    }
  });
}

// Above the exchange, also where ranks share cores: in one chunk of the slots, and in several.
constexpr std::size_t kOneChunk = 12'007;  // f32
constexpr std::size_t kManyChunks = 100'003;
static_assert(kOneChunk * 4 > kCrowdedExchangeBytes && kOneChunk * 4 < kSlotBytes);

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
        const std::size_t count = kCrowdedExchangeBytes / size_of(dtype) + 1003;
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
TEST(SymmetricMemory, IsUsedWhereAllBuffersLieInIt) {
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
    EXPECT_NE(other_size.text.find("rank 1 wants 5000"), std::string::npos) << other_size.text;
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
  std::latch failed(2);
  run_threads(2, [&](int rank) {
    const Ref<ProcessGroup> group = join(store, rank, {});
    const Ref<SymmetricMemory> used = group->allocate_symmetric(kManyChunks * 4);
    const Ref<SymmetricMemory> idle = group->allocate_symmetric(4096);
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
    EXPECT_NE(memory->why_not().find(rank == 0 ? "rank 1 cannot share its" : "are not whole pages"),
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

#if !defined(__SANITIZE_THREAD__)  // where ranks share one mapping
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

TEST(SymmetricMemory, ThatIsCutOffKeepsItsContentsAndIgnoresAWriter) {
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
