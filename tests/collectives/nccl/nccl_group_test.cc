#include "collectives/nccl/nccl_group.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <barrier>
#include <latch>

#include "collectives/compose/coalesced.h"
#include "core/device/cuda/graph.h"
#include "tests/collectives/nccl/fake.h"
#include "tests/collectives/ranks.h"
#include "tests/support/eventually.h"

namespace dl::collectives::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// One rank of a test.
struct Rank {
  ProcessGroup& host;
  Ref<ProcessGroup> group;
  cuda::Runtime& runtime;
  Stream stream;  // the caller's
  Ref<nccl::Notices> notices;

  int rank() const { return host.rank(); }
  CallOptions call() const { return {.stream = stream}; }
  Ref<Work> all_reduce(const float* input, float* output, std::size_t count,
                       std::optional<std::chrono::nanoseconds> timeout = {}) const {
    return group->all_reduce({.input = input,
                              .output = output,
                              .count = count,
                              .call = {.stream = stream, .timeout = timeout}});
  }
  SendOptions send(const float* buffer, int peer) const {
    return {.buffer = buffer, .count = 1, .peer = peer, .call = call()};
  }
  RecvOptions recv(float* buffer, int peer) const {
    return {.buffer = buffer, .count = 1, .peer = peer, .call = call()};
  }
  // A graph of an all_reduce, or of one with each of these timeouts.
  std::unique_ptr<cuda::Graph> capture(
      const float* input, float* output,
      const std::vector<std::optional<std::chrono::nanoseconds>>& timeouts = {{}}) const {
    auto graph = std::make_unique<cuda::Graph>(runtime);
    graph->begin(stream);
    for (const auto& timeout : timeouts) all_reduce(input, output, 1, timeout)->wait(stream);
    graph->end();
    return graph;
  }
};

bool eventually_broken(const Rank& rank) {
  return tests::eventually([&] { return rank.group->error() != nullptr; });
}

class Nccl : public ::testing::Test {
 protected:
  nccl::Module table_ = FakeNccl::table();  // outlives what fake_ waits for
  FakeNccl fake_;
  std::vector<std::string> ends_;  // of processes
  std::mutex mutex_;
  std::barrier<> both_{2};  // for tests of two ranks
  std::chrono::milliseconds timeout_ = 30s;
  std::chrono::milliseconds connect_ = 30s;
  std::chrono::milliseconds patience_ = 60s;  // ends when all have answered
  std::chrono::milliseconds abort_time_ = 30s;

