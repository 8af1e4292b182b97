#include "collectives/init/launch.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <string>

#include "core/base/error.h"
#include "tests/collectives/thrown.h"

namespace dl::collectives {
namespace {

constexpr const char* kNames[] = {
    "RANK",     "WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
    "PMI_RANK", "PMI_SIZE",   "SLURM_PROCID",         "SLURM_STEP_NUM_TASKS"};

class LaunchTest : public ::testing::Test {
 protected:
  void SetUp() override { clear(); }
  void TearDown() override { clear(); }
  static void clear() {
    for (const char* name : kNames) ::unsetenv(name);
  }
  static void set(const char* name, const char* value) { ::setenv(name, value, 1); }
  static void expect(int rank, int size) {
    const Launch launch = find_launch(std::nullopt, std::nullopt);
    EXPECT_EQ(launch.rank, rank);
    EXPECT_EQ(launch.world_size, size);
  }
};

TEST_F(LaunchTest, WithoutAnyVariableIsAWorldOfOne) {
  expect(0, 1);
}

TEST_F(LaunchTest, TorchrunsVariablesGoBeforeMpirunsAndSruns) {
  set("SLURM_PROCID", "5"), set("SLURM_STEP_NUM_TASKS", "6");
  expect(5, 6);
  set("PMI_RANK", "3"), set("PMI_SIZE", "4");
  expect(3, 4);
  set("OMPI_COMM_WORLD_RANK", "2"), set("OMPI_COMM_WORLD_SIZE", "3");
  expect(2, 3);
  set("RANK", "0"), set("WORLD_SIZE", "2");
  expect(0, 2);
}

TEST_F(LaunchTest, PmiVariablesOfSrunAreToldBySrun) {
  set("SLURM_PROCID", "1"), set("SLURM_STEP_NUM_TASKS", "2");
  set("PMI_RANK", "1"), set("PMI_SIZE", "2");
  EXPECT_EQ(find_launch(std::nullopt, std::nullopt).told_by, "srun");
  set("PMI_SIZE", "4");  // of an mpirun inside the step
  EXPECT_EQ(find_launch(std::nullopt, std::nullopt).told_by, "mpirun (PMI)");
}

TEST_F(LaunchTest, TheProgramsOwnNumbersGoFirst) {
  set("RANK", "0"), set("WORLD_SIZE", "2");
  const Launch launch = find_launch(7, 8);
  EXPECT_EQ(launch.rank, 7);
  EXPECT_EQ(launch.world_size, 8);
}

TEST_F(LaunchTest, WhatTheProgramDoesNotSayTheEnvironmentDoes) {
  set("WORLD_SIZE", "4");
  const Launch launch = find_launch(3, std::nullopt);
  EXPECT_EQ(launch.rank, 3);
  EXPECT_EQ(launch.world_size, 4);
  set("RANK", "1");
  EXPECT_EQ(find_launch(std::nullopt, 8).rank, 1);
  EXPECT_EQ(find_launch(std::nullopt, 8).world_size, 8);
}

TEST_F(LaunchTest, ABatchScriptUnderSlurmIsNoRank) {
  set("SLURM_PROCID", "0");
  expect(0, 1);
}

TEST_F(LaunchTest, HalfOfAPairIsAnError) {
  set("RANK", "0");
  try {
    find_launch(std::nullopt, std::nullopt);
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "RANK is set and WORLD_SIZE is not; set both, or neither for a world of one");
  }
}

TEST_F(LaunchTest, HalfOfAnMpirunsPairIsNoWorldOfOne) {
  set("OMPI_COMM_WORLD_RANK", "1");
  EXPECT_THROW(find_launch(std::nullopt, std::nullopt), Error);
}

TEST_F(LaunchTest, ANumberThatIsTooLargeIsAnErrorThatSaysTheRange) {
  set("RANK", "0"), set("WORLD_SIZE", "99999999999");
  try {
    find_launch(std::nullopt, std::nullopt);
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "WORLD_SIZE=99999999999 is out of range: ranks and their number are whole numbers "
                 "from 0 to 2147483647");
  }
}

TEST_F(LaunchTest, ARankOutsideOfItsWorldIsAnErrorThatSaysWhoSetIt) {
  const auto refusal = [](std::optional<int> rank, std::optional<int> size) {
    return testing::thrown_by([&] { find_launch(rank, size); }).text;
  };
  set("RANK", "2"), set("WORLD_SIZE", "2");
  EXPECT_EQ(refusal({}, {}),
            "rank is 2 (set by RANK and WORLD_SIZE) of a world size of 2 (set by RANK and "
            "WORLD_SIZE)");
  EXPECT_EQ(refusal(5, {}),
            "rank is 5 (set by the program) of a world size of 2 (set by RANK and WORLD_SIZE)");
  EXPECT_EQ(refusal({}, 0),
            "rank is 2 (set by RANK and WORLD_SIZE) of a world size of 0 (set by the program)");
  EXPECT_EQ(refusal(1, 1),
            "rank is 1 (set by the program) of a world size of 1 (set by the program)");
}

}  // namespace
}  // namespace dl::collectives
