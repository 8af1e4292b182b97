// What a failed job's page says of the ranks that are not the cause: each ended by itself, or by a
// signal that dlrun really sent.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/free_port.h"
#include "tests/support/gate.h"
#include "tests/support/process.h"
#include "tests/support/temp_dir.h"

namespace dl {
namespace {

using testing::HasSubstr;

// Rank 0 fails once rank 1, which goes by "kill -SIGNAL itself" or "exit CODE" on SIGTERM, is up.
TEST(Fates, OfARankThatDlrunDidNotEndIsItsOwn) {
  struct Case {
    const char* on_term;
    const char* text;
  };
  for (const Case& one :
       {Case{"kill -ABRT $$", "rank 1: was killed by signal 6 (SIGABRT)"},
        Case{"kill -SEGV $$", "rank 1: was killed by signal 11 (SIGSEGV)"},
        Case{"kill -HUP $$", "rank 1: was killed by signal 1 (SIGHUP)"},
        Case{"exit 1", "rank 1: ended with exit code 1"},
        Case{"exit 0", "rank 1: ended with exit code 0"},
        Case{"trap - TERM; kill -TERM $$", "rank 1: ended by dlrun with SIGTERM"}}) {
    SCOPED_TRACE(one.on_term);
    const tests::Gate gate;
    tests::Process job({tests::program("dlrun"), "--nproc-per-node", "2", "sh", "-c",
                        "ulimit -c 0; if test $RANK = 0; then " + gate.wait() +
                            "exit 3; fi; trap '" + one.on_term + "' TERM; " + gate.opener() +
                            "while :; do sleep 0.01; done"});
    EXPECT_EQ(job.wait(), 3);
    EXPECT_THAT(job.err(), HasSubstr(std::string("the others: ") + one.text + "\n"));
  }
}

// Rank 0 speaks as MPICH does, and waits in the barrier of MPI_Init.
TEST(Fates, OfARankThatEndsInMpiOrBeforeItIsTheCause) {
  const std::string greeting = "echo cmd=init pmi_version=1 pmi_subversion=1 >&$PMI_FD; ";
  struct Case {
    bool ends_first;
    std::string does;  // rank 1, before it ends
    std::string how;   // its end is told
  };
  const std::string is_awaited = " while rank 0 was waiting for it in MPI_Init\n";
  for (const Case& one : {Case{false, "", is_awaited}, Case{true, "", is_awaited},
                          Case{false, greeting, " without MPI_Finalize after "}}) {
    const tests::Gate first, second;
    tests::Process job({tests::program("dlrun"), "--mpi", "pmi1", "-n", "2", "bash", "-c",
                        "echo up $$; if test $RANK = 1; then " +
                            (one.ends_first ? first : second).wait() + one.does + "exit 0; fi; " +
                            (one.ends_first ? second : first).wait() + greeting +
                            "echo cmd=barrier_in >&$PMI_FD; echo in; exec sleep 300"});
    ASSERT_TRUE(job.wait_for_out("[rank 0] up ") && job.wait_for_out("[rank 1] up "));
    const pid_t rank_1 = tests::number_after("[rank 1] up ", job.out());
    first.open();
    EXPECT_TRUE(one.ends_first ? tests::eventually([&] { return tests::state_of(rank_1) == '\0'; })
                               : job.wait_for_out("[rank 0] in\n"));
    second.open();
    EXPECT_EQ(job.wait(), 1);
    EXPECT_THAT(job.err(), testing::StartsWith("dlrun: rank 1 (node 0, host "));
    EXPECT_THAT(job.err(), HasSubstr(") ended with exit code 0 "));
    EXPECT_THAT(job.err(), HasSubstr(one.how));
  }
}

// Rank 1 does not come to an operation, and hears that rank 0 has given it up.
TEST(Fates, OfTheRankThatATimeoutIsAboutIsNotThatOfAVictim) {
  for (const int nodes : {1, 2}) {
    const tests::TempDir home;
    const tests::Gate gate;
    const std::string endpoint = "127.0.0.1:" + std::to_string(tests::free_port());
    const std::string probe = tests::program("../tests/launcher_probe");
    std::vector<std::unique_ptr<tests::Process>> jobs;
    for (int node = 0; node < nodes; ++node) {
      std::vector<std::string> line = {tests::program("dlrun"), "--nproc-per-node",
                                       std::to_string(2 / nodes)};
      if (nodes > 1) {
        line.insert(line.end(), {"--nnodes", "2", "--node-rank", std::to_string(node),
                                 "--rdzv-endpoint", endpoint});
      }
      line.insert(line.end(), {"sh", "-c",
                               "if test $RANK = 0; then " + gate.wait() + "exec " + probe +
                                   " follow; fi; exec " + probe + " late"});
      jobs.push_back(std::make_unique<tests::Process>(
          line, tests::Process::Options{.environment = {"XDG_CONFIG_HOME=" + home.path(),
                                                        "DLRUN_NODE_ID=" + std::to_string(node)}}));
    }
    ASSERT_TRUE(jobs.back()->wait_for_out("told")) << jobs.back()->err();
    gate.open();
    for (const auto& job : jobs) {
      EXPECT_EQ(job->wait(), 4) << job->err();
      EXPECT_THAT(job->err(), HasSubstr("rank 1 had not done its part in all_reduce #3 in time and "
                                        "has not ended on its own; rank 0, which waited for it, "
                                        "ended with exit code 4\n"));
    }
    char host[256] = {};
    ::gethostname(host, sizeof host - 1);
    EXPECT_THAT(jobs.back()->err(),
                HasSubstr((nodes == 1 ? "the others" : "on host " + std::string(host)) +
                          ": rank 1: had not done its part in all_reduce #3, ended by dlrun with "
                          "SIGTERM\n"));
  }
}

// A control group of a test's own, of version 2 or 1, with so much memory.
class MemoryGroup {
 public:
  explicit MemoryGroup(const std::string& limit) {
    const std::string name =
        "/dlrun_test_" + std::filesystem::path(folder_.path()).filename().string();
    std::ifstream controllers("/sys/fs/cgroup/cgroup.subtree_control");
    std::string word;
    while (controllers >> word && word != "memory") {
    }
    const bool is_v2 = word == "memory";
    const std::string path = std::string("/sys/fs/cgroup") + (is_v2 ? "" : "/memory") + name;
    if (::mkdir(path.c_str(), 0755) != 0) return;
    path_ = path;
    write(is_v2 ? "/memory.max" : "/memory.limit_in_bytes", limit);
    write(is_v2 ? "/memory.swap.max" : "/memory.memsw.limit_in_bytes", is_v2 ? "0" : limit);
  }
  MemoryGroup(const MemoryGroup&) = delete;
  MemoryGroup& operator=(const MemoryGroup&) = delete;
  ~MemoryGroup() {
    if (!path_.empty()) tests::eventually([&] { return ::rmdir(path_.c_str()) == 0; });
  }
  // Empty: this user can make none.
  const std::string& path() const { return path_; }