  // Each begins when all have met: what one does would else end the others' meeting. (A barrier of
  // the host group must not precede something that ends that group: the first rank to leave the
  // barrier may end the group for ranks that are still in it.)
  void run(int size, const std::function<void(Rank& rank)>& body) {
    rendezvous::MemoryStore store;
    std::latch met(size);
    run_threads(size, [&](int r) {
      const Ref<ProcessGroup> host = join_group(store, r, size, {.timeout = 60s});
      void* const own = fake_.runtime.make_stream(r, false);
      Rank rank{*host,
                nullptr,
                fake_.runtime,
                {.device = {DeviceType::kCUDA, static_cast<std::int16_t>(r)}, .handle = own},
                make_ref<nccl::Notices>(&store)};
      try {
        rank.group = make(r, host, rank.notices);
      } catch (...) {
        met.count_down();
        throw;
      }
      met.arrive_and_wait();
      body(rank);
      rank.group = nullptr;
    });
    EXPECT_TRUE(fake_.fault.abort_hangs || fake_.all_ended());
  }
  // Until the watcher of this rank's group has looked at its operations so often again.
  void let_watcher_look(const Rank& rank, int times = 3) {
    const std::atomic<int>& looks = fake_.looks.at(static_cast<std::size_t>(rank.rank()));
    const int before = looks;
    EXPECT_TRUE(tests::eventually([&] { return looks >= before + times; }));
  }
  // Of two ranks: all_reduce #1, and behind it #2, which rank 0 alone calls and gets. Its clock
  // runs from `opened` on, which is rank 0's to set: so the deadline does not pass while it is
  // being called, however long that takes, nor while rank 1 is in a call.
  Ref<Work> call_alone(const Rank& rank, float* value, const std::atomic<bool>& opened,
                       std::chrono::milliseconds timeout) {
    Ref<Work> alone;
    if (rank.rank() == 0) {
      fake_.runtime.push(rank.stream.handle, [&opened] { return opened.load(); });
    }
    rank.all_reduce(value, value + 1, 1);
    if (rank.rank() == 0) alone = rank.all_reduce(value, value + 2, 1, timeout);
    both_.arrive_and_wait();
    return alone;
  }
  // Runs `body` on rank 0, whose stream waits for an operation that rank 1 does not call.
  void run_with_a_late_rank(const std::function<void(Rank& rank, FirstError& error)>& body) {
    run(2, [&](Rank& rank) {
      float value[3] = {};
      std::atomic<bool> opened{false};
      const Ref<Work> work = call_alone(rank, value, opened, 300ms);
      if (!work) {
        ASSERT_TRUE(eventually_broken(rank));
        return;
      }
      const Ref<FirstError> error = rank.group->background_error();
      work->wait(rank.stream);
      opened = true;
      body(rank, *error);
    });
  }
  Ref<ProcessGroup> make(int device, const Ref<ProcessGroup>& host,
                         const Ref<nccl::Notices>& notices = nullptr) {
    return make_nccl_group({.module = &table_,
                            .runtime = &fake_.runtime,
                            .device = device,
                            .host = host,
                            .timeout = timeout_,
                            .connect_timeout = connect_,
                            .notices = notices,
                            .answer_patience = patience_,
                            .abort_time = abort_time_,
                            .end_process = [this](const std::string& text) {
                              const std::lock_guard lock(mutex_);
                              ends_.push_back(text);
                            }});
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
  EXPECT_EQ(fake_.fault.without_device, 0);
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

TEST_F(Nccl, MessagesOfABatchGoAllAtOnce) {
  run(3, [&](Rank& rank) {
    const int next = (rank.rank() + 1) % 3, last = (rank.rank() + 2) % 3;
    const auto own = static_cast<float>(rank.rank() + 1);
    float from_last = 0, from_next = 0, second = 0;
    // Around the ring: one after the other, every send would wait for a receive behind a send.
    rank.group->sendrecv(rank.send(&own, next), rank.recv(&from_last, last))->synchronize();
    EXPECT_EQ(from_last, static_cast<float>(last + 1));
    // Two messages of two ranks are taken in order.
    const float twice = own * 2;
    const PeerMessage all[] = {rank.send(&own, next),    rank.send(&twice, next),
                               rank.send(&own, last),    rank.recv(&from_last, last),
                               rank.recv(&second, last), rank.recv(&from_next, next)};
    rank.group->batch(all)->synchronize();
    EXPECT_EQ(from_last, static_cast<float>(last + 1));
    EXPECT_EQ(second, static_cast<float>(2 * (last + 1)));
    EXPECT_EQ(from_next, static_cast<float>(next + 1));
    rank.group->batch({})->synchronize();
    // One by one, between two ranks of which one sends first.
    if (rank.rank() < 2) {
      const Ref<Work> work = rank.rank() == 0 ? rank.group->send(rank.send(&own, 1))
                                              : rank.group->recv(rank.recv(&second, 0));
      work->synchronize();
      EXPECT_EQ(second, rank.rank() == 1 ? 1 : static_cast<float>(2 * (last + 1)));
    }
  });
}

TEST_F(Nccl, ABatchIsCheckedBeforeItIsStarted) {
  run(2, [&](Rank& rank) {
    float value = 0;
    const int peer = 1 - rank.rank();
    const auto refused = [&](const PeerMessage& message) {
      const PeerMessage both[] = {rank.send(&value, peer), message};
      return thrown_by([&] { rank.group->batch(both); }).text;
    };
    RecvOptions message = rank.recv(&value, kAnySource);
    EXPECT_THAT(refused(message), HasSubstr("cannot receive from any source"));
    message.peer = peer;
    message.tag = 4;
    EXPECT_THAT(refused(message), HasSubstr("tag is 4, but NCCL has no tags"));
    message.tag = 0;
    message.call.stream.handle = rank.runtime.make_stream(rank.rank(), false);
    EXPECT_THAT(refused(message), HasSubstr("one operation on one stream"));
    EXPECT_THAT(refused(rank.send(&value, rank.rank())), HasSubstr("wanted another rank"));
    EXPECT_EQ(rank.group->error(), nullptr);
  });
}

TEST_F(Nccl, ARankThatSendsNothingEndsABatchAtItsEarliestDeadline) {
  run(2, [&](Rank& rank) {
    float value = 0;
    if (rank.rank() == 0) {
      RecvOptions soon = rank.recv(&value, 1);
      soon.call.timeout = 200ms;
      const PeerMessage two[] = {rank.recv(&value, 1), soon};
      const Thrown thrown = thrown_by([&] { rank.group->batch(two)->synchronize(); });
      EXPECT_EQ(thrown.kind, ErrorKind::kTimeout);
      EXPECT_THAT(thrown.text, AllOf(HasSubstr("recv #1"), HasSubstr("timed out after 0.2 s"),
                                     HasSubstr("waiting for rank 1 ("),
                                     HasSubstr("which has not sent it (tag 0)")));
    }
    ASSERT_TRUE(eventually_broken(rank));
  });
}

TEST_F(Nccl, ALateBatchOfSeveralPeersNamesOnlyRanksThatDoNotAnswer) {
  patience_ = 500ms;
  for (const bool is_silent : {false, true}) {
    std::latch ready(3);
    run(3, [&](Rank& rank) {
      float values[2] = {};
      if (is_silent && rank.rank() == 2) rank.notices->close();  // its watcher does not answer
      ready.arrive_and_wait();
      if (rank.rank() == 1) rank.group->send(rank.send(values, 0));
      if (rank.rank() == 0) {
        RecvOptions soon = rank.recv(values, 1);
        soon.call.timeout = 200ms;
        const PeerMessage two[] = {soon, rank.recv(values + 1, 2)};
        const Thrown thrown = thrown_by([&] { rank.group->batch(two)->synchronize(); });
        EXPECT_EQ(thrown.kind, ErrorKind::kTimeout);
        EXPECT_THAT(thrown.text, HasSubstr("recv #1"));
        EXPECT_THAT(thrown.text, HasSubstr(is_silent ? "waiting for rank 2 ("
                                                     : "waiting for one of its messages"));
        EXPECT_THAT(thrown.text, Not(HasSubstr("rank 1 (")));
      }
      ASSERT_TRUE(eventually_broken(rank));
    });
  }
}

TEST_F(Nccl, SeveralReductionsAreOneOperation) {
  run(2, [&](Rank& rank) {
    float a = 1, b[2] = {2, static_cast<float>(rank.rank())};
    const AllReduceOptions parts[] = {{.input = &a, .output = &a, .count = 1},
                                      {.input = b, .output = b, .count = 2}};
    const Ref<Work> work = all_reduce_coalesced(*rank.group, parts, rank.call());
    work->synchronize();
    EXPECT_EQ(work->algorithm(), "nccl");
    EXPECT_EQ(a, 2);
    EXPECT_EQ(b[0], 4);
    EXPECT_EQ(b[1], 1);
    all_reduce_coalesced(*rank.group, {}, rank.call())->synchronize();
  });
}

TEST_F(Nccl, ACallThatNcclRefusesLeavesNothingOpenForOtherGroups) {
  run(2, [&](Rank& rank) {
    const Ref<ProcessGroup> other =
        make(rank.stream.device.index, rank.host.split({}), rank.notices);
    float value = 1;
    fake_.fault.call_error = kInvalidUsage;
    both_.arrive_and_wait();
    const Thrown thrown = thrown_by([&] { rank.all_reduce(&value, &value, 1); });
    EXPECT_THAT(thrown.text, HasSubstr("ncclAllReduce: NCCL says: an error"));
    EXPECT_TRUE(eventually_broken(rank));
    both_.arrive_and_wait();
    fake_.fault.call_error = 0;
    other->all_reduce({.input = &value, .output = &value, .count = 1, .call = rank.call()})
        ->synchronize();
    EXPECT_EQ(value, 2);
  });
}

TEST_F(Nccl, OnlyTheCallerPollsNcclWhileAnOperationStarts) {
  run(2, [&](Rank& rank) {
    float input = 1, output = 0;
    fake_.fault.busy_polls = 30;
    fake_.fault.poll_us = 1000;  // the watcher wants to ask in each of them
    for (int i = 0; i < 2; ++i) {
      rank.all_reduce(&input, &output, 1)->synchronize();
      EXPECT_EQ(output, 2);
    }
  });
  EXPECT_EQ(fake_.fault.overlaps, 0);
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
                                     HasSubstr("which has not called it, nor anything before it")));
    }
    const Thrown later = thrown_by([&] { rank.all_reduce(value, value + 1, 1); });
    EXPECT_THAT(later.text, HasSubstr("all_reduce #1"));
  });
  EXPECT_EQ(fake_.fault.aborts, 3);
  EXPECT_EQ(fake_.fault.without_device, 0);
}

