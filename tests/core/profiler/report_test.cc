// Tables, averages, breakdowns and schedules. PyTorch's own functions printed the tables and the
// schedules' letters from the same numbers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "core/base/error.h"
#include "core/profiler/report/averages.h"
#include "core/profiler/report/breakdown.h"
#include "core/profiler/report/trace.h"
#include "core/profiler/schedule.h"

namespace dl::profiler {
namespace {

using testing::HasSubstr;

Average average(std::string key, std::int64_t count, std::int64_t self_ns, std::int64_t total_ns) {
  Average row;
  row.key = std::move(key);
  row.count = count;
  row.self_cpu_time_total_ns = self_ns;
  row.cpu_time_total_ns = total_ns;
  return row;
}

Averages five_rows() {
  Averages averages;
  averages.rows = {
      average("model_inference", 1, 2'000'500, 15'756'000),
      average("conv2d", 2, 9'000'250, 9'000'250),
      average("max_pool2d", 1, 4'005'125, 4'005'125),
      average("relu", 10, 750'125, 750'125),
      average("a_name_that_is_longer_than_the_column_of_names_may_be_and_is_cut", 1, 0,
              1'500'000'000),
  };
  averages.rows[0].cpu_memory_usage = 1536;
  averages.rows[1].cpu_memory_usage = averages.rows[1].self_cpu_memory_usage = 3 << 20;
  averages.rows[1].flops = 6229248;
  averages.rows[2].cpu_memory_usage = averages.rows[2].self_cpu_memory_usage = -512;
  return averages;
}

// clang-format off
TEST(Table, IsPyTorchs) {
  EXPECT_EQ(five_rows().table({.sort_by = "self_cpu_time_total", .row_limit = 10}),
R"(-------------------------------------------------------  ------------  ------------  ------------  ------------  ------------  ------------  
                                                   Name    Self CPU %      Self CPU   CPU total %     CPU total  CPU time avg    # of Calls  
-------------------------------------------------------  ------------  ------------  ------------  ------------  ------------  ------------  
                                                 conv2d        57.12%       9.000ms        57.12%       9.000ms       4.500ms             2  
                                             max_pool2d        25.42%       4.005ms        25.42%       4.005ms       4.005ms             1  
                                        model_inference        12.70%       2.001ms       100.00%      15.756ms      15.756ms             1  
                                                   relu         4.76%     750.125us         4.76%     750.125us      75.013us            10  
a_name_that_is_longer_than_the_column_of_names_may_b...         0.00%       0.000us      9520.18%        1.500s        1.500s             1  
-------------------------------------------------------  ------------  ------------  ------------  ------------  ------------  ------------  
Self CPU time total: 15.756ms
)");
}

TEST(Table, ShowsMemoryAndFlopsAsPyTorchDoes) {
  Averages averages = five_rows();
  averages.has_memory = averages.has_flops = true;
  EXPECT_EQ(averages.table({.sort_by = "cpu_time", .row_limit = 2}),
R"(-------------------------------------------------------  ------------  ------------  ------------  ------------  ------------  ------------  ------------  ------------  ------------  
                                                   Name    Self CPU %      Self CPU   CPU total %     CPU total  CPU time avg       CPU Mem  Self CPU Mem    # of Calls  Total MFLOPs  
-------------------------------------------------------  ------------  ------------  ------------  ------------  ------------  ------------  ------------  ------------  ------------  
a_name_that_is_longer_than_the_column_of_names_may_b...         0.00%       0.000us      9520.18%        1.500s        1.500s           0 B           0 B             1            --  
                                        model_inference        12.70%       2.001ms       100.00%      15.756ms      15.756ms       1.50 KB           0 B             1            --  
-------------------------------------------------------  ------------  ------------  ------------  ------------  ------------  ------------  ------------  ------------  ------------  
Self CPU time total: 15.756ms
)");
  EXPECT_THAT(averages.table(), HasSubstr("3.00 MB       3.00 MB             2         6.229  \n"));
  EXPECT_THAT(averages.table(), HasSubstr("-512 B        -512 B             1            --  \n"));
}

TEST(Table, ShowsInputShapesAsPyTorchDoes) {
  Averages averages;
  averages.has_shapes = true;
  averages.rows = {average("conv2d", 2, 9'000'250, 9'000'250), average("linear", 1, 10'000, 10'000)};
  averages.rows[0].input_shapes = "[[64, 1, 28, 28], [32, 1, 3, 3], [32]]";
  averages.rows[1].input_shapes = "[[64, 100], [10, 100], []]";
  EXPECT_EQ(averages.table({.sort_by = "count"}),
R"(----------  ------------  ------------  ------------  ------------  ------------  ------------  ------------------------------------------  
      Name    Self CPU %      Self CPU   CPU total %     CPU total  CPU time avg    # of Calls                                Input Shapes  
----------  ------------  ------------  ------------  ------------  ------------  ------------  ------------------------------------------  
    conv2d        99.89%       9.000ms        99.89%       9.000ms       4.500ms             2      [[64, 1, 28, 28], [32, 1, 3, 3], [32]]  
    linear         0.11%      10.000us         0.11%      10.000us      10.000us             1                  [[64, 100], [10, 100], []]  
----------  ------------  ------------  ------------  ------------  ------------  ------------  ------------------------------------------  
Self CPU time total: 9.010ms
)");
}
// clang-format on

TEST(Table, SortsByEveryKeyAndRefusesOthers) {
  const auto first = [](const std::string& key) {
    const std::string table = five_rows().table({.sort_by = key, .row_limit = 1});
    const std::size_t line = table.find('\n', table.find("# of Calls"));
    const std::size_t row = table.find('\n', line + 1) + 1;
    const std::size_t name = table.find_first_not_of(' ', row);
    return table.substr(name, table.find(' ', name) - name);
  };
  EXPECT_EQ(first(""), "model_inference");
  EXPECT_EQ(first("self_cpu_time_total"), "conv2d");
  EXPECT_EQ(first("cpu_time_total").substr(0, 6), "a_name");
  EXPECT_EQ(first("cpu_time").substr(0, 6), "a_name");
  EXPECT_EQ(first("cpu_memory_usage"), "conv2d");
  EXPECT_EQ(first("self_cpu_memory_usage"), "conv2d");
  EXPECT_EQ(first("count"), "relu");
  EXPECT_EQ(first("flops"), "conv2d");
  try {
    five_rows().table({.sort_by = "self_time"});
    FAIL() << "a wrong key was taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    EXPECT_STREQ(error.what(),
                 "table: sort_by is \"self_time\", wanted one of cpu_time, cpu_time_total, "
                 "self_cpu_time_total, cpu_memory_usage, self_cpu_memory_usage, count, flops");
  }
  EXPECT_THAT([] { Averages().table({.sort_by = "cuda_time_total"}); },
              testing::ThrowsMessage<Error>(HasSubstr("times of GPUs are not recorded")));
  EXPECT_EQ(Averages().table(), "");
}

TEST(Table, OfTheBookShowsOperationsAndSharesAlone) {
  EXPECT_EQ(five_rows().short_table({.row_limit = 3}),
            "Name             Self CPU %\n"
            "conv2d               57.12%\n"
            "max_pool2d           25.42%\n"
            "model_inference      12.70%\n");
}

TEST(Table, KeepsANameInItsLine) {
  Averages averages;
  averages.rows = {average("two\nlines\x1b[2J", 1, 1000, 1000)};
  EXPECT_THAT(averages.table(), HasSubstr("two\\x0alines\\x1b[2J"));
  EXPECT_THAT(averages.json(), HasSubstr("\"name\":\"two\\u000alines\\u001b[2J\""));
}

TEST(Table, IsAsWideAsItsNamesAreShown) {
  Averages averages;
  averages.rows = {average("\x1b\x1b\x1b", 1, 1000, 1000), average("relu", 1, 1000, 1000)};
  const std::string table = averages.table();
  EXPECT_THAT(table, testing::StartsWith("----------------  ------------"));
  EXPECT_THAT(table, HasSubstr("\n    \\x1b\\x1b\\x1b        50.00%"));
  // As PyTorch cuts a name: from 3 characters below the column's width on.
  EXPECT_THAT(averages.table({.max_name_column_width = 15}), HasSubstr("\n\\x1b\\x1b\\x1b...  "));
  EXPECT_THAT(averages.table({.max_name_column_width = 16}),
              HasSubstr("\n    \\x1b\\x1b\\x1b        50.00%"));
}

TEST(Schedule, HasPyTorchsStates) {
  const auto letters = [](const ScheduleOptions& options) {
    const Schedule states = schedule(options);
    std::string text;
    for (int step = 0; step < 20; ++step) text += "NWRS"[static_cast<int>(states(step))];
    return text;
  };
  EXPECT_EQ(letters({.wait = 1, .warmup = 1, .active = 3, .repeat = 2}), "NWRRSNWRRSNNNNNNNNNN");
  EXPECT_EQ(letters({.active = 1}), "SSSSSSSSSSSSSSSSSSSS");
  EXPECT_EQ(letters({.wait = 2, .active = 2, .repeat = 1}), "NNRSNNNNNNNNNNNNNNNN");
  EXPECT_EQ(letters({.wait = 1, .warmup = 2, .active = 1, .skip_first = 3}),
            "NNNNWWSNWWSNWWSNWWSN");
  EXPECT_EQ(letters({.wait = 3,
                     .warmup = 1,
                     .active = 2,
                     .repeat = 2,
                     .skip_first = 1,
                     .skip_first_wait = true}),
            "NWRSNNNWRSNNNNNNNNNN");
  EXPECT_EQ(letters({.warmup = 2, .active = 100, .repeat = 1}), "WWRRRRRRRRRRRRRRRRRR");
}

TEST(Schedule, RefusesNumbersThatAreTooSmall) {
  EXPECT_THAT([] { schedule({.wait = 1}); },
              testing::ThrowsMessage<Error>("schedule: active is 0, wanted at least 1"));
  EXPECT_THAT([] { schedule({.warmup = -1, .active = 1}); },
              testing::ThrowsMessage<Error>("schedule: warmup is -1, wanted at least 0"));
}

Event& add_to(ThreadLog& log, std::string_view name, Category category, std::int64_t begin_ms,
              std::int64_t end_ms, std::int64_t parent = -1) {
  Event& event = log.events.emplace_back();
  event.name = log.keep(name);
  event.category = category;
  event.begin_ns = begin_ms * 1'000'000;
  event.end_ns = end_ms * 1'000'000;
  event.parent = parent;
  return event;
}

Recording two_steps() {
  Recording recording;
  recording.main_tid = 1;
  recording.end_ns = 25'000'000;
  ThreadLog main;
  main.tid = 1;
  main.name = "main";
  add_to(main, "ProfilerStep#1", Category::kStep, 0, 10);
  add_to(main, "enumerate(DataLoader)#Epoch.next", Category::kData, 0, 2, 0);
  add_to(main, "DataLoader.read", Category::kData, 1, 2, 1);
  add_to(main, "conv2d", Category::kOperation, 2, 7, 0);
  add_to(main, "ProfilerStep#2", Category::kStep, 10, 20);
  add_to(main, "DistributedDataParallel.wait", Category::kCommunication, 15, 18, 4);
  add_to(main, "dlrun::wait", Category::kCommunication, 16, 18, 5);
  add_to(main, "ProfilerStep#3", Category::kStep, 20, 25);  // cut by the end of the recording
  add_to(main, "enumerate(DataLoader)#Epoch.next", Category::kData, 20, 25, 7);
  ThreadLog worker;
  worker.tid = 2;
  add_to(worker, "DataLoader.read", Category::kData, 0, 9);
  add_to(worker, "shm:all_reduce", Category::kCommunication, 11, 15).is_async = true;
  add_to(worker, "shm:all_reduce", Category::kCommunication, 13, 19).is_async = true;
  recording.threads.push_back(std::move(main));
  recording.threads.push_back(std::move(worker));
  return recording;
}

TEST(Averages, JoinThreadsWithoutSelfTimeOfCollectives) {
  const Averages averages = key_averages(two_steps());
  const auto row = [&](std::string_view key) {
    const auto at = std::ranges::find(averages.rows, key, &Average::key);
    return at == averages.rows.end() ? Average() : *at;
  };
  EXPECT_EQ(row("ProfilerStep*").count, 3);
  EXPECT_EQ(row("ProfilerStep*").cpu_time_total_ns, 25'000'000);
  EXPECT_EQ(row("ProfilerStep*").self_cpu_time_total_ns, 10'000'000);
  EXPECT_EQ(row("DataLoader.read").count, 2);
  EXPECT_EQ(row("DataLoader.read").self_cpu_time_total_ns, 10'000'000);
  EXPECT_EQ(row("shm:all_reduce").cpu_time_total_ns, 10'000'000);
  EXPECT_EQ(row("shm:all_reduce").self_cpu_time_total_ns, 0);
  EXPECT_EQ(averages.self_cpu_time_total_ns(), 34'000'000);  // both threads
}

TEST(Breakdown, PartsTheStepsOfTheTrainingThread) {
  const Breakdown parts = breakdown(two_steps());
  EXPECT_EQ(parts.steps, 2);
  EXPECT_EQ(parts.wall_ns, 20'000'000);
  EXPECT_EQ(parts.data_ns, 2'000'000);
  EXPECT_EQ(parts.communication_ns, 3'000'000);
  EXPECT_EQ(parts.computing_ns, 15'000'000);
  EXPECT_EQ(parts.communication_under_way_ns, 8'000'000);
  EXPECT_EQ(parts.str(),
            "2 steps of 10.000ms: computing 7.500ms (75.00%), data 1.000ms (10.00%), communication "
            "1.500ms (15.00%); collectives were under way for 4.000ms, 62.50% of it behind other "
            "work");
}

}  // namespace
}  // namespace dl::profiler
