// Every signal to dlrun, before its ranks start, while they run, and while they end.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <string_view>

#include "tests/support/free_port.h"
#include "tests/support/gate.h"
#include "tests/support/process.h"
#include "tests/support/temp_dir.h"

namespace dl {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using tests::dlrun;

// The signals whose default action ends a process, by signal(7), but for SIGKILL, which cannot be
// caught. glibc hides two of the real-time ones.
std::vector<int> ending_signals() {
  std::vector<int> signals = {SIGHUP,  SIGINT,  SIGQUIT, SIGILL,    SIGTRAP, SIGABRT,   SIGBUS,
                              SIGFPE,  SIGSEGV, SIGPIPE, SIGALRM,   SIGTERM, SIGSTKFLT, SIGXCPU,
                              SIGXFSZ, SIGPROF, SIGPOLL, SIGVTALRM, SIGPWR,  SIGSYS};
  for (int signal = 32; signal <= SIGRTMAX; ++signal) signals.push_back(signal);
  return signals;
}

std::vector<std::string> shell(const std::string& script) {
  return dlrun({"sh", "-c", script});
}

// dlrun has seen everything that was sent before.
bool answers(const tests::Process& run) {
  // A rank may be heard of before the supervisor's word that it is started.
  const auto answered = [&] {
    const std::string err = run.err();
    std::size_t count = 0;
    for (const std::string_view text : {"the kernel says:\n", "being started\n"}) {
      for (std::size_t at = 0; (at = err.find(text, at)) != std::string::npos; ++at) ++count;
    }
    return count;
  };
  const std::size_t before = answered();
  run.signal(SIGUSR1);
  return tests::eventually([&] { return answered() > before; });
}

TEST(Signal, ThatEndsAProcessEndsTheJobInOrder) {
  constexpr std::size_t kAtOnce = 8;
  const std::vector<int> signals = ending_signals();
  for (std::size_t i = 0; i < signals.size(); i += kAtOnce) {
    const std::size_t end = std::min(i + kAtOnce, signals.size());
    std::vector<std::unique_ptr<tests::Process>> jobs;
    for (std::size_t at = i; at < end; ++at) {
      jobs.push_back(std::make_unique<tests::Process>(
          shell("trap 'echo tidied; exit 0' INT TERM; echo ready; while :; do sleep 0.02; done")));
    }
    for (std::size_t at = i; at < end; ++at) {
      ASSERT_TRUE(jobs[at - i]->wait_for_out("ready\n"));
      jobs[at - i]->signal(signals[at]);
    }
    for (std::size_t at = i; at < end; ++at) {
      tests::Process& job = *jobs[at - i];
      EXPECT_EQ(job.wait(), 128 + signals[at]);
      EXPECT_THAT(job.err(), HasSubstr("dlrun: stopped by ")) << signals[at];
      EXPECT_THAT(job.out(), HasSubstr("tidied\n")) << signals[at];
      EXPECT_THAT(tests::processes_with(job.mark()), IsEmpty()) << signals[at];
    }
  }
}

TEST(Signal, ThatDoesNothingToAProcessDoesNothingToTheJob) {
  tests::Process run(shell("echo ready; exec sleep 300"));
  ASSERT_TRUE(run.wait_for_out("ready\n"));
  for (const int signal : {SIGCHLD, SIGURG, SIGWINCH, SIGCONT}) run.signal(signal);
  EXPECT_TRUE(answers(run));
  for (const int signal : {SIGTTIN, SIGTTOU, SIGSTOP}) {
    run.signal(signal);
    // The terminal's two stop signals have no effect in an orphaned process group (setsid, nohup).
    if (signal == SIGSTOP) {
      EXPECT_TRUE(tests::eventually([&] { return tests::state_of(run.pid()) == 'T'; }));
    }
    run.signal(SIGCONT);
    EXPECT_TRUE(answers(run));
  }
  EXPECT_FALSE(run.has_ended());
  run.signal(SIGTERM);
  EXPECT_EQ(run.wait(), 128 + SIGTERM);
}

TEST(Signal, Usr2GoesToTheRanks) {
  tests::Process run(dlrun({"--nproc-per-node", "2", "sh", "-c",
                            "trap 'echo saved' USR2; echo ready; while :; do sleep 0.02; done"}));
  ASSERT_TRUE(run.wait_for_out("[rank 0] ready") && run.wait_for_out("[rank 1] ready"));
  run.signal(SIGUSR2);
  EXPECT_TRUE(run.wait_for_out("[rank 0] saved") && run.wait_for_out("[rank 1] saved"));
  EXPECT_TRUE(answers(run));
  run.signal(SIGTERM);
  EXPECT_EQ(run.wait(), 128 + SIGTERM);
}

TEST(Signal, Usr1GoesToTheRanksIfItIsForwarded) {
  tests::Process run(dlrun({"--nproc-per-node", "2", "--forward-signals", "USR1,ALRM", "sh", "-c",
                            "trap 'echo saved' USR1; trap 'echo woken' ALRM; echo ready; "
                            "while :; do sleep 0.02; done"}));
  ASSERT_TRUE(run.wait_for_out("[rank 0] ready") && run.wait_for_out("[rank 1] ready"));
  run.signal(SIGUSR1);
  EXPECT_TRUE(run.wait_for_out("[rank 0] saved") && run.wait_for_out("[rank 1] saved"));
  run.signal(SIGALRM);
  EXPECT_TRUE(run.wait_for_out("[rank 0] woken") && run.wait_for_out("[rank 1] woken"));
  EXPECT_FALSE(run.has_ended());
  run.signal(SIGTERM);
  EXPECT_EQ(run.wait(), 128 + SIGTERM);
  EXPECT_THAT(run.err(), testing::Not(HasSubstr("the kernel says")));
}

// SLURM sends the same signals, but this one came from dlrun.
TEST(Signal, ThatDlrunPassedOnIsNotBlamedOnSlurm) {
  for (const int signal : {SIGUSR1, SIGUSR2}) {
    tests::Process run(dlrun({"--standalone", "-n", "2", "--forward-signals", "USR1", "sh", "-c",
                              "echo ready; exec sleep 300"}),
                       {.environment = {"SLURM_JOB_ID=1"}});
    ASSERT_TRUE(run.wait_for_out("[rank 0] ready") && run.wait_for_out("[rank 1] ready"));
    run.signal(signal);
    EXPECT_EQ(run.wait(), 128 + signal);
    EXPECT_THAT(run.err(), testing::Not(HasSubstr("which SLURM sends"))) << run.err();
    EXPECT_THAT(run.err(),
                HasSubstr("dlrun passed this signal on, and the rank does not handle it"));
  }
}

TEST(Signal, Usr1IsHarmlessFromTheStart) {
  tests::Process run(
      {"sh", "-c", "sleep 0.02 & exec " + tests::program("dlrun") + " sh -c 'sleep 0.1; exit 0'"});
  // Before it has become dlrun, it is a process like any other.
  ASSERT_TRUE(tests::eventually([&] { return tests::name_of(run.pid()) == "dlrun"; }));
  const auto holds_it = [&] {
    std::ifstream status("/proc/" + std::to_string(run.pid()) + "/status");
    for (std::string line; std::getline(status, line);) {
      if (line.starts_with("SigBlk:"))
        return (std::stoull(line.substr(8), nullptr, 16) >> 9 & 1) == 1;
    }
    return run.has_ended();
  };
  ASSERT_TRUE(tests::eventually(holds_it));
  run.signal(SIGUSR1);
  EXPECT_EQ(run.wait(), 0) << run.err();
}

TEST(Signal, WhileTheNodesAreWaitedForEndsTheJobInOrder) {
  const tests::TempDir home;
  std::vector<std::unique_ptr<tests::Process>> jobs;
  const std::vector<int> signals = {SIGTERM, SIGALRM, SIGSEGV, SIGRTMAX};
  for (std::size_t i = 0; i < signals.size(); ++i) {
    jobs.push_back(std::make_unique<tests::Process>(
        dlrun({"--nnodes", "2", "--node-rank", "1", "--rdzv-endpoint",
               "127.0.0.1:" + std::to_string(tests::free_port()), "true"}),
        tests::Process::Options{.environment = {"HOME=" + home.path()}}));
  }
  for (std::size_t i = 0; i < signals.size(); ++i) {
    tests::Process& job = *jobs[i];
    ASSERT_TRUE(tests::eventually([&] {
      return std::ranges::any_of(tests::processes_with(job.mark()), [](pid_t pid) {
        return tests::name_of(pid).starts_with("dlrun-rendezvou");
      });
    }));
    job.signal(SIGUSR2);
    job.signal(SIGWINCH);
    job.signal(signals[i]);
    EXPECT_EQ(job.wait(), 128 + signals[i]) << job.err();
    EXPECT_THAT(job.err(), HasSubstr("dlrun: stopped by SIG"));
    EXPECT_THAT(tests::processes_with(job.mark()), IsEmpty());
  }
}

// Only a person's second signal is impatience: limits and timers repeat themselves.
TEST(Signal, WhileTheRanksEndKillsThemOnlyIfAPersonSentIt) {
  const auto probe =
      dlrun({"--grace", "300", tests::program("../tests/launcher_probe"), "stubborn"});
  std::vector<std::unique_ptr<tests::Process>> jobs;
  const std::vector<int> persons = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
  for (std::size_t i = 0; i < persons.size(); ++i) {
    jobs.push_back(std::make_unique<tests::Process>(probe));
  }
  for (std::size_t i = 0; i < persons.size(); ++i) {
    tests::Process& job = *jobs[i];
    ASSERT_TRUE(job.wait_for_out("ready"));
    job.signal(SIGINT);
    ASSERT_TRUE(job.wait_for_out("got it"));
    if (i == 0) {
      for (const int signal : ending_signals()) {
        if (std::ranges::find(persons, signal) == persons.end()) job.signal(signal);
      }
      EXPECT_TRUE(answers(job));
    }
    EXPECT_FALSE(job.has_ended());
    job.signal(persons[i]);
    EXPECT_EQ(job.wait(), 128 + SIGINT);
  }
}

// `state`: 0 for any.
std::vector<pid_t> children_in(pid_t parent, char state) {
  std::ifstream list("/proc/" + std::to_string(parent) + "/task/" + std::to_string(parent) +
                     "/children");
  std::vector<pid_t> found;
  for (pid_t pid = 0; list >> pid;) {
    if (state == 0 || tests::state_of(pid) == state) found.push_back(pid);
  }
  return found;
}

// Children that dlrun has not started: those of the shell that it replaces.
TEST(Signal, OfTheEndOfAForeignChildReapsIt) {
  tests::Process run({"sh", "-c",
                      "true & sleep 300 & sleep 300 & exec " + tests::program("dlrun") +
                          " sh -c 'echo ready; exec sleep 300'"});
  ASSERT_TRUE(run.wait_for_out("ready\n"));
  EXPECT_TRUE(tests::eventually([&] { return children_in(run.pid(), 'Z').empty(); }));
  int killed = 0;
  for (const pid_t pid : children_in(run.pid(), 0)) {
    if (tests::name_of(pid) != "sleep") continue;
    ++killed;
    ::kill(pid, SIGKILL);
    EXPECT_TRUE(tests::eventually([&] { return tests::state_of(pid) == '\0'; }));
  }
  EXPECT_EQ(killed, 2);
  EXPECT_FALSE(run.has_ended());
  run.signal(SIGTERM);
  EXPECT_EQ(run.wait(), 128 + SIGTERM);
}

TEST(Signal, AsProcess1OrphansOfOtherProgramsAreReaped) {
  const tests::TempDir folder;
  const std::string ready = folder.path() + "/ready";
  tests::Process run({"unshare", "--pid", "--fork", "--mount-proc", "--kill-child",
                      tests::program("dlrun"), "sh", "-c", "echo up > " + ready + "; sleep 300"});
  const bool is_up =
      tests::eventually([&] { return run.has_ended() || std::ifstream(ready).peek() == 'u'; });
  ASSERT_TRUE(is_up);
  if (run.has_ended()) GTEST_SKIP() << "no namespace of processes: " << run.err();
  const std::vector<pid_t> children = children_in(run.pid(), 0);
  ASSERT_EQ(children.size(), 1U);
  const std::string one = std::to_string(children.front());  // process 1 in there
  // A probe whose child outlives it and then ends.
  tests::Process probe({"nsenter", "--target", one, "--pid", "--mount", "sh", "-c",
                        "sleep 0.01 & sleep 0.02 & exit 0"});
  EXPECT_EQ(probe.wait(), 0) << probe.err();
  EXPECT_TRUE(tests::eventually([&] {
    tests::Process count({"nsenter", "--target", one, "--pid", "--mount", "sh", "-c",
                          "cat /proc/[0-9]*/stat | grep -c '(sleep) [SZ] 1 '"});
    count.wait();
    return count.out() == "0\n";
  }));
}

TEST(Signal, ThatWasIgnoredStaysIgnored) {
  tests::Process run({"sh", "-c",
                      "trap '' HUP INT QUIT ALRM USR2 TSTP; exec " + tests::program("dlrun") +
                          " sh -c 'echo ready; exec sleep 300'"});
  ASSERT_TRUE(run.wait_for_out("ready\n"));
  for (const int signal : {SIGHUP, SIGINT, SIGQUIT, SIGALRM, SIGUSR2, SIGTSTP}) run.signal(signal);
  EXPECT_TRUE(answers(run));
  EXPECT_NE(tests::state_of(run.pid()), 'T');
  run.signal(SIGTERM);
  EXPECT_EQ(run.wait(), 128 + SIGTERM);
  EXPECT_THAT(run.err(), HasSubstr("dlrun: stopped by SIGTERM"));
}

}  // namespace
}  // namespace dl
