// Programs of Open MPI, as `dlrun` starts them: dlrun-pmix serves PMIx to them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <thread>

#include "tests/dist/mpi_programs.h"
#include "tests/support/process.h"
#include "tests/support/temp_dir.h"

namespace dl::tests {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;
using Line = std::vector<std::string>;

class PmixLaunch : public testing::Test {
 protected:
  void SetUp() override {
    DL_NEED_PROGRAM(probe_, "Open MPI (libopenmpi-dev)");
    DL_NEED_PROGRAM(program("dlrun-pmix"), "PMIx (libpmix-dev)");
  }

  // Ranks that name the folder of their files, and then run the probe.
  std::unique_ptr<Process> job(const Line& options, const Line& steps) {
    Line line = {program("dlrun"), "--mpi", "pmix"};
    line.insert(line.end(), options.begin(), options.end());
    line.insert(line.end(), {"sh", "-c", "echo folder $PMIX_SERVER_TMPDIR; exec \"$@\"", "sh"});
    line.push_back(probe_);
    line.insert(line.end(), steps.begin(), steps.end());
    return std::make_unique<Process>(line,
                                     Process::Options{.environment = {"TMPDIR=" + temp_.path()}});
  }
  // A job's exit code, after which nothing of it may be left.
  int end_of(Process& job) {
    const int code = job.wait();
    EXPECT_TRUE(nothing_is_left(job));
    return code;
  }
  bool nothing_is_left(const Process& job) const {
    const std::string folder = folder_of(job);
    return eventually([&] {
      return processes_with(job.mark()).empty() && !std::filesystem::exists(folder) &&
             std::filesystem::is_empty(temp_.path());
    });
  }
  static std::string folder_of(const Process& job) {
    const std::string out = job.out();
    const std::string word = "folder ";
    const std::size_t begin = out.find(word) + word.size();
    EXPECT_NE(out.find(word), std::string::npos);
    return out.substr(begin, out.find('\n', begin) - begin);
  }
  // The process of a job with this name in `ps`.
  static pid_t process_of(const Process& job, const std::string& name) {
    for (const pid_t pid : processes_with(job.mark())) {
      if (name_of(pid) == name) return pid;
    }
    return -1;
  }

