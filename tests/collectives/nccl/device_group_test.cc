#include "collectives/device/device_group.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "collectives/compose/coalesced.h"
#include "collectives/device/staged_group.h"
#include "collectives/nccl/library/choice.h"
#include "tests/collectives/nccl/fake.h"
#include "tests/collectives/ranks.h"
#include "tests/support/eventually.h"

namespace dl::collectives::testing {
namespace {

using nccl::decide;
using nccl::Offer;
using ::testing::HasSubstr;

TEST(NcclChoice, NeedsNcclAndAGpuOfItsOwnOnEveryRank) {
  const Offer a{.gpu = "GPU-a", .version = 22809};
  const Offer b{.gpu = "GPU-b", .version = 22809};
  const Offer none{.gpu = "GPU-c", .lacks = "nccl: libnccl.so.2 is not there"};
  const auto of = [](std::vector<Offer> offers) { return decide(offers); };
  EXPECT_EQ(of({a, b}).obstacle, "");
  EXPECT_FALSE(of({a, b}).is_shared);
  EXPECT_EQ(of({a, none}).obstacle, "rank 1: nccl: libnccl.so.2 is not there");
  EXPECT_THAT(of({a, b, a}).obstacle, HasSubstr("ranks 0 and 2 share GPU-a"));

  Offer sharing = a;
  sharing.shares = true;
  EXPECT_TRUE(of({sharing, sharing}).is_shared);
  Offer alone = b;
  alone.shares = true;  // another group of theirs may have a GPU twice
  EXPECT_TRUE(of({sharing, alone}).is_shared);
  EXPECT_EQ(of({sharing, sharing}).obstacle, "");
  EXPECT_THAT(of({sharing, a}).obstacle, HasSubstr("share GPU-a"));  // one of them does not want to
  Offer older = b;
  older.version = 22703;
  EXPECT_THAT(thrown_by([&] { of({a, older}); }).text, HasSubstr("rank 1 has NCCL 2.27.3"));
}

TEST(NcclChoice, OffersAreReadAsTheyWereWritten) {
  const Offer offer{.gpu = "GPU-a", .version = 22809, .shares = true, .lacks = "a b  c"};
  const Offer read = Offer::parse(offer.text());
  EXPECT_EQ(read.gpu, "GPU-a");
  EXPECT_EQ(read.version, 22809);
  EXPECT_TRUE(read.shares);
  EXPECT_EQ(read.lacks, "a b  c");
  EXPECT_THAT(thrown_by([] { Offer::parse("GPU-a 1"); }).text, HasSubstr("GPU-a 1"));
}

// Ranks whose CUDA memory is staged through the host, or as a test chooses.
void run_staged(
    int size,
    const std::function<void(ProcessGroup& group, FakeRuntime& runtime, Stream stream)>& body) {
  FakeRuntime runtime{std::size_t{1} << 40, FakeWork::kLater};
  run_ranks(size, [&](ProcessGroup& host) {
    const Stream stream{.device = {DeviceType::kCUDA, 0}, .handle = runtime.make_stream(0, false)};
    const Ref<ProcessGroup> group =
        make_device_group(Ref<ProcessGroup>(&host), {},
                          [&](const Ref<ProcessGroup>& on, int, const DeviceGroupOptions&) {
                            return make_staged_group(on, runtime);
                          });
    body(*group, runtime, stream);
  });
}

TEST(DeviceGroup, CallsGoWhereTheirStreamIs) {
  FakeRuntime runtime{std::size_t{1} << 40, FakeWork::kLater};
  std::atomic<int> made{0};
  run_ranks(2, [&](ProcessGroup& host) {
    const Stream stream{.device = {DeviceType::kCUDA, 3}, .handle = runtime.make_stream(3, false)};
    const Ref<ProcessGroup> group =
        make_device_group(Ref<ProcessGroup>(&host), {},
                          [&](const Ref<ProcessGroup>& on, int device, const DeviceGroupOptions&) {
                            EXPECT_EQ(device, 3);
                            ++made;
                            return make_staged_group(on, runtime);
                          });
    float value = 1;
    group->all_reduce({.input = &value, .output = &value, .count = 1})->synchronize();
    EXPECT_EQ(value, 2);
    host.barrier()->synchronize();
    EXPECT_EQ(made, 0);  // nothing of CUDA is loaded for memory of the CPU
    const Thrown thrown = thrown_by([&] {
      group->send(
          {.buffer = &value, .count = 1, .peer = 1 - group->rank(), .call = {.stream = stream}});
    });
    EXPECT_THAT(thrown.text, HasSubstr("all ranks must meet there first"));
    host.barrier()->synchronize();
    const auto work = group->all_reduce(
        {.input = &value, .output = &value, .count = 1, .call = {.stream = stream}});
    work->wait(stream);
    EXPECT_EQ(value, 4);
    EXPECT_EQ(work->algorithm(), "staged");
    const Ref<ProcessGroup> half = group->split({.color = group->rank()});
    half->barrier({.call = {.stream = stream}})->wait(stream);
    half->abort("enough");
    EXPECT_NE(half->error(), nullptr);
    EXPECT_EQ(group->error(), nullptr);
  });
  EXPECT_EQ(made, 4);
}

TEST(StagedGroup, EveryOperationGoesThroughTheHost) {
  run_staged(3, [](ProcessGroup& group, FakeRuntime&, Stream stream) {
    const CallOptions call{.stream = stream};
    const int rank = group.rank();
    const auto own = static_cast<float>(rank + 1);
    float one = 0, three[3] = {}, mine[3] = {own, own * 10, own * 100};
    const std::vector<std::size_t> ones = {1, 1, 1};

    group.all_reduce({.input = &own, .output = &one, .count = 1, .call = call})->wait(stream);
    EXPECT_EQ(one, 6);
    group
        .reduce({.input = &own,
                 .output = &one,
                 .count = 1,
                 .op = ReduceOp::kMax,
                 .root = 1,
                 .call = call})
        ->wait(stream);
    EXPECT_EQ(one, rank == 1 ? 3 : 6);
    one = own;
    group.broadcast({.buffer = &one, .count = 1, .root = 2, .call = call})->wait(stream);
    EXPECT_EQ(one, 3);
    group.all_gather({.input = &own, .output = three, .count = 1, .call = call})->wait(stream);
    EXPECT_EQ(three[2], 3);
    three[rank] = own * 2;
    group.all_gather({.input = three + rank, .output = three, .count = 1, .call = call})
        ->wait(stream);
    EXPECT_EQ(three[1], 4);
    group.all_gatherv({.input = &own, .output = three, .counts = ones, .call = call})->wait(stream);
    EXPECT_EQ(three[0], 1);
    group.reduce_scatter({.input = mine, .output = &one, .count = 1, .call = call})->wait(stream);
    EXPECT_EQ(one, rank == 0 ? 6 : rank == 1 ? 60 : 600);
    group.reduce_scatterv({.input = mine, .output = &one, .counts = ones, .call = call})
        ->wait(stream);
    EXPECT_EQ(one, rank == 0 ? 6 : rank == 1 ? 60 : 600);
    group.gather({.input = &own, .output = three, .count = 1, .root = 0, .call = call})
        ->wait(stream);
    group
        .gatherv(
            {.input = &own, .count = 1, .output = three, .counts = ones, .root = 0, .call = call})
        ->wait(stream);
    if (rank == 0) {
      EXPECT_EQ(three[2], 3);
    }
    group.scatter({.input = mine, .output = &one, .count = 1, .root = 2, .call = call})
        ->wait(stream);
    EXPECT_EQ(one, rank == 0 ? 3 : rank == 1 ? 30 : 300);
    group
        .scatterv(
            {.input = mine, .counts = ones, .output = &one, .count = 1, .root = 1, .call = call})
        ->wait(stream);
    EXPECT_EQ(one, rank == 0 ? 2 : rank == 1 ? 20 : 200);
    group.all_to_all({.input = mine, .output = mine, .count = 1, .call = call})->wait(stream);
    EXPECT_EQ(mine[1], rank == 0 ? 2 : rank == 1 ? 20 : 200);
    group
        .all_to_allv({.input = mine,
                      .send_counts = ones,
                      .output = three,
                      .receive_counts = ones,
                      .call = call})
        ->wait(stream);
    EXPECT_EQ(three[1], own * 10);
    group.barrier({.call = call})->wait(stream);
    // Around a ring, in the order in which everybody would wait for everybody if sends did.
    const Ref<Work> sent =
        group.send({.buffer = &own, .count = 1, .peer = (rank + 1) % 3, .call = call});
    const Ref<Work> received =
        group.recv({.buffer = &one, .count = 1, .peer = kAnySource, .call = call});
    received->wait(stream);
    sent->wait();
    EXPECT_EQ(one, static_cast<float>((rank + 2) % 3 + 1));
    EXPECT_EQ(received->source(), (rank + 2) % 3);
  });
}

TEST(StagedGroup, BatchesAndListsGoThroughTheHost) {
  run_staged(3, [](ProcessGroup& group, FakeRuntime& runtime, Stream stream) {
    const CallOptions call{.stream = stream};
    const int next = (group.rank() + 1) % 3, last = (group.rank() + 2) % 3;
    const auto own = static_cast<float>(group.rank() + 1);
    float from_last = 0, from_next = 0;
    const auto send = [&](int peer, std::uint32_t tag) -> SendOptions {
      return {.buffer = &own, .count = 1, .peer = peer, .tag = tag, .call = call};
    };
    const auto receive = [&](float* buffer, int peer, std::uint32_t tag) -> RecvOptions {
      return {.buffer = buffer, .count = 1, .peer = peer, .tag = tag, .call = call};
    };
    const PeerMessage all[] = {send(next, 1), send(last, 2), receive(&from_last, last, 1),
                               receive(&from_next, next, 2)};
    EXPECT_THAT(thrown_by([&] { group.batch(all); }).text, HasSubstr("batch: it is group"));
    group.barrier({.call = call})->wait(stream);
    group.batch(all)->wait(stream);
    EXPECT_EQ(from_last, static_cast<float>(last + 1));
    EXPECT_EQ(from_next, static_cast<float>(next + 1));
    // Who only asks finds the bytes on the GPU, too.
    from_last = 0;
    const Ref<Work> asked = group.sendrecv(send(next, 0), receive(&from_last, kAnySource, 0));
    EXPECT_TRUE(tests::eventually([&] { return asked->is_completed(); }));
    EXPECT_EQ(from_last, static_cast<float>(last + 1));
    EXPECT_EQ(asked->error(), nullptr);

    SendOptions on_host = send(next, 0);
    on_host.call.stream = {};
    const PeerMessage mixed[] = {on_host, receive(&from_last, last, 0)};
    EXPECT_THAT(thrown_by([&] { group.batch(mixed); }).text,
                HasSubstr("one message is on cpu, another on cuda:0"));
    const PeerMessage bad[] = {send(next, 0), send(group.rank(), 0)};
    EXPECT_THAT(thrown_by([&] { group.batch(bad); }).text, HasSubstr("wanted another rank"));
    group.batch({})->wait();

    float a = own, b = 1;
    const AllReduceOptions parts[] = {{.input = &a, .output = &a, .count = 1},
                                      {.input = &b, .output = &b, .count = 1}};
    all_reduce_coalesced(group, parts, call)->wait(stream);
    EXPECT_EQ(a, 6);
    EXPECT_EQ(b, 3);
    runtime.synchronize_stream(stream.handle);
  });
}

TEST(StagedGroup, CannotBeCaptured) {
  run_staged(2, [](ProcessGroup& group, FakeRuntime& runtime, Stream stream) {
    group.barrier({.call = {.stream = stream}})->wait(stream);
    runtime.begin_capture(stream.handle);
    EXPECT_THAT(thrown_by([&] { group.barrier({.call = {.stream = stream}}); }).text,
                HasSubstr("cannot be captured"));
  });
}

}  // namespace
}  // namespace dl::collectives::testing
