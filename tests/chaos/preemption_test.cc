// Requests to save and end, at random moments: all ranks return true at the same call.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>

#include <cstdlib>
#include <fstream>
#include <random>
#include <set>
#include <sstream>

#include "tests/support/process.h"
#include "tests/support/temp_dir.h"
#include "tests/support/two_hosts.h"

namespace dl {
namespace {

using testing::HasSubstr;
using Line = std::vector<std::string>;

constexpr int kExitSaved = 75;

// 200 by hand: DLRUN_TEST_REQUESTS=200.
int requests() {
  const char* const wanted = std::getenv("DLRUN_TEST_REQUESTS");
  return wanted == nullptr ? 6 : std::atoi(wanted);
}

std::string rank_program() {
  return tests::program("dlrun").substr(0, tests::program("dlrun").rfind("/bin/")) +
         "/tests/checkpoint_rank";
}

Line dlrun(const Line& options, const Line& program) {
  Line line = {tests::program("dlrun")};
  line.insert(line.end(), options.begin(), options.end());
  line.push_back(rank_program());
  line.insert(line.end(), program.begin(), program.end());
  return line;
}

int count(const std::string& text, const std::string& what) {
  int found = 0;
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; ++at) ++found;
  return found;
}

// The calls that the ranks say they have saved at.
std::set<int> saved_at(const std::string& out) {
  std::set<int> calls;
  std::istringstream lines(out);
  for (std::string line; std::getline(lines, line);) {
    if (const int call = tests::number_after("saved at ", line); call >= 0) calls.insert(call);
  }
  return calls;
}

std::vector<pid_t> ranks_of(const tests::Process& job) {
  std::vector<pid_t> ranks;
  for (const pid_t pid : tests::processes_with(job.mark())) {
    if (tests::name_of(pid) == "checkpoint_rank") ranks.push_back(pid);
  }
  return ranks;
}

void wait_a_random_while() {
  static std::mt19937 random(std::random_device{}());
  ::poll(nullptr, 0, static_cast<int>(random() % 40));
}

TEST(Preempted, AllRanksSaveAtTheSameCallAndTheCodeIs75) {
  for (int i = 0; i < requests(); ++i) {
    for (const char* const backend : {"shm", "tcp"}) {
      tests::Process job(dlrun({"--preempt", "--nproc-per-node=4"}, {"100000000"}),
                         {.environment = {std::string("DLRUN_BACKEND=") + backend}});
      ASSERT_TRUE(job.wait_for_out("up")) << job.err();
      wait_a_random_while();
      job.signal(SIGTERM);
      EXPECT_EQ(job.wait(), kExitSaved) << job.err();
      EXPECT_EQ(saved_at(job.out()).size(), 1u) << job.out();
      EXPECT_EQ(count(job.out(), "saved at "), 4) << job.out();
      EXPECT_THAT(job.err(), HasSubstr("dlrun: saved: every rank returned from call "));
    }
  }
}

TEST(Preempted, ASignalEndsTheWaitForLeftovers) {
  const Line options = {
      tests::program("dlrun"), "--preempt", "--linger=300", "-n", "2", "sh", "-c"};
  const auto job_of = [&](const std::string& rank) {
    Line line = options;
    line.push_back("setsid sleep 300 & " + rank);
    return line;
  };
  tests::Process saves(job_of("exec " + rank_program() + " 100000000"));
  ASSERT_TRUE(saves.wait_for_out("up")) << saves.err();
  saves.signal(SIGTERM);
  ASSERT_TRUE(saves.wait_for_err(" still run")) << saves.err();
  saves.signal(SIGINT);  // a SIGTERM so soon after the first one would be a repetition of it
  EXPECT_EQ(saves.wait(), kExitSaved) << saves.err();
  EXPECT_THAT(saves.err(), HasSubstr("dlrun: saved: every rank returned from call "));
  EXPECT_TRUE(tests::processes_with(saves.mark()).empty());

  tests::Process ends(job_of("exit 0"));
  ASSERT_TRUE(ends.wait_for_err(" still run")) << ends.err();
  ends.signal(SIGTERM);
  EXPECT_EQ(ends.wait(), 0) << ends.err();
  EXPECT_TRUE(tests::processes_with(ends.mark()).empty());
}

TEST(Preempted, OnTwoNodesToo) {
  if (const std::string why = tests::TwoHosts::why_not(); !why.empty()) GTEST_SKIP() << why;
  const tests::TwoHosts hosts;
  const tests::TempDir home;
  std::mt19937 random(std::random_device{}());
  for (int i = 0; i < requests(); ++i) {
    const auto node = [&](int number) {
      return std::make_unique<tests::Process>(
          hosts.on(number,
                   dlrun({"--preempt", "--nnodes=2", "--node-rank=" + std::to_string(number),
                          "--rdzv-endpoint=" + hosts.address(0) + ":29400", "--nproc-per-node=2"},
                         {"100000000"})),
          tests::Process::Options{.environment = {"XDG_CONFIG_HOME=" + home.path()}});
    };
    const auto zero = node(0);
    const auto one = node(1);
    ASSERT_TRUE(zero->wait_for_out("up")) << zero->err();
    ASSERT_TRUE(one->wait_for_out("up")) << one->err();
    wait_a_random_while();
    // One node is asked, or both are.
    const unsigned who = random() % 3;
    if (who != 0) zero->signal(SIGTERM);
    if (who != 1) one->signal(SIGTERM);
    EXPECT_EQ(zero->wait(), kExitSaved) << zero->err();
    EXPECT_EQ(one->wait(), kExitSaved) << one->err();
    const std::string out = zero->out() + one->out();
    EXPECT_EQ(saved_at(out).size(), 1u) << out;
    EXPECT_EQ(count(out, "saved at "), 4) << out;
  }
}

TEST(Preempted, ARankThatNeverCallsIsNamedAndNothingIsSaved) {
  tests::Process job(
      dlrun({"--preempt", "--preempt-wait=0.5", "--nproc-per-node=2"}, {"100000000", "never", "1"}),
      {});
  ASSERT_TRUE(job.wait_for_out("up")) << job.err();
  job.signal(SIGTERM);
  EXPECT_EQ(job.wait(), 1);
  EXPECT_THAT(job.err(), HasSubstr("dlrun: not saved: "));
  EXPECT_THAT(job.err(), HasSubstr("rank 1 has never called should_checkpoint()"));
}

TEST(Preempted, AJobThatHasBegunAgainSavesToo) {
  tests::Process job(dlrun({"--preempt", "--max-restarts=1", "--nproc-per-node=2"}, {"100000000"}),
                     {});
  ASSERT_TRUE(job.wait_for_out("[rank 0] up") && job.wait_for_out("[rank 1] up")) << job.err();
  ::kill(ranks_of(job).front(), SIGKILL);
  ASSERT_TRUE(tests::eventually([&] { return count(job.out(), "] up") == 4; })) << job.err();
  job.signal(SIGTERM);
  EXPECT_EQ(job.wait(), kExitSaved) << job.err();
  EXPECT_EQ(saved_at(job.out()).size(), 1u) << job.out();
  EXPECT_EQ(count(job.out(), "saved at "), 2) << job.out();
}

TEST(Preempted, AfterTheRequestAFailedRankIsTheEnd) {
  tests::Process job(
      dlrun({"--preempt", "--max-restarts=3", "--nproc-per-node=2"}, {"100000000", "never", "1"}),
      {});
  ASSERT_TRUE(job.wait_for_out("[rank 0] up") && job.wait_for_out("[rank 1] up")) << job.err();
  job.signal(SIGTERM);
  ASSERT_TRUE(job.wait_for_err("the ranks are asked to save and end")) << job.err();
  for (const pid_t pid : ranks_of(job)) ::kill(pid, SIGKILL);
  EXPECT_NE(job.wait(), 0);
  EXPECT_THAT(job.err(), testing::Not(HasSubstr("restart 1 of 3"))) << job.err();
}

TEST(Preempted, ASecondRequestLaterEndsTheJobAsWithoutPreempt) {
  tests::Process job(dlrun({"--preempt", "--nproc-per-node=2"}, {"100000000", "never", "1"}), {});
  ASSERT_TRUE(job.wait_for_out("up")) << job.err();
  job.signal(SIGTERM);
  ASSERT_TRUE(job.wait_for_err("the ranks are asked to save and end")) << job.err();
  job.signal(SIGINT);
  EXPECT_EQ(job.wait(), 130);
}

TEST(Preempted, WithoutTheOptionSigtermEndsTheJobAndUsr2IsPassedOn) {
  tests::Process job(dlrun({"--nproc-per-node=2"}, {"100000000"}), {});
  ASSERT_TRUE(job.wait_for_out("up")) << job.err();
  job.signal(SIGTERM);
  EXPECT_EQ(job.wait(), 143) << job.err();
}

TEST(Preempted, Usr2IsARequestIfAsked) {
  tests::Process job(dlrun({"--preempt-usr2", "--nproc-per-node=2"}, {"100000000"}), {});
  ASSERT_TRUE(job.wait_for_out("up")) << job.err();
  job.signal(SIGUSR2);
  EXPECT_EQ(job.wait(), kExitSaved) << job.err();
}

TEST(Preempted, AJobThatIsDoneWithoutARequestEndsWithZero) {
  tests::Process job(dlrun({"--preempt", "--nproc-per-node=2"}, {"20"}), {});
  EXPECT_EQ(job.wait(), 0) << job.err();
  EXPECT_THAT(job.out(), HasSubstr("done at 20"));
}

// The example, and what it has learned, bit for bit.
TEST(Preempted, AResumedRunEndsWithTheParametersOfAFullRun) {
  const tests::TempDir folder;
  const auto run = [&](const std::string& name, const std::string& steps) {
    return std::make_unique<tests::Process>(
        Line{tests::program("dlrun"), "--preempt", "--nproc-per-node=2", tests::program("resume"),
             "--checkpoint", folder.path() + "/" + name, "--steps", steps, "--save-every=1000000"});
  };
  const auto first = run("divided", "1000000");
  ASSERT_TRUE(first->wait_for_out("attempt begins at step 0")) << first->err();
  first->signal(SIGTERM);
  EXPECT_EQ(first->wait(), kExitSaved) << first->err();
  const int saved = tests::number_after("makes room after step ", first->out());
  ASSERT_GT(saved, 0) << first->out();
  const std::string steps = std::to_string(saved + 50);
  const auto second = run("divided", steps);
  EXPECT_EQ(second->wait(), 0) << second->err();
  EXPECT_THAT(second->out(), HasSubstr("attempt begins at step " + std::to_string(saved) + "\n"));
  const auto whole = run("whole", steps);
  EXPECT_EQ(whole->wait(), 0) << whole->err();
  EXPECT_THAT(second->out(), HasSubstr(whole->out().substr(whole->out().find("done: step "))));
}

// The code of the guide.
TEST(Preempted, RanksInPythonToo) {
  if (std::system("python3 -c 'import socket; socket.recv_fds' 2> /dev/null") != 0) {
    GTEST_SKIP() << "no python3 from 3.9 on";
  }
  std::ifstream guide(std::string(DLRUN_TEST_GUIDES) + "/slurm.md");
  std::string code;
  bool inside = false;
  for (std::string line; std::getline(guide, line);) {
    if (inside && line == "```") break;
    if (inside) code += line + "\n";
    inside = inside || line == "```python";
  }
  code +=
      "print('up')\n"
      "while not should_checkpoint(): pass\n"
      "print('saved at', should_checkpoint.calls)\n";
  const std::vector<std::string> start = {tests::program("dlrun"), "--preempt",
                                          "--nproc-per-node=3"};
  for (int i = 0; i < requests(); ++i) {
    std::vector<std::string> line = start;
    line.insert(line.end(), {"python3", "-c", code});
    tests::Process job(line);
    ASSERT_TRUE(job.wait_for_out("[rank 0] up") && job.wait_for_out("[rank 1] up") &&
                job.wait_for_out("[rank 2] up"))
        << job.err();
    job.signal(SIGTERM);
    // These ranks do not wait for each other, and one may be far ahead of another.
    EXPECT_EQ(job.wait(), kExitSaved) << job.err();
    EXPECT_EQ(saved_at(job.out()).size(), 1u) << job.out();
    EXPECT_EQ(count(job.out(), "saved at "), 3) << job.out();
  }
}

// A signal of SLURM's, which every process of the step gets, while the job goes on.
TEST(Preempted, RanksOutliveSignalsThatDlrunDidNotSend) {
  tests::Process job(dlrun({"--preempt", "--nproc-per-node=2"}, {"100000000"}), {});
  ASSERT_TRUE(job.wait_for_out("[rank 0] up") && job.wait_for_out("[rank 1] up")) << job.err();
  for (const pid_t pid : ranks_of(job)) {
    ::kill(pid, SIGTERM);
    ::kill(pid, SIGUSR1);
  }
  job.signal(SIGTERM);
  EXPECT_EQ(job.wait(), kExitSaved) << job.err();
  EXPECT_EQ(count(job.out(), "saved at "), 2) << job.out();
}

// Scripts start a job again that has ended with 75.
TEST(Preempted, ARanksOwn75IsNoSaving) {
  const Line exits = {"-n", "2", "sh", "-c", "test $RANK = 0 || exit 75; exec sleep 300"};
  struct Case {
    Line options;
    int exit_code;
  };
  for (const Case& one : {Case{{}, 75}, Case{{"--preempt"}, 1}, Case{{"--preempt-usr2"}, 1}}) {
    Line line = {tests::program("dlrun")};
    line.insert(line.end(), one.options.begin(), one.options.end());
    line.insert(line.end(), exits.begin(), exits.end());
    tests::Process job(line);
    EXPECT_EQ(job.wait(), one.exit_code) << job.err();
    EXPECT_THAT(job.err(), HasSubstr(") ended with exit code 75 after"));
    const auto sentence = HasSubstr("dlrun counts this 75 as 1");
    EXPECT_EQ(testing::Value(job.err(), sentence), one.exit_code == 1) << job.err();
  }
}

}  // namespace
}  // namespace dl
