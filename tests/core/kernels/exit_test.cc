#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <thread>
#include <vector>

#include "core/kernels/cpu/gemm.h"

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

TEST(ExitBesideAThreadThatComputes, KeepsItsCodeInAProduct) {
  constexpr int kSize = 300;
  std::vector<float> a(kSize * kSize, 1.0F);
  std::vector<float> c(kSize * kSize);
  expect_code_of_exit([&] {
    gemm(Gemm<float>{.m = kSize,
                     .n = kSize,
                     .k = kSize,
                     .a = a.data(),
                     .lda = kSize,
                     .b = a.data(),
                     .ldb = kSize,
                     .c = c.data(),
                     .ldc = kSize});
  });
}

}  // namespace
}  // namespace dl::kernels
