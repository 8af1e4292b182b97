// Subcommands inside an allocation of SLURM, with an srun of the test's own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "core/base/system/process/process_stat.h"
#include "launcher/remote/ask/ask_hosts.h"
#include "tests/launcher/hosts/fake_srun.h"
#include "tests/support/gate.h"
#include "tests/support/program.h"
#include "tests/support/ssh_hosts.h"

namespace dl::launcher {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::UnorderedElementsAre;
using tests::dlrun;
using tests::FakeSrun;
using tests::Process;

TEST(InAnAllocation, TopoShowsAllNodesThroughOneStep) {
  const FakeSrun srun;
  Process page(dlrun({"topo"}), srun.in_allocation("n[1-3]"));
  EXPECT_EQ(page.wait(), 0) << page.err();
  EXPECT_THAT(page.out(), HasSubstr("3 hosts (n1-n3): "));
  EXPECT_THAT(srun.steps(), ElementsAre("n1,n2,n3"));
  Process all(dlrun({"topo", "--json"}), srun.in_allocation("n[1-3]"));
  EXPECT_EQ(all.wait(), 0) << all.err();
  EXPECT_THAT(all.out(), AllOf(HasSubstr("\"n1\""), HasSubstr("\"n2\""), HasSubstr("\"n3\"")));
  Process matrix(dlrun({"topo", "-m"}), srun.in_allocation("n[1-3]"));
  EXPECT_EQ(matrix.wait(), 0) << matrix.err();
  EXPECT_THAT(matrix.out(), HasSubstr("3 hosts (n1-n3):\n"));
  Process picture(dlrun({"topo", "--svg"}), srun.in_allocation("n[1-3]"));
  EXPECT_EQ(picture.wait(), 0) << picture.err();
  EXPECT_THAT(picture.out(), HasSubstr("3 hosts (n1-n3)"));
}

TEST(InAnAllocation, TheWordsAndTheStepDecideWhoIsAsked) {
  const FakeSrun srun;
  struct Case {
    std::vector<std::string> words;
    std::string nodes;
    std::vector<std::string> variables;
    std::vector<std::string> steps;  // that it starts
  };
  for (const Case& one :
       std::vector<Case>{{{"--this-host"}, "n[1-2]", {}, {}},
                         {{"--ssh", "false", "--hosts", "localhost"}, "n[1-2]", {}, {}},
                         {{}, "n1", {"SLURMD_NODENAME=n1"}, {}},
                         {{}, "n[1-2]", {"SLURM_STEP_NUM_TASKS=1", "SLURM_PROCID=0"}, {}},
                         {{}, "n[1-2]", {"DLRUN_JOB_ID=x"}, {}},
                         // The shell that salloc starts on a node.
                         {{},
                          "n[1-2]",
                          {"SLURM_STEP_NUM_TASKS=1", "SLURM_PROCID=0", "SLURM_STEP_ID=4294967290"},
                          {"n1,n2"}},
                         {{}, "n1", {}, {"n1"}},
                         {{}, "n[1-2]", {"SLURMD_NODENAME=n1"}, {"n1,n2"}}}) {
    std::vector<std::string> steps = srun.steps();
    steps.insert(steps.end(), one.steps.begin(), one.steps.end());
    std::vector<std::string> line = {"topo"};
    line.insert(line.end(), one.words.begin(), one.words.end());
    Process topo(dlrun(line), srun.in_allocation(one.nodes, one.variables));
    EXPECT_EQ(topo.wait(), 0) << topo.err();
    EXPECT_EQ(srun.steps(), steps) << testing::PrintToString(line);
  }
  Process both(dlrun({"topo", "--this-host", "--hosts", "a"}), srun.in_allocation("n1"));
  EXPECT_EQ(both.wait(), 2);
  EXPECT_THAT(both.err(), HasSubstr("--this-host leaves out all hosts but this one"));
}

// Without what dlrun says every 5 s, which a slow machine may take.
std::string without_waiting(const std::string& err) {
  std::istringstream lines(err);
  std::string kept;
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("dlrun: waiting for ")) kept += line + "\n";
  }
  return kept;
}