TEST_F(Nccl, ARankThatIsStoppedDoesNotAnswer) {
  timeout_ = 200ms;
  patience_ = 200ms;
  run(2, [&](Rank& rank) {
    float value[2] = {};
    if (rank.rank() == 1) rank.notices->close();  // its watcher does not answer
    both_.arrive_and_wait();
    if (rank.rank() == 1) {
      ASSERT_TRUE(eventually_broken(rank));
      return;
    }
    const Thrown thrown = thrown_by([&] { rank.all_reduce(value, value + 1, 1)->synchronize(); });
    EXPECT_EQ(thrown.kind, ErrorKind::kTimeout);
    EXPECT_THAT(thrown.text,
                AllOf(HasSubstr("timed out after 0.2 s"), HasSubstr("waiting for rank 1 ("),
                      HasSubstr("which does not answer (stopped, or its host cannot be reached)")));
  });
}

TEST_F(Nccl, RanksThatCallDifferentThingsAreQuoted) {
  run(2, [&](Rank& rank) {
    float value[8] = {};
    std::atomic<bool> opened{false};
    if (rank.rank() == 0) {
      both_.arrive_and_wait();
      const Thrown thrown =
          thrown_by([&] { rank.all_reduce(value, value + 4, 2, 300ms)->synchronize(); });
      EXPECT_EQ(thrown.kind, ErrorKind::kMismatch);
    } else {
      // So that rank 0 waits, as it would on a GPU.
      fake_.runtime.push(rank.stream.handle, [&] { return opened.load(); });
      const Ref<Work> work = rank.all_reduce(value, value + 4, 4);
      both_.arrive_and_wait();
      const Thrown thrown = thrown_by([&] { work->synchronize(); });
      EXPECT_THAT(thrown.text, AllOf(HasSubstr("f32[2] sum"), HasSubstr("f32[4] sum"),
                                     HasSubstr("all_reduce #1: rank "),
                                     HasSubstr("are the models the same on all ranks?")));
    }
    opened = true;
    rank.runtime.synchronize_stream(rank.stream.handle);
  });
}

