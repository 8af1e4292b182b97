// Programs of MPICH, as `dlrun` starts them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <string>
#include <vector>

#include "tests/dist/mpi_programs.h"
#include "tests/support/gate.h"
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

TEST(MpiLaunch, AutoFollowsTheLibrariesOfAProgram) {
  for (const char* mpi : {"mpich", "openmpi"}) {
    const std::string path = mpi_program("mpi_by_library", mpi);
    DL_NEED_PROGRAM(path, "MPICH and Open MPI (libmpich-dev, libopenmpi-dev)");
    const std::string folder = "LD_LIBRARY_PATH=" + program("../tests");
    const auto expect_sum = [](Process& job) {
      EXPECT_EQ(job.wait(), 0) << job.err();
      EXPECT_THAT(job.out(), AllOf(HasSubstr("[rank 0] rank 0 of 2: sum 3\n"),
                                   HasSubstr("[rank 1] rank 1 of 2: sum 3\n")));
    };
    Process job({program("dlrun"), "-n", "2", path}, Process::Options{.environment = {folder}});
    expect_sum(job);
    Process exporting({program("dlrun"), "-n", "2", "-x", folder, path});
    expect_sum(exporting);
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

TEST(MpiLaunch, DlrunSaysThatItServesAnotherMpi) {
  const std::string path = mpi_program("mpi_sum", "mpich");
  DL_NEED_PROGRAM(path, "MPICH (libmpich-dev)");
  DL_NEED_PROGRAM(program("dlrun-pmix"), "PMIx (libpmix-dev)");
  const std::string told = "--mpi pmix serves programs of Open MPI, and " + path;
  std::array<char, 256> own{};
  ASSERT_EQ(::gethostname(own.data(), own.size() - 1), 0);
  const std::string two = std::string("localhost:1,") + own.data() + ":1";
  for (const std::vector<std::string>& ranks :
       {std::vector<std::string>{"-n", "2"}, {"--hosts", two}}) {
    std::vector<std::string> line = {program("dlrun"), "--mpi=pmix"};
    line.insert(line.end(), ranks.begin(), ranks.end());
    line.push_back(path);
    Process job(line);
    EXPECT_EQ(job.wait(), 0) << job.err();
    EXPECT_THAT(job.out(), HasSubstr("[rank 1] rank 0 of 1: sum 1\n"));
    ASSERT_THAT(job.err(), HasSubstr(told));
    // One host says it for all.
    EXPECT_EQ(job.err().find(told, job.err().find(told) + 1), std::string::npos) << job.err();
  }
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

// Two ranks that speak PMI-1 themselves, and have come to MPI_Init.
std::unique_ptr<Process> ranks_in_mpi(const std::string& option, const std::string& script) {
  const std::string begin =
      "say() { echo cmd=$1 >&$PMI_FD; read -r answer <&$PMI_FD; }; "
      "say 'init pmi_version=1 pmi_subversion=1'; ";
  return std::make_unique<Process>(std::vector<std::string>{program("dlrun"), "--mpi=pmi1", option,
                                                            "-n2", "bash", "-c", begin + script});
}

TEST(MpiLaunch, ARankThatEndsWithoutMpiFinalizeEndsTheJob) {
  const auto run = [](const std::string& script) { return ranks_in_mpi("--linger=0", script); };
  const auto leaves = run("test $RANK = 1 && exit 0; exec sleep 300");
  EXPECT_EQ(leaves->wait(), 1);
  EXPECT_THAT(leaves->err(), AllOf(HasSubstr("dlrun: rank 1 (node 0"),
                                   HasSubstr(" ended with exit code 0 without MPI_Finalize after "),
                                   HasSubstr("  the others: rank 0: ended by dlrun with SIGTERM")));
  const auto right = run("say finalize");
  EXPECT_EQ(right->wait(), 0) << right->err();
  // It also counts once the process that it has left in MPI has ended.
  const auto child =
      run("test $RANK = 1 || exec sleep 300; "
          "while kill -0 $$; do sleep 0.01; done 2>/dev/null & exit 0");
  EXPECT_EQ(child->wait(), 1);
  EXPECT_THAT(child->err(), AllOf(HasSubstr("dlrun: rank 1 (node 0"),
                                  HasSubstr(" ended with exit code 0 without MPI_Finalize ")));
  // A process of the rank is in MPI still.
  const auto hands_on = run("sleep 300 & exit 0");
  EXPECT_EQ(hands_on->wait(), 0) << hands_on->err();
}

TEST(MpiLaunch, TheLowByteOfMpiAbortsNumberIsTheExitCode) {
  const std::pair<const char*, int> cases[] = {{"-1", 255}, {"738871815", 7}, {"256", 0}, {"0", 0}};
  for (const auto& [number, code] : cases) {
    const std::string with = number;
    const auto job = ranks_in_mpi(
        "--linger=0", "test $RANK = 1 && say 'abort exitcode=" + with + "'; exec sleep 300");
    EXPECT_EQ(job->wait(), code) << job->err();
    EXPECT_THAT(job->err(), ::testing::ContainsRegex("dlrun: rank 1 [^\n]*called MPI_Abort with " +
                                                     with + "( after [0-9.]+ s)?\n"));
  }
}

TEST(MpiLaunch, AJobBeginsAgainAfterMpiAbort) {
  const auto job = ranks_in_mpi(
      "--max-restarts=1",
      "test $RANK$TORCHELASTIC_RESTART_COUNT = 10 && say 'abort exitcode=3'; say finalize");
  EXPECT_EQ(job->wait(), 0) << job->err();
  EXPECT_THAT(job->err(), AllOf(HasSubstr(" called MPI_Abort with 3 after "),
                                HasSubstr("dlrun: restart 1 of 1: all ranks begin again\n")));
}

TEST(MpiLaunch, AnAbortAfterARankHasDiedNamesBoth) {
  const Gate gate;
  const auto job = ranks_in_mpi("--on-failure=keep", "test $RANK = 1 && kill -9 $$; " +
                                                         gate.wait() + "say 'abort exitcode=3'");
  ASSERT_TRUE(job->wait_for_err("; 1 rank goes on (--on-failure keep)\n")) << job->err();
  gate.open();
  EXPECT_EQ(job->wait(), 128 + SIGKILL);
  EXPECT_THAT(job->err(),
              ::testing::ContainsRegex("dlrun: rank 1 .node 0, [^\n]* was killed by signal 9 "
                                       ".SIGKILL. after [0-9.]+ s; then rank 0 called MPI_Abort "
                                       "with 3\n"));
}

TEST(MpiLaunch, ADeadRankIsNamedToThoseWhoMayWaitForIt) {
  // They wait in memory that they share, so nothing is said to dlrun.
  const auto job = ranks_in_mpi("--on-failure=keep",
                                "file=$(mktemp /dev/shm/mpich_shar_tmpXXXXXX); echo $file; "
                                "say \"put kvsname=kvs key=-bcast-$RANK value=$(echo -n $file | "
                                "od -An -v -tx1 | tr -d ' \\n')\"; "
                                "test $RANK = 1 && kill -9 $$; exec sleep 300");
  EXPECT_TRUE(
      job->wait_for_err("dlrun: MPI_Init and MPI_Finalize of rank 0 may wait for rank 1 "
                        "without an end: MPICH waits in its shared memory"))
      << job->err();
  const std::string out = job->out();
  const std::size_t begin = out.find("/dev/shm/");
  ASSERT_NE(begin, std::string::npos) << out;
  const std::string file = out.substr(begin, out.find('\n', begin) - begin);
  EXPECT_EQ(::access(file.c_str(), F_OK), 0) << file;
  ::kill(job->pid(), SIGTERM);
  EXPECT_EQ(job->wait(), 128 + SIGTERM) << job->err();
  EXPECT_NE(::access(file.c_str(), F_OK), 0) << file;
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
