// What ranks that end with 0 leave behind: it is named and waited for, and what has to be ended is
// said.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>

#include "tests/support/gate.h"
#include "tests/support/process.h"
#include "tests/support/temp_dir.h"

namespace dl {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using tests::dlrun;

class Linger : public testing::Test {
 protected:
  // A rank that leaves a shell in a session of its own, and ends with 0 once that has begun.
  std::vector<std::string> job(std::vector<std::string> options, const std::string& script,
                               const std::string& environment = "") const {
    options.insert(options.end(),
                   {"sh", "-c",
                    "begun=" + folder_.path() + "/$DLRUN_JOB_ID.$RANK; " + environment +
                        " setsid sh -c 'echo left pid $$; : > $1; " + script +
                        "' sh $begun & while ! test -e $begun; do sleep 0.01; done; exit 0"});
    return dlrun(options);
  }

  tests::TempDir folder_;
};

bool is_named(const tests::Process& run) {
  return run.wait_for_err(" still run");
}

TEST_F(Linger, ProcessesLeftBehindAreNamedAndWaitedFor) {
  const tests::Gate gate;
  // The time is that of --grace, if no other is given.
  tests::Process run(job({"--grace", "300", "-n", "2"},
                         gate.wait() + "echo late; : > " + folder_.path() + "/$RANK"));
  ASSERT_TRUE(is_named(run)) << run.err();
  EXPECT_THAT(run.err(),
              ContainsRegex("dlrun: ranks 0-1 have ended; their processes [^\n]* still "
                            "run; dlrun waits for them, 300 s at most \\(--linger\\)\n"));
  const int pid = tests::number_after("[rank 1] left pid ", run.out());
  EXPECT_THAT(run.err(), HasSubstr(" " + std::to_string(pid) + " (sh)"));
  EXPECT_FALSE(run.has_ended());
  gate.open();
  EXPECT_EQ(run.wait(), 0);
  EXPECT_TRUE(std::filesystem::exists(folder_.path() + "/0"));
  EXPECT_TRUE(std::filesystem::exists(folder_.path() + "/1"));
  EXPECT_THAT(run.out(), HasSubstr("[rank 1] late\n"));
  EXPECT_EQ(std::ranges::count(run.err(), '\n'), 1) << run.err();
}

TEST_F(Linger, ProcessesThatOutlastTheirTimeAreEndedAndNamed) {
  for (const char* time : {"0.1", "0"}) {
    tests::Process run(job({"--linger", time}, "trap \"\" TERM; while :; do sleep 300; done"));
    EXPECT_EQ(run.wait(), 0);
    EXPECT_THAT(tests::processes_with(run.mark()), IsEmpty());
    const int pid = tests::number_after("left pid ", run.out());
    EXPECT_THAT(run.err(), HasSubstr(" " + std::to_string(pid) + " (sh)"));
    EXPECT_THAT(run.err(), ContainsRegex("dlrun: process[^\n]*, which rank 0 left behind, "));
    EXPECT_THAT(run.err(), HasSubstr(std::string(" ended after ") + time +
                                     " s; --linger SECONDS waits longer\n"));
  }
}

// Its session, its process group and its parents say nothing of its rank.
TEST_F(Linger, ARanksProcessWithoutItsEnvironmentIsNamed) {
  tests::Process run(job({"--linger", "0"}, "exec sleep 300", "env -i"));
  EXPECT_EQ(run.wait(), 0);
  EXPECT_THAT(run.err(), ContainsRegex("dlrun: process [0-9]+ \\((sh|sleep)\\), which the ranks "
                                       "left behind, is ended after 0 s"));
}

TEST_F(Linger, ASignalEndsTheWaitAtOnce) {
  // The rank of the second process is that of its parent.
  tests::Process run(job({"--linger", "300"}, "env -i setsid sleep 300; :"));
  ASSERT_TRUE(is_named(run)) << run.err();
  EXPECT_THAT(run.err(), ContainsRegex("dlrun: rank 0 has ended; its processes [0-9]+ \\(sh\\), "
                                       "[0-9]+ \\(sleep\\) still run; "));
  run.signal(SIGINT);
  EXPECT_EQ(run.wait(), 130);
  EXPECT_THAT(tests::processes_with(run.mark()), IsEmpty());
  EXPECT_THAT(run.err(), HasSubstr("(sleep), which rank 0 left behind, are ended\n"));
  EXPECT_THAT(run.err(), HasSubstr("dlrun: stopped by SIGINT after"));
}

TEST_F(Linger, CtrlZStopsWhatIsLeftAndTheReportNamesIt) {
  // What is left starts nothing: a shell that is about to execute a program waits for it, and the
  // kernel stops neither of the two in that moment if the program's process is stopped first.
  const std::string fifo = folder_.path() + "/fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  std::fstream gate(fifo);  // for reading too, so that no open() waits
  tests::Process run(job({"--linger", "300"}, "read -r line < " + fifo));
  ASSERT_TRUE(is_named(run)) << run.err();
  const pid_t left = tests::number_after("left pid ", run.out());
  run.signal(SIGUSR1);
  EXPECT_TRUE(run.wait_for_err("dlrun: no rank runs\ndlrun: rank 0 has ended; its process"));
  run.signal(SIGTSTP);
  EXPECT_TRUE(tests::eventually(
      [&] { return tests::state_of(run.pid()) == 'T' && tests::state_of(left) == 'T'; }));
  run.signal(SIGCONT);
  gate << "go on" << std::endl;
  EXPECT_EQ(run.wait(), 0) << run.err();
  EXPECT_THAT(run.err(), Not(HasSubstr("left behind")));
}

TEST_F(Linger, NothingStaysIfOneOfDlrunsProcessesIsKilled) {
  const std::string victims[] = {"dlrun", "rank-warden", "rank-supervisor"};
  const int codes[] = {137, 1, 1};  // dlrun says that a part of it is gone
  std::vector<std::unique_ptr<tests::Process>> runs;
  for ([[maybe_unused]] const std::string& victim : victims) {
    runs.push_back(std::make_unique<tests::Process>(
        job({"--linger", "300"}, "trap \"\" TERM; while :; do sleep 300; done")));
  }
  for (std::size_t i = 0; i < runs.size(); ++i) {
    tests::Process& run = *runs[i];
    ASSERT_TRUE(is_named(run)) << run.err();
    const std::vector<pid_t> all = tests::processes_with(run.mark());
    const auto found = std::ranges::find(all, victims[i], tests::name_of);
    ASSERT_NE(found, all.end()) << victims[i];
    ::kill(*found, SIGKILL);
    EXPECT_EQ(run.wait(), codes[i]) << victims[i];
    EXPECT_TRUE(tests::eventually([&] { return tests::processes_with(run.mark()).empty(); }));
  }
}

}  // namespace
}  // namespace dl
