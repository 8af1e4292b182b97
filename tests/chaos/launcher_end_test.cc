// How a job ends: exit codes, the first cause, signals, bad input.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <set>

#include "core/base/system/unique_fd.h"
#include "tests/support/bad_programs.h"
#include "tests/support/gate.h"
#include "tests/support/process.h"
#include "tests/support/temp_dir.h"

namespace dl {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using tests::dlrun;

std::vector<std::string> shell(int ranks, const std::string& script,
                               std::vector<std::string> options = {}) {
  options.insert(options.end(), {"--nproc-per-node", std::to_string(ranks), "sh", "-c", script});
  return dlrun(options);
}

std::vector<std::string> probe(int ranks, const std::vector<std::string>& what,
                               std::vector<std::string> options = {}) {
  options.insert(options.end(), {"--nproc-per-node", std::to_string(ranks),
                                 tests::program("../tests/launcher_probe")});
  options.insert(options.end(), what.begin(), what.end());
  return dlrun(options);
}

TEST(End, AllRanksWellIsExitCode0) {
  tests::Process job(shell(3, "exit 0"));
  EXPECT_EQ(job.wait(), 0);
  EXPECT_EQ(job.out() + job.err(), "");
}

TEST(End, TheCausingRanksExitCodeIsDlruns) {
  tests::Process job(shell(3, "test $RANK = 1 && { echo why >&2; exit 7; }; exec sleep 300"));
  EXPECT_EQ(job.wait(), 7);
  EXPECT_THAT(job.err(), HasSubstr("dlrun: rank 1 (node 0, host "));
  EXPECT_THAT(job.err(), HasSubstr(") ended with exit code 7 after "));
  EXPECT_THAT(job.err(), HasSubstr("dlrun:     | why\n"));
  EXPECT_THAT(job.err(), HasSubstr("the others: ranks 0 and 2: ended by dlrun with SIGTERM"));
}

TEST(End, AFollowerIsNeverNamedFirst) {
  // Rank 1 ends once rank 0 has.
  const tests::TempDir folder;
  const tests::Gate gate;
  tests::Process job(
      shell(2, "cd " + folder.path() + "; echo $$ > $RANK; echo up $$; " + gate.wait() +
                   "test $RANK = 0 && exec " + tests::program("../tests/launcher_probe") +
                   " follow; while kill -0 $(cat 0) 2> /dev/null; do sleep 0.01; done; exit 9"));
  ASSERT_TRUE(tests::end_in_order_while_asleep(job, gate)) << job.out() << job.err();
  EXPECT_EQ(job.wait(), 9);
  EXPECT_THAT(job.err(), HasSubstr("dlrun: rank 1 (node 0"));
  EXPECT_THAT(job.err(), HasSubstr("rank 0: failed because of rank 1 in all_reduce #3"));
}

TEST(End, ARankThatIsEndingIsTheCauseHoweverLongThatTakes) {
  const tests::Gate first, second;
  tests::Process job(shell(2, "echo up $$; if test $RANK = 0; then " + first.wait() + "exec " +
                                  tests::program("../tests/launcher_probe") + " follow; fi; " +
                                  second.wait() + "exit 9"));
  ASSERT_TRUE(job.wait_for_out("[rank 0] up ") && job.wait_for_out("[rank 1] up "));
  const pid_t follower = tests::number_after("[rank 0] up ", job.out());
  const pid_t cause = tests::number_after("[rank 1] up ", job.out());
  const std::vector<pid_t> all = tests::processes_with(job.mark());
  const auto supervisor = std::ranges::find(all, "rank-supervisor", tests::name_of);
  ASSERT_NE(supervisor, all.end());
  const auto becomes = [](pid_t pid, char state) {
    return tests::eventually([=] { return tests::state_of(pid) == state; });
  };
  // dlrun notices the follower's end, but not that of the other process, which has ended for the
  // kernel.
  job.signal(SIGSTOP);
  ASSERT_TRUE(becomes(job.pid(), 'T'));
  first.open();
  ASSERT_TRUE(becomes(follower, '\0') && becomes(*supervisor, 'S'));
  ::kill(*supervisor, SIGSTOP);
  ASSERT_TRUE(becomes(*supervisor, 'T'));
  second.open();
  ASSERT_TRUE(becomes(cause, 'Z'));
  job.signal(SIGCONT);
  // Longer than a follower waits for a rank that runs.
  EXPECT_FALSE(tests::eventually(700ms, [&] { return job.has_ended(); }));
  ::kill(*supervisor, SIGCONT);
  EXPECT_EQ(job.wait(), 9);
  EXPECT_THAT(job.err(), HasSubstr("dlrun: rank 1 (node 0"));
}

TEST(End, AFollowerAloneIsShownWithWhatItSays) {
  tests::Process job(shell(2, "test $RANK = 1 && exec sleep 300; exec " +
                                  tests::program("../tests/launcher_probe") + " follow"));
  EXPECT_EQ(job.wait(), 4);
  EXPECT_THAT(job.err(), HasSubstr("dlrun: rank 1 had not done its part in all_reduce #3 in time "
                                   "and has not ended on its own; rank 0, which waited for it, "
                                   "ended with exit code 4\n"));
  EXPECT_THAT(job.err(), HasSubstr("| rank 1 is gone"));
}

TEST(End, ARankThatIgnoresSigtermEndsAfterTheGrace) {
  const tests::Gate gate;
  const auto begin = Clock::now();
  tests::Process job(shell(2,
                           "test $RANK = 1 && { " + gate.wait() + "exit 3; }; trap '' TERM; " +
                               gate.opener() + "while true; do sleep 0.05; done",
                           {"--grace", "0.4"}));
  EXPECT_EQ(job.wait(), 3);
  EXPECT_GE(Clock::now() - begin, 400ms);
  EXPECT_THAT(job.err(), HasSubstr("rank 0: ended by dlrun with SIGKILL"));
}

TEST(End, ARankMayTidyUpWithinTheGrace) {
  const tests::Gate gate;
  tests::Process job(shell(2, "test $RANK = 1 && { " + gate.wait() +
                                  "exit 3; }; trap 'echo tidied; exit 0' TERM; " + gate.opener() +
                                  "while true; do sleep 0.05; done"));
  EXPECT_EQ(job.wait(), 3);
  EXPECT_THAT(job.out(), HasSubstr("[rank 0] tidied\n"));
}

TEST(End, InterruptOnceIsOrderlyAndTwiceAtOnce) {
  tests::Process job(probe(2, {"stubborn"}, {"--grace", "300"}));
  ASSERT_TRUE(job.wait_for_out("[rank 0] ready") && job.wait_for_out("[rank 1] ready"));
  job.signal(SIGINT);
  ASSERT_TRUE(job.wait_for_out("[rank 0] got it") && job.wait_for_out("[rank 1] got it"));
  EXPECT_FALSE(job.has_ended());
  job.signal(SIGINT);
  EXPECT_EQ(job.wait(), 130);
  EXPECT_THAT(tests::processes_with(job.mark()), IsEmpty());
  EXPECT_THAT(job.err(), HasSubstr("dlrun: stopped by SIGINT after"));
}

TEST(End, TermHangupAndQuitEndTheJob) {
  for (const int signal : {SIGTERM, SIGHUP, SIGQUIT}) {
    tests::Process job(shell(2, "echo ready; exec sleep 300"));
    ASSERT_TRUE(job.wait_for_out("[rank 1] ready"));
    job.signal(signal);
    EXPECT_EQ(job.wait(), 128 + signal);
    EXPECT_THAT(tests::processes_with(job.mark()), IsEmpty());
  }
}

TEST(End, SuspendStopsTheRanksAndContinueLetsThemGoOn) {
  tests::Process job(shell(2, "i=0; while true; do i=$((i+1)); echo tick $i; sleep 0.02; done"));
  ASSERT_TRUE(job.wait_for_out("tick 3"));
  job.signal(SIGTSTP);
  // One process group is a rank's shell and what it has just forked, for a moment a `sh` too.
  const auto ranks_that_stopped = [&] {
    std::set<pid_t> groups;
    for (const pid_t pid : tests::processes_with(job.mark())) {
      if (tests::name_of(pid) == "sh" && tests::state_of(pid) == 'T') groups.insert(::getpgid(pid));
    }
    return groups.size();
  };
  EXPECT_TRUE(tests::eventually(
      [&] { return tests::state_of(job.pid()) == 'T' && ranks_that_stopped() == 2; }));
  job.signal(SIGCONT);
  const std::string before = job.out();
  EXPECT_TRUE(tests::eventually([&] { return job.out().size() > before.size() + 100; }));
  job.signal(SIGTERM);
  EXPECT_EQ(job.wait(), 143);
}

TEST(End, AProgramThatIsNotThereIs127) {
  tests::Process absent(dlrun({"/no/such/program"}));
  EXPECT_EQ(absent.wait(), 127);
  EXPECT_EQ(absent.err(),
            "dlrun: there is no program /no/such/program (No such file or directory)\n");
  tests::Process unknown(dlrun({"no-such-program-anywhere"}));
  EXPECT_EQ(unknown.wait(), 127);
  EXPECT_EQ(
      unknown.err(),
      "dlrun: there is no program no-such-program-anywhere on PATH (No such file or directory)\n");
}

// This machine's own header, with two bytes changed.
std::string elf_for(int machine, int type) {
  std::string head(64, '\0');
  std::ifstream("/proc/self/exe", std::ios::binary).read(head.data(), 64);
  const bool is_little = head[5] == 1;
  const auto put = [&](std::size_t at, int value) {
    head[at + (is_little ? 0 : 1)] = static_cast<char>(value % 256);
    head[at + (is_little ? 1 : 0)] = static_cast<char>(value / 256);
  };
  if (type >= 0) put(16, type);
  if (machine >= 0) put(18, machine);
  return head;
}

TEST(End, AFileThatIsForAnotherMachineIs126AndNoShellSeesIt) {
  constexpr int kS390 = 22, kAarch64 = 183;
  const tests::TempDir folder;
  const std::string foreign = folder.path() + "/interpreter";
  const auto make = [](const std::string& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  };
  const std::string run = "\ntouch " + folder.path() + "/ran\n";  // what a shell would do
  struct Case {
    std::string bytes, said;
  };
  utsname machine{};
  ASSERT_EQ(::uname(&machine), 0);
  const bool is_arm = std::string(machine.machine) == "aarch64";
  const std::string other = is_arm ? "s390x" : "aarch64";
  make(foreign, elf_for(is_arm ? kS390 : kAarch64, -1));
  const std::vector<Case> cases = {
      {elf_for(is_arm ? kS390 : kAarch64, -1) + run,
       "it is an ELF program for " + other + ", and this machine is " + machine.machine},
      {elf_for(-1, 1) + run, "it is an object file that is not linked yet"},
      {elf_for(-1, -1).substr(0, 10) + run, "it is an ELF"},
      {std::string("\xcf\xfa\xed\xfe", 4) + run, "it is a program for macOS (Mach-O)"},
      {"MZ" + run, "it is a program for Windows (PE)"},
      {std::string("PK\x03\x04", 4) + run, "it is a zip or jar archive"},
      {std::string("a\0b", 3) + run, "it is neither a program for this machine nor a text"},
      {"#!" + foreign + run,
       "its interpreter " + foreign + " cannot be executed: it is an ELF program for " + other},
  };
  for (const Case& file : cases) {
    const std::string path = folder.path() + "/program";
    make(path, file.bytes);
    tests::Process job(dlrun({path}));
    EXPECT_EQ(job.wait(), 126) << file.said << "\n" << job.err();
    EXPECT_THAT(job.err(), HasSubstr("dlrun: rank 0 could not be started: exec of " + path +
                                     ": Exec format error: " + file.said));
    EXPECT_FALSE(std::filesystem::exists(folder.path() + "/ran")) << file.said;
  }
  // A script that does not say who runs it is the shell's, as ever.
  const std::string script = folder.path() + "/script";
  make(script, "echo $0 $1");
  tests::Process job(dlrun({script, "x"}));
  EXPECT_EQ(job.wait(), 0) << job.err();
  EXPECT_EQ(job.out(), "[rank 0] " + script + " x\n");
}

// An escape sequence, and a control character of 8 bits.
TEST(End, NoNameRulesTheTerminal) {
  const std::string name =
      "/no\x1b[2J\xc2\x9b"
      "31m\xff";
  for (const std::vector<std::string>& line : {std::vector<std::string>{name},
                                               {"--dry-run", "true", name},
                                               {"-v", "true", name},
                                               {"--dry-run", "--json", "true", name},
                                               {"--dry-run", "--hosts", "a,b", "true", name}}) {
    tests::Process job(dlrun(line));
    job.wait();
    for (const std::string& text : {job.out(), job.err()}) {
      EXPECT_EQ(text.find_first_of("\x1b\x9b\xff"), std::string::npos) << text;
    }
  }
}

TEST(End, AProgramThatCannotBeExecutedIsNamedWithTheSystemsWords) {
  const tests::TempDir folder;
  for (const tests::BadProgram& bad : tests::bad_programs(folder.path())) {
    tests::Process job(dlrun({bad.path}));
    EXPECT_EQ(job.wait(), bad.exit_code) << bad.sentence;
    EXPECT_THAT(job.err(), HasSubstr(bad.sentence));
  }
}

TEST(End, AProgramThatCannotBeExecutedIs126) {
  const tests::TempDir folder;
  const std::string script = folder.path() + "/train.py";
  std::ofstream(script) << "print('hi')\n";
  tests::Process job(dlrun({"--no-python", script}));
  EXPECT_EQ(job.wait(), 126);
  EXPECT_EQ(job.err(), "dlrun: " + script +
                           " cannot be executed: Permission denied; without --no-python it runs "
                           "with python3\n");
  // The shell, which runs scripts without an interpreter, would not make sense of it.
  std::filesystem::permissions(script, std::filesystem::perms::owner_all);
  tests::Process executable(dlrun({"--no-python", script}));
  EXPECT_EQ(executable.wait(), 126);
  EXPECT_THAT(executable.err(), HasSubstr("Exec format error: it has no `#!` line"));
  tests::Process folder_job(dlrun({folder.path()}));
  EXPECT_EQ(folder_job.wait(), 126);
}

TEST(End, AMissingInterpreterIs127AndAScriptWithoutOne126) {
  struct Case {
    const char* text;
    int code;
    const char* why;
  };
  for (const Case& one : {Case{"#!/no/such/interpreter -x\n", 127,
                               ": its interpreter /no/such/interpreter is not "
                               "there\n"},
                          Case{"#!/bin/sh\r\n", 127,
                               ": its interpreter `/bin/sh\\r` is not there: the file's lines end "
                               "in CR LF, as on Windows; `sed -i 's/\\r$//' "},
                          Case{"#!\n", 126, ": its `#!` line names no interpreter\n"},
                          Case{"#! \t\n", 126, ": its `#!` line names no interpreter\n"}}) {
    SCOPED_TRACE(one.text);
    const tests::TempDir folder;
    const std::string script = folder.path() + "/train";
    std::ofstream(script) << one.text;
    std::filesystem::permissions(script, std::filesystem::perms::owner_all);
    tests::Process job(dlrun({"--nproc-per-node", "2", script}));
    EXPECT_EQ(job.wait(), one.code);
    EXPECT_THAT(job.err(), HasSubstr(one.why));
    EXPECT_THAT(tests::processes_with(job.mark()), IsEmpty());
  }
}

// The program is not to blame: 1, as for anything else that dlrun cannot do.
TEST(End, ALimitOfProcessesIsNamedAndIsNot126) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can be another user, who has no processes";
  const tests::TempDir folder;
  std::filesystem::permissions(folder.path(), std::filesystem::perms::all);
  tests::Process job({"setpriv", "--reuid", "54321", "--clear-groups", "prlimit", "--nproc=5:5",
                      "env", "-C", folder.path(), tests::program("dlrun"), "--nproc-per-node", "16",
                      "sleep", "300"});
  EXPECT_EQ(job.wait(), 1);
  EXPECT_THAT(job.err(), HasSubstr("could not be started: clone of "));
  EXPECT_THAT(job.err(), HasSubstr("the limit of this user (ulimit -u) is 5"));
}