TEST_F(Nccl, AnOperationBehindOtherGpuWorkIsNotLate) {
  patience_ = 100ms;  // if it is late in the end, as on a loaded machine
  run(2, [&](Rank& rank) {
    std::atomic<bool> begun{false}, opened{false};
    float input = 1, first = 0, output = 0;
    // Behind another operation: one that is still being called may be late.
    fake_.runtime.push(rank.stream.handle, [&] { return begun.load(); });
    const Ref<Work> before = rank.all_reduce(&input, &first, 1);
    fake_.runtime.push(rank.stream.handle, [&] { return opened.load(); });
    const auto late = std::chrono::steady_clock::now() + 50ms;
    const Ref<Work> work = rank.all_reduce(&input, &output, 1, 50ms);
    begun = true;
    before->synchronize();
    EXPECT_TRUE(tests::eventually([&] { return std::chrono::steady_clock::now() > late; }));
    let_watcher_look(rank);
    EXPECT_FALSE(work->is_completed());
    EXPECT_EQ(rank.group->error(), nullptr);
    both_.arrive_and_wait();
    opened = true;
    // In time or not, from here on its clock runs.
    EXPECT_TRUE(tests::eventually([&] { return work->is_completed(); }));
    rank.runtime.synchronize_stream(rank.stream.handle);
  });
}

