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
#include <thread>
#include <vector>

#include "collectives/calls.h"
#include "collectives/shm/crowd.h"
#include "collectives/shm/layout.h"
#include "collectives/shm/links.h"
#include "collectives/shm/memories.h"
#include "collectives/shm/plan.h"
#include "collectives/shm/ring.h"
#include "collectives/shm/segment.h"
#include "tests/collectives/patterns.h"
#include "tests/collectives/ranks.h"

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
  EXPECT_EQ(offsetof(Block, is_crowded), 7296u);
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
  EXPECT_NE(thrown.text.find("reserve 1152921504606846976 bytes of shared memory"),
            std::string::npos)
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
    EXPECT_LE(plan.chunk * parts_of(sister_of(op), 3), kSlotBytes);
    const std::size_t counts[] = {kCount, 7, kCount};
    const Parts parts[] = {Parts::whole(kCount), Parts::of_each(kCount), Parts::of(counts)};
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

Ref<ProcessGroup> join(rendezvous::Store& store, int rank, GroupOptions options) {
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
  expect_strangers_refused(make_shm_group);
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
  std::vector<float> y(count);
  group
      .sendrecv({.buffer = x.data(), .count = count, .peer = (group.rank() + 1) % group.size()},
                {.buffer = y.data(), .count = count, .peer = kAnySource})
      ->wait();
  EXPECT_EQ(x, y);
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
      Descriptor what = descriptor_of(options);
      what.sequence = 1;
      const std::uint32_t hashed = hash(what, hash_of_group(group.name, group.generation));
      Cell& cell = block_of(1).cells[1];
      MoreLines::Line& last = block_of(1).more[1].lines[0];
      std::memcpy(cell.payload, x.data(), kLinePayload);
      cell.flag.store(flag_of(1, hashed), std::memory_order_release);
      last.payload[0] = x.back();
      if (is_whole) last.flag.store(1, std::memory_order_release);
      const Block& theirs = block_of(0);
      while (theirs.more[1].lines[0].flag.load(std::memory_order_acquire) != 1) {
        std::this_thread::yield();
      }
      EXPECT_EQ(theirs.cells[1].flag.load(std::memory_order_acquire), cell.flag.load());
    });
  }
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