TEST(InAnAllocation, ANodeThatIsDownIsNamedAndTheOthersAnswer) {
  const FakeSrun srun;
  srun.take_down("n2");
  Process topo(dlrun({"topo"}), srun.in_allocation("n[1-3]"));
  EXPECT_EQ(topo.wait(), 1);
  EXPECT_THAT(topo.out(), AllOf(HasSubstr("2 hosts (n1, n3): "), Not(HasSubstr("n2"))));
  EXPECT_EQ(without_waiting(topo.err()),
            "dlrun: host n2: srun ended with exit code 1 before its dlrun answered: srun: error: "
            "Task launch for StepId=7.0 failed on node n2: no connection\n");
  EXPECT_THAT(srun.steps(), UnorderedElementsAre("n1,n2,n3", "n1", "n2", "n3"));
}

TEST(InAnAllocation, AnSrunThatStartsNothingIsNotTriedForever) {
  const FakeSrun srun;
  for (int i = 1; i <= 40; ++i) srun.take_down("n" + std::to_string(i));
  Process ps(dlrun({"ps"}), srun.in_allocation("n[1-40]", {"SLURMD_NODENAME=n1"}));
  EXPECT_EQ(ps.wait(), 1);
  EXPECT_THAT(ps.err(), AllOf(HasSubstr("host n1: srun ended"), HasSubstr("host n40: srun ended")));
  EXPECT_EQ(srun.steps().size(), 1U + 16U);
}

TEST(InAnAllocation, ANodeThatIsNamedTwiceIsAskedOnce) {
  const FakeSrun srun;
  Process topo(dlrun({"topo"}), srun.in_allocation("n[1,1,2]"));
  EXPECT_EQ(topo.wait(), 0) << topo.err();
  EXPECT_THAT(srun.steps(), ElementsAre("n1,n2"));
}

TEST(InAnAllocation, KillSaysThatSomeNodesHaveNotAnswered) {
  const FakeSrun srun;
  srun.take_down("n1");
  Process kill(dlrun({"kill", "foo"}), srun.in_allocation("n[1-2]", {"SLURMD_NODENAME=n1"}));
  EXPECT_EQ(kill.wait(), 1);
  EXPECT_THAT(kill.err(),
              HasSubstr("dlrun: you have no job foo on the hosts that have answered; "));
}

TEST(InAnAllocation, WithoutSrunOneSentenceSaysSo) {
  const tests::TempDir empty;
  Process topo(dlrun({"topo"}), {.environment = {"PATH=" + empty.path(), "SLURM_JOB_ID=7",
                                                 "SLURM_JOB_NODELIST=n[1-2]"}});
  EXPECT_EQ(topo.wait(), 1);
  EXPECT_THAT(topo.err(), AllOf(HasSubstr("srun"), HasSubstr("is SLURM's bin folder in PATH?\n")));
}

TEST(InAnAllocation, AProgramThatIsNoTaskOfDlrunsStepIsRefused) {
  Process task(dlrun({"--as-step-answer"}));
  EXPECT_EQ(task.wait(), 1);
  EXPECT_EQ(task.err(), "dlrun: --as-step-answer is for tasks of srun that dlrun has started\n");
}

TEST(InAnAllocation, AnSrunThatHangsEndsWithDlrun) {
  const FakeSrun srun;
  srun.hang();
  for (const auto& [signal, deaf] :
       {std::pair{SIGINT, false}, std::pair{SIGKILL, false}, std::pair{SIGKILL, true}}) {
    if (deaf) srun.hang_deaf();
    const std::vector<std::string> before = srun.steps();
    Process topo(dlrun({"topo"}), srun.in_allocation("n[1-2]"));
    EXPECT_TRUE(tests::eventually([&] { return srun.steps() != before; }));
    topo.signal(signal);
    EXPECT_EQ(topo.wait(), 128 + signal);
    EXPECT_TRUE(tests::eventually([&] { return tests::processes_with(topo.mark()).empty(); }));
  }
}