// A user who may have one more process has a warden, which can fork no supervisor.
TEST(End, ALimitOfProcessesThatLeavesNoSupervisorIsSaidAtOnce) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can be another user, who has no processes";
  const tests::TempDir folder;
  std::filesystem::permissions(folder.path(), std::filesystem::perms::all);
  for (int most = 1; most <= 4; ++most) {
    const std::string limit = std::to_string(most);
    tests::Process job({"setpriv", "--reuid", "54322", "--clear-groups", "prlimit",
                        "--nproc=" + limit + ":" + limit, "env", "-C", folder.path(),
                        tests::program("dlrun"), "--nproc-per-node", "3", "sleep", "300"});
    EXPECT_EQ(job.wait(), 1) << job.err();
    EXPECT_THAT(job.err(), HasSubstr("the limit of this user (ulimit -u) is " + limit));
    EXPECT_THAT(job.err(), Not(HasSubstr("not started yet")));
  }
}

TEST(End, AScriptWithoutAnInterpreterIsRunByTheShell) {
  const tests::TempDir folder;
  const std::string script = folder.path() + "/train";
  std::ofstream(script) << "echo ran with $1\n";
  std::filesystem::permissions(script, std::filesystem::perms::owner_all);
  tests::Process job(dlrun({script, "x"}));
  EXPECT_EQ(job.wait(), 0);
  EXPECT_EQ(job.out(), "[rank 0] ran with x\n");
}

