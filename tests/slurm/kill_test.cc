// Processes of a job in SLURM are killed: the job ends, says why, and leaves nothing.
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <random>

#include "core/base/system/process/process_stat.h"
#include "tests/slurm/cluster.h"
#include "tests/slurm/processes.h"

namespace dl {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;
using testing::Not;

pid_t parent_of(pid_t pid) {
  return read_stat("/proc/" + std::to_string(pid)).parent;
}

// The role of a process, if its death matters; otherwise empty.
std::string role_of(pid_t pid) {
  const std::string name = tests::name_of(pid);
  const std::string node = tests::variable_of(pid, "SLURM_NODEID");
  if (tests::is_frontend(pid)) return "frontend";
  // srun has a child of the same name.
  if (name == "srun") return tests::name_of(parent_of(pid)) == name ? "" : name;
  if (node.empty()) return "";  // the frontend's warden and supervisor, which have no ranks
  if (tests::is_dlrun(pid)) return "dlrun of node " + node;
  if (name == "rank-supervisor" || name == "rank-warden") return name;
  if (name.starts_with("dlrun-rend")) return "dlrun-rendezvous";
  if (name == "sleep" && tests::name_of(parent_of(pid)) == "rank-supervisor") return "rank";
  return "";
}

class Kills : public tests::SlurmTest {
 protected:
  // Both ranks are up, and have a daemon each.
  static std::unique_ptr<tests::Process> start(std::vector<std::string> line) {
    line.insert(line.end(), {tests::program("dlrun"), "--grace=1", "--max-restarts=3", "sh", "-c",
                             "setsid sleep 300 & echo up; exec sleep 300"});
    auto job = std::make_unique<tests::Process>(line, cluster().options());
    if (!job->wait_for_out("[rank 0] up") || !job->wait_for_out("[rank 1] up")) {
      throw std::runtime_error("the ranks did not begin: " + job->err());
    }
    return job;
  }
  static std::unique_ptr<tests::Process> in_allocation() {
    return start({"salloc", "--quiet", "--nodes=2"});
  }
  static std::map<std::string, std::vector<pid_t>> processes_of(const tests::Process& job) {
    std::map<std::string, std::vector<pid_t>> found;
    for (const pid_t pid : tests::processes_with(job.mark())) {
      if (const std::string role = role_of(pid); !role.empty()) found[role].push_back(pid);
    }
    return found;
  }
};

TEST_F(Kills, OfTheFrontLeaveNothing) {
  const auto job = in_allocation();
  ::kill(processes_of(*job)["frontend"].at(0), SIGKILL);
  job->wait();  // salloc's code says nothing of its command's signal
  EXPECT_TRUE(cluster().is_swept());
}

TEST_F(Kills, WhatIsLostIsNamed) {
  struct Row {
    std::string role;
    bool with_its_stepd;  // as if the node were gone
    std::string host;
  };
  for (const Row& row : {Row{"srun", false, "host n"}, Row{"dlrun of node 1", false, "host n2"},
                         Row{"dlrun of node 0", true, "host n1"}}) {
    const std::string what = row.role + (row.with_its_stepd ? " and its slurmstepd" : "");
    const auto job = in_allocation();
    const pid_t victim = processes_of(*job)[row.role].at(0);
    if (row.with_its_stepd) ::kill(parent_of(victim), SIGKILL);
    ::kill(victim, SIGKILL);
    // SLURM kills the tasks of an srun that is lost, and an agent may tell of its supervisor first.
    EXPECT_THAT(job->wait(), AnyOf(1, 128 + SIGKILL)) << what << job->err();
    EXPECT_THAT(job->err(),
                AllOf(HasSubstr(row.host), HasSubstr(" lost"), Not(HasSubstr("begin again"))))
        << what;
    EXPECT_TRUE(cluster().is_swept()) << what;
  }
}

// A program that PATH names before SLURM's own srun.
class FakeSrun {
 public:
  // `script`: "$@" is dlrun's line for srun, $SRUN the real one.
  explicit FakeSrun(const std::string& script) {
    const std::string file = folder_.path() + "/srun";
    std::ofstream(file) << "#!/bin/bash\nSRUN=/usr/bin/srun\n" << script << "\n";
    std::filesystem::permissions(file, std::filesystem::perms::owner_all);
  }
  std::vector<std::string> salloc() const {
    return {"salloc", "--quiet", "--nodes=2", "env",
            "PATH=" + folder_.path() + ":" + std::getenv("PATH")};
  }
  const std::string& folder() const { return folder_.path(); }

