// What is recorded: spans, threads, memory, operations, and when.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <latch>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "core/base/error.h"
#include "core/ops/conv/conv.h"
#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/linear/linear.h"
#include "core/ops/order/order.h"
#include "core/ops/reduce/reduce.h"
#include "core/profiler/profile.h"
#include "core/profiler/recorder.h"
#include "core/tensor/factories.h"
#include "tests/support/file_size_limit.h"
#include "tests/support/read_file.h"
#include "tests/support/temp_dir.h"

namespace dl::profiler {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const Average& row_of(const Averages& averages, std::string_view key) {
  static const Average none;
  const auto at = std::ranges::find(averages.rows, key, &Average::key);
  return at == averages.rows.end() ? none : *at;
}

std::vector<std::string> names_in(const ThreadLog& log) {
  std::vector<std::string> names;
  for (const Event& event : log.events) names.emplace_back(event.name);
  return names;
}

TEST(Profile, NestsSpansSoThatSelfTimesSumToTheTotal) {
  Profile prof;
  prof.run([] {
    const record_function outer("outer");
    for (int i = 0; i < 3; ++i) {
      const record_function middle("middle");
      const record_function inner("inner");
    }
  });
  const Averages averages = prof.key_averages();
  const Average& outer = row_of(averages, "outer");
  const Average& middle = row_of(averages, "middle");
  const Average& inner = row_of(averages, "inner");
  EXPECT_EQ(outer.count, 1);
  EXPECT_EQ(middle.count, 3);
  EXPECT_EQ(inner.count, 3);
  EXPECT_EQ(outer.self_cpu_time_total_ns, outer.cpu_time_total_ns - middle.cpu_time_total_ns);
  EXPECT_EQ(middle.self_cpu_time_total_ns, middle.cpu_time_total_ns - inner.cpu_time_total_ns);
  EXPECT_EQ(averages.self_cpu_time_total_ns(), outer.cpu_time_total_ns);
}

TEST(Profile, RecordsNothingWhenItIsOff) {
  EXPECT_FALSE(is_recording());
  Profile prof;
  {
    const record_function before("before");
  }
  prof.run([] { const record_function during("during"); });
  {
    const record_function after("after");
  }
  EXPECT_FALSE(is_recording());
  ASSERT_EQ(prof.recording().threads.size(), 1U);
  EXPECT_THAT(names_in(prof.recording().threads[0]), ElementsAre("during"));
  prof.run([] {});
  EXPECT_THAT(prof.recording().threads, IsEmpty());
}

TEST(Profile, EndsASpanThatAnExceptionLeaves) {
  Profile prof;
  prof.run([] {
    try {
      const record_function failing("failing");
      throw std::runtime_error("in a span");
    } catch (const std::runtime_error&) {
    }
    const record_function next("next");
  });
  const std::vector<Event>& events = prof.recording().threads.at(0).events;
  ASSERT_EQ(events.size(), 2U);
  EXPECT_GE(events[0].end_ns, events[0].begin_ns);
  EXPECT_EQ(events[1].parent, -1);  // not inside the one that failed
}

TEST(Profile, EndsOpenSpansWhenItStops) {
  Profile prof;
  prof.start();
  {
    const record_function open("open");
    prof.stop();
    const record_function late("late");
  }
  const Recording& recording = prof.recording();
  EXPECT_THAT(names_in(recording.threads.at(0)), ElementsAre("open"));
  EXPECT_EQ(recording.threads[0].events[0].end_ns, recording.end_ns);
}

TEST(Profile, KeepsThreadsApart) {
  Profile prof;
  std::latch both_inside(2);
  const auto work = [&](const char* name) {
    for (int i = 0; i < 100; ++i) {
      const record_function span(name);
      const record_function inner("inner");
      if (i == 0) both_inside.arrive_and_wait();
    }
  };
  prof.start();
  std::thread other(work, "of the other");
  work("of the first");
  other.join();
  prof.stop();
  const std::vector<ThreadLog>& threads = prof.recording().threads;
  ASSERT_EQ(threads.size(), 2U);
  EXPECT_EQ(threads[0].tid, prof.recording().main_tid);
  for (const ThreadLog& log : threads) {
    ASSERT_EQ(log.events.size(), 200U);
    for (std::size_t i = 0; i < 200; i += 2) {
      EXPECT_EQ(log.events[i].parent, -1);
      EXPECT_EQ(log.events[i + 1].parent, static_cast<std::int64_t>(i));
    }
  }
  EXPECT_EQ(threads[1].events[0].name, "of the other");
}

// Threads that begin and end spans while recordings start and stop: for the sanitizers.
TEST(Profile, StartsAndStopsUnderSpansOfOtherThreads) {
  std::atomic<bool> is_over{false};
  std::thread other([&] {
    while (!is_over.load()) {
      const record_function span("span");
      record_async("async", Category::kCommunication, std::chrono::steady_clock::now(),
                   std::chrono::steady_clock::now());
    }
  });
  Profile prof({.profile_memory = true});
  for (int i = 0; i < 200; ++i) {
    prof.run([] { const Tensor x = zeros({4}); });
    for (const ThreadLog& log : prof.recording().threads) {
      for (const Event& event : log.events) ASSERT_GE(event.end_ns, event.begin_ns);
    }
  }
  is_over = true;
  other.join();
}

TEST(Profile, NamesOperationsAndNodesOfBackward) {
  const Tensor x = ones({4, 3});
  Tensor w = ones({2, 3});
  w.requires_grad_(true);
  Profile prof;
  prof.run([&] {
    const Tensor y = linear(x, w, Tensor());
    mul(y, y).backward(ones({4, 2}));
  });
  const Averages averages = prof.key_averages();
  EXPECT_EQ(row_of(averages, "linear").count, 1);
  EXPECT_EQ(row_of(averages, "linear_backward_weight").count, 1);
  EXPECT_EQ(row_of(averages, "MulBackward0").count, 1);
  EXPECT_EQ(row_of(averages, "MmBackward0").count, 1);
  EXPECT_EQ(row_of(averages, "AccumulateGrad").count, 1);
  const Average& node = row_of(averages, "MmBackward0");
  EXPECT_LT(node.self_cpu_time_total_ns, node.cpu_time_total_ns);  // without its kernels
}

TEST(Profile, TellsAFamilysBackwardFromItsForward) {
  Tensor x = ones({4});
  x.requires_grad_(true);
  Profile prof;
  prof.run([&] { x.relu().backward(ones({4})); });
  EXPECT_EQ(row_of(prof.key_averages(), "relu").count, 1);
  EXPECT_EQ(row_of(prof.key_averages(), "relu_backward").count, 1);
}

// The numbers of FLOPs are PyTorch 2.15's.
TEST(Profile, RecordsShapesAndFlops) {
  const Tensor image = ones({64, 1, 28, 28});
  const Tensor filters = ones({8, 1, 3, 3});
  const Tensor rows = ones({64, 5408});
  const Tensor weight = ones({10, 5408});
  Profile prof({.record_shapes = true, .with_flops = true});
  prof.run([&] {
    conv2d(image, filters, ones({8}));
    linear(rows, weight, Tensor());
    max_pool2d(image, {.kernel = {2, 2}, .stride = {2, 2}});
    matmul(ones({3, 4}), ones({4, 5}));
    matmul(ones({2, 3, 4}), ones({2, 4, 5}));
    mul(ones({7}), ones({7}));
    add(ones({9}), ones({9}));
  });
  const Averages averages = prof.key_averages({.group_by_input_shape = true});
  EXPECT_EQ(row_of(averages, "conv2d").flops, 6230016);
  EXPECT_EQ(row_of(averages, "conv2d").input_shapes, "[[64, 1, 28, 28], [8, 1, 3, 3], [8]]");
  EXPECT_EQ(row_of(averages, "linear").flops, 6922240);
  EXPECT_EQ(row_of(averages, "linear").input_shapes, "[[64, 5408], [10, 5408], []]");
  EXPECT_EQ(row_of(averages, "max_pool2d").input_shapes, "[[64, 1, 28, 28]]");
  EXPECT_EQ(row_of(averages, "matmul").flops, 120);
  EXPECT_EQ(row_of(averages, "bmm").flops, 240);
  EXPECT_EQ(row_of(averages, "mul").flops, 7);
  EXPECT_EQ(row_of(averages, "add").flops, 9);
  EXPECT_THAT([] { Profile().key_averages({.group_by_input_shape = true}); },
              testing::ThrowsMessage<Error>(HasSubstr("record_shapes = true")));
}

// A kernel's results are no inputs of it, how many it may have.
TEST(Profile, RecordsShapesAndFlopsOfBackwardKernels) {
  const Tensor image = ones({64, 1, 28, 28}).requires_grad_();
  const Tensor filters = ones({8, 1, 3, 3}).requires_grad_();
  const Tensor rows = ones({64, 20}).requires_grad_();
  const Tensor weight = ones({10, 20}).requires_grad_();
  Profile prof({.record_shapes = true, .with_flops = true});
  prof.run([&] {
    sum(conv2d(image, filters, ones({8}))).backward();
    sum(linear(rows, weight, Tensor())).backward();
    sort(ones({5}));
  });
  const Averages averages = prof.key_averages({.group_by_input_shape = true});
  const auto& to_image = row_of(averages, "conv2d_backward_data");
  EXPECT_EQ(to_image.flops, 6230016);
  EXPECT_EQ(to_image.input_shapes, "[[64, 8, 26, 26], [8, 1, 3, 3]]");
  const auto& to_filters = row_of(averages, "conv2d_backward_weight");
  EXPECT_EQ(to_filters.flops, 6230016);
  EXPECT_EQ(to_filters.input_shapes, "[[64, 1, 28, 28], [64, 8, 26, 26]]");
  EXPECT_EQ(row_of(averages, "linear_backward_input").flops, 2 * 64 * 10 * 20);
  const auto& to_weight = row_of(averages, "linear_backward_weight");
  EXPECT_EQ(to_weight.flops, 2 * 64 * 10 * 20);
  EXPECT_EQ(to_weight.input_shapes, "[[64, 10], [64, 20]]");
  EXPECT_EQ(row_of(averages, "sort").input_shapes, "[[5]]");
}

TEST(Profile, CountsMemoryWhereItIsAllocated) {
  Profile prof({.profile_memory = true});
  Tensor kept;
  prof.run([&] {
    {
      const record_function outer("outer");
      kept = empty({1000});
      const record_function inner("inner");
      const Tensor dropped = empty({500});
    }
    kept = Tensor();
  });
  const Averages averages = prof.key_averages();
  EXPECT_EQ(row_of(averages, "outer").cpu_memory_usage, 4000);
  EXPECT_EQ(row_of(averages, "inner").cpu_memory_usage, 0);
  EXPECT_EQ(row_of(averages, "[memory]").self_cpu_memory_usage, -4000);
  EXPECT_THAT(averages.table(), HasSubstr("Self CPU Mem"));
}

TEST(Profile, LeavesOutMemoryThatNoTensorOwns) {
  float numbers[4] = {};
  Profile prof({.profile_memory = true});
  prof.run([&] { const Tensor x = from_blob(numbers, {4}, DType::kF32, Ref<RefCounted>()); });
  EXPECT_THAT(prof.recording().threads, IsEmpty());
}

TEST(Profile, FollowsItsSchedule) {
  std::vector<std::vector<std::string>> cycles;
  Profile prof({.schedule = schedule({.wait = 1, .warmup = 1, .active = 2, .repeat = 2}),
                .on_trace_ready = [&](Profile& ready) {
                  cycles.push_back(names_in(ready.recording().threads.at(0)));
                }});
  prof.start();
  for (int step = 0; step < 12; ++step) {
    const record_function span("step " + std::to_string(step));
    prof.step();
  }
  prof.stop();
  // A span is over after step() here, so that each stands in the step before.
  ASSERT_EQ(cycles.size(), 2U);
  EXPECT_THAT(cycles[0], ElementsAre("ProfilerStep#2", "step 2", "ProfilerStep#3", "step 3"));
  EXPECT_THAT(cycles[1], ElementsAre("ProfilerStep#6", "step 6", "ProfilerStep#7", "step 7"));
  EXPECT_EQ(prof.cycle(), 2);
}

TEST(Profile, CountsRecordingsThatStopEnds) {
  std::vector<std::int64_t> numbers;
  Profile prof({.on_trace_ready = [&](Profile& ready) { numbers.push_back(ready.cycle()); }});
  for (int run = 0; run < 3; ++run) prof.run([] {});
  EXPECT_THAT(numbers, ElementsAre(0, 1, 2));
}

// Not derived from std::exception.
struct Refusal {
  std::int64_t cycle;
};

TEST(Profile, FollowsItsScheduleAfterAnExceptionOfItsCallback) {
  std::vector<std::vector<std::string>> cycles;
  Profile prof(
      {.schedule = schedule({.active = 2, .repeat = 3}), .on_trace_ready = [&](Profile& ready) {
         cycles.push_back(names_in(ready.recording().threads.at(0)));
         if (ready.cycle() != 1) throw Refusal{ready.cycle()};
       }});
  prof.start();
  prof.step();
  try {
    prof.step();
    FAIL() << "the callback's exception is lost";
  } catch (const Refusal& thrown) {
    EXPECT_EQ(thrown.cycle, 0);
  }
  prof.step();
  prof.step();
  prof.step();
  try {
    prof.stop();
    FAIL() << "the callback's exception is lost";
  } catch (const Refusal& thrown) {
    EXPECT_EQ(thrown.cycle, 2);
  }
  ASSERT_EQ(cycles.size(), 3U);
  EXPECT_THAT(cycles[1], ElementsAre("ProfilerStep#2", "ProfilerStep#3"));
  EXPECT_THAT(cycles[2], ElementsAre("ProfilerStep#4", "ProfilerStep#5"));
  Profile().run([] {});  // it is stopped
}

TEST(Profile, RefusesWhatItCannotDo) {
  EXPECT_THAT([] { Profile({.activities = {ProfilerActivity::kCUDA}}); },
              testing::ThrowsMessage<Error>(HasSubstr("times of GPUs are not recorded yet")));
  Profile prof;
  EXPECT_THAT([&] { prof.stop(); }, testing::ThrowsMessage<Error>(HasSubstr("was not started")));
  EXPECT_THAT([&] { prof.key_averages(); },
              testing::ThrowsMessage<Error>(HasSubstr("nothing is recorded yet")));
  prof.start();
  Profile second;
  EXPECT_THAT([&] { second.start(); },
              testing::ThrowsMessage<Error>(HasSubstr("another profile of this process")));
  prof.stop();
  EXPECT_THROW(second.run([] { throw std::runtime_error("in a profile"); }), std::runtime_error);
  second.run([] {});  // the exception has ended the recording before
}

TEST(Profile, KeepsAFileThatItCannotReplace) {
  const tests::TempDir folder;
  const std::string path = folder.path() + "/trace.json";
  Profile prof;
  prof.run([] {});
  prof.export_chrome_trace(path);
  const std::string before = tests::read_file(path);
  EXPECT_THAT(before, HasSubstr("traceEvents"));
  {
    const tests::FileSizeLimit full(10);
    EXPECT_THROW(prof.export_chrome_trace(path), Error);
  }
  EXPECT_EQ(tests::read_file(path), before);
}

TEST(Profile, NamesAFileThatItCannotWrite) {
  Profile prof;
  prof.run([] {});
  EXPECT_THAT(
      [&] { prof.export_chrome_trace("/dev/full"); },
      testing::ThrowsMessage<Error>(HasSubstr("cannot write \"/dev/full\": No space left")));
  EXPECT_THAT([&] { prof.export_chrome_trace("/no/such/folder/t.json"); },
              testing::ThrowsMessage<Error>(HasSubstr("/no/such/folder/t.json: No such file")));
}

}  // namespace
}  // namespace dl::profiler