TEST(End, BadUsageIsExitCode2AndOneSentence) {
  tests::Process job(dlrun({"--nproc-per-node", "0", "true"}));
  EXPECT_EQ(job.wait(), 2);
  EXPECT_EQ(job.err(),
            "dlrun: --nproc-per-node is `0`, wanted a whole number from 1 to 1000000, or gpu, cpu "
            "or auto\n");
}

TEST(End, ALimitThatLeavesRanksNoDescriptorsIsSaid) {
  tests::Process job({"sh", "-c", "ulimit -n 100; " + tests::program("dlrun") + " true"});
  EXPECT_EQ(job.wait(), 1);
  EXPECT_EQ(
      job.err(),
      "dlrun: the limit of open files is 100 (ulimit -n, the hard limit), wanted at least 194 "
      "for 1 rank on this node; root raises it (limits.conf, LimitNOFILE=)\n");
}

TEST(End, ALimitOfOpenFilesIsSaidWhereverTheStartMeetsIt) {
  for (int left = 2; left <= 16; ++left) {
    const std::string taken = std::to_string(400 - left);
    tests::Process job({"bash", "-c",
                        "ulimit -n 400; for ((i = 3; i < " + taken +
                            "; i++)); do eval \"exec $i</dev/null\"; done; exec " +
                            tests::program("dlrun") + " true"});
    EXPECT_EQ(job.wait(), 1) << left;
    EXPECT_THAT(job.err(),
                testing::AllOf(testing::StartsWith("dlrun: "),
                               HasSubstr("the limit (ulimit -n) is 400 and one more is wanted")))
        << left;
  }
}