TEST_F(Nccl, AnErrorThatNcclFindsEndsTheGroupEverywhereWithItsWords) {
  run(2, [&](Rank& rank) {
    float value[2] = {};
    rank.all_reduce(value, value + 1, 1)->synchronize();
    both_.arrive_and_wait();
    fake_.fault.async_error = nccl::kRemoteError;
    ASSERT_TRUE(eventually_broken(rank));
    const Thrown thrown = thrown_by([&] { rank.all_reduce(value, value + 1, 1); });
    EXPECT_THAT(thrown.text, HasSubstr("NCCL says: remote error: link down"));
    if (rank.rank() == 0) {
      EXPECT_EQ(thrown.kind, ErrorKind::kPeerFailed);
    }
    EXPECT_TRUE(tests::eventually([&] { return rank.host.error() != nullptr; }));
  });
}

TEST_F(Nccl, RanksThatDoNotComeAreATimeoutOfTheMeeting) {
  fake_.fault.never_connects = true;
  connect_ = 100ms;
  rendezvous::MemoryStore store;
  run_threads(2, [&](int r) {
    const Ref<ProcessGroup> host = join_group(store, r, 2, {.timeout = 60s});
    const Thrown thrown = thrown_by([&] { make(r, host); });
    EXPECT_THAT(thrown.text, HasSubstr("NCCL has not connected the 2 ranks"));
  });
  EXPECT_GE(fake_.fault.aborts, 1);
}

TEST_F(Nccl, AFailureToConnectIsReportedInNcclsWords) {
  fake_.fault.async_error = 5;
  rendezvous::MemoryStore store;
  run_threads(2, [&](int r) {
    const Ref<ProcessGroup> host = join_group(store, r, 2, {.timeout = 60s});
    const Thrown thrown = thrown_by([&] {
      make(r, host);
      if (r == 1) host->barrier({})->synchronize(60s);  // rank 0 has aborted by now, or does
    });
    EXPECT_THAT(thrown.text, HasSubstr("NCCL cannot connect the ranks: an error: link down"));
  });
}

