// dlrun started by SLURM: one job, whatever starts it.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>

#include <algorithm>
#include <filesystem>
#include <sstream>

#include "core/base/system/unique_fd.h"
#include "tests/dist/mpi_programs.h"
#include "tests/slurm/cluster.h"
#include "tests/slurm/processes.h"
#include "tests/support/bad_programs.h"
#include "tests/support/rank_input.h"

namespace dl {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr const char* kWho =
    "echo $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $GROUP_RANK/$GROUP_WORLD_SIZE "
    "$(hostname)";

class Slurm : public tests::SlurmTest {
 protected:
  tests::Process::Options with_key() const {
    return cluster().options({"XDG_CONFIG_HOME=" + home_.path()});
  }
  std::vector<std::string> srun(std::vector<std::string> options,
                                std::vector<std::string> dlrun) const {
    options.insert(options.begin(), "srun");
    options.push_back(tests::program("dlrun"));
    options.insert(options.end(), dlrun.begin(), dlrun.end());
    return options;
  }

  std::vector<std::string> salloc(std::vector<std::string> options,
                                  const std::vector<std::string>& dlrun) const {
    options.insert(options.begin(), {"salloc", "--quiet"});
    options.push_back(tests::program("dlrun"));
    options.insert(options.end(), dlrun.begin(), dlrun.end());
    return options;
  }

  static UniqueFd listen_on(int port) {
    UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in any{};
    any.sin_family = AF_INET;
    any.sin_port = ::htons(static_cast<std::uint16_t>(port));
    if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&any), sizeof any) != 0 ||
        ::listen(fd.get(), 8) != 0) {
      throw std::runtime_error("port " + std::to_string(port));
    }
    return fd;
  }

  tests::TempDir home_;
};

TEST_F(Slurm, OneDlrunANodeIsOneJobWithNothingTyped) {
  tests::Process job(srun({"--nodes=2", "--ntasks-per-node=1", "--cpus-per-task=4"},
                          {"--nproc-per-node=2", "sh", "-c", kWho}),
                     with_key());
  EXPECT_EQ(job.wait(), 0) << job.err();
  EXPECT_THAT(
      job.out(),
      AllOf(HasSubstr("[rank 0] 0/4 0/2 0/2 n1\n"), HasSubstr("[rank 1] 1/4 1/2 0/2 n1\n"),
            HasSubstr("[rank 2] 2/4 0/2 1/2 n2\n"), HasSubstr("[rank 3] 3/4 1/2 1/2 n2\n")));
  EXPECT_TRUE(cluster().is_swept());
}

TEST_F(Slurm, OneDlrunANodeNeedsNoFolderThatTheNodesShare) {
  // Each node has a home of its own, which stays empty.
  tests::Process job({"srun", "--nodes=2", "sh", "-c",
                      "export XDG_CONFIG_HOME=" + home_.path() + "/$SLURM_NODEID; exec " +
                          tests::program("dlrun") + " sh -c 'echo $RANK of $WORLD_SIZE'"},
                     cluster().options());
  EXPECT_EQ(job.wait(), 0) << job.err();
  EXPECT_THAT(job.out(), AllOf(HasSubstr("[rank 0] 0 of 2\n"), HasSubstr("[rank 1] 1 of 2\n")));
  EXPECT_TRUE(std::filesystem::is_empty(home_.path()));
}

TEST_F(Slurm, SeveralTasksANodeAreRefused) {
  tests::Process job(srun({"--ntasks=4"}, {"true"}), with_key());
  EXPECT_EQ(job.wait(), 2);
  EXPECT_THAT(job.err(), HasSubstr("start one dlrun a node: srun --ntasks-per-node=1, or leave "
                                   "srun out"));
}

TEST_F(Slurm, TheExitCodeIsTheFirstCausesOnEveryNode) {
  tests::Process job(srun({"--nodes=2"}, {"--nproc-per-node=2", "sh", "-c",
                                          "test $RANK = 3 && exit 7; exec sleep 300"}),
                     with_key());
  EXPECT_EQ(job.wait(), 7) << job.err();
  EXPECT_THAT(job.err(), HasSubstr("dlrun: rank 3 (node 1, host n2, pid "));
  EXPECT_TRUE(cluster().is_swept());
}

