#include "collectives/nccl/nccl_group.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "core/device/cuda/graph.h"
#include "tests/collectives/nccl/fake.h"
#include "tests/collectives/ranks.h"

namespace dl::collectives::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// One rank of a test.
struct Rank {
  ProcessGroup& host;
  Ref<ProcessGroup> group;
  cuda::Runtime& runtime;
  Stream stream;  // the caller's
  Ref<nccl::Notices> notices;

  int rank() const { return host.rank(); }
  CallOptions call() const { return {.stream = stream}; }
  Ref<Work> all_reduce(const float* input, float* output, std::size_t count) const {
    return group->all_reduce({.input = input, .output = output, .count = count, .call = call()});
  }
};

bool eventually(const std::function<bool()>& condition) {
  const auto end = std::chrono::steady_clock::now() + 60s;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    ::usleep(500);
  }
  return true;
}
bool eventually_broken(const Rank& rank) {
  return eventually([&] { return rank.group->error() != nullptr; });
}

class Nccl : public ::testing::Test {
 protected:
  FakeNccl fake_;
  nccl::Module table_ = FakeNccl::table();
  std::vector<std::string> ends_;  // of processes
  std::mutex mutex_;
  std::chrono::milliseconds timeout_ = 30s;
  std::chrono::milliseconds connect_ = 30s;
  std::chrono::milliseconds patience_ = 60s;  // ends when all have answered
  std::chrono::milliseconds abort_time_ = 30s;

  void run(int size, const std::function<void(Rank& rank)>& body) {
    rendezvous::MemoryStore store;
    run_threads(size, [&](int r) {
      const Ref<ProcessGroup> host = join_group(store, r, size, {.timeout = 60s});
      void* const own = fake_.runtime.make_stream(r, false);
      Rank rank{*host,
                nullptr,
                fake_.runtime,
                {.device = {DeviceType::kCUDA, static_cast<std::int16_t>(r)}, .handle = own},
                make_ref<nccl::Notices>(&store)};
      rank.group = make_nccl_group({.module = &table_,
                                    .runtime = &fake_.runtime,
                                    .device = r,
                                    .host = host,
                                    .timeout = timeout_,
                                    .connect_timeout = connect_,
                                    .notices = rank.notices,
                                    .answer_patience = patience_,
                                    .abort_time = abort_time_,
                                    .end_process = [this](const std::string& text) {
                                      const std::lock_guard lock(mutex_);
                                      ends_.push_back(text);
                                    }});
      body(rank);
      rank.group = nullptr;
    });
  }
};

TEST_F(Nccl, ConnectsAndReducesAfterWhatTheCallersStreamHolds) {
  fake_.fault.busy_polls = 3;
  run(3, [&](Rank& rank) {
    std::atomic<bool> opened{false};
    float input = 0, output = 0;
    fake_.runtime.push(rank.stream.handle, [&] { return opened.load(); });
    const float own = static_cast<float>(rank.rank() + 1);
    rank.runtime.copy_async(&input, &own, sizeof own, rank.stream.handle);
    const Ref<Work> work = rank.all_reduce(&input, &output, 1);
    EXPECT_FALSE(work->is_completed());
    opened = true;
    work->synchronize();
    EXPECT_EQ(output, 6);
    EXPECT_TRUE(work->completed_at().has_value());
    EXPECT_EQ(work->algorithm(), "nccl");
  });
  EXPECT_EQ(fake_.fault.destroys, 3);
  EXPECT_EQ(fake_.fault.aborts, 0);
}

TEST_F(Nccl, OrdersAStreamAfterAnOperationWithoutTheHost) {
  run(2, [&](Rank& rank) {
    float input = 1, output = 0, copied = 0;
    const Ref<Work> work = rank.all_reduce(&input, &output, 1);
    work->wait(rank.stream);
    rank.runtime.copy_async(&copied, &output, sizeof output, rank.stream.handle);
    rank.runtime.synchronize_stream(rank.stream.handle);
    EXPECT_EQ(copied, 2);
    rank.group->barrier({.call = rank.call()})->synchronize();
  });
}

TEST_F(Nccl, ARankThatHasNotCalledIsNamedAtTheDeadlineOnEveryRank) {
  timeout_ = 300ms;
  run(3, [&](Rank& rank) {
    float value[2] = {};
    if (rank.rank() == 2) {
      // Learns of it at its next call, or of the group's own error.
      ASSERT_TRUE(eventually_broken(rank));
    } else {
      const Thrown thrown = thrown_by([&] { rank.all_reduce(value, value + 1, 1)->synchronize(); });
      EXPECT_THAT(thrown.text, AllOf(HasSubstr("all_reduce #1 (f32[1] sum)"), HasSubstr("rank 2"),
                                     HasSubstr("has not called it (its last call was #0)")));
    }
    const Thrown later = thrown_by([&] { rank.all_reduce(value, value + 1, 1); });
    EXPECT_THAT(later.text, HasSubstr("all_reduce #1"));
  });
  EXPECT_EQ(fake_.fault.aborts, 3);
}

