#include "core/kernels/cpu/parallel.h"

#include <gtest/gtest.h>

#include <vector>

namespace dl::kernels {
namespace {

TEST(ParallelFor, VisitsEachItemOnce) {
  for (const std::int64_t count : {0, 1, 7, 1000}) {
    for (const std::int64_t grain : {1, 100}) {
      std::vector<int> visits(static_cast<std::size_t>(count), 0);
      parallel_for(count, grain, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) ++visits[static_cast<std::size_t>(i)];
      });
      EXPECT_EQ(visits, std::vector<int>(static_cast<std::size_t>(count), 1));
    }
  }
}

TEST(ParallelFor, SmallRangesStayOnTheCallersThread) {
  EXPECT_EQ(parts_of(100, 51), 1);
  EXPECT_EQ(parts_of(102, 51), max_threads());
}

TEST(ParallelFor, NestedCallsRunSerially) {
  int outer = 0;
  parallel_for(64, 1, [&](std::int64_t, std::int64_t) {
    if (max_threads() > 1) {
      EXPECT_EQ(parts_of(64, 1), 1);
    }
#pragma omp atomic
    ++outer;
  });
  EXPECT_EQ(outer, max_threads());
}

}  // namespace
}  // namespace dl::kernels