TEST_F(Slurm, CountsTheCpusThatTheAllocationGives) {
  tests::Process job(srun({"--nodes=2", "--cpus-per-task=1"},
                          {"--nproc-per-node=cpu", "sh", "-c", "echo of $LOCAL_WORLD_SIZE"}),
                     with_key());
  EXPECT_EQ(job.wait(), 0) << job.err();
  EXPECT_THAT(job.out(), HasSubstr("[rank 0] of 1\n"));
}

TEST_F(Slurm, StandardInputGoesToRank0AsFarAsItReads) {
  const auto in_allocation = [&](const std::string& script) {
    return std::make_unique<tests::Process>(
        std::vector<std::string>{"salloc", "--quiet", "--nodes=2", "sh", "-c", script},
        cluster().options());
  };
  tests::expect_input_goes_to_rank0(in_allocation, tests::program("dlrun"));
  tests::expect_input_may_be_left_unread(in_allocation, tests::program("dlrun"));
  // srun gives its own input to both nodes. It has to be read to its end: otherwise srun may kill
  // the step of any program, and does so the more often the further apart the nodes end.
  tests::expect_input_goes_to_rank0(
      [&](const std::string& script) {
        return std::make_unique<tests::Process>(std::vector<std::string>{"sh", "-c", script},
                                                cluster().options());
      },
      "srun --nodes=2 " + tests::program("dlrun"));
}

// The other nodes have it, and would wait for ranks that never start.
TEST_F(Slurm, AProgramMissingOnANodeEndsTheJobOnAllNodes) {
  const tests::TempDir folder;
  const std::string train = folder.path() + "/train";
  std::ofstream(train) << "#!/bin/sh\nexec sleep 300\n";
  std::filesystem::permissions(train, std::filesystem::perms::owner_all);
  for (const std::string lacks : {"0", "1"}) {
    // `train` of PATH.
    tests::Process job({"srun", "--nodes=2", "sh", "-c",
                        "test $SLURM_NODEID = " + lacks + " || PATH=" + folder.path() +
                            ":$PATH; exec " + tests::program("dlrun") + " train"},
                       cluster().options());
    EXPECT_EQ(job.wait(), 127) << job.err();
    const std::string node = "node " + lacks + " (host n" + (lacks == "0" ? "1" : "2") + ")";
    EXPECT_THAT(
        job.err(),
        AllOf(HasSubstr("dlrun: there is no program train on PATH (No such file or directory); the "
                        "other nodes"),
              HasSubstr("dlrun: " + node +
                        ": there is no program train on PATH (No such file or directory)\n")));
    EXPECT_TRUE(cluster().is_swept());
  }
}

TEST_F(Slurm, AProgramThatCannotBeExecutedEndsAsOnOneNode) {
  const tests::TempDir folder;
  for (const tests::BadProgram& bad : tests::bad_programs(folder.path())) {
    tests::Process job(salloc({"--nodes=2"}, {bad.path}), cluster().options());
    EXPECT_EQ(job.wait(), bad.exit_code) << bad.sentence;
    EXPECT_THAT(job.err(), HasSubstr(bad.sentence));
  }
  EXPECT_TRUE(cluster().is_swept());
}

// Each rank would be a world of one.
TEST_F(Slurm, AProgramOfMpichIsRefusedOnSeveralNodes) {
  const std::string program = tests::program("../tests/mpi_sum_mpich");
  DL_NEED_PROGRAM(program, "MPICH (libmpich-dev)");
  tests::Process job(salloc({"--nodes=2"}, {program}), cluster().options());
  EXPECT_EQ(job.wait(), 2) << job.err();
  EXPECT_EQ(job.out(), "");
  EXPECT_THAT(job.err(), HasSubstr(program + " is linked to "));
}

