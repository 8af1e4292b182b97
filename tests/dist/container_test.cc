// dlrun in a container, and ranks each in a container of their own (container.c). Needs root.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/free_port.h"
#include "tests/support/process.h"
#include "tests/support/temp_dir.h"

namespace dl {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

using Words = std::vector<std::string>;

const std::string kInside = "/mnt/build/";
const Words kProbe = {kInside + "bin/rank_by_probe"};

Words operator+(Words a, const Words& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// The line that runs `program` in a container with these options.
Words contained(const Words& options, const Words& program) {
  return Words{tests::program("../tests/container")} + options + Words{tests::program("..")} +
         program;
}
Words dlrun_inside(const Words& arguments) {
  return Words{kInside + "bin/dlrun"} + arguments;
}

class Container : public testing::Test {
 protected:
  void SetUp() override {
    tests::Process probe(contained({"--userns", "100000"}, {"true"}));
    if (probe.wait() == 0) return;
    const std::string why = "no container: namespaces need root: " + probe.err();
    if (::geteuid() == 0 && std::getenv("DLRUN_TEST_ALL") != nullptr) FAIL() << why;
    GTEST_SKIP() << why;
  }
};

// A process's only child, by the kernel's list.
pid_t child_of(pid_t parent) {
  const std::string number = std::to_string(parent);
  std::ifstream file("/proc/" + number + "/task/" + number + "/children");
  pid_t child = -1;
  file >> child;
  return child;
}

// Whether the process has opened /dev/stdin.
bool reads_its_input(pid_t pid) {
  namespace fs = std::filesystem;
  const fs::path fds = "/proc/" + std::to_string(pid) + "/fd";
  std::error_code ignored;
  const fs::path input = fs::read_symlink(fds / "0", ignored);
  for (int fd = 3; !input.empty() && fd < 16; ++fd) {
    if (fs::read_symlink(fds / std::to_string(fd), ignored) == input) return true;
  }
  return false;
}

std::string both_over(const std::string& backend, int rank) {
  const std::string number = std::to_string(rank);
  return "[rank " + number + "] local " + number + " of node 0, " + backend + ": right\n";
}

TEST_F(Container, HasAJobWhoseRanksShareMemory) {
  for (const Words& options : {Words{}, Words{"--userns", "100000"}, Words{"--net"}}) {
    tests::Process job(contained(options, dlrun_inside({"-n", "2"}) + kProbe));
    EXPECT_EQ(job.wait(), 0) << job.err();
    EXPECT_THAT(job.out(), AllOf(HasSubstr(both_over("shm", 0)), HasSubstr(both_over("shm", 1))));
    EXPECT_EQ(job.err(), "");
  }
}

TEST_F(Container, IsThePlaceThatItsTestClaims) {
  tests::Process look(
      contained({}, {"sh", "-c",
                     "id -un; echo $$ $(id -u) $(hostname) $HOME; touch /x /mnt/build/x; "
                     "df -k --output=size /tmp /dev/shm; grep -E '^(CapBnd|NoNewPrivs|Seccomp):' "
                     "/proc/1/status; unshare -U true"}),
      {.environment = {"LC_ALL=C"}});
  look.wait();
  EXPECT_THAT(look.out(),
              AllOf(HasSubstr("1 12345 pod /\n"), HasSubstr(" 65536\n    65536\n"),
                    HasSubstr("CapBnd:\t0000000000000000\nNoNewPrivs:\t1\nSeccomp:\t2\n")));
  EXPECT_THAT(look.err(), AllOf(HasSubstr("cannot find name for user ID 12345"),
                                HasSubstr("'/x': Read-only"), HasSubstr("build/x': Read-only"),
                                HasSubstr("unshare failed: Operation not permitted")));
}

TEST_F(Container, EndsWithinItsGraceThoughARankDoesNot) {
  tests::Process job(
      contained({}, dlrun_inside({"-n", "2", "sh", "-c",
                                  "test $RANK = 0 && trap 'echo bye; exit 0' TERM || "
                                  "trap '' TERM; echo up; while :; do sleep 300 & "
                                  "wait; done"})),
      {.environment = {"PET_SHUTDOWN_TIMEOUT=0.3"}});
  ASSERT_TRUE(job.wait_for_out("[rank 0] up\n") && job.wait_for_out("[rank 1] up\n"));
  job.signal(SIGTERM);
  EXPECT_EQ(job.wait(), 128 + SIGTERM);
  EXPECT_THAT(job.out(), HasSubstr("[rank 0] bye\n"));
  EXPECT_THAT(job.err(), HasSubstr("dlrun: stopped by SIGTERM"));
  EXPECT_TRUE(tests::processes_with(job.mark()).empty());
}

// dlrun still reads its line when the signal comes.
TEST_F(Container, Process1LosesNoSignalOfItsStart) {
  int hosts[2];
  ASSERT_EQ(::pipe2(hosts, O_CLOEXEC), 0);
  ASSERT_EQ(::fchmod(hosts[0], 0666), 0);  // another user opens it
  tests::Process job(
      contained({}, dlrun_inside({"--hostfile", "/dev/stdin", "sh", "-c", "exec sleep 300"})),
      {.stdin_fd = hosts[0]});
  ::close(hosts[0]);
  ASSERT_TRUE(tests::eventually([&] { return reads_its_input(child_of(job.pid())); }));
  job.signal(SIGTERM);
  ASSERT_EQ(::write(hosts[1], "localhost\n", 10), 10);
  ::close(hosts[1]);
  EXPECT_EQ(job.wait(), 128 + SIGTERM) << job.err();
}

TEST_F(Container, Process1ReapsWhatAProbeLeaves) {
  tests::Process job(contained({}, dlrun_inside({"sh", "-c", "echo up; exec sleep 300"})));
  ASSERT_TRUE(job.wait_for_out("[rank 0] up\n"));
  const std::string process1 = std::to_string(child_of(job.pid()));
  tests::Process probe(
      {"nsenter", "--target", process1, "--pid", "--mount", "sh", "-c", "sleep 0.01 & exit 0"});
  EXPECT_EQ(probe.wait(), 0) << probe.err();
  EXPECT_TRUE(tests::eventually([&] {
    tests::Process look({"nsenter", "--target", process1, "--pid", "--mount", "sh", "-c",
                         "cat /proc/[0-9]*/stat | grep '(sleep) [SZ] 1 '"});
    return look.wait() == 1;
  }));
  job.signal(SIGTERM);
  EXPECT_EQ(job.wait(), 128 + SIGTERM);
}

// Two dlruns with two ranks each, in two containers with one hostname and a Secret as the key. The
// users of the second begin at `first`.
class TwoContainers : public Container {
 protected:
  void run(const std::string& first, const std::string& variable) {
    const std::string endpoint = "127.0.0.1:" + std::to_string(tests::free_port());
    for (const std::string node : {"0", "1"}) {
      const Words options = {"--userns", node == "0" ? "100000" : first};
      const Words line = {"--nnodes=2", "--node-rank=" + node, "--rdzv-endpoint=" + endpoint,
                          "--nproc-per-node=2", "--key-file=/mnt/secret"};
      nodes_.push_back(std::make_unique<tests::Process>(
          contained(options, dlrun_inside(line) + kProbe),
          tests::Process::Options{
              .environment = {"TEST_SECRET=" + std::string(64, '7'), variable}}));
    }
    for (const auto& node : nodes_) EXPECT_EQ(node->wait(), 0) << node->err();
  }
  void expect_backend(const std::string& backend) const {
    EXPECT_THAT(nodes_[0]->out(),
                HasSubstr("[rank 1] local 1 of node 0, " + backend + ": right\n"));
    EXPECT_THAT(nodes_[1]->out(),
                HasSubstr("[rank 3] local 1 of node 1, " + backend + ": right\n"));
  }

  std::vector<std::unique_ptr<tests::Process>> nodes_;
};

TEST_F(TwoContainers, AreTwoNodesThoughTheyHaveOneHostname) {
  run("100000", "LANG=C");
  expect_backend("hybrid");
}

TEST_F(TwoContainers, ShareMemoryIfTheyAreNamedOneNode) {
  run("100000", "DLRUN_NODE_ID=host");
  expect_backend("shm");
}

TEST_F(TwoContainers, NamedOneNodeTakeTcpIfMemoryCannotBePassed) {
  run("200000", "DLRUN_NODE_ID=host");
  expect_backend("tcp");
  EXPECT_THAT(nodes_[0]->err(), HasSubstr("runs as another user than rank 0"));
}

class RankInAContainer : public Container {
 protected:
  // Two ranks, each in its own container.
  static std::unique_ptr<tests::Process> job(const Words& options, const Words& program = kProbe,
                                             const std::string& entry = "LANG=C") {
    return std::make_unique<tests::Process>(
        tests::dlrun(Words{"--grace=0.3", "-n", "2"} + contained(options, program)),
        tests::Process::Options{.environment = {entry}});
  }
};

TEST_F(RankInAContainer, SharesMemoryWithTheOthersOfItsNetwork) {
  for (const Words& options : {Words{}, Words{"--userns", "100000"}}) {
    const auto run = job(options);
    EXPECT_EQ(run->wait(), 0) << run->err();
    EXPECT_THAT(run->out(), AllOf(HasSubstr(both_over("shm", 0)), HasSubstr(both_over("shm", 1))));
    EXPECT_EQ(run->err(), "");
  }
}

// Both are user 12345 in their containers, and two users for the host.
TEST_F(RankInAContainer, WithItsOwnUsersTalksOverTcpAndSaysSo) {
  const std::string line = tests::program("../tests/container") +
                           " --userns $((100000 + 65536 * RANK)) " + tests::program("..") + " " +
                           kProbe.front();
  tests::Process run(tests::dlrun({"-n", "2", "sh", "-c", "exec " + line}));
  EXPECT_EQ(run.wait(), 0) << run.err();
  EXPECT_THAT(run.out(), AllOf(HasSubstr(both_over("tcp", 0)), HasSubstr(both_over("tcp", 1))));
  EXPECT_THAT(run.err(), HasSubstr("rank 1 (pod, pid 1) runs as another user than rank 0 (pod, pid "
                                   "1); all talk over TCP"));
}

TEST_F(RankInAContainer, WithItsOwnNetworkSaysSoAtOnce) {
  const auto run = job({"--net"});
  EXPECT_EQ(run->wait(), 1);
  EXPECT_THAT(run->err(), HasSubstr("this rank is in another network namespace than its dlrun"));
}

TEST_F(RankInAContainer, WithoutTheKeySaysSoAtOnce) {
  const auto run = job({"--close"});
  EXPECT_EQ(run->wait(), 1);
  EXPECT_THAT(run->err(), HasSubstr("a container's runtime, has closed it), and DLRUN_KEY_FILE "
                                    "names no file here"));
}

TEST_F(RankInAContainer, MayTakeTheKeyFromAMountedFile) {
  const std::string key(64, '7');
  tests::TempDir folder;
  std::ofstream(folder.path() + "/key") << key;
  ASSERT_EQ(::chmod((folder.path() + "/key").c_str(), 0600), 0);
  tests::Process run(
      tests::dlrun(Words{"--key-file=" + folder.path() + "/key", "-n", "2"} +
                   contained({"--close"}, Words{"env", "DLRUN_KEY_FILE=/mnt/secret"} + kProbe)),
      {.environment = {"TEST_SECRET=" + key, "DLRUN_RECORDER=off"}});
  EXPECT_EQ(run.wait(), 0) << run.err();
  EXPECT_THAT(run.out(), AllOf(HasSubstr(both_over("shm", 0)), HasSubstr(both_over("shm", 1))));
  EXPECT_EQ(run.err(), "");
}

TEST_F(RankInAContainer, ThatFailsIsTheFirstCause) {
  const auto run = job({}, {kInside + "tests/group_probe", "throw", "1"});
  EXPECT_NE(run->wait(), 0);
  EXPECT_THAT(run->err(), AllOf(HasSubstr("dlrun: rank 1 (node 0, host "),
                                HasSubstr("the others: rank 0: failed because of rank 1 in ")));
  EXPECT_TRUE(tests::processes_with(run->mark()).empty());
}

}  // namespace
}  // namespace dl