 private:
  tests::TempDir folder_;
};

TEST_F(Kills, AnSrunThatEndsWithoutItsAgentsIsNamedWithWhatItSaid) {
  for (const auto& [script, sentence] : std::map<std::string, std::string>{
           {"echo 'srun: error: no such node' >&2; exit 5",
            "dlrun: the dlrun of host n1 has not answered: srun ended with exit code 5: srun: "
            "error: "
            "no such node\n"},
           {"exit 0",
            "dlrun: the dlrun of host n1 has not answered: srun ended with exit code 0\n"},
           {"kill -9 $$",
            "dlrun: the dlrun of host n1 has not answered: srun was killed by signal 9 "
            "(SIGKILL)\n"}}) {
    const FakeSrun srun(script);
    std::vector<std::string> line = srun.salloc();
    line.insert(line.end(), {tests::program("dlrun"), "true"});
    tests::Process job(line, cluster().options());
    EXPECT_EQ(job.wait(), 1) << script;
    EXPECT_THAT(job.err(), HasSubstr(sentence)) << script;
    EXPECT_TRUE(cluster().is_swept()) << script;
  }
}

// The agents still run when srun is gone: they are let go, and end with all that they have started.
TEST_F(Kills, AnSrunThatEndsBeforeItsAgentsIsNamedAndTheyEnd) {
  const FakeSrun srun("exec 3<&0; $SRUN \"$@\" <&3 & read < \"$(dirname \"$0\")/end\"; exit 3");
  ASSERT_EQ(::mkfifo((srun.folder() + "/end").c_str(), 0600), 0);
  const auto job = start(srun.salloc());
  std::ofstream(srun.folder() + "/end") << "now\n";
  EXPECT_EQ(job->wait(), 1) << job->err();
  EXPECT_THAT(job->err(),
              AllOf(HasSubstr("host n"), HasSubstr(" was lost: srun ended with exit code 3")));
  EXPECT_TRUE(cluster().is_swept());
}

// An operator cancels the step, as its time limit does: SLURM ends the tasks, and srun ends after
// them. Which of SLURM's lines have come by then is SLURM's affair.
TEST_F(Kills, AStepThatIsCancelledEndsTheJobAndIsNamed) {
  const auto job = in_allocation();
  const pid_t agent = processes_of(*job)["dlrun of node 0"].at(0);
  cluster().ask({"scancel", tests::variable_of(agent, "SLURM_JOB_ID") + "." +
                                tests::variable_of(agent, "SLURM_STEP_ID")});
  EXPECT_NE(job->wait(), 0) << job->err();
  EXPECT_THAT(job->err(), AllOf(AnyOf(HasSubstr(" CANCELLED AT "), HasSubstr("srun: error: n")),
                                HasSubstr("dlrun: host n"), HasSubstr(" was lost: "),
                                Not(HasSubstr("begin again"))));
  EXPECT_TRUE(cluster().is_swept());
}

// Its slurmstepd goes on without it. The test has a cluster of its own, as it loses a slurmd.
TEST_F(Kills, OfASlurmdConcernNoJobThatRuns) {
  const tests::SlurmCluster own;
  const tests::TempDir folder;
  const std::string go_on = folder.path() + "/go";
  ASSERT_EQ(::mkfifo((go_on + "0").c_str(), 0600), 0);
  ASSERT_EQ(::mkfifo((go_on + "1").c_str(), 0600), 0);
  tests::Process job(
      {"salloc", "--quiet", "--nodes=2", tests::program("dlrun"), "--linger=0", "sh", "-c",
       "setsid sleep 300 & echo up; read line < " + go_on + "$RANK; echo went on"},
      own.options());
  ASSERT_TRUE(job.wait_for_out("[rank 0] up") && job.wait_for_out("[rank 1] up")) << job.err();
  ASSERT_TRUE(own.kill_slurmd("n2"));
  for (const char* const rank : {"0", "1"}) std::ofstream(go_on + rank) << "now\n";
  EXPECT_EQ(job.wait(), 0) << job.err();
  EXPECT_THAT(job.out(), AllOf(HasSubstr("[rank 0] went on\n"), HasSubstr("[rank 1] went on\n")));
  EXPECT_TRUE(own.is_swept());
}

// 50 by hand: DLRUN_TEST_KILLS=50, with another DLRUN_TEST_SEED.
TEST_F(Kills, AtRandomEndTheJobOrBeginItAgain) {
  const char* const wanted = std::getenv("DLRUN_TEST_KILLS");
  const char* const given = std::getenv("DLRUN_TEST_SEED");
  const int kills = wanted == nullptr ? 2 : std::atoi(wanted);
  const std::uint64_t first = given == nullptr ? 1 : std::strtoull(given, nullptr, 10);
  std::map<std::string, int> counts;
  for (int i = 0; i < kills; ++i) {
    const std::uint64_t seed = first + static_cast<std::uint64_t>(i);
    std::mt19937_64 random(seed);
    const bool one_a_node = random() % 2 == 0;
    // Not through srun, which loses the last lines of a step if a task was killed.
    const tests::TempDir folder;
    const auto job = one_a_node ? start({"srun", "--nodes=2", "--error=" + folder.path() + "/%t"})
                                : in_allocation();
    const auto said = [&] {
      std::string text = job->err();
      for (const char* const task : {"/0", "/1"}) {
        std::ifstream file(folder.path() + task);
        text.append(std::istreambuf_iterator<char>(file), {});
      }
      return text;
    };
    const auto found = processes_of(*job);
    const auto& [role, pids] =
        *std::next(found.begin(), static_cast<long>(random() % found.size()));
    const std::string what = (one_a_node ? "srun dlrun: " : "salloc dlrun: ") + role;
    SCOPED_TRACE("seed " + std::to_string(seed) + ", " + what);
    ++counts[what];
    ::kill(pids[random() % pids.size()], SIGKILL);
    if (role == "rank") {
      // All ranks begin again, and then the job is ended.
      EXPECT_TRUE(tests::eventually([&] {
        return said().find("restart 1 of 3") != std::string::npos;
      })) << said();
      ::kill(one_a_node ? job->pid() : found.at("frontend").at(0), SIGTERM);
    }
    const int code = job->wait();
    const bool is_users = role == "frontend" || (one_a_node && role == "srun");
    if (!is_users && role != "rank") {
      EXPECT_NE(code, 0) << said();
      EXPECT_THAT(said(),
                  AnyOf(HasSubstr(" lost"), HasSubstr("killed by signal 9"), HasSubstr("is gone")));
    }
    EXPECT_TRUE(cluster().is_swept());
  }
  for (const auto& [what, count] : counts) std::printf("%3d x %s\n", count, what.c_str());
}

}  // namespace
}  // namespace dl