TEST_F(Slurm, AProgramOfOpenMpiIsOneMpiJobOnSeveralNodes) {
  const std::string program = tests::program("../tests/mpi_sum_openmpi");
  DL_NEED_PROGRAM(program, "Open MPI (libopenmpi-dev)");
  DL_NEED_PROGRAM(tests::program("dlrun-pmix"), "PMIx (libpmix-dev)");
  const auto expect_a_sum = [&](const std::vector<std::string>& line,
                                const tests::Process::Options& options) {
    tests::Process job(line, options);
    EXPECT_EQ(job.wait(), 0) << job.err();
    for (const char* rank : {"0", "1", "2", "3"}) {
      EXPECT_THAT(job.out(), HasSubstr(std::string("rank ") + rank + " of 4: sum 10\n"));
    }
  };
  expect_a_sum(salloc({"--nodes=2"}, {"--nproc-per-node", "2", program}), cluster().options());
  expect_a_sum(srun({"--nodes=2"}, {"--nproc-per-node", "2", program}), with_key());
  EXPECT_TRUE(cluster().is_swept());
}

// MUNGE on one node alone.
TEST_F(Slurm, ANodeWithoutMungeBesideOneThatHasItIsNamed) {
  // A library that cannot be opened, but for SLURM's own programs.
  const tests::TempDir place;
  std::ofstream(place.path() + "/libmunge.so.2") << "no library\n";
  const std::string scancel = place.path() + "/scancel";
  std::ofstream(scancel) << "#!/bin/sh\nunset LD_LIBRARY_PATH\nexec /usr/bin/scancel \"$@\"\n";
  std::filesystem::permissions(scancel, std::filesystem::perms::owner_all);
  const auto job_without = [&](const std::string& node) {
    return std::make_unique<tests::Process>(
        std::vector<std::string>{"srun", "--nodes=2", "sh", "-c",
                                 "test $SLURM_NODEID != " + node + " || export LD_LIBRARY_PATH=" +
                                     place.path() + " PATH=" + place.path() + ":$PATH; exec " +
                                     tests::program("dlrun") + " sh -c 'echo up'"},
        with_key());
  };
  const auto second = job_without("1");
  EXPECT_NE(second->wait(), 0);
  EXPECT_THAT(
      second->err(),
      HasSubstr("dlrun: host n2 has no MUNGE (its library, and a munged), by which n1 gives "
                "out the job's key"));
  // If the first node has none, all use the user's file.
  const auto first = job_without("0");
  EXPECT_EQ(first->wait(), 0) << first->err();
  EXPECT_THAT(first->out(), AllOf(HasSubstr("[rank 0] up"), HasSubstr("[rank 1] up")));
  EXPECT_TRUE(cluster().is_swept());
}

TEST_F(Slurm, APortThatIsTakenIsNamedAndEndsTheJobAtOnce) {
  const std::string before = cluster().submit("#!/bin/sh\n");
  cluster().wait(before);
  const int port = 10000 + (std::stoi(before) + 1) % 5000;  // of the next job's first step
  const UniqueFd taken = listen_on(port);
  tests::Process job(srun({"--nodes=2"}, {"true"}), with_key());
  EXPECT_NE(job.wait(), 0);
  EXPECT_THAT(job.err(), HasSubstr("port " + std::to_string(port) +
                                   " is taken on n1; give another "
                                   "in --rdzv-endpoint HOST:PORT"));
}

// In a batch script, with no srun typed.

TEST_F(Slurm, InABatchScriptTheLineOfAWorkstationRunsOnAllNodes) {
  const std::string job = cluster().submit(
      "#!/bin/sh\nexec " + tests::program("dlrun") + " --nproc-per-node=2 sh -c '" + kWho + "'\n",
      {"--nodes=2", "--ntasks=6"});
  EXPECT_EQ(cluster().wait(job), "0:0") << cluster().output_of(job);
  EXPECT_THAT(
      cluster().output_of(job),
      AllOf(HasSubstr("[rank 0] 0/4 0/2 0/2 n1\n"), HasSubstr("[rank 1] 1/4 1/2 0/2 n1\n"),
            HasSubstr("[rank 2] 2/4 0/2 1/2 n2\n"), HasSubstr("[rank 3] 3/4 1/2 1/2 n2\n")));
  EXPECT_TRUE(cluster().is_swept());
}

