// Promise P4: nothing is left behind, for every process of the job that may be killed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <fstream>

#include "tests/support/process.h"

namespace dl {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

// A rank with everything that is hard to find again: a child in the background, one in a session of
// its own, one orphaned twice, and one that ignores SIGTERM.
constexpr const char* kFamily =
    "sleep 300 & setsid sleep 300 & (setsid sh -c 'sleep 300 & sleep 300' &); "
    "(trap '' TERM HUP INT; sleep 300 & sleep 300) & echo ready pid $$; wait";
constexpr std::size_t kFamilySize = 8;  // with the rank itself

pid_t find(const tests::Process& job, const std::string& name) {
  for (const pid_t pid : tests::processes_with(job.mark())) {
    if (tests::name_of(pid) == name) return pid;
  }
  ADD_FAILURE() << "no process " << name;
  return -1;
}

bool is_ready(const tests::Process& job) {
  return tests::eventually(
      [&] { return tests::processes_with(job.mark()).size() >= 2 * kFamilySize + 3; });
}

// It takes milliseconds, though the limit is for loaded machines.
bool all_gone(const tests::Process& job, std::chrono::milliseconds limit = tests::kPatience) {
  return tests::eventually(limit, [&] { return tests::processes_with(job.mark()).empty(); });
}

std::vector<std::string> family_job() {
  return {tests::program("dlrun"), "--nproc-per-node", "2", "sh", "-c", kFamily};
}

TEST(Kill, OfDlrunLeavesNothing) {
  tests::Process job(family_job());
  ASSERT_TRUE(is_ready(job)) << job.err();
  job.signal(SIGKILL);
  EXPECT_TRUE(all_gone(job));
}

TEST(Kill, OfEverythingNamedDlrunReachesNeitherSupervisorNorWarden) {
  tests::Process job(family_job());
  ASSERT_TRUE(is_ready(job)) << job.err();
  // What killall and pkill -f look at.
  for (const char* name : {"rank-supervisor", "rank-warden"}) {
    const pid_t pid = find(job, name);
    std::ifstream file("/proc/" + std::to_string(pid) + "/cmdline", std::ios::binary);
    const std::string line{std::istreambuf_iterator<char>(file), {}};
    EXPECT_EQ(line.find("dlrun"), std::string::npos) << line;
  }
}

TEST(Kill, OfTheSupervisorLeavesNothingAndIsSaid) {
  tests::Process job(family_job());
  ASSERT_TRUE(is_ready(job)) << job.err();
  ::kill(find(job, "rank-supervisor"), SIGKILL);
  EXPECT_TRUE(all_gone(job));
  EXPECT_EQ(job.wait(), 1);
  EXPECT_THAT(job.err(), HasSubstr("the supervisor was killed by signal 9 (SIGKILL)"));
}

TEST(Kill, OfASupervisorThatSweepsLeavesNothingAndIsSaid) {
  // The rank has ended, and what it has left behind has work to do, which the supervisor waits for.
  tests::Process job({tests::program("dlrun"), "sh", "-c",
                      "setsid sh -c 'trap \"\" TERM; echo ready pid $$; while :; do :; done' & "
                      "exit 0"});
  ASSERT_TRUE(job.wait_for_out("ready pid "));
  const pid_t left = tests::number_after("pid ", job.out());
  ::kill(find(job, "rank-supervisor"), SIGKILL);
  EXPECT_EQ(job.wait(), 1);
  EXPECT_EQ(tests::state_of(left), '\0');
  EXPECT_TRUE(all_gone(job));
  EXPECT_THAT(job.err(), HasSubstr("the supervisor was killed by signal 9 (SIGKILL)"));
}

TEST(Kill, OfTheWardenEndsTheJobAndIsSaid) {
  tests::Process job(family_job());
  ASSERT_TRUE(is_ready(job)) << job.err();
  ::kill(find(job, "rank-warden"), SIGKILL);
  EXPECT_EQ(job.wait(), 1);
  EXPECT_TRUE(all_gone(job));
  EXPECT_THAT(
      job.err(),
      HasSubstr("dlrun: the warden was killed by signal 9 (SIGKILL); all ranks were ended"));
}

TEST(Kill, OfTheWardenIsSeenBySupervisorAndDlrunEachByItself) {
  for (const char* asleep : {"dlrun", "rank-supervisor"}) {
    tests::Process job(family_job());
    ASSERT_TRUE(is_ready(job)) << job.err();
    const pid_t sleeper = find(job, asleep);
    const pid_t rank = tests::number_after("pid ", job.out());
    ::kill(sleeper, SIGSTOP);
    ::kill(find(job, "rank-warden"), SIGKILL);
    if (asleep == std::string("dlrun")) {
      // The supervisor ends what is below it without having been asked.
      EXPECT_TRUE(tests::eventually([&] { return tests::state_of(rank) == '\0'; }));
      EXPECT_TRUE(tests::eventually([&] { return tests::processes_with(job.mark()).size() == 2; }));
    }
    ::kill(sleeper, SIGCONT);
    EXPECT_EQ(job.wait(), 1);
    EXPECT_THAT(job.err(), HasSubstr("the warden was killed by signal 9")) << asleep;
    EXPECT_TRUE(all_gone(job));
  }
}

TEST(Kill, OfTwoOfDlrunSupervisorAndWardenInSequenceLeavesNothing) {
  const std::vector<std::string> names = {"dlrun", "rank-supervisor", "rank-warden"};
  for (const std::string& first : names) {
    for (const std::string& second : names) {
      if (first == second) continue;
      tests::Process job(family_job());
      ASSERT_TRUE(is_ready(job)) << job.err();
      const pid_t pids[] = {find(job, first), find(job, second)};
      for (const pid_t pid : pids) ::kill(pid, SIGSTOP);  // neither acts before both are dead
      for (const pid_t pid : pids) ::kill(pid, SIGKILL);
      EXPECT_TRUE(all_gone(job)) << first << ", " << second;
    }
  }
}

TEST(Kill, OfTheWardenAndLaterOfBothOthersLeavesNothing) {
  tests::Process job(family_job());
  ASSERT_TRUE(is_ready(job)) << job.err();
  const pid_t supervisor = find(job, "rank-supervisor");
  ::kill(find(job, "rank-warden"), SIGKILL);
  ASSERT_TRUE(tests::eventually([&] { return tests::processes_with(job.mark()).size() <= 2; }));
  job.signal(SIGKILL);
  ::kill(supervisor, SIGKILL);
  EXPECT_TRUE(all_gone(job));
}

TEST(Kill, OfDlrunIsSeenByTheWardenWhenTheSupervisorIsStopped) {
  tests::Process job(family_job());
  ASSERT_TRUE(is_ready(job)) << job.err();
  ::kill(find(job, "rank-supervisor"), SIGSTOP);
  job.signal(SIGKILL);
  EXPECT_TRUE(all_gone(job));
}

TEST(Kill, OfTheSupervisorIsSaidWhenTheWardenIsStopped) {
  tests::Process job(family_job());
  ASSERT_TRUE(is_ready(job)) << job.err();
  const pid_t warden = find(job, "rank-warden");
  ::kill(warden, SIGSTOP);
  ::kill(find(job, "rank-supervisor"), SIGKILL);
  EXPECT_EQ(job.wait(), 1);
  EXPECT_THAT(job.err(), HasSubstr("the supervisor was killed by signal 9 (SIGKILL)"));
  EXPECT_TRUE(all_gone(job));
}

TEST(Kill, OfAJobWithAStoppedSupervisorNamesAndContinuesIt) {
  for (const char* const stopped : {"rank-supervisor", "rank-warden"}) {
    tests::Process job({tests::program("dlrun"), "sh", "-c", "echo ready; exec sleep 300"});
    ASSERT_TRUE(job.wait_for_out("ready"));
    const pid_t pid = find(job, stopped);
    ::kill(pid, SIGSTOP);
    // On a loaded machine it takes a while until the process stands still.
    ASSERT_TRUE(tests::eventually([&] { return tests::state_of(pid) == 'T'; }));
    job.signal(SIGTERM);
    EXPECT_EQ(job.wait(), 143);
    EXPECT_THAT(job.err(), HasSubstr(" is stopped and cannot end the ranks; dlrun continues it"));
    EXPECT_THAT(job.err(), Not(HasSubstr("dlrun ends without these"))) << stopped;
    EXPECT_TRUE(all_gone(job)) << stopped;
  }
}

TEST(Kill, OfARankIsNamedAndEndsTheJob) {
  tests::Process job({tests::program("dlrun"), "--nproc-per-node", "2", "sh", "-c",
                      "echo last words >&2; echo pid $RANK $$; exec sleep 300"});
  ASSERT_TRUE(job.wait_for_out("pid 0 ") && job.wait_for_out("pid 1 "));
  const pid_t victim = tests::number_after("pid 1 ", job.out());
  const std::string pid = std::to_string(victim);
  ASSERT_GT(victim, 0);
  ::kill(victim, SIGKILL);
  EXPECT_EQ(job.wait(), 137);
  EXPECT_TRUE(all_gone(job));
  EXPECT_THAT(job.err(), HasSubstr("dlrun: rank 1 (node 0, host "));
  EXPECT_THAT(job.err(), HasSubstr("pid " + pid + ") was killed by signal 9 (SIGKILL) after"));
  EXPECT_THAT(job.err(), HasSubstr("| last words"));
  EXPECT_THAT(job.err(), HasSubstr("the others: rank 0: ended by dlrun with SIGTERM"));
}

TEST(Kill, ChildrenOfRanksEndWithTheJob) {
  tests::Process job({tests::program("dlrun"), "--nproc-per-node", "2", "--linger", "0", "sh", "-c",
                      "sleep 300 & setsid sleep 300 & true"});
  EXPECT_EQ(job.wait(), 0);
  EXPECT_THAT(tests::processes_with(job.mark()), IsEmpty());
}

}  // namespace
}  // namespace dl
