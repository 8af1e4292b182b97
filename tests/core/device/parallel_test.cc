#include "core/device/parallel.h"

#include <gtest/gtest.h>
#include <omp.h>

#include <atomic>
#include <string>
#include <thread>

#include "core/base/error.h"

namespace dl {
namespace {

TEST(SetNumThreads, RefusesWhatNoMachineHas) {
  const int before = num_threads();
  for (const int bad : {-1, 0, 4097, 100'000}) {
    try {
      set_num_threads(bad);
      ADD_FAILURE() << bad;
    } catch (const Error& error) {
      EXPECT_EQ(error.what(), "set_num_threads: " + std::to_string(bad) +
                                  " threads, wanted a number from 1 to 4096");
    }
  }
  EXPECT_EQ(num_threads(), before);
}

// OpenMP keeps what it needs for each thread on the stack: with 100,000 of them that was a crash.
TEST(NumThreads, TakesNoMoreThanTheMostFromTheEnvironmentAndSaysSo) {
  std::atomic<std::int64_t> sum{0};
  int threads = 0;
  testing::internal::CaptureStderr();
  std::thread([&] {
    omp_set_num_threads(200'000);  // as OMP_NUM_THREADS=200000 does
    parallel_for(200'000, 1, [&](std::int64_t begin, std::int64_t end) { sum += end - begin; });
    threads = num_threads();
    parallel_for(10, 5, [&](std::int64_t begin, std::int64_t end) { sum += end - begin; });
  }).join();
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(sum, 200'010);
  EXPECT_EQ(threads, kMostThreads);
  const std::string sentence =
      "OMP_NUM_THREADS is 200000: loops are divided among 4096 threads, the most there may be";
  const std::size_t at = said.find(sentence);
  EXPECT_NE(at, std::string::npos) << said;
  EXPECT_EQ(said.find(sentence, at + 1), std::string::npos) << said;
}

TEST(ParallelInfo, NamesThreadsLibrariesAndEnvironment) {
  const std::string text = parallel_info();
  for (const char* part : {"dl::num_threads() : ", "OpenMP 20", "omp_get_max_threads() : ",
                           "oneDNN v", "std::thread::hardware_concurrency() : ",
                           "\tOMP_NUM_THREADS : ", "parallel backend: OpenMP\n"}) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace dl