TEST_F(Slurm, SrunHasNothingToSayOfALaunch) {
  // The cluster binds no tasks, and srun says so at each mention of a binding.
  tests::Process job({"salloc", "--quiet", "--nodes=2", "env", "SLURM_CPU_BIND=none",
                      tests::program("dlrun"), "sh", "-c", "echo up${SLURM_CPU_BIND-}"},
                     cluster().options());
  EXPECT_EQ(job.wait(), 0) << job.err();
  EXPECT_THAT(job.out(), HasSubstr("[rank 0] up"));
  EXPECT_EQ(job.err(), "");
}

TEST_F(Slurm, NoVariableThatSrunReadsBreaksALaunch) {
  // What sbatch, a user or a site may have set for another srun, each with a value that stops this
  // one, binds or hides its tasks, or changes what it says.
  std::vector<std::string> line = {"salloc", "--quiet", "--nodes=2", "env"};
  for (const char* const entry : {"SLURM_DEBUG=1",
                                  "SLURM_BCAST=/nowhere/x",
                                  "SLURM_BCAST_EXCLUDE=/nowhere",
                                  "SLURM_COMPRESS=lz4",
                                  "SLURM_SEND_LIBS=yes",
                                  "SLURM_CONTAINER=/nowhere",
                                  "SRUN_CONTAINER=/nowhere",
                                  "SLURM_EXPORT_ENV=NONE",
                                  "SRUN_EXPORT_ENV=NONE",
                                  "SLURM_PROLOG=/nowhere/prolog",
                                  "SLURM_TASK_PROLOG=/nowhere/prolog",
                                  "SLURM_WORKING_DIR=/nowhere",
                                  "SLURM_REMOTE_CWD=/nowhere",
                                  "SLURM_STDINMODE=none",
                                  "SLURM_STDOUTMODE=/nowhere/out",
                                  "SLURM_STDERRMODE=/nowhere/err",
                                  "SLURM_LABELIO=1",
                                  "SLURM_UNBUFFEREDIO=1",
                                  "SLURM_HOSTFILE=/nowhere",
                                  "SLURM_DISTRIBUTION=arbitrary",
                                  "SLURM_NTASKS=6",
                                  "SLURM_NTASKS_PER_NODE=3",
                                  "SLURM_NTASKS_PER_CORE=1",
                                  "SLURM_OVERCOMMIT=1",
                                  "SLURM_EXACT=1",
                                  "SLURM_EXCLUSIVE=1",
                                  "SLURM_CPU_BIND=map_cpu:99",
                                  "SLURM_MEM_BIND=map_mem:99",
                                  "SLURM_GPU_BIND=closest",
                                  "SLURM_HINT=compute_bound",
                                  "SRUN_CPUS_PER_TASK=1000",
                                  "SLURM_CPUS_PER_TASK=3",
                                  "SLURM_GRES=nothing:1",
                                  "SLURM_STEP_GRES=nothing:1",
                                  "SLURM_GPUS=1000",
                                  "SLURM_GPUS_PER_NODE=1000",
                                  "SLURM_MEM_PER_CPU=1000000",
                                  "SLURM_THREADS_PER_CORE=64",
                                  "SLURM_CORE_SPEC=64",
                                  "SLURM_MPI_TYPE=nothing",
                                  "SLURM_KILL_BAD_EXIT=1",
                                  "SLURM_WAIT=1",
                                  "SLURM_TIMELIMIT=soon",
                                  "SLURM_SIGNAL=nothing",
                                  "SLURM_IMMEDIATE=1",
                                  "SLURM_EXIT_ERROR=0",
                                  "SLURM_ACCOUNT=nobodys",
                                  "SLURM_CLUSTERS=nowhere",
                                  "SLURM_CONSTRAINT=nothing",
                                  "SLURM_DEPENDENCY=afterok:1",
                                  "SLURM_PARTITION=nowhere",
                                  "SLURM_QOS=none",
                                  "SLURM_RESERVATION=none",
                                  "SLURM_THREADS=1",
                                  "SLURM_DISABLE_STATUS=1",
                                  "SLURM_TEST_EXEC=1",
                                  "SQUEUE_FORMAT=%i",
                                  "SQUEUE_STATES=PENDING",
                                  "SQUEUE_USERS=nobody",
                                  "SCANCEL_INTERACTIVE=1"}) {
    line.emplace_back(entry);
  }
  line.insert(line.end(), {tests::program("dlrun"), "--preempt-before", "1", "--nnodes", "2", "sh",
                           "-c", "echo up in $(pwd -P) with $SLURM_CPUS_PER_TASK"});
  tests::Process job(line, cluster().options());
  EXPECT_EQ(job.wait(), 0) << job.err();
  const std::string rest = "up in " + std::filesystem::current_path().string() + " with 3\n";
  EXPECT_THAT(job.out(), AllOf(HasSubstr("[rank 0] " + rest), HasSubstr("[rank 1] " + rest)));
  EXPECT_EQ(job.err(), "");
}

