#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <thread>
#include <vector>

#include "core/base/sanitizers.h"
#include "core/device/parallel.h"
#include "core/kernels/cpu/linear/gemm.h"

namespace dl::kernels {
namespace {

constinit std::atomic<int> rounds{0};

// The oldest handler runs when the static objects of libraries are gone already. A thread that
// still computes gets 100 ms to come upon it.
void give_time_for_twenty_rounds() {
  const int enough = rounds.load() + 20;
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(100);
  while (rounds.load() < enough && std::chrono::steady_clock::now() < end) {
    std::this_thread::yield();
  }
}

// The main thread computes while another one calls exit(3).
[[noreturn]] void exit_beside(const std::function<void()>& compute) {
  std::atexit(give_time_for_twenty_rounds);
  std::thread([] {
    rounds.wait(0);
    std::exit(3);
  }).detach();
  for (;;) {
    compute();
    if (rounds.fetch_add(1) == 0) rounds.notify_one();
  }
}

void expect_code_of_exit(const std::function<void()>& compute) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  for (int i = 0; i < 3; ++i) {
    EXPECT_EXIT(exit_beside(compute), testing::ExitedWithCode(3), "");
  }
}

// c = a a
constexpr int kSize = 300;
void square(const std::vector<float>& a, std::vector<float>& c) {
  gemm(Gemm<float>{.m = kSize,
                   .n = kSize,
                   .k = kSize,
                   .a = a.data(),
                   .lda = kSize,
                   .b = a.data(),
                   .ldb = kSize,
                   .c = c.data(),
                   .ldc = kSize});
}

TEST(ExitBesideAThreadThatComputes, KeepsItsCodeInAProduct) {
  const std::vector<float> a(kSize * kSize, 1.0F);
  std::vector<float> c(kSize * kSize);
  expect_code_of_exit([&] { square(a, c); });
}

// The child has a copy of the parent's handlers, and threads of its own.
TEST(ExitBesideAThreadThatComputes, KeepsItsCodeInAForkedChild) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the child lacks OpenMP's threads, whose memory LeakSanitizer then reports";
#endif
  set_num_threads(1);  // OpenMP's threads do not come along
  const auto fork_and_exit = [](const std::function<void()>& compute) {
    compute();
    const pid_t child = ::fork();
    if (child == 0) exit_beside(compute);
    int status = 0;
    ::waitpid(child, &status, 0);
    ::_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 100);
  };
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const std::vector<float> a(kSize * kSize, 1.0F);
  std::vector<float> c(kSize * kSize);
  EXPECT_EXIT(fork_and_exit([&] { square(a, c); }), testing::ExitedWithCode(3), "");
}

}  // namespace
}  // namespace dl::kernels
