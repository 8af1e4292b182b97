#include "launcher/agent/ending/lingering.h"

#include <gtest/gtest.h>

namespace dl::launcher {
namespace {

TEST(Lingering, NamesTheProcessesAndTheirRanks) {
  EXPECT_EQ(still_runs({{4711, "rsync", 0}}),
            "rank 0 has ended; its process 4711 (rsync) still runs");
  EXPECT_EQ(still_runs({{4711, "sh", 3}, {4712, "rsync", 3}}),
            "rank 3 has ended; its processes 4711 (sh), 4712 (rsync) still run");
  EXPECT_EQ(still_runs({{4711, "a", 1}, {4712, "b", 0}}),
            "ranks 0-1 have ended; their processes 4711 (a), 4712 (b) still run");
  EXPECT_EQ(is_ended({{4711, "rsync", 0}}),
            "process 4711 (rsync), which rank 0 left behind, is ended");
  EXPECT_EQ(is_ended({{4711, "a", 1}, {4712, "b", 0}}),
            "processes 4711 (a), 4712 (b), which ranks 0-1 left behind, are ended");
}

TEST(Lingering, BlamesNoRankForAProcessWhoseRankIsNotKnown) {
  EXPECT_EQ(still_runs({{4711, "a", 0}, {4712, "b", -1}}),
            "all ranks have ended; their processes 4711 (a), 4712 (b) still run");
  EXPECT_EQ(is_ended({{4711, "a", -1}}), "process 4711 (a), which the ranks left behind, is ended");
}

TEST(Lingering, NamesTheFirstOfManyAndCountsTheOthers) {
  std::vector<Leftover> many;
  for (int i = 0; i < 100; ++i) many.push_back({i + 1, "x", i});
  EXPECT_EQ(still_runs(many),
            "ranks 0-99 have ended; their processes 1 (x), 2 (x), 3 (x), 4 (x), 5 (x), 6 (x), "
            "7 (x), 8 (x) and 92 more still run");
}

}  // namespace
}  // namespace dl::launcher