  const std::string probe_ = mpi_program("mpi_probe", "openmpi");
  TempDir temp_;
};

TEST_F(PmixLaunch, AutoFindsThatAProgramIsLinkedToOpenMpi) {
  for (const int ranks : {1, 2, 3}) {
    const std::string size = std::to_string(ranks);
    Process job({program("dlrun"), "--nproc-per-node", size, mpi_program("mpi_sum", "openmpi")});
    EXPECT_EQ(job.wait(), 0) << job.err();
    EXPECT_EQ(job.err(), "");
    for (int rank = 0; rank < ranks; ++rank) {
      const std::string number = std::to_string(rank);
      EXPECT_THAT(job.out(), HasSubstr("[rank " + number + "] rank " + number + " of " + size +
                                       ": sum " + std::to_string(ranks * (ranks + 1) / 2) + "\n"));
    }
  }
}

TEST_F(PmixLaunch, AJobThatEndsWellLeavesNothing) {
  const auto run = job({"-n", "2"}, {"init", "barrier", "finalize", "done"});
  EXPECT_EQ(end_of(*run), 0) << run->err();
  EXPECT_THAT(run->out(), AllOf(HasSubstr("[rank 0] done\n"), HasSubstr("[rank 1] done\n")));
  EXPECT_EQ(run->err(), "");
}

TEST_F(PmixLaunch, TheCodeOfMpiAbortIsTheJobs) {
  const auto run = job({"-n", "2"}, {"init", "1:abort", "barrier", "finalize"});
  EXPECT_EQ(end_of(*run), 3);
  EXPECT_THAT(run->err(), ::testing::ContainsRegex("dlrun: rank 1 .node 0, [^\n]*. called "
                                                   "MPI_Abort with 3 after "));
}

TEST_F(PmixLaunch, ARankThatIsKilledIsNamed) {
  for (const Line& steps : {Line{"1:kill", "init", "finalize"},
                            Line{"init", "barrier", "1:kill", "barrier", "finalize"},
                            Line{"init", "barrier", "1:kill", "finalize"}}) {
    const auto run = job({"-n", "3"}, steps);
    EXPECT_EQ(end_of(*run), 128 + SIGKILL) << run->err();
    EXPECT_THAT(run->err(), AllOf(StartsWith("dlrun: rank 1 (node 0, host "),
                                  HasSubstr(" was killed by signal 9 (SIGKILL) after ")));
  }
}

TEST_F(PmixLaunch, ARankThatEndsWithoutMpiInitIsNamed) {
  const auto run = job({"-n", "3"}, {"1:exit", "init", "finalize"});
  EXPECT_EQ(end_of(*run), 1);
  EXPECT_THAT(
      run->err(),
      AllOf(StartsWith("dlrun: rank 1 (node 0, host "), HasSubstr(" ended with exit code 0 after "),
            HasSubstr(" while ranks 0 and 2 were waiting for it in MPI_Init\n")));
}

TEST_F(PmixLaunch, ARankThatEndsWithoutMpiFinalizeIsNamed) {
  // The others wait for it, or not.
  for (const Line& steps : {Line{"init", "barrier", "1:exit", "barrier", "finalize"},
                            Line{"init", "barrier", "1:exit", "0:exit"}}) {
    const auto run = job({"-n", "2"}, steps);
    EXPECT_EQ(end_of(*run), 1);
    EXPECT_THAT(run->err(), testing::MatchesRegex(
                                "dlrun: rank [01] \\(node 0, host [^ ]+, pid [0-9]+\\) ended with "
                                "exit code 0 without MPI_Finalize after [0-9.]+ s\n.*"));
  }
}

TEST_F(PmixLaunch, SpawnIsAnErrorAndNamesAreShared) {
  const auto run = job({"-n", "2"}, {"init", "0:spawn", "names", "finalize"});
  EXPECT_EQ(end_of(*run), 0) << run->err();
  EXPECT_THAT(run->out(),
              AllOf(HasSubstr("[rank 0] spawn failed\n"), HasSubstr("[rank 0] publish succeeded\n"),
                    HasSubstr("[rank 1] lookup succeeded: a port of rank 0\n"),
                    HasSubstr("[rank 0] unpublish succeeded\n"),
                    HasSubstr("[rank 1] lookup again failed\n")));
  EXPECT_EQ(run->err(),
            "dlrun: rank 0 called MPI_Comm_spawn, which is refused: dlrun starts no further "
            "ranks\n");
}

TEST_F(PmixLaunch, EachGroupOfRanksHasANumberOfItsOwn) {
  Process job({program("dlrun"), "--mpi", "pmix", "-n", "2", program("../tests/pmix_client")});
  EXPECT_EQ(job.wait(), 0) << job.err();
  for (const char* rank : {"[rank 0] ", "[rank 1] "}) {
    EXPECT_THAT(job.out(), AllOf(HasSubstr(std::string(rank) + "group a has number 1\n"),
                                 HasSubstr(std::string(rank) + "group b has number 2\n")));
  }
}

TEST_F(PmixLaunch, RanksKnowTheSizesOfAllPrograms) {
  const std::string client = program("../tests/pmix_client");
  Process job({program("dlrun"), "--mpi", "pmix", "-n", "2", client, "OMPI_APP_SIZES", ":", "-n",
               "1", client, "OMPI_FIRST_RANKS"});
  EXPECT_EQ(job.wait(), 0) << job.err();
  EXPECT_THAT(job.out(), AllOf(HasSubstr("[rank 0] OMPI_APP_SIZES is 2 1\n"),
                               HasSubstr("[rank 2] OMPI_FIRST_RANKS is 0 2\n")));
}

TEST_F(PmixLaunch, ARankKnowsItsFirstDirectory) {
  const Line say = {"sh", "-c", "test $OMPI_MCA_initial_wdir = \"$(pwd)\""};
  for (const bool has_two : {false, true}) {
    Line line = {program("dlrun"), "--mpi", "pmix", "-n", "1", "--wdir", temp_.path()};
    line.insert(line.end(), say.begin(), say.end());
    if (has_two) {
      line.insert(line.end(), {":", "-n", "1"});
      line.insert(line.end(), say.begin(), say.end());
    }
    Process job(line);
    EXPECT_EQ(job.wait(), 0) << job.err();
  }
}

TEST_F(PmixLaunch, ASignalToAnyProcessOfTheJobLeavesNothing) {
  struct Case {
    const char* name;
    int signal;
    int code;
    const char* text;
  };
  for (const Case& one :
       {Case{"dlrun", SIGTERM, 128 + SIGTERM, "dlrun: stopped by SIGTERM"},
        Case{"dlrun", SIGKILL, 128 + SIGKILL, ""},
        Case{"dlrun-pmix", SIGKILL, 1,
             "dlrun: dlrun-pmix, which serves the ranks as processes of Open MPI, "},
        Case{"rank-warden", SIGKILL, 1, "dlrun: the warden was killed"},
        Case{"rank-supervisor", SIGKILL, 1, "dlrun: the supervisor was killed"}}) {
    const auto run = job({"-n", "2"}, {"init", "ready", "pause"});
    ASSERT_TRUE(run->wait_for_out("[rank 0] ready\n") && run->wait_for_out("[rank 1] ready\n"))
        << run->err();
    const pid_t pid = process_of(*run, one.name);
    ASSERT_GT(pid, 0) << one.name;
    ::kill(pid, one.signal);
    EXPECT_EQ(end_of(*run), one.code) << one.name << ": " << run->err();
    EXPECT_THAT(run->err(), HasSubstr(one.text)) << one.name;
  }
}

TEST_F(PmixLaunch, ANewGenerationIsANewMpiJob) {
  for (const char* failure : {"first:1:kill", "first:1:abort"}) {
    const auto run =
        job({"-n", "2", "--max-restarts", "1"}, {"init", "barrier", failure, "finalize", "done"});
    EXPECT_EQ(end_of(*run), 0) << run->err();
    EXPECT_THAT(run->err(), HasSubstr("dlrun: restart 1 of 1: all ranks begin again\n"));
    EXPECT_THAT(run->out(), AllOf(HasSubstr("[rank 0] done\n"), HasSubstr("[rank 1] done\n")));
  }
}

TEST_F(PmixLaunch, RanksThatLiveOnDoNotWaitForADeadOne) {
  const auto ends =
      job({"-n", "3", "--on-failure", "keep"}, {"init", "barrier", "1:kill", "finalize", "done"});
  EXPECT_EQ(end_of(*ends), 0) << ends->err();
  EXPECT_THAT(ends->out(), AllOf(HasSubstr("[rank 0] done\n"), HasSubstr("[rank 2] done\n")));
  // Open MPI has no way to begin without a rank.
  const auto begins = job({"-n", "3", "--on-failure", "keep"}, {"1:kill", "init", "finalize"});
  EXPECT_EQ(end_of(*begins), 1);
  EXPECT_THAT(begins->err(), HasSubstr("dlrun: rank 1 has ended before MPI_Init, and Open MPI "
                                       "does not begin without it\n"));
}

TEST_F(PmixLaunch, RanksWithoutACoreOfTheirOwnYield) {
  const Line say = {"sh", "-c", "echo yield ${OMPI_MCA_mpi_yield_when_idle-unset}"};
  const auto yields = [&](int ranks) {
    Line line = {program("dlrun"), "--mpi", "pmix", "-n", std::to_string(ranks)};
    line.insert(line.end(), say.begin(), say.end());
    Process job(line);
    EXPECT_EQ(job.wait(), 0) << job.err();
    return job.out();
  };
  EXPECT_THAT(yields(1), HasSubstr("yield unset\n"));
  const int cpus = static_cast<int>(std::thread::hardware_concurrency());
  EXPECT_THAT(yields(cpus + 1), HasSubstr("yield 1\n"));
}

TEST_F(PmixLaunch, AnMpirunInARankStartsAJobOfItsOwn) {
  const std::string mpirun = "/usr/bin/mpirun.openmpi";
  DL_NEED_PROGRAM(mpirun, "Open MPI's mpirun (openmpi-bin)");
  Process job({program("dlrun"), "--mpi", "pmix", "-n", "1", "env", "OMPI_ALLOW_RUN_AS_ROOT=1",
               "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1", mpirun, "--oversubscribe", "-n", "2",
               mpi_program("mpi_sum", "openmpi")});
  EXPECT_EQ(job.wait(), 0) << job.err();
  EXPECT_THAT(job.out(),
              AllOf(HasSubstr("rank 0 of 2: sum 3\n"), HasSubstr("rank 1 of 2: sum 3\n")));
}

TEST_F(PmixLaunch, WithoutTheHelperAProgramIsRefused) {
  const std::string dlrun = temp_.path() + "/dlrun";
  std::filesystem::copy_file(program("dlrun"), dlrun);
  Process job({dlrun, "-n", "2", probe_, "init"});
  EXPECT_EQ(job.wait(), 2);
  EXPECT_EQ(job.out(), "");
  EXPECT_THAT(job.err(), AllOf(StartsWith("dlrun: " + probe_ + " is linked to Open MPI (libmpi"),
                               HasSubstr("dlrun was built without libpmix (Debian's libpmix-dev)"),
                               HasSubstr("`mpirun -n N` or `srun --mpi=pmix`; --mpi none ")));
}

}  // namespace
}  // namespace dl::tests
