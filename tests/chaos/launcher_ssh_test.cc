// Jobs of --hosts, on hosts with a real sshd.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <fstream>
#include <map>
#include <sstream>

#include "core/base/system/process/process_stat.h"
#include "core/base/version.h"
#include "launcher/remote/frames/messages.h"
#include "tests/dist/mpi_programs.h"
#include "tests/support/bad_programs.h"
#include "tests/support/gate.h"
#include "tests/support/process.h"
#include "tests/support/rank_input.h"
#include "tests/support/read_file.h"
#include "tests/support/ssh_hosts.h"
#include "tests/support/temp_dir.h"

namespace dl {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::MatchesRegex;
using testing::Not;

class Ssh : public testing::Test {
 protected:
  // dlrun on the frontend's machine.
  static std::unique_ptr<tests::Process> dlrun(const tests::SshHosts& hosts,
                                               const std::vector<std::string>& options,
                                               const std::vector<std::string>& program) {
    std::vector<std::string> line = {tests::program("dlrun"), "--ssh", hosts.ssh()};
    line.insert(line.end(), options.begin(), options.end());
    line.insert(line.end(), program.begin(), program.end());
    return std::make_unique<tests::Process>(hosts.from_front(line));
  }
  static std::vector<std::string> sh(const std::string& script) { return {"sh", "-c", script}; }

  // But that dlrun waits for hosts, which it says after 5 s: this machine may be busy.
  static std::string what_it_says(const tests::Process& job) {
    std::istringstream lines(job.err());
    std::string said;
    for (std::string line; std::getline(lines, line);) {
      if (!line.starts_with("dlrun: waiting for ")) said += line + "\n";
    }
    return said;
  }

