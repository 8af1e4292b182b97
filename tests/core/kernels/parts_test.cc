#include "core/kernels/cpu/common/parts.h"

#include <gtest/gtest.h>

#include <vector>

namespace dl::kernels {
namespace {

TEST(ParallelParts, VisitsEachItemOnceInTheOrderOfTheParts) {
  for (const std::int64_t count : {0, 1, 7, 1000}) {
    for (const std::int64_t grain : {1, 100}) {
      const int parts = parts_of(count, grain);
      std::vector<int> visited_by(static_cast<std::size_t>(count), -1);
      parallel_parts(count, grain, [&](int part, std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) visited_by[static_cast<std::size_t>(i)] = part;
      });
      for (std::size_t i = 0; i < visited_by.size(); ++i) {
        ASSERT_GE(visited_by[i], i == 0 ? 0 : visited_by[i - 1]);
        ASSERT_LT(visited_by[i], parts);
      }
    }
  }
}

TEST(ParallelParts, SmallRangesAreOnePart) {
  EXPECT_EQ(parts_of(100, 51), 1);
  EXPECT_EQ(parts_of(102, 51), num_threads());
}

TEST(ParallelParts, AThreadThatMustNotOpenRegionsHasOnePart) {
  const SerialScope serial;
  EXPECT_EQ(parts_of(1000, 1), 1);
}

}  // namespace
}  // namespace dl::kernels
