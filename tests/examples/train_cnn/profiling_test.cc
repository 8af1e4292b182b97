#include "examples/train_cnn/profiling.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "core/base/error.h"
#include "core/profiler/trace.h"
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

TEST(Profiling, RefusesARunThatEndsBeforeItRecords) {
  Options options;
  options.profile = true;
  Profiling profiling(options);
  EXPECT_THAT(
      [&] { profiling.start(2); },
      testing::ThrowsMessage<Error>(HasSubstr("records from step 3 on, and this run has 2")));
}

TEST(Profiling, DoesNothingUnlessItIsAskedFor) {
  const Options options;
  Profiling profiling(options);
  profiling.start(0);
  profiling.step();
  EXPECT_FALSE(profiler::is_recording());
  profiling.stop();
}

}  // namespace
}  // namespace dl::examples