// The node's clock may be wrong, or its munged may not run.
TEST_F(Slurm, ReadsTheKeyFromStandardInput) {
  const tests::TempDir bin;
  const std::string srun = bin.path() + "/srun";
  std::ofstream(srun)
      << "#!/bin/bash\nexport DLRUN_SRUN_FRONTEND=${DLRUN_SRUN_FRONTEND%%:*}:MUNGE:AwQ:\n"
         "exec /usr/bin/srun \"$@\"\n";
  std::filesystem::permissions(srun, std::filesystem::perms::owner_all);
  tests::Process job(
      {"salloc", "--quiet", "--nodes=2", "env", "PATH=" + bin.path() + ":/usr/bin:/bin",
       tests::program("dlrun"), "sh", "-c", "echo up${DLRUN_SRUN_FRONTEND-}"},
      cluster().options());
  EXPECT_EQ(job.wait(), 0) << job.err();
  EXPECT_THAT(job.out(), AllOf(HasSubstr("[rank 0] up\n"), HasSubstr("[rank 1] up\n")));
}

TEST_F(Slurm, TheKeyIsOnNoCommandLineAndInNoFile) {
  const std::string job = cluster().submit(
      "#!/bin/sh\nexport HOME=" + home_.path() + "\nexec " + tests::program("dlrun") +
          " sh -c 'test -n \"$DLRUN_KEY_FD\" && ! cat /proc/[0-9]*/cmdline | tr -d \"\\000\" | "
          "grep -qF -f /proc/$$/fd/$DLRUN_KEY_FD && echo not there'\n",
      {"--nodes=2"});
  EXPECT_EQ(cluster().wait(job), "0:0") << cluster().output_of(job);
  EXPECT_THAT(cluster().output_of(job),
              AllOf(HasSubstr("[rank 0] not there"), HasSubstr("[rank 1] not there")));
  EXPECT_TRUE(std::filesystem::is_empty(home_.path()));
}

TEST_F(Slurm, BelowSallocTheFrontIsOnTheLoginNode) {
  tests::Process job(
      {"salloc", "--quiet", "--nodes=2", tests::program("dlrun"), "--nproc-per-node=2", "sh", "-c",
       "test $RANK = 2 && { echo why >&2; exit 7; }; exec sleep 300"},
      cluster().options());
  EXPECT_EQ(job.wait(), 7) << job.err();
  EXPECT_THAT(job.err(), HasSubstr("dlrun: rank 2 (node 1, host n2, pid "));
  EXPECT_THAT(job.err(), HasSubstr("[rank 2] why\n"));
  // One page, though each node has its own.
  const std::size_t first = job.err().find("ended with exit code 7");
  EXPECT_EQ(job.err().find("ended with exit code 7", first + 1), std::string::npos) << job.err();
  EXPECT_TRUE(cluster().is_swept());
}