TEST_F(Nccl, AnAbortThatHangsEndsTheProcessWithTheNamedError) {
  abort_time_ = 100ms;
  fake_.fault.abort_hangs = true;
  run(2, [&](Rank& rank) {
    float value[3] = {};
    std::atomic<bool> opened{false};
    if (const Ref<Work> work = call_alone(rank, value, opened, 200ms)) {
      opened = true;
      EXPECT_EQ(thrown_by([&] { work->synchronize(); }).kind, ErrorKind::kTimeout);
    }
    ASSERT_TRUE(eventually_broken(rank));
    rank.group = nullptr;
  });
  ASSERT_EQ(ends_.size(), 2U);
  EXPECT_THAT(ends_[0],
              AllOf(HasSubstr("all_reduce #2"), HasSubstr("NCCL has not given the communicator")));
  fake_.fault.abort_hangs = false;
  EXPECT_TRUE(fake_.all_ended());  // by the threads that were left behind
  EXPECT_EQ(fake_.fault.aborts, 2);
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

TEST_F(Nccl, AForkedChildMayNotUseTheGroup) {
  run(2, [&](Rank& rank) {
    const auto works = [&] {
      rank.group->barrier({.call = rank.call()})->synchronize();
      return rank.group->error() == nullptr;
    };
    EXPECT_TRUE(works());
    if (rank.rank() == 0) {
      const pid_t child = ::fork();
      if (child == 0) {
        ::alarm(30);  // it hangs
        int code = 1;
        try {
          rank.group->barrier({.call = rank.call()});
        } catch (const Error& error) {
          const std::string text = error.what();
          if (text.find("is a child that it forked") != std::string::npos) code = 0;
        }
        rank.group->abort("a child says so");
        rank.group = nullptr;
        ::_exit(code);
      }
      int status = 0;
      ASSERT_EQ(::waitpid(child, &status, 0), child);
      EXPECT_EQ(status, 0);
    }
    EXPECT_TRUE(works());
  });
}

TEST_F(Nccl, CapturedOperationsHaveNoDeadlineOnTheHost) {
  run(2, [&](Rank& rank) {
    float input = 1, output = 0;
    rank.runtime.begin_capture(rank.stream.handle);
    const Ref<Work> work = rank.all_reduce(&input, &output, 1, 1us);
    EXPECT_TRUE(work->is_completed());
    EXPECT_EQ(work->error(), nullptr);
    work->wait(rank.stream);
    EXPECT_THAT(thrown_by([&] { work->synchronize(); }).text, HasSubstr("it is being captured"));
    let_watcher_look(rank);
    EXPECT_EQ(rank.group->error(), nullptr);
  });
  EXPECT_EQ(fake_.runtime.captured_queries, 0U);
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
      EXPECT_EQ(fake_.runtime.graphs.size(), 1U);
      of_group.launch(rank.stream);
      if (!in_peace) {
        rank.group->abort("no more data");
        ASSERT_TRUE(tests::eventually([&] { return fake_.fault.aborts > 0; }));
      }
      rank.group = nullptr;
      EXPECT_TRUE(fake_.runtime.graphs.empty());
      EXPECT_EQ(thrown_by([&] { of_group.launch(rank.stream); }).kind, ErrorKind::kAborted);
      of_nobody.begin(rank.stream);
      EXPECT_TRUE(cuda::capturing());
      EXPECT_THAT(thrown_by([&] { of_nobody.launch(rank.stream); }).text,
                  HasSubstr("the stream is being captured"));
      of_nobody.end();
      of_nobody.launch(rank.stream);
      EXPECT_FALSE(cuda::capturing());
    });
  }
  EXPECT_EQ(fake_.fault.ends_with_graphs, 0);
}

TEST_F(Nccl, ALaunchHasADeadlineAndNamesTheRankThatDoesNotLaunch) {
  std::latch ready(3);
  run(3, [&](Rank& rank) {
    float input = 1, output = 0;
    const auto good = rank.capture(&input, &output);
    EXPECT_EQ(output, 0);
    good->launch(rank.stream);
    rank.runtime.synchronize_stream(rank.stream.handle);
    EXPECT_EQ(output, 3);
    const auto graph = rank.rank() == 0 ? rank.capture(&input, &output, {200ms, 300ms})
                                        : rank.capture(&input, &output, {30s, 30s});
    if (rank.rank() == 1) graph->launch(rank.stream);
    ready.arrive_and_wait();
    if (rank.rank() == 0) graph->launch(rank.stream);
    ASSERT_TRUE(eventually_broken(rank));
    ASSERT_TRUE(tests::eventually([&] { return fake_.fault.aborts == 3; }));
    const Thrown thrown = thrown_by([&] { rank.group->barrier({.call = rank.call()}); });
    EXPECT_THAT(
        thrown.text,
        AllOf(HasSubstr("a graph's launch (2 operations, up to all_reduce #3 (f32[1] sum))"),
              HasSubstr("timed out after 0.3 s"), HasSubstr("rank 2"),
              HasSubstr("has not called it (its last call was #1)"), Not(HasSubstr("rank 1 ("))));
    EXPECT_NE(rank.host.error(), nullptr);
    EXPECT_EQ(thrown_by([&] { graph->launch(rank.stream); }).kind, ErrorKind::kAborted);
    EXPECT_EQ(thrown_by([&] { rank.capture(&input, &output); }).text, thrown.text);
    // What hung in the stream has gone with the communicator.
    rank.runtime.synchronize_stream(rank.stream.handle);
  });
  EXPECT_EQ(fake_.fault.ends_with_graphs, 0);
  EXPECT_EQ(fake_.runtime.captured_queries, 0U);
}

