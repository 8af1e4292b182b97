// The mpi backend as a user runs it, under the mpirun of each MPI that dlrun was built with.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "tests/dist/shell.h"

namespace dl::dist {
namespace {

namespace fs = std::filesystem;

std::size_t count(const std::string& text, const std::string& what) {
  std::size_t n = 0;
  for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
  return n;
}

bool has(const std::string& text, const std::string& what) {
  return text.find(what) != std::string::npos;
}

// Why a test cannot use this MPI here; empty: it can.
std::string why_not(const std::string& name) {
  if (!has(std::string(" ") + DLRUN_TEST_MPIS + " ", " " + name + " ")) {
    return "dlrun was built without " + name;
  }
  return shell("which mpirun." + name).code != 0 ? "there is no mpirun." + name : "";
}

// As Debian calls it; the plain name may be another MPI's.
std::string launcher_of(const std::string& name) {
  if (name != "openmpi") return "mpirun." + name;
  return "env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun.openmpi "
         "--oversubscribe";
}

class Mpi : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (const std::string why = why_not(GetParam()); !why.empty()) GTEST_SKIP() << why;
    launcher_ = launcher_of(GetParam());
  }

  Ran mpirun(int ranks, const std::string& command) {
    return shell(launcher_ + " -n " + std::to_string(ranks) + " " + command);
  }

 private:
  std::string launcher_;
};

TEST_P(Mpi, GivesWhatEveryBackendPromises) {
  const Ran ran = mpirun(3, program("mpi_conformance"));
  EXPECT_EQ(ran.code, 0) << ran.text;
  EXPECT_EQ(count(ran.text, "[  PASSED  ]"), 3u) << ran.text;
}

TEST_P(Mpi, EndsWellAfterMessagesSplitsForksAndAMismatch) {
  for (int ranks = DLRUN_TEST_FEWEST_RANKS; ranks <= 3; ++ranks) {
    const Ran ran = mpirun(ranks, program("mpi_ranks") + " operations");
    EXPECT_EQ(ran.code, 0) << ran.text;
    EXPECT_EQ(count(ran.text, "all right over mpi"), static_cast<std::size_t>(ranks)) << ran.text;
    for (int rank = 0; rank < ranks; ++rank) {
      EXPECT_TRUE(has(ran.text, "rank " + std::to_string(rank) + ": its child ended with 0\n"))
          << ran.text;
      EXPECT_TRUE(
          has(ran.text, "rank " + std::to_string(rank) + ": mismatch: all_reduce #3: rank "))
          << ran.text;
    }
    EXPECT_TRUE(has(ran.text, "sent f32[9] sum, rank 0 (")) << ran.text;
  }
}

TEST_P(Mpi, EveryOperationIsRightByOtherAlgorithms) {
  for (const std::string algorithms : {"ring,chain", "direct,tree,all_reduce:halving"}) {
    const Ran ran =
        mpirun(3, "env DLRUN_ALGORITHM=" + algorithms + " " + program("mpi_ranks") + " operations");
    EXPECT_EQ(ran.code, 0) << ran.text;
    EXPECT_EQ(count(ran.text, "all right over mpi"), 3u) << algorithms << ran.text;
  }
}

TEST_P(Mpi, AFailureIsANamedErrorOnEveryRank) {
  const Ran ran = mpirun(3, program("mpi_ranks") + " failures");
  // An end without MPI_Finalize. MPICH's mpirun kills the others, and may then give their code.
  EXPECT_NE(ran.code, 0) << ran.text;
  if (std::string(GetParam()) == "openmpi") {
    EXPECT_EQ(ran.code, 124) << ran.text;
  }
  for (const std::string rank : {"0", "1", "2"}) {
    const auto said = [&](const std::string& text) {
      EXPECT_TRUE(has(ran.text, "rank " + rank + " " + text)) << rank << " " << text << "\n"
                                                              << ran.text;
    };
    said("operation: mismatch: rank ");
    said("parts: mismatch: gatherv #1: rank 1 (");
    said("message: mismatch: recv with tag 5: rank 0 (");
    said("abort: aborted: group 'abort' was aborted by rank 1 (");
    said("receive: timeout: recv #1 (f32[1]): timed out after 1 s waiting for rank 1 (");
    said("deadline: timeout: barrier #1: timed out after 1 s waiting for rank ");
    said("reform: not implemented: reform: group 'world' is over MPI, which cannot go on without");
    if (rank != "1") said("left: peer failed: barrier #1: rank 1 (");
  }
  // The second text if its progress thread did not run in the quarter of a second before the
  // deadline.
  EXPECT_TRUE(has(ran.text, ", which has not called it, nor anything before it") ||
              has(ran.text, ", which does not answer"))
      << ran.text;
  EXPECT_TRUE(has(ran.text, "sends f32[4], rank 0 (")) << ran.text;
  EXPECT_TRUE(has(ran.text, "sent f32[100000], rank 1 (")) << ran.text;
}

