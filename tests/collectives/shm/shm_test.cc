// What is special about shared memory: segments, the plan, and how a group is made. What every
// group promises is tested in tests/collectives/tcp with DLRUN_TEST_BACKEND=shm.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <latch>

#include "collectives/shm/layout.h"
#include "collectives/shm/plan.h"
#include "collectives/shm/segment.h"
#include "tests/collectives/ranks.h"

namespace dl::collectives {
namespace {

using namespace testing;
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
          const Plan plan = make_plan({.count = count, .op = op, .dtype = dtype}, size, false);
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

}  // namespace
}  // namespace dl::collectives