TEST_F(Nccl, ARankThatIsStoppedDoesNotAnswer) {
  timeout_ = 200ms;
  patience_ = 200ms;
  run(2, [&](Rank& rank) {
    float value[2] = {};
    if (rank.rank() == 1) {
      rank.notices->close();  // its watcher answers nobody
      ASSERT_TRUE(eventually_broken(rank));
      return;
    }
    const Thrown thrown = thrown_by([&] { rank.all_reduce(value, value + 1, 1)->synchronize(); });
    EXPECT_EQ(thrown.kind, ErrorKind::kTimeout);
    EXPECT_THAT(thrown.text, AllOf(HasSubstr("not over after 0.2 s"),
                                   HasSubstr("does not answer, it is stopped or gone")));
  });
}

TEST_F(Nccl, RanksThatCallDifferentThingsAreQuoted) {
  timeout_ = 300ms;
  run(2, [&](Rank& rank) {
    float value[8] = {};
    std::atomic<bool> opened{false};
    if (rank.rank() == 0) {
      const Thrown thrown = thrown_by([&] { rank.all_reduce(value, value + 4, 2)->synchronize(); });
      EXPECT_EQ(thrown.kind, ErrorKind::kMismatch);
    } else {
      const Thrown thrown = thrown_by([&] {
        // So that rank 0 waits, as it would on a GPU.
        fake_.runtime.push(rank.stream.handle, [&] { return opened.load(); });
        rank.all_reduce(value, value + 4, 4)->synchronize();
      });
      EXPECT_THAT(thrown.text, AllOf(HasSubstr("f32[2] sum"), HasSubstr("f32[4] sum"),
                                     HasSubstr("do all ranks make the same calls")));
    }
    opened = true;
    rank.runtime.synchronize_stream(rank.stream.handle);
  });
}

