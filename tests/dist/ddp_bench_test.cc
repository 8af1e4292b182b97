// bench_train as processes of a job: DDP, and the control without it.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/dist/shell.h"

namespace dl::dist {
namespace {

using nlohmann::json;

json bench(const std::string& flags) {
  const Ran ran = shell(program("dlrun") + " --nproc-per-node 2 " + program("bench_train") +
                        " mlp --threads 1 --warmup 1 --steps 5 --json " + flags);
  EXPECT_EQ(ran.code, 0) << ran.text;
  const std::size_t brace = ran.text.find('{');
  EXPECT_EQ(brace, ran.text.rfind("{\"work\"")) << "one rank reports: " << ran.text;
  if (brace == ran.text.npos) return json::object();
  return json::parse(ran.text.substr(brace, ran.text.find('\n', brace) - brace));
}

TEST(BenchTrain, SaysHowMuchCommunicationWasHidden) {
  const json report = bench("");
  EXPECT_EQ(report.value("world", 0), 2);
  EXPECT_GT(report.value("all_reduce_ms", 0.0), 0);
  EXPECT_GE(report.value("hidden", -1.0), 0);
  EXPECT_LE(report.value("hidden", 2.0), 1);
}

TEST(BenchTrain, HasAControlThatSendsNoGradients) {
  const json report = bench("--no-sync");
  EXPECT_EQ(report.value("world", 0), 2);
  EXPECT_FALSE(report.contains("hidden"));
}

}  // namespace
}  // namespace dl::dist
