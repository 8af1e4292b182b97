// Programs of MPICH, as `dlrun` starts them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/dist/mpi_programs.h"
#include "tests/support/process.h"

namespace dl::tests {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(MpiLaunch, AnMpichProgramHasTheRightSizeAndSum) {
  const std::string path = mpi_program("mpi_sum", "mpich");
  DL_NEED_PROGRAM(path, "MPICH (libmpich-dev)");
  for (const int ranks : {2, 4}) {
    const std::string size = std::to_string(ranks);
    Process job({program("dlrun"), "--mpi", "auto", "--nproc-per-node", size, path});
    EXPECT_EQ(job.wait(), 0) << job.err();
    for (int rank = 0; rank < ranks; ++rank) {
      const std::string number = std::to_string(rank);
      EXPECT_THAT(job.out(), HasSubstr("[rank " + number + "] rank " + number + " of " + size +
                                       ": sum " + std::to_string(ranks * (ranks + 1) / 2) + "\n"));
    }
  }
}

TEST(MpiLaunch, WithoutPmiEachRankIsAWorldOfItsOwn) {
  const std::string path = mpi_program("mpi_sum", "mpich");
  DL_NEED_PROGRAM(path, "MPICH (libmpich-dev)");
  Process job({program("dlrun"), "--mpi", "none", "--nproc-per-node", "2", path});
  EXPECT_EQ(job.wait(), 0) << job.err();
  EXPECT_THAT(job.out(), AllOf(HasSubstr("[rank 0] rank 0 of 1: sum 1\n"),
                               HasSubstr("[rank 1] rank 0 of 1: sum 1\n")));
}

TEST(MpiLaunch, ARankThatEndsWithoutMpiInitEndsTheJob) {
  const std::string path = mpi_program("mpi_sum", "mpich");
  DL_NEED_PROGRAM(path, "MPICH (libmpich-dev)");
  Process job({program("dlrun"), "--mpi", "pmi1", "-n", "3", "sh", "-c",
               "test $RANK = 1 && exit 0; exec " + path});
  EXPECT_EQ(job.wait(), 1);
  EXPECT_THAT(job.err(),
              AllOf(HasSubstr("dlrun: rank 1 (node 0"), HasSubstr(" ended with exit code 0 after "),
                    HasSubstr(" while ranks 0 and 2 were waiting for it in MPI_Init\n")));
}

TEST(MpiLaunch, SeveralProgramsAreProcessesOfOneMpi) {
  const std::string mpich = mpi_program("mpi_sum", "mpich");
  DL_NEED_PROGRAM(mpich, "MPICH (libmpich-dev)");
  // A program of no MPI may start one.
  Process job(
      {program("dlrun"), "-n1", "sh", "-c", "exec " + mpich, ":", "-n1", mpich, ":", "-n1", mpich});
  EXPECT_EQ(job.wait(), 0) << job.err();
  EXPECT_THAT(job.out(), AllOf(HasSubstr("[rank 0] rank 0 of 3: sum 6\n"),
                               HasSubstr("[rank 2] rank 2 of 3: sum 6\n")));
  const std::string openmpi = mpi_program("mpi_sum", "openmpi");
  DL_NEED_PROGRAM(openmpi, "Open MPI (libopenmpi-dev)");
  Process mixed({program("dlrun"), "-n1", mpich, ":", "-n1", openmpi});
  EXPECT_EQ(mixed.wait(), 2);
  EXPECT_THAT(mixed.err(), HasSubstr("the ranks of one job are processes of one MPI"));
}

}  // namespace
}  // namespace dl::tests