// With an srun in PATH, for calls in this process.
class BySrun : public testing::Test {
 protected:
  BySrun() { ::setenv("PATH", (srun_.folder() + ":" + path_).c_str(), 1); }
  ~BySrun() override { ::setenv("PATH", path_.c_str(), 1); }

  std::string path_ = ::getenv("PATH");
  FakeSrun srun_;
};

TEST_F(BySrun, AHungStepIsGivenUp) {
  srun_.hang();
  const auto answers =
      remote::ask_hosts({{"n1", {"ps"}}, {"n2", {"ps"}}},
                        {.ssh = {}, .patience = std::chrono::seconds(1), .by_srun = true});
  EXPECT_THAT(answers.at(0).error, HasSubstr("host n1 has not answered within 1 s"));
  EXPECT_THAT(answers.at(1).error, HasSubstr("host n2 has not answered within 1 s"));
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1) << "its process is not gone";
}

TEST_F(BySrun, ADeafStepIsKilledWithAllOfItsProcesses) {
  srun_.hang_deaf();
  const auto answers =
      remote::ask_hosts({{"n1", {"ps"}}, {"n2", {"ps"}}},
                        {.ssh = {}, .patience = std::chrono::seconds(1), .by_srun = true});
  EXPECT_THAT(answers.at(1).error, HasSubstr("host n2 has not answered within 1 s"));
  EXPECT_THAT(srun_.steps(), ElementsAre("n1,n2"));
  const std::string child = "/proc/" + std::to_string(srun_.deaf_child());
  EXPECT_TRUE(tests::eventually([&] { return !read_stat(child).is_alive(); }));
}

TEST_F(BySrun, ANodeForWhichSrunWaitsTakesNoAnswerFromOthers) {
  srun_.replace_program(tests::program("dlrun"));
  srun_.lose("n2");
  const auto answers =
      remote::ask_hosts({{"n1", {"ps", "--json"}}, {"n2", {"ps", "--json"}}},
                        {.ssh = {}, .patience = std::chrono::seconds(10), .by_srun = true});
  EXPECT_EQ(answers.at(0).error, "");
  EXPECT_THAT(answers.at(0).text, HasSubstr("\"hosts\""));
  EXPECT_THAT(answers.at(1).error, HasSubstr("failed on node n2: no connection"));
}

TEST_F(BySrun, WhatMayNotReachANodeTwiceIsAskedOnce) {
  srun_.take_down("n2");
  srun_.take_down("n3");
  const auto ask = [](bool may_repeat) {
    return remote::ask_hosts({{"n2", {"kill"}}, {"n3", {"kill"}}},
                             {.ssh = {},
                              .patience = std::chrono::seconds(60),
                              .by_srun = true,
                              .may_repeat = may_repeat});
  };
  EXPECT_THAT(ask(false).at(0).error, HasSubstr("host n2: srun ended with exit code 1"));
  EXPECT_THAT(srun_.steps(), ElementsAre("n2,n3"));
  EXPECT_THAT(ask(true).at(1).error, HasSubstr("failed on node n3"));
  EXPECT_THAT(srun_.steps(), UnorderedElementsAre("n2,n3", "n2,n3", "n2", "n3"));
}

// What `dlrun ps --json` shows once there is a job of this name.
json hosts_with_job(const std::string& name, const Process::Options& where) {
  json hosts;
  EXPECT_TRUE(tests::eventually([&] {
    Process ps(dlrun({"ps", "--json"}), where);
    EXPECT_EQ(ps.wait(), 0) << ps.err();
    hosts = json::parse(ps.out()).at("hosts");
    return hosts.dump().find(name) != std::string::npos;
  })) << name;
  return hosts;
}