TEST(End, ALimitOfOpenFilesIsRaisedForDlrunAndKeptForTheRanks) {
  const std::string line = tests::program("dlrun") + " --nproc-per-node 64 sh -c 'ulimit -Sn'";
  // Below the numbers that ranks inherit, and enough for neither dlrun nor its supervisor.
  tests::Process soft({"sh", "-c", "ulimit -Sn 128; " + line});
  EXPECT_EQ(soft.wait(), 0) << soft.err();
  for (int rank = 0; rank < 64; ++rank) {
    EXPECT_THAT(soft.out(), HasSubstr("[rank " + std::to_string(rank) + "] 128\n"));
  }
  tests::Process hard({"sh", "-c", "ulimit -n 256; " + line});
  EXPECT_EQ(hard.wait(), 1);
  EXPECT_EQ(
      hard.err(),
      "dlrun: the limit of open files is 256 (ulimit -n, the hard limit), wanted at least 416 "
      "for 64 ranks on this node; root raises it (limits.conf, LimitNOFILE=)\n");
  EXPECT_EQ(hard.out(), "");
  // What dlrun asks for is enough.
  tests::Process exact({"sh", "-c", "ulimit -n 416; " + line});
  EXPECT_EQ(exact.wait(), 0) << exact.err();
}

TEST(End, ALimitOfFileSizeEndsNoRank) {
  tests::Process job({"sh", "-c", "ulimit -f 64; " + tests::program("dlrun") + " sh -c 'echo up'"});
  EXPECT_EQ(job.wait(), 0) << job.err();
  EXPECT_THAT(job.out(), HasSubstr("up\n"));
  EXPECT_THAT(job.err(), HasSubstr("dlrun: no flight recorders are kept: the limit of a file "));
}