TEST_F(Slurm, NoLineIsTorn) {
  // 2 x 2 ranks: lines of 70 bytes, and of 150 kB.
  tests::Process job(
      {"salloc", "--quiet", "--nodes=2", tests::program("dlrun"), "--nproc-per-node=2", "awk",
       "BEGIN { s = sprintf(\"%070d\", 0); for (l = s; length(l) < 150000;) l = l s; for (i = 0; i "
       "< 5000; ++i) { print s; if (i % 250 == 0) print l } }"},
      cluster().options());
  EXPECT_EQ(job.wait(), 0) << job.err();
  std::istringstream lines(job.out());
  int small = 0, large = 0;
  for (std::string line; std::getline(lines, line);) {
    const std::string body = line.substr(std::min<std::size_t>(9, line.size()));
    const bool whole = line.starts_with("[rank ") &&
                       body.find_first_not_of('0') == std::string::npos &&
                       (body.size() == 70 || body.size() == 150010);
    ASSERT_TRUE(whole) << line.substr(0, 100) << " of " << line.size();
    ++(body.size() == 70 ? small : large);
  }
  EXPECT_EQ(small, 4 * 5000);
  EXPECT_EQ(large, 4 * 20);
}

TEST_F(Slurm, SignalsToTheFrontReachTheRanks) {
  tests::Process job({"salloc", "--quiet", "--nodes=2", "sh", "-c",
                      "exec " + tests::program("dlrun") + " sh -c 'echo up; exec sleep 300'"},
                     cluster().options());
  ASSERT_TRUE(job.wait_for_out("[rank 0] up") && job.wait_for_out("[rank 1] up")) << job.err();
  for (const pid_t pid : tests::processes_with(job.mark())) {
    if (tests::is_frontend(pid)) ::kill(pid, SIGINT);
  }
  EXPECT_EQ(job.wait(), 130) << job.err();
  EXPECT_THAT(job.err(), HasSubstr("dlrun: stopped by SIGINT"));
  EXPECT_TRUE(cluster().is_swept());
}

TEST_F(Slurm, TheFrontHasTheLogsOfAllNodes) {
  const tests::TempDir logs;
  tests::Process job(salloc({"--nodes=2", "--ntasks-per-node=1", "--cpus-per-task=2"},
                            {"--nproc-per-node=cpu", "--log-dir=" + logs.path(), "sh", "-c",
                             "echo $RANK of $WORLD_SIZE"}),
                     cluster().options());
  EXPECT_EQ(job.wait(), 0) << job.err();
  for (const std::string rank : {"0", "1", "2", "3"}) {
    std::ifstream log(logs.path() + "/latest/attempt_0/" + rank + "/stdout.log");
    std::string line;
    std::getline(log, line);
    EXPECT_EQ(line, rank + " of 4");
  }
}

TEST_F(Slurm, NpCountsTheRanksOfTheWholeJob) {
  const auto line = [&](const std::string& np) {
    return salloc({"--nodes=2"}, {"--np", np, "sh", "-c", "echo of $WORLD_SIZE"});
  };
  tests::Process four(line("4"), cluster().options());
  EXPECT_EQ(four.wait(), 0) << four.err();
  EXPECT_THAT(four.out(), HasSubstr("[rank 3] of 4\n"));
  tests::Process three(line("3"), cluster().options());
  EXPECT_EQ(three.wait(), 2);
  EXPECT_THAT(three.err(), HasSubstr("cannot share that many ranks equally"));
}

