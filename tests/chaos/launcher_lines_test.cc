// Lines of torchrun and mpirun, typed as their users type them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/support/free_port.h"
#include "tests/support/gate.h"
#include "tests/support/process.h"
#include "tests/support/read_file.h"
#include "tests/support/temp_dir.h"

namespace dl {
namespace {

using namespace std::chrono_literals;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;
using tests::dlrun;
using tests::read_file;

TEST(Lines, APythonScriptRunsWithThePythonOfTheEnvironment) {
  const tests::TempDir folder;
  std::ofstream(folder.path() + "/train.py") << "echo $- $RANK of $WORLD_SIZE: $*\n";
  const tests::Process::Options with_shell{.environment = {"PYTHON_EXEC=sh"}};
  tests::Process job(dlrun({"-np", "2", "--wdir", folder.path(), "train.py", "--epochs", "3"}),
                     with_shell);
  EXPECT_EQ(job.wait(), 0) << job.err();
  for (const char* rank : {"0", "1"}) {  // -u is nounset to a shell
    EXPECT_THAT(job.out(), ContainsRegex(std::string("u[a-z]* ") + rank + " of 2: --epochs 3\n"));
  }
  tests::Process missing(dlrun({"--wdir", folder.path(), "tran.py"}), with_shell);
  EXPECT_EQ(missing.wait(), 127);
  EXPECT_THAT(missing.err(),
              HasSubstr("dlrun: there is no script tran.py (No such file or directory)"));
  tests::Process pythonless(dlrun({"--wdir", folder.path(), "train.py"}),
                            {.environment = {"PYTHON_EXEC=/no/python"}});
  EXPECT_EQ(pythonless.wait(), 127);
  EXPECT_THAT(
      pythonless.err(),
      HasSubstr(
          "there is no program /no/python (No such file or directory), which train.py needs"));
}

TEST(Lines, TorchtitansShowsRankZeroAlone) {
  tests::Process job(
      dlrun({"--nproc_per_node=2", "--rdzv_backend=c10d", "--rdzv_endpoint=localhost:0",
             "--local-ranks-filter", "0", "--role", "rank", "--tee", "3", "--no-python", "sh", "-c",
             "echo $ROLE_NAME; echo warned >&2"}));
  EXPECT_EQ(job.wait(), 0);
  EXPECT_EQ(job.out(), "[rank 0] rank\n");
  EXPECT_EQ(job.err(), "[rank 0] warned\n");
}

TEST(Lines, RedirectedStreamsAreKeptAndNotShown) {
  const tests::TempDir folder;
  tests::Process job(dlrun({"--nproc-per-node=3", "--log-dir", folder.path(), "-r", "0:3,1:1,2:3",
                            "-t", "2:2", "sh", "-c", "echo out $RANK; echo err $RANK >&2"}));
  EXPECT_EQ(job.wait(), 0);
  EXPECT_EQ(job.out(), "");
  EXPECT_THAT(job.err(), testing::AllOf(HasSubstr("[rank 1] err 1\n"),
                                        HasSubstr("[rank 2] err 2\n"), Not(HasSubstr("err 0"))));
  for (const std::string rank : {"0", "1", "2"}) {
    const std::string logs = folder.path() + "/latest/attempt_0/" + rank;
    EXPECT_EQ(read_file(logs + "/stdout.log"), "out " + rank + "\n");
    EXPECT_EQ(read_file(logs + "/stderr.log"), "err " + rank + "\n");
  }
}

TEST(Lines, ARankThatIsNotShownStillHasItsLastWordsOnThePage) {
  tests::Process job(dlrun({"--nproc-per-node=2", "--local-ranks-filter=0", "sh", "-c",
                            "test $RANK = 1 || exec sleep 300; echo why >&2; exit 6"}));
  EXPECT_EQ(job.wait(), 6);
  EXPECT_THAT(job.err(), Not(HasSubstr("[rank 1]")));
  EXPECT_THAT(job.err(), HasSubstr("dlrun:     | why\n"));
}

TEST(Lines, AHiddenRankIsNotBlockedByMoreThanAPipeHolds) {
  const tests::TempDir folder;
  tests::Process job(
      dlrun({"--log-dir", folder.path(), "-r", "3", "sh", "-c", "head -c 3000000 /dev/zero"}));
  EXPECT_EQ(job.wait(), 0);
  EXPECT_EQ(std::filesystem::file_size(folder.path() + "/latest/attempt_0/0/stdout.log"), 3000000U);
  tests::Process unlogged(
      dlrun({"-n", "2", "--local-ranks-filter=1", "sh", "-c", "head -c 3000000 /dev/zero"}));
  EXPECT_EQ(unlogged.wait(), 0);
}

TEST(Lines, ThePrefixIsTheUsersChoice) {
  tests::Process job(dlrun({"-n", "2", "--role", "trainer", "--log-line-prefix-template",
                            "[${role_name}${local_rank}]:", "echo", "hello"}));
  EXPECT_EQ(job.wait(), 0);
  EXPECT_THAT(job.out(), HasSubstr("[trainer1]:hello\n"));
  tests::Process stamped(dlrun({"--timestamp-output", "echo", "hello"}));
  EXPECT_EQ(stamped.wait(), 0);
  EXPECT_THAT(stamped.out(),
              testing::MatchesRegex("20[0-9][0-9]-[0-9][0-9]-[0-9][0-9] "
                                    "[0-9][0-9]:[0-9][0-9]:[0-9][0-9]\\.[0-9][0-9][0-9] "
                                    "\\[rank 0\\] hello\n"));
}

TEST(Lines, AJobThatRunsForLongerThanItMayEndsWith124) {
  tests::Process job(dlrun({"-n", "2", "--timeout", "0.3", "sleep", "300"}));
  EXPECT_EQ(job.wait(), 124);
  EXPECT_THAT(job.err(), HasSubstr("dlrun: the job has run for 0.3 s, which is its --timeout"));
  tests::Process quick(dlrun({"--timeout", "300", "true"}));
  EXPECT_EQ(quick.wait(), 0);
}

TEST(Lines, ASignalToHandleReachesTheRanksAsItIsAndEndsTheJob) {
  for (const auto& [name, number] : {std::pair{"USR1", SIGUSR1}, std::pair{"HUP", SIGHUP}}) {
    const std::string script = std::string("trap 'echo got ") + name + "; exit 0' " + name +
                               "; echo ready; while :; do sleep 0.05; done";
    tests::Process job(
        dlrun({"--signals-to-handle", std::string("SIGTERM,SIG") + name, "sh", "-c", script}));
    ASSERT_TRUE(job.wait_for_out("ready")) << job.err();
    job.signal(number);
    EXPECT_EQ(job.wait(), 128 + number);
    EXPECT_THAT(job.out(), HasSubstr(std::string("[rank 0] got ") + name + "\n"));
  }
}

TEST(Lines, VariablesAndAFolderForTheRanks) {
  const tests::TempDir folder;
  tests::Process job(dlrun({"-x", "A=b c", "-x", "OMP_NUM_THREADS=7", "-x", "MASTER_ADDR", "-x",
                            "MISSING", "--wdir", folder.path(), "-v", "sh", "-c",
                            "echo $A $OMP_NUM_THREADS $MASTER_ADDR $PWD; pwd -P"}),
                     {.environment = {"MASTER_ADDR=localhost"}});
  EXPECT_EQ(job.wait(), 0);
  EXPECT_EQ(job.out(), "[rank 0] b c 7 localhost " + folder.path() + "\n[rank 0] " +
                           std::filesystem::canonical(folder.path()).string() + "\n");
  EXPECT_THAT(job.err(), HasSubstr("dlrun: -x MISSING: MISSING is not set"));
  EXPECT_THAT(job.err(), ContainsRegex("--wdir +" + folder.path() + " +line"));
}

TEST(Lines, HostsThatAreThisMachineAreTakenAndOthersNamed) {
  tests::Process job(dlrun({"--host", "localhost:2", "sh", "-c", "echo $RANK"}));
  EXPECT_EQ(job.wait(), 0) << job.err();
  EXPECT_THAT(job.out(), HasSubstr("[rank 1] 1\n"));
  tests::Process other(dlrun({"--hosts", "host.invalid:2", "true"}));
  EXPECT_EQ(other.wait(), 1);
  EXPECT_THAT(other.err(), HasSubstr("dlrun: host host.invalid: there is no host of this name"));
}

// Both nodes are on this host, as with torchrun: one listens, the other one comes to it.
TEST(Lines, NodesWithoutANumberAreNumberedAsTheyCome) {
  const tests::TempDir home;
  const std::string endpoint = "localhost:" + std::to_string(tests::free_port());
  const auto start = [&] {
    return std::make_unique<tests::Process>(
        dlrun({"--nnodes", "2", "--rdzv-backend", "c10d", "--rdzv-endpoint", endpoint, "-n", "4",
               "sh", "-c", "echo $RANK/$WORLD_SIZE $LOCAL_RANK $GROUP_RANK"}),
        tests::Process::Options{.environment = {"XDG_CONFIG_HOME=" + home.path()}});
  };
  const auto one = start();
  const auto other = start();
  EXPECT_EQ(one->wait(), 0) << one->err();
  EXPECT_EQ(other->wait(), 0) << other->err();
  const std::string all = one->out() + other->out();
  for (const char* line :
       {"[rank 0] 0/4 0 0\n", "[rank 1] 1/4 1 0\n", "[rank 2] 2/4 0 1\n", "[rank 3] 3/4 1 1\n"}) {
    EXPECT_THAT(all, HasSubstr(line));
  }
}

TEST(Lines, ANodeThatIsToldToListenNamesThePortThatIsTaken) {
  const tests::TempDir home;
  const int port = tests::free_port();
  const auto start = [&](const std::string& conf) {
    return std::make_unique<tests::Process>(
        dlrun({"--nnodes=2", "--rdzv-endpoint=localhost:" + std::to_string(port),
               "--rdzv-conf=" + conf, "sh", "-c", "echo node $GROUP_RANK"}),
        tests::Process::Options{.environment = {"XDG_CONFIG_HOME=" + home.path()}});
  };
  const auto guest = start("is_host=false,join_timeout=120");
  const auto host = start("is_host=true,join_timeout=120");
  EXPECT_EQ(guest->wait(), 0) << guest->err();
  EXPECT_EQ(host->wait(), 0) << host->err();
  EXPECT_EQ(host->out(), "[rank 0] node 0\n");
  EXPECT_EQ(guest->out(), "[rank 1] node 1\n");
}

}  // namespace
}  // namespace dl