TEST_P(Mpi, AProgramMayStartAndEndMpiItself) {
  const Ran multiple = mpirun(2, program("mpi_ranks") + " own 3");
  EXPECT_EQ(multiple.code, 0) << multiple.text;
  EXPECT_EQ(count(multiple.text, "nothing was thrown"), 4u) << multiple.text;
  const Ran single = mpirun(2, program("mpi_ranks") + " own 0");
  EXPECT_EQ(single.code, 0) << single.text;
  EXPECT_TRUE(has(single.text,
                  "gives this process less than MPI_THREAD_MULTIPLE; start MPI with "
                  "MPI_Init_thread(..., MPI_THREAD_MULTIPLE, ...)"))
      << single.text;
}

TEST_P(Mpi, DlbenchRunsOnIt) {
  const Ran ran =
      mpirun(2, program("dlbench") + " all_reduce -b 8 -e 64K -f 64 -n 3 --backend mpi");
  EXPECT_EQ(ran.code, 0) << ran.text;
  EXPECT_TRUE(has(ran.text, "# Out of bounds values : 0 OK")) << ran.text;
}

TEST_P(Mpi, AnAlgorithmMayBeChosenAndRankZerosCounts) {
  const std::string bench =
      program("dlbench") + " all_reduce -b 8 -e 4M -f 64 -n 3 --backend mpi --json";
  for (const std::string algorithm : {"ring", "doubling"}) {
    const Ran ran = mpirun(3, bench + " --algorithm " + algorithm);
    EXPECT_EQ(ran.code, 0) << ran.text;
    EXPECT_TRUE(has(ran.text, "\"algorithm\": \"" + algorithm + "\"")) << ran.text;
    EXPECT_TRUE(has(ran.text, "\"wrong\": 0")) << ran.text;
  }
  const Ran mixed = mpirun(1, "env DLRUN_ALGORITHM=ring " + bench + " : -n 1 " + bench);
  EXPECT_EQ(mixed.code, 0) << mixed.text;
  EXPECT_TRUE(has(mixed.text, "\"algorithm\": \"ring\"")) << mixed.text;
  const Ran none = mpirun(2, bench + " --algorithm chain");
  EXPECT_NE(none.code, 0);
  EXPECT_TRUE(has(none.text, "algorithm")) << none.text;
}

INSTANTIATE_TEST_SUITE_P(Each, Mpi, ::testing::Values("openmpi", "mpich"),
                         [](const auto& each) { return std::string(each.param); });

// Without what an mpirun around this test may have set.
std::string without_mpi(const std::string& command) {
  return "env -u OMPI_COMM_WORLD_RANK -u PMIX_RANK -u PMI_RANK -u WORLD_SIZE " + command;
}

TEST(MpiThatIsNotThere, IsOneSentenceThatNamesMpirun) {
  const std::string bench = program("dlbench") + " all_reduce --backend mpi";
  const Ran alone = shell(without_mpi(bench));
  EXPECT_EQ(alone.code, 1);
  EXPECT_EQ(alone.text,
            "error: backend mpi: no MPI started this process, so that it would be a world of one; "
            "use `mpirun -n N PROGRAM` (Open MPI's or MPICH's), or another backend, which needs no "
            "MPI\n");
  const Ran launched = shell(without_mpi(program("dlrun") + " --nproc-per-node 2 " + bench));
  EXPECT_EQ(launched.code, 1);
  EXPECT_TRUE(
      has(launched.text,
          "dlrun started these ranks and MPI knows nothing of them, so that each would be a "
          "world of one; use `mpirun -n 2 PROGRAM`"))
      << launched.text;
  const Ran srun = shell(without_mpi("env SLURM_STEP_NUM_TASKS=4 SLURM_PROCID=1 " + bench));
  EXPECT_TRUE(has(srun.text,
                  "use srun --mpi=pmix (Open MPI) or --mpi=pmi2 (MPICH), or use "
                  "`mpirun -n 4 PROGRAM`"))
      << srun.text;
}

TEST(MpiOfAnotherMpirun, IsAnErrorWithBothWorldSizes) {
  for (const char* name : {"openmpi", "mpich"}) {
    if (const std::string why = why_not(name); !why.empty()) GTEST_SKIP() << why;
  }
  const Ran ran = shell("env DLRUN_MPI=mpich " + launcher_of("openmpi") + " -n 2 " +
                        program("dlbench") + " all_reduce --backend mpi");
  EXPECT_NE(ran.code, 0);
  EXPECT_TRUE(has(ran.text,
                  "sees a world of 1, and mpirun (Open MPI) tells of 2 ranks; start them "
                  "with the mpirun of that MPI"))
      << ran.text;
}

TEST(MpiThatIsNotThere, SaysWhichModuleIsMissingWhere) {
  // A program far from the modules of this build: the same file under another path.
  const std::string folder = program("mpi_test." + std::to_string(::getpid()));
  fs::create_directory(folder);
  fs::create_hard_link(program("dlbench"), folder + "/dlbench");
  const Ran ran = shell(
      without_mpi("env PMI_RANK=0 PMI_SIZE=1 " + folder + "/dlbench all_reduce --backend mpi"));
  fs::remove_all(folder);
  EXPECT_EQ(ran.code, 1);
  EXPECT_TRUE(has(ran.text,
                  "error: backend mpi: mpirun (PMI) started this process: there is no "
                  "libdlrun_mpi_mpich.so in " +
                      folder))
      << ran.text;
}

}  // namespace
}  // namespace dl::dist