TEST_F(Slurm, TheTasksThatTheUserAskedForAreTheRanksANode) {
  const auto out_of = [&](const std::vector<std::string>& options,
                          const std::vector<std::string>& dlrun) {
    tests::Process job(salloc(options, dlrun), cluster().options());
    EXPECT_EQ(job.wait(), 0) << job.err();
    return job.out();
  };
  const std::vector<std::string> who = {"sh", "-c", kWho};
  EXPECT_THAT(
      out_of({"--nodes=2", "--ntasks-per-node=2"}, who),
      AllOf(HasSubstr("[rank 1] 1/4 1/2 0/2 n1\n"), HasSubstr("[rank 3] 3/4 1/2 1/2 n2\n")));
  EXPECT_THAT(
      out_of({"--nodes=2", "--ntasks=3"}, who),
      AllOf(HasSubstr("[rank 1] 1/3 1/2 0/2 n1\n"), HasSubstr("[rank 2] 2/3 0/1 1/2 n2\n")));
  // SLURM counts eight tasks on each node here.
  EXPECT_THAT(out_of({"--nodes=2", "--exclusive"}, who), HasSubstr("[rank 1] 1/2 0/1 1/2 n2\n"));
  EXPECT_THAT(out_of({"--nodes=2", "--ntasks=3"}, {"--dry-run", "true"}),
              AllOf(HasSubstr("3 ranks on 2 hosts"), HasSubstr("ranks 0 to 1\n"),
                    testing::ContainsRegex("--nproc-per-node +2,1 +SLURM_TASKS_PER_NODE\n")));
  const std::string batch =
      cluster().submit("#!/bin/sh\n" + tests::program("dlrun") + " --dry-run true\nexec " +
                           tests::program("dlrun") + " sh -c '" + kWho + "'\n",
                       {"--nodes=1", "--ntasks-per-node=3"});
  EXPECT_EQ(cluster().wait(batch), "0:0") << cluster().output_of(batch);
  EXPECT_THAT(cluster().output_of(batch),
              AllOf(testing::ContainsRegex("--nproc-per-node +3 +SLURM_TASKS_PER_NODE\n"),
                    HasSubstr("[rank 2] 2/3 2/3 0/1 n1\n")));
}

TEST_F(Slurm, SeveralProgramsShareTheAllocation) {
  tests::Process job(
      salloc({"--nodes=2"},
             {"-n", "1", "-x", "A=1", "sh", "-c", "echo server $RANK $(hostname) $A", ":", "-n",
              "3", "--wdir=/", "sh", "-c", "echo worker $RANK $(hostname) $(pwd) $A"}),
      cluster().options());
  EXPECT_EQ(job.wait(), 0) << job.err();
  EXPECT_THAT(job.out(),
              AllOf(HasSubstr("[rank 0] server 0 n1 1\n"), HasSubstr("[rank 1] worker 1 n1 /\n"),
                    HasSubstr("[rank 3] worker 3 n2 /\n")));
}

TEST_F(Slurm, AJobBeginsAgainInItsAllocation) {
  tests::Process job(salloc({"--nodes=2"}, {"--max-restarts=1", "sh", "-c",
                                            "test $TORCHELASTIC_RESTART_COUNT = 1 && exec echo "
                                            "again; test $RANK = 1 && exit 3; exec sleep 300"}),
                     cluster().options());
  EXPECT_EQ(job.wait(), 0) << job.err();
  EXPECT_THAT(job.out(), AllOf(HasSubstr("[rank 0] again\n"), HasSubstr("[rank 1] again\n")));
  EXPECT_THAT(job.err(), HasSubstr("restart 1 of 1"));
}

TEST_F(Slurm, TheAllocationsEndIsARequestToSave) {
  // The job has 60 s; 59 s before its end is now.
  const std::string job =
      cluster().submit("#!/bin/sh\nexec " + tests::program("dlrun") + " --preempt-before 59 " +
                           tests::program("../tests/checkpoint_rank") + " 100000000\n",
                       {"--nodes=2", "--time=1"});
  EXPECT_EQ(cluster().wait(job), "75:0") << cluster().output_of(job);
  EXPECT_THAT(cluster().output_of(job),
              AllOf(HasSubstr("the end of SLURM's allocation, which is near: the ranks are asked"),
                    HasSubstr("[rank 0] saved at "), HasSubstr("[rank 1] saved at ")));
}

TEST_F(Slurm, ScancelLeavesNothing) {
  const tests::TempDir folder;
  const std::string job = cluster().submit(
      "#!/bin/sh\nexec srun --nodes=2 " + tests::program("dlrun") +
          " --nproc-per-node=2 sh -c 'setsid sleep 300 & echo up $RANK; exec sleep 300'\n",
      {"--nodes=2"}, {"XDG_CONFIG_HOME=" + home_.path()});
  EXPECT_TRUE(tests::eventually([&] {
    const std::string out = cluster().output_of(job);
    return out.find("up 0") != std::string::npos && out.find("up 3") != std::string::npos;
  })) << cluster().output_of(job);
  cluster().ask({"scancel", job});
  cluster().wait(job);
  EXPECT_TRUE(cluster().is_swept());
}

}  // namespace
}  // namespace dl
