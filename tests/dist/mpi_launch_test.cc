// Programs written with an MPI, as `dlrun` starts them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>

#include "tests/support/process.h"

// Without an MPI the test is skipped; a run of CI that cannot run it fails.
#define DL_NEED_PROGRAM(path, package)                                             \
  do {                                                                             \
    if (::access(path.c_str(), X_OK) == 0) break;                                  \
    const std::string why = "dlrun was configured without this MPI (" package ")"; \
    if (std::getenv("DLRUN_TEST_ALL") != nullptr) FAIL() << why;                   \
    GTEST_SKIP() << why;                                                           \
  } while (false)

namespace dl::tests {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string mpi_sum(const std::string& mpi) {
  return program("../tests/mpi_sum_" + mpi);
}

TEST(MpiLaunch, AnMpichProgramHasTheRightSizeAndSum) {
  const std::string path = mpi_sum("mpich");
  DL_NEED_PROGRAM(path, "libmpich-dev");
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
  const std::string path = mpi_sum("mpich");
  DL_NEED_PROGRAM(path, "libmpich-dev");
  Process job({program("dlrun"), "--mpi", "none", "--nproc-per-node", "2", path});
  EXPECT_EQ(job.wait(), 0) << job.err();
  EXPECT_THAT(job.out(), AllOf(HasSubstr("[rank 0] rank 0 of 1: sum 1\n"),
                               HasSubstr("[rank 1] rank 0 of 1: sum 1\n")));
}

TEST(MpiLaunch, ARankThatEndsWithoutMpiInitEndsTheJob) {
  const std::string path = mpi_sum("mpich");
  DL_NEED_PROGRAM(path, "libmpich-dev");
  Process job({program("dlrun"), "--mpi", "pmi1", "-n", "3", "sh", "-c",
               "test $RANK = 1 && exit 0; exec " + path});
  EXPECT_EQ(job.wait(), 1);
  EXPECT_THAT(job.err(),
              AllOf(HasSubstr("dlrun: rank 1 (node 0"), HasSubstr(" ended with exit code 0 after "),
                    HasSubstr(" while ranks 0 and 2 were waiting for it in MPI_Init\n")));
}

TEST(MpiLaunch, AnOpenMpiProgramIsRefusedWithTheLineToType) {
  const std::string path = mpi_sum("openmpi");
  DL_NEED_PROGRAM(path, "libopenmpi-dev");
  Process job({program("dlrun"), "--nproc-per-node", "2", path});
  EXPECT_EQ(job.wait(), 2);
  EXPECT_EQ(job.out(), "");
  EXPECT_THAT(job.err(),
              AllOf(HasSubstr("dlrun: " + path + " is linked to Open MPI (libmpi.so."),
                    HasSubstr("start it with `mpirun -n N` or `srun --mpi=pmix`; --mpi none ")));
}

}  // namespace
}  // namespace dl::tests