TEST(End, ANeedlessEndpointIsReported) {
  tests::Process job(dlrun({"--rdzv-endpoint", "localhost:1", "echo", "ran"}));
  EXPECT_EQ(job.wait(), 0);
  EXPECT_EQ(job.err(),
            "dlrun: --rdzv-endpoint localhost:1 is not used: a job of one node meets no other\n");
  EXPECT_THAT(job.out(), HasSubstr("ran"));
  // torchrun's own lines say so.
  tests::Process none(dlrun({"--rdzv-endpoint", "localhost:0", "true"}));
  EXPECT_EQ(none.wait(), 0);
  EXPECT_EQ(none.err(), "");
}

TEST(End, ATakenMasterPortIsSaidBeforeAnythingStarts) {
  const UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in here{};
  here.sin_family = AF_INET;
  here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(::bind(fd.get(), reinterpret_cast<sockaddr*>(&here), sizeof here), 0);
  ASSERT_EQ(::listen(fd.get(), 1), 0);
  socklen_t size = sizeof here;
  ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&here), &size);
  const std::string port = std::to_string(ntohs(here.sin_port));
  tests::Process job(dlrun({"--master-port", port, "--nproc-per-node", "2", "echo", "ran"}));
  EXPECT_EQ(job.wait(), 1);
  EXPECT_THAT(job.err(), HasSubstr("dlrun: --master-port " + port + " is taken on "));
  EXPECT_EQ(job.out(), "");
}