TEST_F(Nccl, WhatWaitsBehindOtherWorkOfTheGpuIsNotLate) {
  timeout_ = 50ms;
  run(2, [&](Rank& rank) {
    std::atomic<bool> opened{false};
    float input = 1, output = 0;
    fake_.runtime.push(rank.stream.handle, [&] { return opened.load(); });
    const Ref<Work> work = rank.all_reduce(&input, &output, 1);
    ::usleep(300'000);
    EXPECT_FALSE(work->is_completed());
    EXPECT_EQ(rank.group->error(), nullptr);
    rank.host.barrier()->synchronize();
    opened = true;
    // In time or not, from here on its clock runs.
    EXPECT_TRUE(eventually([&] { return work->is_completed(); }));
    rank.runtime.synchronize_stream(rank.stream.handle);
  });
}

TEST_F(Nccl, AnErrorThatNcclFindsEndsTheGroupEverywhereWithItsWords) {
  run(2, [&](Rank& rank) {
    float value[2] = {};
    rank.all_reduce(value, value + 1, 1)->synchronize();
    rank.host.barrier()->synchronize();
    fake_.fault.async_error = nccl::kRemoteError;
    ASSERT_TRUE(eventually_broken(rank));
    const Thrown thrown = thrown_by([&] { rank.all_reduce(value, value + 1, 1); });
    EXPECT_THAT(thrown.text, HasSubstr("NCCL says: remote error: link down"));
    if (rank.rank() == 0) {
      EXPECT_EQ(thrown.kind, ErrorKind::kPeerFailed);
    }
    EXPECT_NE(rank.host.error(), nullptr);
  });
}

TEST_F(Nccl, RanksThatDoNotComeAreATimeoutOfTheMeeting) {
  fake_.fault.never_connects = true;
  connect_ = 100ms;
  rendezvous::MemoryStore store;
  run_threads(2, [&](int r) {
    const Ref<ProcessGroup> host = join_group(store, r, 2, {.timeout = 60s});
    const Thrown thrown = thrown_by([&] {
      make_nccl_group({.module = &table_,
                       .runtime = &fake_.runtime,
                       .device = r,
                       .host = host,
                       .timeout = timeout_,
                       .connect_timeout = connect_});
    });
    EXPECT_THAT(thrown.text, HasSubstr("NCCL has not connected the 2 ranks"));
  });
  EXPECT_GE(fake_.fault.aborts, 1);
}

TEST_F(Nccl, AnAbortThatHangsEndsTheProcessWithTheNamedError) {
  timeout_ = 200ms;
  abort_time_ = 100ms;
  fake_.fault.abort_hangs = true;
  run(2, [&](Rank& rank) {
    float value[2] = {};
    if (rank.rank() == 0) {
      const Thrown thrown = thrown_by([&] { rank.all_reduce(value, value + 1, 1)->synchronize(); });
      EXPECT_EQ(thrown.kind, ErrorKind::kTimeout);
    }
    ASSERT_TRUE(eventually_broken(rank));
    rank.group = nullptr;
  });
  ASSERT_EQ(ends_.size(), 2U);
  EXPECT_THAT(ends_[0],
              AllOf(HasSubstr("all_reduce #1"), HasSubstr("NCCL has not given the communicator")));
  fake_.fault.abort_hangs = false;
  while (fake_.fault.aborts < 2) ::usleep(1000);  // the threads that were left behind
}

TEST_F(Nccl, AnAbortByOneRankIsEveryRanks) {
  run(2, [&](Rank& rank) {
    if (rank.rank() == 0) rank.group->abort("no more data");
    ASSERT_TRUE(eventually_broken(rank));
    const Thrown thrown = thrown_by([&] { rank.group->barrier({.call = rank.call()}); });
    EXPECT_EQ(thrown.kind, ErrorKind::kAborted);
    EXPECT_THAT(thrown.text, HasSubstr("no more data"));
  });
}

TEST_F(Nccl, WhatACaptureRecordsIsNeitherWatchedNorWaitedForByTheHost) {
  timeout_ = 100ms;
  run(2, [&](Rank& rank) {
    float input = 1, output = 0;
    rank.runtime.begin_capture(rank.stream.handle);
    const Ref<Work> work = rank.all_reduce(&input, &output, 1);
    EXPECT_TRUE(work->is_completed());
    EXPECT_EQ(work->error(), nullptr);
    work->wait(rank.stream);
    EXPECT_THAT(thrown_by([&] { work->synchronize(); }).text, HasSubstr("it is being captured"));
    ::usleep(300'000);
    EXPECT_EQ(rank.group->error(), nullptr);
  });
  EXPECT_EQ(fake_.runtime.captured_queries, 0);
}

TEST_F(Nccl, CapturedGraphsGoBeforeTheirCommunicator) {
  for (const bool in_peace : {true, false}) {
    run(1, [&](Rank& rank) {
      float input = 1, output = 0;
      cuda::Graph of_group(rank.runtime), of_nobody(rank.runtime);
      of_group.begin(rank.stream);
      EXPECT_THAT(thrown_by([&] { of_nobody.begin(rank.stream); }).text, HasSubstr("already"));
      rank.all_reduce(&input, &output, 1)->wait(rank.stream);
      of_group.end();
      EXPECT_EQ(fake_.runtime.graphs, 1);
      of_group.launch(rank.stream);
      if (!in_peace) {
        rank.group->abort("no more data");
        ASSERT_TRUE(eventually([&] { return fake_.fault.aborts > 0; }));
      }
      rank.group = nullptr;
      EXPECT_EQ(fake_.runtime.graphs, 0);
      EXPECT_EQ(thrown_by([&] { of_group.launch(rank.stream); }).kind, ErrorKind::kAborted);
      of_nobody.begin(rank.stream);
      EXPECT_TRUE(cuda::capturing());
      of_nobody.end();
      of_nobody.launch(rank.stream);
      EXPECT_FALSE(cuda::capturing());
    });
  }
  EXPECT_EQ(fake_.fault.ends_with_graphs, 0);
}

TEST_F(Nccl, CapturesAreNotCountedAsOperations) {
  run(2, [&](Rank& rank) {
    float input = 1, output = 0;
    if (rank.rank() == 0) {  // the other rank could not capture
      cuda::Graph graph(rank.runtime);
      graph.begin(rank.stream);
      rank.all_reduce(&input, &output, 1)->wait(rank.stream);
      rank.all_reduce(&input, &output, 1)->wait(rank.stream);
      graph.end();
    }
    rank.all_reduce(&input, &output, 1)->synchronize();
    EXPECT_EQ(output, 2);
  });
}

TEST_F(Nccl, WhatNcclLacksIsRefusedByName) {
  run(2, [&](Rank& rank) {
    std::int32_t value = 0;
    const auto reduce = [&](ReduceOp op, CallOptions call) {
      return thrown_by([&] {
               rank.group->all_reduce({.input = &value,
                                       .output = &value,
                                       .count = 1,
                                       .dtype = DType::kI32,
                                       .op = op,
                                       .call = std::move(call)});
             })
          .text;
    };
    EXPECT_THAT(reduce(ReduceOp::kBxor, rank.call()), HasSubstr("NCCL has no bxor of int32"));
    EXPECT_THAT(reduce(ReduceOp::kSum, {}), HasSubstr("the stream is one of cpu"));
    EXPECT_THAT(reduce(ReduceOp::kSum, {.stream = rank.stream, .order = Order::kTree}),
                HasSubstr("Order::kTree"));
    EXPECT_THAT(
        thrown_by([&] {
          rank.group->recv({.buffer = &value, .count = 1, .peer = kAnySource, .call = rank.call()});
        }).text,
        HasSubstr("not from any source"));
    EXPECT_EQ(rank.group->error(), nullptr);
  });
}

}  // namespace
}  // namespace dl::collectives::testing
