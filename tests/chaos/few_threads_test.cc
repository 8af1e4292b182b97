// Whichever thread the system refuses a process of a job, the job ends, and says which limit if it
// fails.
#include <gtest/gtest.h>

#include <csignal>
#include <memory>
#include <string>
#include <vector>

#include "core/base/sanitizers.h"
#include "tests/support/free_port.h"
#include "tests/support/process.h"
#include "tests/support/temp_dir.h"

namespace dl {
namespace {

// A job of which a process has not got the thread with this number.
struct JobWithFewThreads {
  std::string what;
  std::vector<std::unique_ptr<tests::Process>> nodes;
};

class FewThreads : public testing::Test {
 protected:
  using Line = std::vector<std::string>;
  void SetUp() override {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "a sanitizer has threads of its own";
#endif
  }
  // Jobs that wait for gRPC do it beside each other.
  void expect_that_each_works_or_names_the_limit() {
    for (JobWithFewThreads& job : jobs_) {
      SCOPED_TRACE(job.what);
      bool is_well = true;
      std::string said;
      for (const auto& node : job.nodes) {
        is_well = node->wait() == 0 && is_well;
        said += node->err();
      }
      EXPECT_TRUE(is_well || said.find("(ulimit -u)") != std::string::npos) << said;
    }
  }
  static Line without_thread(int number) {
    return {"env", "LD_PRELOAD=" + tests::program("../tests/libfew_threads.so"),
            "FEW_THREADS_ONE=" + std::to_string(number)};
  }
  static Line dlrun(const Line& options) {
    Line line = {tests::program("dlrun"), "--grace", "1", "--nproc-per-node", "2"};
    line.insert(line.end(), options.begin(), options.end());
    return line;
  }
  static Line dlbench(const std::string& backend) {
    // Long enough for a hybrid group's threads.
    return {tests::program("dlbench"),
            "all_reduce",
            "--backend",
            backend,
            "-b",
            "256K",
            "-e",
            "256K",
            "-n",
            "1"};
  }
  static Line joined(const std::vector<Line>& parts) {
    Line line;
    for (const Line& part : parts) line.insert(line.end(), part.begin(), part.end());
    return line;
  }
  void start(const std::string& what, int number, const std::vector<Line>& lines) {
    jobs_.push_back({what + ", thread " + std::to_string(number), {}});
    for (std::size_t node = 0; node < lines.size(); ++node) {
      jobs_.back().nodes.push_back(std::make_unique<tests::Process>(
          lines[node],
          tests::Process::Options{.environment = {"XDG_CONFIG_HOME=" + home_.path(),
                                                  "DLRUN_NODE_ID=" + std::to_string(node)}}));
    }
  }

 private:
  tests::TempDir home_;
  std::vector<JobWithFewThreads> jobs_;
};

// The first ones are those that a store asks for before it lets gRPC do so. The launcher's are
// those of dlrun, its helpers and the rendezvous service.
TEST_F(FewThreads, EndARankOrTheLauncherAndNeverHoldIt) {
  for (int refused = 1; refused <= 20; ++refused) {
    start("tcp", refused, {joined({dlrun({}), without_thread(refused), dlbench("tcp")})});
  }
  const Line with_all_threads = {"env", "-u", "LD_PRELOAD"};
  for (int refused = 1; refused <= 14; ++refused) {
    start("dlrun", refused,
          {joined({without_thread(refused), dlrun({}), with_all_threads, dlbench("tcp")})});
  }
  expect_that_each_works_or_names_the_limit();
}

// A rank's store is the same for every group; what comes behind it is not.
TEST_F(FewThreads, OfAGroupEndARankAndNeverHoldIt) {
  for (int refused = 14; refused <= 22; ++refused) {
    start("shm", refused, {joined({dlrun({}), without_thread(refused), dlbench("shm")})});
    const std::string endpoint = "127.0.0.1:" + std::to_string(tests::free_port());
    std::vector<Line> nodes;
    for (const char* const node : {"0", "1"}) {
      nodes.push_back(
          joined({dlrun({"--nnodes", "2", "--node-rank", node, "--rdzv-endpoint", endpoint}),
                  without_thread(refused), dlbench("hybrid")}));
    }
    start("hybrid", refused, nodes);
  }
  expect_that_each_works_or_names_the_limit();
}

// Without dlrun rank 0 serves the store, with threads of gRPC that no earlier check has tried. The
// other rank reaches it, and gets no answer.
TEST_F(FewThreads, OfTheRankThatServesTheStoreEndIt) {
  struct Pair {
    std::unique_ptr<tests::Process> host, other;
  };
  std::vector<Pair> pairs;
  for (int from = 14; from <= 18; from += 2) {
    const std::string port = std::to_string(tests::free_port());
    const auto rank = [&](const std::string& number, const Line& before) {
      return std::make_unique<tests::Process>(
          joined({before, dlbench("tcp")}),
          tests::Process::Options{.environment = {"RANK=" + number, "WORLD_SIZE=2",
                                                  "MASTER_ADDR=127.0.0.1", "MASTER_PORT=" + port}});
    };
    pairs.push_back({rank("0", {"env", "LD_PRELOAD=" + tests::program("../tests/libfew_threads.so"),
                                "FEW_THREADS_FROM=" + std::to_string(from)}),
                     rank("1", {})});
  }
  for (Pair& pair : pairs) {
    const bool is_well = pair.host->wait() == 0;
    EXPECT_TRUE(is_well || pair.host->err().find("(ulimit -u)") != std::string::npos)
        << pair.host->err();
    pair.other->signal(SIGKILL);
    pair.other->wait();
  }
}

}  // namespace
}  // namespace dl