// The dlrun of a job of salloc is on the login node, and its agents are on the nodes.
TEST(InAnAllocation, PsAndKillAlsoLookHereIfThisIsNoNode) {
  const FakeSrun srun;
  const tests::Gate gate;
  Process job(dlrun({"-n", "1", "--rdzv-id", "of salloc", "sh", "-c", gate.wait()}));
  const json hosts = hosts_with_job("of salloc", srun.in_allocation("n[1-2]"));
  ASSERT_EQ(hosts.size(), 3U);
  EXPECT_EQ(hosts.at(1).at("host"), "n1");
  EXPECT_EQ(hosts.at(2).at("host"), "n2");
  // All three are this machine, so there are three dlruns of this name.
  Process kill(dlrun({"kill", "--all", "of salloc"}), srun.in_allocation("n[1-2]"));
  EXPECT_EQ(kill.wait(), 0) << kill.err();
  EXPECT_THAT(kill.out(), AllOf(HasSubstr(" on n1) "), HasSubstr(" on n2) ")));
  EXPECT_EQ(job.wait(), 143);
}

// The host that the job runs on, a node or the login node, says it.
TEST(InAnAllocation, KillSaysWhichRanksItWaitsFor) {
  const FakeSrun srun;
  srun.take_down("n2");
  for (const bool on_node : {true, false}) {
    if (!on_node) srun.take_down("n1");
    const tests::Gate gate;
    const std::string script = "trap '' TERM; echo ready; " + gate.wait();
    Process job(dlrun({"-n", "1", "--grace", "600", "--rdzv-id", "stays", "sh", "-c", script}));
    ASSERT_TRUE(job.wait_for_out("ready"));
    std::vector<std::string> more;
    if (on_node) more = {"SLURMD_NODENAME=n1"};
    Process kill(dlrun({"kill", "stays"}), srun.in_allocation("n[1-2]", more));
    EXPECT_TRUE(kill.wait_for_err("dlrun: waiting for stays (dlrun ")) << kill.err();
    EXPECT_TRUE(kill.wait_for_err("): rank 0 runs\n")) << kill.err();
    gate.open();
    kill.wait();
    EXPECT_EQ(job.wait(), 143);
  }
}

TEST(InAnAllocation, OnANodePsAndKillSeeTheNodesAlone) {
  const FakeSrun srun;
  const tests::Gate gate;
  Process job(dlrun({"-n", "1", "--rdzv-id", "on a node", "sh", "-c", gate.wait()}));
  const Process::Options on_n1 = srun.in_allocation("n[1-2]", {"SLURMD_NODENAME=n1"});
  EXPECT_EQ(hosts_with_job("on a node", on_n1).size(), 2U);
  // Both are this machine. One of them ends the job, and its host has another name for itself.
  Process kill(dlrun({"kill", "--all", "on a node"}), on_n1);
  EXPECT_EQ(kill.wait(), 0) << kill.err();
  EXPECT_THAT(kill.out(),
              AllOf(HasSubstr(" on n1) "), HasSubstr(" on n2) "), HasSubstr(") has ended, ")));
  EXPECT_EQ(job.wait(), 143);
}

TEST(InAnAllocation, DoctorAsksTheNodesAndTheyMeet) {
  DL_NEED_SSH_HOSTS();
  const tests::SshHosts hosts(2);
  const FakeSrun srun(hosts.ssh());
  std::vector<std::string> line = {"env", "SLURMD_NODENAME=a"};
  for (const std::string& variable : srun.variables("a,b")) line.push_back(variable);
  const std::vector<std::string> doctor = dlrun({"doctor", "--json", "--ranks", "1"});
  line.insert(line.end(), doctor.begin(), doctor.end());
  Process run(hosts.from_front(line));
  run.wait();
  const auto all = json::parse(run.out());
  EXPECT_EQ(all.at("hosts").size(), 2U) << run.err();
  const auto verdict = [&](const std::string& name) {
    for (const auto& check : all.at("between")) {
      if (check.at("name") == name) return check.at("verdict").get<std::string>();
    }
    return "there is no check " + name;
  };
  EXPECT_EQ(verdict("srun to a"), "ok");
  EXPECT_EQ(verdict("dlrun's version on b"), "ok");
  EXPECT_EQ(verdict("clock of b"), "ok");
  EXPECT_EQ(verdict("connection a to b"), "ok") << all.at("between");
  EXPECT_EQ(verdict("connection b to a"), "ok") << all.at("between");
  EXPECT_THAT(srun.steps(), ElementsAre("a,b", "a,b"));
}

}  // namespace
}  // namespace dl::launcher