TEST_F(Nccl, ALaunchCountsAsTheOperationsThatItHolds) {
  run(2, [&](Rank& rank) {
    float input = 1, output = 0;
    const bool launches = rank.rank() == 0;
    const auto graph = launches ? rank.capture(&input, &output) : nullptr;
    for (int i = 0; i < 2; ++i) {  // the other rank could not capture
      if (launches) {
        graph->launch(rank.stream);
        rank.runtime.synchronize_stream(rank.stream.handle);
      } else {
        rank.all_reduce(&input, &output, 1)->synchronize();
      }
      EXPECT_EQ(output, 2);
    }
    both_.arrive_and_wait();
    if (launches) {
      const Thrown thrown =
          thrown_by([&] { rank.all_reduce(&input, &output, 1, 300ms)->synchronize(); });
      EXPECT_THAT(thrown.text, AllOf(HasSubstr("all_reduce #3"), HasSubstr("last call was #2")));
    }
    ASSERT_TRUE(eventually_broken(rank));
  });
}

TEST_F(Nccl, LeavingWaitsForALaunchBehindOtherGpuWork) {
  run(1, [&](Rank& rank) {
    float input = 1, output = 0;
    // Longer than a launch takes: until it has returned, its deadline counts from the call.
    constexpr auto kTimeout = 1s;
    const auto graph = rank.capture(&input, &output, {kTimeout});
    std::atomic<bool> opened{false};
    fake_.runtime.push(rank.stream.handle, [&] { return opened.load(); });
    graph->launch(rank.stream);
    const auto launched = std::chrono::steady_clock::now();
    EXPECT_TRUE(
        tests::eventually([&] { return std::chrono::steady_clock::now() - launched > kTimeout; }));
    let_watcher_look(rank);
    EXPECT_EQ(rank.group->error(), nullptr);
    std::thread later([&] {
      let_watcher_look(rank, 20);
      opened = true;
    });
    rank.group = nullptr;
    EXPECT_TRUE(opened);
    EXPECT_EQ(output, 1);
    later.join();
  });
  EXPECT_EQ(fake_.fault.destroys, 1);
  EXPECT_EQ(fake_.fault.aborts, 0);
  EXPECT_EQ(fake_.fault.ends_with_graphs, 0);
}

TEST_F(Nccl, ACaptureThatNcclDoesNotGetThroughEndsAtTheDeadline) {
  timeout_ = 300ms;
  run(2, [&](Rank& rank) {
    float input = 1, output = 0;
    if (rank.rank() == 0) {
      fake_.fault.busy_polls = 1 << 30;
      const Thrown thrown = thrown_by([&] { rank.capture(&input, &output); });
      EXPECT_EQ(thrown.kind, ErrorKind::kTimeout);
      EXPECT_THAT(thrown.text, HasSubstr("NCCL has not started it within its capture"));
    }
    ASSERT_TRUE(eventually_broken(rank));
  });
}

TEST_F(Nccl, LeavingWaitsForOperationsThatAStreamAwaits) {
  run(2, [&](Rank& rank) {
    std::atomic<bool> opened{false};
    float input = 1, output = 0;
    fake_.runtime.push(rank.stream.handle, [&] { return opened.load(); });
    rank.all_reduce(&input, &output, 1)->wait(rank.stream);
    const Ref<FirstError> error = rank.group->background_error();
    std::thread later([&] {
      let_watcher_look(rank, 20);
      opened = true;
    });
    rank.group = nullptr;
    EXPECT_TRUE(opened);
    EXPECT_EQ(output, 2);
    EXPECT_EQ(error->get(), nullptr);
    later.join();
    rank.host.barrier()->synchronize();
  });
  EXPECT_EQ(fake_.fault.destroys, 2);
  EXPECT_EQ(fake_.fault.aborts, 0);
}