  static bool gone(const tests::Process& job, std::chrono::milliseconds limit = tests::kPatience) {
    return tests::eventually(limit, [&] { return tests::processes_with(job.mark()).empty(); });
  }
};

TEST_F(Ssh, RanksOfAllHostsAreOneJob) {
  DL_NEED_SSH_HOSTS();
  const tests::SshHosts hosts(3);
  const tests::TempDir here;
  const auto job =
      dlrun(hosts, {"--wdir", here.path(), "-x", "COLOUR=dark blue", "--hosts", "a:2,b,c:2"},
            sh("echo $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE "
               "$GROUP_RANK/$GROUP_WORLD_SIZE $MASTER_ADDR $COLOUR $(pwd)"));
  EXPECT_EQ(job->wait(), 0) << job->err();
  const std::string rest = " " + hosts.address(1) + " dark blue " + here.path() + "\n";
  for (const std::string line :
       {"[rank 0] 0/5 0/2 0/3", "[rank 1] 1/5 1/2 0/3", "[rank 2] 2/5 0/1 1/3",
        "[rank 3] 3/5 0/2 2/3", "[rank 4] 4/5 1/2 2/3"}) {
    EXPECT_THAT(job->out(), HasSubstr(line + rest));
  }
  EXPECT_EQ(what_it_says(*job), "");
  EXPECT_TRUE(gone(*job));
}

TEST_F(Ssh, RankByNodeCountsOverTheHostsForRanksPrefixesAndLogs) {
  DL_NEED_SSH_HOSTS();
  const tests::SshHosts hosts(2);
  const tests::TempDir logs;
  const auto job = dlrun(hosts,
                         {"--rank-by", "node", "--hosts", "a:2,b:3", "--log-dir", logs.path(),
                          "--log-line-prefix-template", "[${rank} is ${local_rank}] "},
                         sh("echo $RANK/$WORLD_SIZE $LOCAL_RANK of $GROUP_RANK"));
  EXPECT_EQ(job->wait(), 0) << job->err();
  for (const std::string line :
       {"[0 is 0] 0/5 0 of 0\n", "[2 is 1] 2/5 1 of 0\n", "[1 is 0] 1/5 0 of 1\n",
        "[3 is 1] 3/5 1 of 1\n", "[4 is 2] 4/5 2 of 1\n"}) {
    EXPECT_THAT(job->out(), HasSubstr(line));
    std::ifstream log(logs.path() + "/latest/attempt_0/" + line.substr(1, 1) + "/stdout.log");
    std::string kept;
    std::getline(log, kept);
    EXPECT_EQ(kept + "\n", line.substr(line.find("] ") + 2));
  }
}

TEST_F(Ssh, AProgramOfOpenMpiIsOneMpiJobOnAllHosts) {
  DL_NEED_SSH_HOSTS();
  const std::string program = tests::mpi_program("mpi_sum", "openmpi");
  DL_NEED_PROGRAM(program, "Open MPI (libopenmpi-dev)");
  DL_NEED_PROGRAM(tests::program("dlrun-pmix"), "PMIx (libpmix-dev)");
  const tests::SshHosts hosts(2);
  const auto job = dlrun(hosts, {"--hosts", "a:2,b"}, {program});
  EXPECT_EQ(job->wait(), 0) << job->err();
  for (const char* rank : {"0", "1", "2"}) {
    EXPECT_THAT(job->out(), HasSubstr(std::string("rank ") + rank + " of 3: sum 6\n"));
  }
  EXPECT_EQ(what_it_says(*job), "");
  EXPECT_TRUE(gone(*job));
}

TEST_F(Ssh, WithOnFailureKeepTheRanksOfAllHostsLiveOn) {
  DL_NEED_SSH_HOSTS();
  const tests::SshHosts hosts(2);
  for (const std::string where : {"a:3", "a:1,b:2"}) {
    for (const bool end_well : {true, false}) {
      const tests::Gate gate;
      const auto job = dlrun(
          hosts, {"--on-failure=keep", "--hosts", where},
          sh("test $RANK = 1 && exit 3; " + gate.wait() + (end_well ? "echo finished" : "exit 5")));
      ASSERT_TRUE(job->wait_for_err("; 2 ranks go on (--on-failure keep)\n")) << job->err();
      EXPECT_THAT(what_it_says(*job),
                  MatchesRegex("dlrun: host [ab]: rank 1 \\(node [01], [^\n]*\n"));
      gate.open();
      EXPECT_EQ(job->wait(), end_well ? 0 : 3);
      EXPECT_THAT(job->err(), HasSubstr(end_well ? "the job went on without rank 1, which failed; "
                                                   "ranks 0 and 2 ended with exit code 0\n"
                                                 : " ended with exit code 3 after "));
      EXPECT_TRUE(gone(*job));
    }
  }
}

TEST_F(Ssh, HostsWithIpv6AloneAreOneJob) {
  DL_NEED_SSH_HOSTS();
  const tests::SshHosts hosts(2, {.ipv6_only = true});
  const auto job =
      dlrun(hosts, {"--hosts", "a,b"}, {tests::program("../tests/group_probe"), "throw", "-1"});
  EXPECT_EQ(job->wait(), 0) << job->err();
}

TEST_F(Ssh, TheFirstCauseIsShownOnceWithItsExitCode) {
  DL_NEED_SSH_HOSTS();
  const tests::SshHosts hosts(2);
  const auto job = dlrun(hosts, {"--grace", "1", "--hosts", "a:2,b:2"},
                         sh("test $RANK = 2 && { echo why >&2; exit 7; }; exec sleep 300"));
  EXPECT_EQ(job->wait(), 7);
  EXPECT_THAT(job->err(),
              AllOf(HasSubstr("dlrun: rank 2 (node 1, host b, pid "),
                    HasSubstr(" ended with exit code 7"), HasSubstr("dlrun:     | why")));
  const std::string err = job->err();
  EXPECT_EQ(err.find("exit code 7"), err.rfind("exit code 7")) << err;
  EXPECT_TRUE(gone(*job));
}

TEST_F(Ssh, NothingIsLeftAfterCtrlCOrSigkillOfTheFrontend) {
  DL_NEED_SSH_HOSTS();
  const tests::SshHosts hosts(2);
  for (const int signal : {SIGINT, SIGKILL}) {
    const auto job = dlrun(hosts, {"--grace", "1", "--hosts", "a:2,b:2"},
                           sh("trap '' INT HUP; echo ready; sleep 300 & setsid sleep 300"));
    for (int rank = 0; rank < 4; ++rank) {
      ASSERT_TRUE(job->wait_for_out("[rank " + std::to_string(rank) + "] ready")) << job->err();
    }
    job->signal(signal);
    EXPECT_EQ(job->wait(), 128 + signal) << job->err();
    EXPECT_TRUE(gone(*job)) << signal;
  }
}

TEST_F(Ssh, ASignalThatIsForwardedReachesTheRanksOfAllHosts) {
  DL_NEED_SSH_HOSTS();
  const tests::SshHosts hosts(2);
  const auto job =
      dlrun(hosts, {"--forward-signals", "USR1,34", "--hosts", "a,b"},
            sh("trap 'echo saved; exit 0' USR1; echo ready; while :; do sleep 0.02; done"));
  ASSERT_TRUE(job->wait_for_out("[rank 0] ready") && job->wait_for_out("[rank 1] ready"));
  job->signal(SIGUSR1);
  EXPECT_EQ(job->wait(), 0) << job->err();
  EXPECT_THAT(job->out(), AllOf(HasSubstr("[rank 0] saved\n"), HasSubstr("[rank 1] saved\n")));
}

TEST_F(Ssh, AnAgentOrAnSshThatDiesEndsTheJobAndIsNamed) {
  DL_NEED_SSH_HOSTS();
  const tests::SshHosts hosts(2);
  for (const std::string victim : {"ssh", "dlrun"}) {
    const auto job = dlrun(hosts, {"--hosts", "a:2,b:2"}, sh("echo ready; exec sleep 300"));
    for (int rank = 0; rank < 4; ++rank) {
      ASSERT_TRUE(job->wait_for_out("[rank " + std::to_string(rank) + "] ready")) << job->err();
    }
    for (const pid_t pid : tests::processes_with(job->mark())) {
      if (pid == job->pid() || tests::name_of(pid) != victim) continue;
      ::kill(pid, SIGKILL);
      break;
    }
    EXPECT_EQ(job->wait(), 1) << job->err();
    EXPECT_THAT(job->err(), HasSubstr("lost"));
    EXPECT_TRUE(gone(*job)) << victim;
  }
}

TEST_F(Ssh, ARequestToSaveReachesTheRanksOfAllHosts) {
  DL_NEED_SSH_HOSTS();
  const tests::SshHosts hosts(2);
  const auto job = dlrun(hosts, {"--preempt", "--hosts", "a,b"},
                         {tests::program("../tests/checkpoint_rank"), "100000000"});
  ASSERT_TRUE(job->wait_for_out("[rank 0] up") && job->wait_for_out("[rank 1] up")) << job->err();
  job->signal(SIGTERM);
  EXPECT_EQ(job->wait(), 75) << job->err();
  const int saved = tests::number_after("[rank 0] saved at ", job->out());
  EXPECT_GT(saved, 0) << job->out();
  EXPECT_THAT(job->out(), HasSubstr("[rank 1] saved at " + std::to_string(saved) + "\n"));
}

// Restarts (docs/guides/restarts.md).

TEST_F(Ssh, ARankThatFailsBeginsAllAgainOnAllHosts) {
  DL_NEED_SSH_HOSTS();
  const tests::SshHosts hosts(2);
  const tests::TempDir logs;
  const auto job =
      dlrun(hosts, {"--hosts", "a:2,b:2", "--max-restarts", "2", "--log-dir", logs.path()},
            sh("echo attempt $TORCHELASTIC_RESTART_COUNT rank $RANK of $WORLD_SIZE; "
               "test $TORCHELASTIC_RESTART_COUNT = 2 && exit 0; "
               "test $RANK = 3 && exit $((40 + TORCHELASTIC_RESTART_COUNT)); "
               "sleep 300 & setsid sleep 300"));
  EXPECT_EQ(job->wait(), 0) << job->err();
  for (int rank = 0; rank < 4; ++rank) {
    const std::string number = std::to_string(rank);
    for (const std::string attempt : {"0", "1", "2"}) {
      const std::string line = "attempt " + attempt + " rank " + number + " of 4\n";
      // A rank of the first attempts may have been ended before it printed its line.
      if (attempt != "2" && rank != 3) continue;
      EXPECT_THAT(job->out(), HasSubstr("[rank " + number + "] " + line));
      std::ifstream kept(logs.path() + "/latest/attempt_" + attempt + "/" + number + "/stdout.log");
      EXPECT_EQ(std::string(std::istreambuf_iterator<char>(kept), {}), line);
    }
  }
  const std::string err = job->err();
  for (const std::string once :
       {"rank 3 (node 1, host b, pid ", "ended with exit code 40 ", "ended with exit code 41 ",
        "restart 1 of 2: all ranks begin again\n", "restart 2 of 2: all ranks begin again\n"}) {
    EXPECT_THAT(err, HasSubstr(once));
  }
  EXPECT_EQ(err.find("exit code 40"), err.rfind("exit code 40")) << err;
  EXPECT_TRUE(gone(*job));
}

TEST_F(Ssh, TheReportSaysHowEarlierAttemptsEnded) {
  DL_NEED_SSH_HOSTS();
  const tests::SshHosts hosts(2);
  const auto job =
      dlrun(hosts, {"--hosts", "a,b", "--max-restarts", "1", "--grace", "1"},
            sh("test $TORCHELASTIC_RESTART_COUNT = 1 && { echo again; exec sleep 300; }; "
               "test $RANK = 1 && exit 7; exec sleep 300"));
  ASSERT_TRUE(job->wait_for_out("[rank 0] again") && job->wait_for_out("[rank 1] again"))
      << job->err();
  job->signal(SIGUSR1);
  EXPECT_TRUE(job->wait_for_err("attempt 1, which began ")) << job->err();
  EXPECT_THAT(job->err(), testing::ContainsRegex("attempt 0 ended [0-9.]+ s ago: rank 1 .node 1, "
                                                 "host b, pid [0-9]+. ended with exit code 7"));
  job->signal(SIGTERM);
  EXPECT_EQ(job->wait(), 143);
}

// dlrun's own processes on a host are not restarted: the job ends, and says what was lost.
TEST_F(Ssh, ALostAgentSupervisorOrWardenEndsTheJobDespiteRestarts) {
  DL_NEED_SSH_HOSTS();
  const tests::SshHosts hosts(2);
  for (const auto& [victim, sentence] : std::map<std::string, std::string>{
           {"dlrun", "was lost: "},
           {"ssh", "was lost: "},
           {"rank-supervisor", "node . .host [ab].: the supervisor was killed by signal 9"},
           {"rank-warden", "node . .host [ab].: the warden was killed by signal 9"}}) {
    const auto job =
        dlrun(hosts, {"--hosts", "a,b", "--max-restarts", "5"}, sh("echo ready; exec sleep 300"));
    ASSERT_TRUE(job->wait_for_out("[rank 0] ready") && job->wait_for_out("[rank 1] ready"))
        << job->err();
    std::vector<pid_t> found;
    for (const pid_t pid : tests::processes_with(job->mark())) {
      if (pid != job->pid() && tests::name_of(pid) == victim) found.push_back(pid);
    }
    // The frontend has an ssh and a dlrun for each host, and a warden of its own, but no
    // supervisor.
    ASSERT_EQ(found.size(), victim == "rank-warden" ? 3U : 2U) << victim;
    ::kill(found.back(), SIGKILL);
    EXPECT_NE(job->wait(), 0) << victim;
    EXPECT_THAT(job->err(), AllOf(ContainsRegex(sentence), Not(HasSubstr("begin again"))))
        << victim;
    EXPECT_EQ(std::ranges::count(job->out(), '\n'), 2) << job->out();
    EXPECT_TRUE(gone(*job)) << victim;
  }
}

TEST_F(Ssh, AFailureIsReportedDespiteAStoppedRendezvousOfANode) {
  DL_NEED_SSH_HOSTS();
  const tests::SshHosts hosts(2);
  const auto job = dlrun(hosts, {"--hosts", "a,b"}, sh("echo ready; exec sleep 300"));
  ASSERT_TRUE(job->wait_for_out("[rank 0] ready") && job->wait_for_out("[rank 1] ready"))
      << job->err();
  int stopped = 0;
  for (const pid_t pid : tests::processes_with(job->mark())) {
    const std::string line = tests::read_file("/proc/" + std::to_string(pid) + "/cmdline");
    if (!line.starts_with("dlrun-rendezvous") || line.find("--listen-fd") != line.npos) continue;
    ::kill(pid, SIGSTOP);
    ++stopped;
  }
  ASSERT_EQ(stopped, 1);
  for (const pid_t pid : tests::processes_with(job->mark())) {
    const std::string path = "/proc/" + std::to_string(pid) + "/environ";
    const std::string environment = '\0' + tests::read_file(path);
    const bool is_rank_0 = environment.find(std::string_view("\0RANK=0\0", 8)) != std::string::npos;
    if (is_rank_0) ::kill(pid, SIGKILL);
  }
  EXPECT_EQ(job->wait(), 137);
  EXPECT_THAT(job->err(), AllOf(HasSubstr("dlrun: rank 0 (node 0, host a, pid "),
                                HasSubstr("host b: dlrun-rendezvous (pid ")));
  EXPECT_TRUE(gone(*job));
}

TEST_F(Ssh, TheFrontsOwnWardenEndsTheJobWhenItDies) {
  DL_NEED_SSH_HOSTS();
  const tests::SshHosts hosts(2);
  const auto job = dlrun(hosts, {"--hosts", "a,b"}, sh("echo ready; exec sleep 300"));
  ASSERT_TRUE(job->wait_for_out("[rank 0] ready") && job->wait_for_out("[rank 1] ready"));
  for (const pid_t pid : tests::processes_with(job->mark())) {
    if (read_stat("/proc/" + std::to_string(pid)).parent == job->pid()) ::kill(pid, SIGKILL);
  }
  EXPECT_EQ(job->wait(), 1);
  EXPECT_THAT(job->err(), HasSubstr("the warden of the processes that reach the hosts is gone"));
  EXPECT_TRUE(gone(*job));
}

// Its warden sees the connection end, and kills it and its ranks.
TEST_F(Ssh, ASecondSignalEndsAJobWithAStoppedAgent) {
  DL_NEED_SSH_HOSTS();
  const tests::SshHosts hosts(1);
  const auto job = dlrun(hosts, {"--hosts", "a:2"}, sh("echo ready; exec sleep 300"));
  ASSERT_TRUE(job->wait_for_out("[rank 0] ready") && job->wait_for_out("[rank 1] ready"))
      << job->err();
  for (const pid_t pid : tests::processes_with(job->mark())) {
    if (pid != job->pid() && tests::name_of(pid) == "dlrun") ::kill(pid, SIGSTOP);
  }
  job->signal(SIGTERM);
  ASSERT_TRUE(job->wait_for_err("dlrun: waiting for host a, whose dlrun has said nothing for "))
      << job->err();
  job->signal(SIGTERM);
  EXPECT_EQ(job->wait(), 143);
  EXPECT_THAT(job->err(), HasSubstr("host a was lost: its dlrun has said nothing for 10 s"));
  EXPECT_TRUE(gone(*job));
}

// Cuts the cable of the frontend, whose hosts still see each other, of the first host, which serves
// the rendezvous, and of the other one. The jobs run beside each other, as a loss shows after 10 s.
TEST_F(Ssh, ACutCableLeavesNothingOnAnyHost) {
  DL_NEED_SSH_HOSTS();
  struct Cut {
    int cable;
    std::unique_ptr<tests::SshHosts> hosts;
    std::unique_ptr<tests::Process> job;
  };
  std::vector<Cut> cuts;
  for (const int cable : {0, 1, 2}) {
    auto hosts = std::make_unique<tests::SshHosts>(2);
    auto job = dlrun(*hosts, {"--hosts", "a,b", "--max-restarts", "3"},
                     sh("setsid sleep 300 & echo ready; exec sleep 300"));
    ASSERT_TRUE(job->wait_for_out("[rank 0] ready") && job->wait_for_out("[rank 1] ready"))
        << job->err();
    cuts.push_back({cable, std::move(hosts), std::move(job)});
  }
  for (const Cut& cut : cuts) cut.hosts->cut(cut.cable);
  for (const Cut& cut : cuts) {
    SCOPED_TRACE(cut.cable);
    EXPECT_EQ(cut.job->wait(), 1);
    // Any host, if the frontend has lost both.
    const std::string host = cut.cable == 0 ? "" : cut.cable == 1 ? "a " : "b ";
    EXPECT_THAT(cut.job->err(), AllOf(HasSubstr("host " + host), HasSubstr(" lost"),
                                      Not(HasSubstr("begin again"))));
    EXPECT_TRUE(gone(*cut.job));
  }
}

TEST_F(Ssh, OutputOfAllRanksComesWholeAndIsKeptOnTheFrontend) {
  DL_NEED_SSH_HOSTS();
  constexpr int kLines = 20'000;
  constexpr int kLong = 20;
  const tests::SshHosts hosts(2);
  const tests::TempDir logs;
  const std::string script =
      "awk -v r=$RANK 'BEGIN{for(i=0;i<" + std::to_string(kLines) +
      ";i++)printf \"%d %d %050d\\n\",r,i,i; s=\"x\"; while(length(s)<150000) s=s s; for(i=0;i<" +
      std::to_string(kLong) + ";i++)print r,i,s}'";
  const auto job = dlrun(hosts, {"--hosts", "a:2,b:2", "--log-dir", logs.path()}, sh(script));
  EXPECT_EQ(job->wait(), 0) << job->err();
  std::map<int, int> next;
  std::istringstream lines(job->out());
  std::map<int, std::string> all;
  for (std::string line; std::getline(lines, line);) {
    int prefix = -1, rank = -1, number = -1;
    ASSERT_EQ(std::sscanf(line.c_str(), "[rank %d] %d %d", &prefix, &rank, &number), 3) << line;
    ASSERT_EQ(prefix, rank);
    ASSERT_EQ(number, next[rank] % kLines);
    ASSERT_EQ(line.size() > 150'000, next[rank] >= kLines);
    ++next[rank];
    all[rank] += line.substr(line.find("] ") + 2) + "\n";
  }
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(next[rank], kLines + kLong);
    std::ostringstream kept;
    kept << std::ifstream(logs.path() + "/latest/attempt_0/" + std::to_string(rank) + "/stdout.log")
                .rdbuf();
    EXPECT_TRUE(kept.str() == all[rank]) << rank;
  }
}

TEST_F(Ssh, StandardInputGoesToRank0AsFarAsItReads) {
  DL_NEED_SSH_HOSTS();
  const tests::SshHosts hosts(2);
  const auto in_shell = [&](const std::string& script) {
    return std::make_unique<tests::Process>(hosts.from_front({"sh", "-c", script}));
  };
  const std::string dlrun =
      tests::program("dlrun") + " --ssh '" + hosts.ssh() + "' --hosts a:2,b:1";
  tests::expect_input_goes_to_rank0(in_shell, dlrun);
  tests::expect_input_may_be_left_unread(in_shell, dlrun);
}

TEST_F(Ssh, FlightRecordersOfAllHostsComeToTheFrontend) {
  DL_NEED_SSH_HOSTS();
  const tests::SshHosts hosts(2);
  const tests::TempDir logs;
  const auto job = dlrun(hosts, {"--hosts", "a:2,b:1", "--log-dir", logs.path()},
                         {tests::program("../tests/group_probe"), "throw", "2"});
  EXPECT_NE(job->wait(), 0);
  EXPECT_THAT(job->err(),
              HasSubstr("the last operations of each rank: dlrun autopsy " + logs.path()));
  tests::Process autopsy({tests::program("dlrun"), "autopsy", logs.path()});
  EXPECT_EQ(autopsy.wait(), 0) << autopsy.err();
  // What ranks 0 and 1 were in when they heard of it is a matter of time.
  EXPECT_THAT(autopsy.out(), AllOf(HasSubstr("rank 2 (b, pid "), HasSubstr("\n0     a:"),
                                   HasSubstr("\n1     a:"), HasSubstr("\n2     b:")));
}

// What a host says in place of an agent's first words: each is one sentence with its name.

TEST_F(Ssh, AHostThatCannotTakePartIsOneSentence) {
  DL_NEED_SSH_HOSTS();
  const tests::SshHosts hosts(2);
  const auto says = [&](const std::vector<std::string>& options, const std::string& sentence) {
    const auto job = dlrun(hosts, options, {"true"});
    EXPECT_NE(job->wait(), 0);
    EXPECT_THAT(job->err(), HasSubstr(sentence));
    EXPECT_EQ(std::ranges::count(what_it_says(*job), '\n'), 1) << job->err();
    EXPECT_TRUE(gone(*job));
  };
  says({"--hosts", "a,nowhere.invalid"}, "host nowhere.invalid: there is no host of this name");
  says({"--hosts", "a,10.77.0.99"}, "host 10.77.0.99: ");
  says({"--hosts", "b," + hosts.address(1), "--wdir", "/no/such/place"},
       "working directory /no/such/place: No such file or directory");
  // No key, and a host that ssh does not know.
  for (const auto& [option, sentence] : std::map<std::string, std::string>{
           {"PubkeyAuthentication=no", "host b: ssh cannot log in without a password"},
           {"UserKnownHostsFile=/dev/null", "host b: ssh does not know the host's key"}}) {
    says({"--ssh", hosts.ssh() + " -o " + option, "--hosts", "b"}, sentence);
  }
}

TEST_F(Ssh, AProgramThatCannotBeExecutedEndsAsOnOneNode) {
  DL_NEED_SSH_HOSTS();
  const tests::SshHosts hosts(2);
  const tests::TempDir folder;
  for (const tests::BadProgram& bad : tests::bad_programs(folder.path())) {
    const auto job = dlrun(hosts, {"--hosts", "a,b"}, {bad.path});
    EXPECT_EQ(job->wait(), bad.exit_code) << bad.sentence;
    EXPECT_THAT(job->err(), HasSubstr(bad.sentence));
  }
}

TEST_F(Ssh, AHostWithoutThisDlrunIsOneSentence) {
  DL_NEED_SSH_HOSTS();
  const tests::TempDir dir;
  std::string hello(launcher::remote::kMagic);
  const auto frame =
      launcher::remote::encode(launcher::remote::Hello{.protocol = 999, .version = "99.1"});
  hello.append(frame.begin(), frame.end());
  std::ofstream(dir.path() + "/hello", std::ios::binary) << hello;
  for (const auto& [command, sentence] : std::map<std::string, std::string>{
           {"echo sh: $SSH_ORIGINAL_COMMAND: not found >&2; exit 127", "host a has no dlrun at "},
           {"exec /no/such/zsh", "ssh ended with exit code 127 before its dlrun answered: "},
           {"echo This account is not available.; exit 1", "its standard output: This account is"},
           {"yes", "host a: no word of dlrun in the first 64 KiB of what came; does its login "},
           {"cat " + dir.path() + "/hello", "host a has dlrun 99.1 (protocol 999) at "},
           {"echo dlrun: unknown option >&2; exit 2", "host a has another version of dlrun at "},
           {"echo oops >&2; exit 3", "before its dlrun answered: oops"}}) {
    const tests::SshHosts hosts(1, {.sshd = "ForceCommand " + command + "\n"});
    const auto job = dlrun(hosts, {"--hosts", "a"}, {"true"});
    EXPECT_EQ(job->wait(), 1);
    EXPECT_THAT(job->err(), HasSubstr(sentence));
    EXPECT_TRUE(gone(*job));
  }
}

TEST_F(Ssh, OutputOfTheLoginShellDoesNoHarm) {
  DL_NEED_SSH_HOSTS();
  const tests::SshHosts hosts(
      1, {.sshd = "ForceCommand echo welcome; echo warning >&2; eval \"$SSH_ORIGINAL_COMMAND\"\n"});
  const auto job = dlrun(hosts, {"--hosts", "a:2"}, sh("echo up $RANK"));
  EXPECT_EQ(job->wait(), 0) << job->err();
  EXPECT_THAT(job->out(), AllOf(HasSubstr("[rank 0] up 0\n"), Not(HasSubstr("welcome"))));
}

}  // namespace
}  // namespace dl
