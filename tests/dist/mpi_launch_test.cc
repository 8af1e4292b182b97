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

}  // namespace
}  // namespace dl::tests