TEST_F(Nccl, AbortErrorOutlivesTheGroup) {
  run_with_a_late_rank([&](Rank& rank, FirstError& error) {
    rank.runtime.synchronize_stream(rank.stream.handle);
    EXPECT_THAT(thrown_by([&] { error.check(); }).text, HasSubstr("timed out after 0.3 s"));
    rank.group = nullptr;
    EXPECT_NE(error.get(), nullptr);
  });
}

TEST_F(Nccl, LeavingWaitsForAStreamToTheDeadlineOnly) {
  run_with_a_late_rank([&](Rank& rank, FirstError& error) {
    rank.group = nullptr;
    EXPECT_THAT(thrown_by([&] { error.check(); }).text, HasSubstr("timed out after 0.3 s"));
  });
}

TEST_F(Nccl, CompletedGpuWorkIsNotAborted) {
  run(2, [&](Rank& rank) {
    std::atomic<bool> opened{false};
    float input = 1, output = 0;
    fake_.runtime.push(rank.stream.handle, [&] { return opened.load(); });
    rank.all_reduce(&input, &output, 1)->wait(rank.stream);
    let_watcher_look(rank, 80);  // by then it looks once a millisecond
    rank.host.barrier()->synchronize();
    opened = true;
    rank.runtime.synchronize_stream(rank.stream.handle);
    rank.group = nullptr;
    rank.host.barrier()->synchronize();
  });
  EXPECT_EQ(fake_.fault.destroys, 2);
  EXPECT_EQ(fake_.fault.aborts, 0);
}

TEST_F(Nccl, ARankMayLeaveBeforeTheOthers) {
  abort_time_ = 100ms;
  fake_.fault.destroy_waits = true;
  std::atomic<bool> left{false};
  run(2, [&](Rank& rank) {
    float input = 1, output = 0;
    rank.all_reduce(&input, &output, 1)->synchronize();
    if (rank.rank() == 1) {
      EXPECT_TRUE(tests::eventually([&] { return left.load(); }));
    }
    rank.group = nullptr;
    left = true;
  });
  EXPECT_THAT(ends_, ::testing::IsEmpty());
  EXPECT_TRUE(tests::eventually([&] { return fake_.fault.destroys == 2; }));
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

TEST_F(Nccl, UnsupportedOperationsAreRefusedByName) {
  run(2, [&](Rank& rank) {
    std::int32_t value = 0;
    const auto reduce = [&](ReduceOp op, CallOptions call, DType dtype = DType::kI32) {
      return thrown_by([&] {
               rank.group->all_reduce({.input = &value,
                                       .output = &value,
                                       .count = 1,
                                       .dtype = dtype,
                                       .op = op,
                                       .call = std::move(call)});
             })
          .text;
    };
    EXPECT_THAT(reduce(ReduceOp::kBxor, rank.call()), HasSubstr("NCCL has no bxor of int32"));
    EXPECT_THAT(reduce(ReduceOp::kAvg, rank.call()), HasSubstr("NCCL has no avg of int32"));
    EXPECT_THAT(reduce(ReduceOp::kSum, rank.call(), DType::kI16),
                HasSubstr("NCCL has no sum of int16"));
    EXPECT_THAT(reduce(ReduceOp::kSum, {}), HasSubstr("the stream is on cpu"));
    EXPECT_THAT(reduce(ReduceOp::kSum, {.stream = rank.stream, .order = Order::kTree}),
                HasSubstr("Order::kTree"));
    EXPECT_THAT(
        thrown_by([&] {
          rank.group->recv({.buffer = &value, .count = 1, .peer = kAnySource, .call = rank.call()});
        }).text,
        HasSubstr("cannot receive from any source"));
    EXPECT_EQ(rank.group->error(), nullptr);
  });
}

}  // namespace
}  // namespace dl::collectives::testing
