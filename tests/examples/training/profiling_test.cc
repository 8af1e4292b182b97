#include "examples/support/training/report/profiling.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/profiler/recorder.h"
#include "core/profiler/report/trace.h"
#include "core/tensor/factories.h"
#include "tests/nn/data/bytes.h"

namespace dl::examples {
namespace {

using Json = nlohmann::json;
using testing::HasSubstr;

TEST(Trace, IsJsonWhateverNamesHold) {
  const std::string names[] = {"plain", "\"quoted\" \\ slash", "tab\t line\n nul\x01 esc\x1b",
                               "ü \xe2\x82\xac", "broken \xff\xc3"};
  profiler::Profile prof({.record_shapes = true, .profile_memory = true, .with_flops = true});
  prof.run([&] {
    for (const std::string& name : names) {
      const profiler::record_function span(name);
      profiler::record_async(name, profiler::Category::kCommunication,
                             std::chrono::steady_clock::now(), std::chrono::steady_clock::now());
    }
    const Tensor x = ones({2, 3});
  });
  const Json trace =
      Json::parse(profiler::chrome_trace(prof.recording(), {.rank = 3, .world_size = 4}));
  EXPECT_EQ(trace["distributedInfo"]["rank"], 3);
  std::vector<std::string> spans;
  int begun = 0;
  int ended = 0;
  for (const Json& event : trace["traceEvents"]) {
    EXPECT_EQ(event["pid"], 3);
    if (event["name"] == "process_name") {
      EXPECT_EQ(event["args"]["name"], "rank 3");
    }
    begun += event["ph"] == "b" ? 1 : 0;
    ended += event["ph"] == "e" ? 1 : 0;
    if (event["ph"] == "X" && event["cat"] == "user_annotation") spans.push_back(event["name"]);
  }
  EXPECT_EQ(begun, 5);
  EXPECT_EQ(ended, 5);
  EXPECT_THAT(spans, testing::ElementsAre(names[0], names[1], names[2], names[3],
                                          "broken \xef\xbf\xbd\xef\xbf\xbd"));
  const Json rows = Json::parse(prof.key_averages({.group_by_input_shape = true}).json());
  EXPECT_EQ(rows[1]["name"], names[0]);
  EXPECT_EQ(rows.back()["name"], "fill_");
}

// In microseconds since 1970 a double has steps of 0.25.
TEST(Trace, HasTimesThatADoubleHolds) {
  constexpr std::int64_t kEpoch = 1'795'516'854'818'527'801;
  const auto trace_of = [](std::int64_t begin_ns) {
    profiler::Recording recording;
    recording.begin_ns = begin_ns;
    recording.epoch_ns = kEpoch;
    profiler::ThreadLog& log = recording.threads.emplace_back();
    for (const auto& [begin, end] : {std::pair(0, 1003), std::pair(251, 1001), std::pair(-7, 2)}) {
      profiler::Event& event = log.events.emplace_back();
      event.name = "e";
      event.begin_ns = begin_ns + begin;
      event.end_ns = begin_ns + end;
    }
    return Json::parse(profiler::chrome_trace(recording, {.rank = 0, .world_size = 1}));
  };
  // The second one begins 4 ns after its base, and its last event before that.
  for (const std::int64_t begin : {std::int64_t{5}, 228 * 7'889'238'000'000'000 - kEpoch + 4}) {
    const Json trace = trace_of(begin);
    const auto base = trace["baseTimeNanoseconds"].get<std::int64_t>();
    EXPECT_EQ(base, (begin == 5 ? 227 : 228) * 7'889'238'000'000'000);  // PyTorch's of that day
    std::vector<std::int64_t> begun;
    std::vector<std::int64_t> ended;
    for (const Json& event : trace["traceEvents"]) {
      if (event["ph"] != "X") continue;
      const auto ts = event["ts"].get<double>();
      begun.push_back(std::llround(ts * 1000) + base - kEpoch - begin);
      ended.push_back(std::llround((ts + event["dur"].get<double>()) * 1000) + base - kEpoch -
                      begin);
    }
    const auto about = [](std::int64_t ns) {
      return testing::AllOf(testing::Ge(ns - 1), testing::Le(ns + 1));
    };
    EXPECT_THAT(begun, testing::ElementsAre(about(0), about(251), about(-7)));
    EXPECT_THAT(ended, testing::ElementsAre(about(1003), about(1001), about(2)));
  }
}

TEST(Profiling, RefusesARunThatEndsBeforeItRecords) {
  RunOptions options;
  options.profile = true;
  Profiling profiling(options);
  EXPECT_THAT(
      [&] { profiling.start(2); },
      testing::ThrowsMessage<Error>(HasSubstr("records from step 3 on, and this run has 2")));
}

TEST(Profiling, DoesNothingUnlessItIsAskedFor) {
  const RunOptions options;
  Profiling profiling(options);
  profiling.start(0);
  profiling.step();
  EXPECT_FALSE(profiler::is_recording());
  profiling.stop();
}

}  // namespace
}  // namespace dl::examples
