// Whichever thread the system refuses a rank, the rank ends, and says which limit if it fails.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/support/process.h"

namespace dl {
namespace {

TEST(FewThreads, EndARankAndNeverHoldIt) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer has threads of its own";
#endif
  // The first ones are those that a store asks for before it lets gRPC do so. Ranks that wait for
  // gRPC do it beside each other.
  constexpr int kFirst = 1, kLast = 20;
  std::vector<std::unique_ptr<tests::Process>> jobs;
  for (int refused = kFirst; refused <= kLast; ++refused) {
    jobs.push_back(std::make_unique<tests::Process>(std::vector<std::string>{
        tests::program("dlrun"), "--grace", "1", "--nproc-per-node", "2", "env",
        "LD_PRELOAD=" + tests::program("../tests/libfew_threads.so"),
        "FEW_THREADS_ONE=" + std::to_string(refused), tests::program("dlbench"), "all_reduce",
        "--backend", "tcp", "-b", "8", "-e", "8", "-n", "1"}));
  }
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    SCOPED_TRACE("thread " + std::to_string(kFirst + i));
    const bool is_well = jobs[i]->wait() == 0;
    EXPECT_TRUE(is_well || jobs[i]->err().find("(ulimit -u)") != std::string::npos)
        << jobs[i]->err();
  }
}

}  // namespace
}  // namespace dl
