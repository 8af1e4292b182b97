// What is special about shared memory: segments, the plan, and how a group is made. (Memory that
// all ranks see is in symmetric_test.cc.) What every group promises is tested in
// tests/collectives/tcp with DLRUN_TEST_BACKEND=shm.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <latch>
#include <thread>
#include <vector>

#include "collectives/call/call.h"
#include "collectives/shm/layout/layout.h"
#include "collectives/shm/layout/plan.h"
#include "collectives/shm/layout/ring.h"
#include "collectives/shm/peers/oversubscribed.h"
#include "collectives/shm/segment/links.h"
#include "collectives/shm/segment/segment.h"
#include "tests/collectives/patterns.h"
#include "tests/collectives/shm/groups.h"
#include "tests/support/eventually.h"

namespace dl::collectives {
namespace {

using namespace testing;
using ::testing::Test;
using namespace shm;

TEST(ShmLayout, IsTheOneInTheProtocol) {
  EXPECT_EQ(kInlineBytes, 1064u);
  EXPECT_EQ(kInlineSumBytes, 560u);
  EXPECT_EQ(offsetof(Block, more), 256u);
  EXPECT_EQ(sizeof(MoreLines), 1152u);
  EXPECT_EQ(offsetof(Block, staged), 2560u);
  EXPECT_EQ(offsetof(Block, reduced), 2688u);
  EXPECT_EQ(offsetof(Block, consumed), 2816u);
  EXPECT_EQ(offsetof(Block, called), 2944u);
  EXPECT_EQ(offsetof(Block, bell), 7168u);
  EXPECT_EQ(offsetof(Block, is_oversubscribed), 7296u);
  EXPECT_EQ(offsetof(Block, cpu), 7300u);
  EXPECT_EQ(offsetof(Block, counts), 7424u);
  EXPECT_EQ(kSlots, 32u);
  EXPECT_EQ(slots_in_use(4, false), 32u);
  EXPECT_EQ(slots_in_use(2, true), 16u);
  EXPECT_EQ(slots_in_use(5, true), 6u);
  EXPECT_EQ(slots_in_use(64, true), 4u);
  EXPECT_EQ(kSlotBytes, 128u * 1024);
  EXPECT_EQ(offsetof(RingCounters, consumed), 128u);
  EXPECT_EQ(offsetof(RingCounters, released), 256u);
  EXPECT_EQ(offsetof(Frame, type), 32u);
  EXPECT_EQ(kTinyBytes, 24u);
  EXPECT_EQ(kRingBytes, 1024u * 1024);
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
  EXPECT_EQ(
      thrown.text.find("reserve 1152921504606846976 bytes of shared memory: this machine has "), 0U)
      << thrown.text;
}

TEST(ShmPlan, ChunksCoverTheCountAndFitTheSlots) {
  for (const OpKind op : {OpKind::kAllReduce, OpKind::kBroadcast, OpKind::kAllGather,
                          OpKind::kReduceScatter, OpKind::kScatter, OpKind::kGather}) {
    for (const DType dtype : {DType::kU8, DType::kBF16, DType::kF32, DType::kI64}) {
      for (const int size : {2, 3, 8, 1024}) {
        for (const std::size_t count : {0u, 1u, 7u, 57u, 1000u, 131'073u, 5'000'001u}) {
          const shm::Plan plan =
              make_plan({.count = count, .op = op, .dtype = dtype}, count, size, false);
          const std::size_t parts = parts_of(op, size);
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

TEST(ShmPlan, CountsOverFourGiBAreOrdinary) {
  constexpr std::size_t kCount = (std::size_t{5} << 32) + 12'345;
  for (const OpKind op : {OpKind::kAllReduce, OpKind::kBroadcast, OpKind::kAllToAll,
                          OpKind::kAllGatherv, OpKind::kAllToAllv}) {
    const shm::Plan plan =
        make_plan({.count = kCount, .op = op, .dtype = DType::kU8}, kCount, 3, false);
    ASSERT_EQ(plan.path, Path::kChunks);
    EXPECT_LE(plan.chunk * parts_of(op, 3), kSlotBytes);
    const std::size_t counts[] = {kCount, 7, kCount};
    const Parts parts[] = {Parts(PartsView::whole(kCount)), Parts(PartsView::each(kCount)),
                           Parts(PartsView::of(counts))};
    const std::size_t begins[] = {0, 2 * kCount, kCount + 7};
    for (std::size_t i = 0; i < std::size(parts); ++i) {
      const Range part = parts[i][2];
      EXPECT_EQ(part.begin, begins[i]);
      EXPECT_EQ(part.count(), kCount);
      EXPECT_EQ(parts[i].longest(), kCount);
      std::size_t end = part.begin;
      for (std::size_t k = 0; k < plan.chunks; ++k) {
        const Range piece = piece_of(part, k, plan);
        ASSERT_EQ(piece.begin, end);
        ASSERT_GT(piece.count(), 0u);
        ASSERT_LE(piece.count(), plan.chunk);
        end = piece.end;
      }
      EXPECT_EQ(end, part.end);
      EXPECT_EQ(piece_of(part, plan.chunks, plan).count(), 0u);
    }
  }
}

TEST(ShmPlan, OfAVVariantHasTheSameChunksWhateverARankGives) {
  for (const OpKind op : {OpKind::kAllGatherv, OpKind::kReduceScatterv, OpKind::kGatherv,
                          OpKind::kScatterv, OpKind::kAllToAllv}) {
    const auto plan = [&](std::size_t longest) {
      return make_plan({.op = op, .dtype = DType::kF64}, longest, 7, false);
    };
    EXPECT_EQ(plan(0).chunks, 1u);
    for (const std::size_t longest : {0u, 1u, 1'000'000u}) {
      EXPECT_EQ(plan(longest).path, Path::kChunks);
      EXPECT_EQ(plan(longest).chunk, plan(0).chunk);
      EXPECT_GE(plan(longest).chunk * plan(longest).chunks, longest);
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
  expect_strangers_refused(make_shm_group);
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
      // Also if the group is broken.
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

// Ends the process if the calling thread, or one that it starts, accesses another process's memory.
// False if the system has no such filters.
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
  bool is_allowed = true;
  // A thread has mounts of its own after unshare(), and so have those that it starts.
  std::thread([&] {
    is_allowed = ::unshare(CLONE_NEWNS) == 0 &&
                 ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
                 ::mount("tmpfs", "/dev/shm", "tmpfs", 0, "size=64k") == 0;
    if (!is_allowed) return;
    rendezvous::MemoryStore store;
    run_threads(2, [&](int rank) {
      const Ref<ProcessGroup> group = join(store, rank, {});
      for (const std::size_t count : {4u, 1000u, 300'000u}) sum_once(*group, count);
    });
  }).join();
  if (!is_allowed) GTEST_SKIP() << "no mount namespaces here: needs root";
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
    EXPECT_EQ(way(kInlineSumBytes / 4), "inline");
    EXPECT_EQ(way(kInlineSumBytes / 4 + 1), "exchange");
    EXPECT_EQ(way(100'000), "staged");
  });
}

// At the edges of a payload's lines, and of the payload; both cells in turn.
TEST(ShmGroups, SmallPayloadsOfEveryOperation) {
  constexpr DType kType = DType::kU8;
  for (const int size : {2, 3}) {
    rendezvous::MemoryStore store;
    run_threads(size, [&](int rank) {
      const Ref<ProcessGroup> group = join(store, rank, {.size = size});
      const auto ranks = static_cast<std::size_t>(size);
      const auto expect_from = [&](int from, std::size_t at, const std::byte* got, std::size_t n) {
        const Bytes wanted = filled(kType, from, n, at);
        EXPECT_TRUE(std::equal(wanted.begin(), wanted.end(), got)) << "of rank " << from;
      };
      const auto expect_sum = [&](std::size_t at, const Bytes& got, std::size_t n) {
        for (std::size_t i = 0; i < n; ++i) {
          ASSERT_EQ(get(got, kType, i), expected(kType, ReduceOp::kSum, size, at + i)) << i;
        }
      };
      int root = 0;
      for (const std::size_t bytes :
           {std::size_t{0}, kLinePayload - 1, kLinePayload, kLinePayload + 1, std::size_t{64},
            2 * kLinePayload - 1, 2 * kLinePayload, 2 * kLinePayload + 1, std::size_t{256},
            kInlineSumBytes, kInlineSumBytes + 1, kInlineBytes - 1, kInlineBytes,
            kInlineBytes + 1}) {
        SCOPED_TRACE(fmt::format("{} bytes, {} ranks", bytes, size));
        root = (root + 1) % size;
        const Bytes mine = filled(kType, rank, bytes);
        Bytes x = mine;
        group->all_reduce({.input = x.data(), .output = x.data(), .count = bytes, .dtype = kType})
            ->wait();
        expect_sum(0, x, bytes);
        Bytes y(bytes);
        group
            ->reduce({.input = mine.data(),
                      .output = y.data(),
                      .count = bytes,
                      .dtype = kType,
                      .root = root})
            ->wait();
        if (rank == root) expect_sum(0, y, bytes);
        x = mine;
        group->broadcast({.buffer = x.data(), .count = bytes, .dtype = kType, .root = root})
            ->wait();
        expect_from(root, 0, x.data(), bytes);
        Bytes all(bytes * ranks);
        group
            ->all_gather(
                {.input = mine.data(), .output = all.data(), .count = bytes, .dtype = kType})
            ->wait();
        for (int r = 0; r < size; ++r) expect_from(r, 0, all.data() + bytes * r, bytes);
        Bytes gathered(bytes * ranks);
        group
            ->gather({.input = mine.data(),
                      .output = gathered.data(),
                      .count = bytes,
                      .dtype = kType,
                      .root = root})
            ->wait();
        if (rank == root) {
          EXPECT_EQ(gathered, all);
        }

        // The payload has a part for each rank.
        const std::size_t part = (bytes + ranks - 1) / ranks;
        const std::size_t at = part * static_cast<std::size_t>(rank);
        const Bytes parts = filled(kType, rank, part * ranks);
        y.assign(part, std::byte{});
        group
            ->reduce_scatter(
                {.input = parts.data(), .output = y.data(), .count = part, .dtype = kType})
            ->wait();
        expect_sum(at, y, part);
        group
            ->scatter({.input = parts.data(),
                       .output = y.data(),
                       .count = part,
                       .dtype = kType,
                       .root = root})
            ->wait();
        expect_from(root, at, y.data(), part);
        all.assign(part * ranks, std::byte{});
        group
            ->all_to_all(
                {.input = parts.data(), .output = all.data(), .count = part, .dtype = kType})
            ->wait();
        for (int r = 0; r < size; ++r) expect_from(r, at, all.data() + part * r, part);
      }
    });
  }
}

// Rank 1 is nothing but its links: it says that it has called, and is gone. What it has not written
// by then will never come.
TEST(ShmGroups, NoticeThatAPeerDiedBetweenTheLinesOfItsPayload) {
  constexpr std::size_t kCount = kLinePayload + 1;
  for (const bool is_whole : {false, true}) {
    rendezvous::MemoryStore store;
    run_threads(2, [&](int rank) {
      Bytes x(kCount, std::byte{1});
      AllReduceOptions options{
          .input = x.data(), .output = x.data(), .count = kCount, .dtype = DType::kU8};
      if (rank == 0) {
        const Ref<ProcessGroup> group = join(store, rank, {});
        const Ref<Work> work = group->all_reduce(options);
        if (is_whole) {
          work->wait();
          EXPECT_EQ(x, Bytes(kCount, std::byte{2}));
        } else {
          const Thrown thrown = thrown_by([&] { work->wait(); });
          EXPECT_EQ(thrown.kind, ErrorKind::kPeerFailed);
          EXPECT_NE(thrown.text.find("is gone"), std::string::npos) << thrown.text;
        }
        return;
      }
      const GroupOptions group{.rank = 1, .size = 2, .store = &store, .connect_timeout = 20s};
      const Links links = connect_links(group, false);
      const auto block_of = [&](std::size_t r) -> Block& {
        return *reinterpret_cast<Block*>(links.peers[r].segment.data());
      };
      Descriptor what = call_of(options).what;
      what.sequence = 1;
      const std::uint32_t hashed = hash(what, hash_of_group(group.name, group.generation));
      Cell& cell = block_of(1).cells[1];
      MoreLines::Line& last = block_of(1).more[1].lines[0];
      std::memcpy(cell.payload, x.data(), kLinePayload);
      cell.flag.store(flag_of(1, hashed), std::memory_order_release);
      last.payload[0] = x.back();
      if (is_whole) last.flag.store(1, std::memory_order_release);
      const Block& theirs = block_of(0);
      EXPECT_TRUE(tests::eventually(
          [&] { return theirs.more[1].lines[0].flag.load(std::memory_order_acquire) == 1; }));
      EXPECT_EQ(theirs.cells[1].flag.load(std::memory_order_acquire), cell.flag.load());
    });
  }
}

TEST(ShmGroups, ProgressWithoutAWaiter) {
  rendezvous::MemoryStore store;
  run_threads(2, [&](int rank) {
    const Ref<ProcessGroup> group = join(store, rank, {});
    for (const std::size_t count : {4u, 1000u, 300'000u}) {
      std::vector<float> x(count, 1.0f);
      const Ref<Work> work =
          group->all_reduce({.input = x.data(), .output = x.data(), .count = count});
      EXPECT_TRUE(tests::eventually([&] { return work->is_completed(); }));
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

TEST(CrowdedRanks, OneAtATimeLeavesTheFullestCore) {
  using shm::better_cpu;
  const std::vector<int> all{0, 1, 2};
  const std::vector<std::int32_t> three_and_one{0, 0, 1, 0};
  EXPECT_EQ(better_cpu(three_and_one, 3, std::vector{0, 1}), 1);
  EXPECT_EQ(better_cpu(three_and_one, 3, all), 2) << "there is nobody";
  EXPECT_EQ(better_cpu(three_and_one, 3, std::vector{0}), -1) << "bound to where it is";
  for (const int rank : {0, 1, 2}) EXPECT_EQ(better_cpu(three_and_one, rank, all), -1) << rank;
  const std::vector<std::int32_t> even{0, 1, 1, 0, 2};
  for (int rank = 0; rank < 5; ++rank) EXPECT_EQ(better_cpu(even, rank, all), -1) << rank;
  EXPECT_EQ(better_cpu(std::vector<std::int32_t>{0, -1, 0, 0}, 3, all), -1) << "one is not known";
}

TEST(CrowdedRanks, KeepTheirCpuSets) {
  const int size = 2 * static_cast<int>(std::thread::hardware_concurrency());
  rendezvous::MemoryStore store;
  run_threads(size, [&](int rank) {
    cpu_set_t before, after;
    ASSERT_EQ(::sched_getaffinity(0, sizeof before, &before), 0);
    const Ref<ProcessGroup> group = join(store, rank, {.size = size});
    for (int i = 0; i < 200; ++i) group->barrier()->wait();
    ASSERT_EQ(::sched_getaffinity(0, sizeof after, &after), 0);
    EXPECT_TRUE(CPU_EQUAL(&before, &after));
  });
}

// One rank gives more chunks than there are slots, the others one or none.
TEST(ShmGroups, MoreChunksThanSlotsOfOneRanksPartAlone) {
  rendezvous::MemoryStore store;
  run_threads(3, [&](int rank) {
    const Ref<ProcessGroup> group = join(store, rank, {.size = 3});
    const std::vector<std::size_t> counts{5, kSegmentBytes + 12'345, 0};
    const std::size_t own = counts[static_cast<std::size_t>(rank)];
    const std::size_t all = counts[0] + counts[1];
    const auto value_at = [&](std::size_t i) { return static_cast<std::uint8_t>(i * 7 % 251); };
    std::vector<std::uint8_t> wanted(all);
    for (std::size_t i = 0; i < all; ++i) wanted[i] = value_at(i);
    const auto begin = wanted.begin() + (rank == 0 ? 0 : 5) + (rank == 2 ? counts[1] : 0);
    const std::vector<std::uint8_t> part(begin, begin + static_cast<std::ptrdiff_t>(own));
    for (int round = 0; round < 2; ++round) {
      std::vector<std::uint8_t> x(all);
      const auto gathered = group->all_gatherv(
          {.input = part.data(), .output = x.data(), .counts = counts, .dtype = DType::kU8});
      std::vector<std::uint8_t> y(own);
      const auto scattered = group->scatterv({.input = wanted.data(),
                                              .counts = counts,
                                              .output = y.data(),
                                              .count = own,
                                              .dtype = DType::kU8,
                                              .root = round});
      scattered->wait();
      gathered->wait();
      EXPECT_EQ(x, wanted);
      EXPECT_EQ(y, part);
    }
  });
}

// Rounding, NaN and infinities as over TCP, in every dtype and operation.
TEST(ShmGroups, ReduceScattervHasTheSameBitsAsOverTcp) {
  rendezvous::MemoryStore store;
  run_threads(3, [&](int rank) {
    const Ref<ProcessGroup> shm = join(store, rank, {.size = 3});
    const Ref<ProcessGroup> tcp =
        make_tcp_group({.rank = rank, .size = 3, .name = "sockets", .store = &store});
    const std::vector<std::size_t> counts{12'001, 0, 3};  // of f64: three chunks
    const std::size_t own = counts[static_cast<std::size_t>(rank)];
    for (const DType dtype : kAllDTypes) {
      Bytes input((counts[0] + counts[2]) * size_of(dtype));
      std::uint32_t seed = 7 + static_cast<std::uint32_t>(rank);
      for (std::byte& byte : input) {
        seed = seed * 1664525 + 1013904223;
        byte = static_cast<std::byte>(seed >> 24);
      }
      for (const ReduceOp op : kAllOps) {
        if (!allowed(dtype, op)) continue;
        const auto reduce_over = [&](ProcessGroup& group) {
          Bytes output(own * size_of(dtype));
          group
              .reduce_scatterv({.input = input.data(),
                                .output = output.data(),
                                .counts = counts,
                                .dtype = dtype,
                                .op = op})
              ->wait();
          return output;
        };
        ASSERT_EQ(reduce_over(*shm), reduce_over(*tcp)) << short_name(dtype) << " " << name_of(op);
      }
    }
  });
}

}  // namespace
}  // namespace dl::collectives