 private:
  void write(const std::string& file, const std::string& text) const {
    std::ofstream(path_ + file) << text;
  }
  tests::TempDir folder_;  // for its name, which no other test has
  std::string path_;
};

TEST(OutOfMemory, IsTheCauseThatTheKernelHasCounted) {
  const MemoryGroup group("67108864");
  if (group.path().empty()) GTEST_SKIP() << "no control group of our own for memory";
  const auto job_of = [&](const std::string& script) {
    return std::make_unique<tests::Process>(
        std::vector<std::string>{"sh", "-c",
                                 "echo $$ > " + group.path() + "/cgroup.procs && exec " +
                                     tests::program("dlrun") + " -n 2 sh -c '" + script + "'"});
  };
  const auto greedy = job_of("test $RANK = 1 || exec sleep 300; exec tail /dev/zero");
  EXPECT_EQ(greedy->wait(), 128 + SIGKILL);
  EXPECT_THAT(greedy->err(),
              testing::ContainsRegex("dlrun: rank 1 .* was killed by signal 9 "
                                     "\\(SIGKILL\\), probably out of memory, after"));
  const auto killed = job_of("test $RANK = 1 || exec sleep 300; kill -KILL $$");
  EXPECT_EQ(killed->wait(), 128 + SIGKILL);
  EXPECT_THAT(killed->err(), HasSubstr("nor did the kernel for want of memory"));
  const auto child = job_of("test $RANK = 1 || exec sleep 300; tail /dev/zero; exit 5");
  EXPECT_EQ(child->wait(), 5);
  EXPECT_THAT(child->err(), HasSubstr("meanwhile memory ran out, and the kernel killed 1 process"));
}

}  // namespace
}  // namespace dl