TEST(End, TwoJobsOnOneMachineDoNotMeet) {
  const tests::TempDir folder;  // both report here that they run
  const std::string script = "cd " + folder.path() +
                             "; echo at $MASTER_PORT job $DLRUN_JOB_ID; : > $DLRUN_JOB_ID; "
                             "while test $(ls | wc -l) -lt 2; do sleep 0.01; done";
  tests::Process one(shell(2, script));
  tests::Process two(shell(2, script));
  EXPECT_EQ(one.wait(), 0);
  EXPECT_EQ(two.wait(), 0);
  EXPECT_NE(one.out(), two.out());
}

TEST(End, SixtyFourRanks) {
  tests::Process job(shell(64, "echo $RANK of $WORLD_SIZE"));
  EXPECT_EQ(job.wait(), 0);
  for (int rank = 0; rank < 64; ++rank) {
    EXPECT_THAT(job.out(), HasSubstr("[rank " + std::to_string(rank) + "] " + std::to_string(rank) +
                                     " of 64\n"));
  }
}

TEST(End, ARankFindsItsKeyInEitherWay) {
  tests::Process job(probe(2, {"key"}));
  EXPECT_EQ(job.wait(), 0) << job.err();
  EXPECT_THAT(job.out(), HasSubstr("[rank 0] same\n"));
  EXPECT_THAT(job.out(), HasSubstr("[rank 1] same\n"));
}

TEST(End, RanksHaveTheirSignalsAndDescriptorsAsAnyProgram) {
  tests::Process job(
      dlrun({"sh", "-c", "grep -E 'Sig(Ign|Blk)' /proc/self/status; ls /proc/self/fd | sort -n"}));
  EXPECT_EQ(job.wait(), 0) << job.err();
  EXPECT_THAT(job.out(), HasSubstr("SigBlk:\t0000000000000000"));
  // The two above 31 are glibc's own, and as they were.
  EXPECT_THAT(job.out(), testing::ContainsRegex("SigIgn:\t0000000[01][08]0000000\n"));
  EXPECT_THAT(job.out(), HasSubstr("[rank 0] 190\n[rank 0] 191\n"));
  EXPECT_THAT(job.out(), Not(HasSubstr("[rank 0] 192")));
}

}  // namespace
}  // namespace dl
