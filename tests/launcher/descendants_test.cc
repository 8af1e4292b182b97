#include "launcher/process/descendants.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "tests/support/process.h"

namespace dl::launcher {
namespace {

pid_t child_that(void (*does)()) {
  const pid_t child = ::fork();
  if (child != 0) return child;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  does();
  ::_exit(0);
}

void spin() {
  for (volatile bool goes_on = true; goes_on;) {
  }
}

void end(pid_t child) {
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

class Descendants : public testing::Test {
 protected:
  void SetUp() override {
    while (::waitpid(-1, nullptr, 0) > 0) {  // what an earlier test has killed and not waited for
    }
  }
};

TEST_F(Descendants, ThatHaveEndedAndAreNotReapedYetAreEnding) {
  EXPECT_FALSE(is_ending(::getpid()));
  const pid_t child = child_that([] {});
  siginfo_t about{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(child), &about, WEXITED | WNOWAIT), 0);
  EXPECT_TRUE(is_ending(child));
  ::waitpid(child, nullptr, 0);
  EXPECT_TRUE(is_ending(child)) << "there is no such process";
}

TEST_F(Descendants, AreKilledWithTheirOrphansWithinADeadline) {
  // One that takes no SIGTERM, and one whose parent dies first.
  const pid_t stubborn = child_that([] {
    ::signal(SIGTERM, SIG_IGN);
    spin();
  });
  become_subreaper();
  child_that([] { child_that(spin); });
  const std::vector<std::string> left = living_descendants();
  EXPECT_TRUE(std::ranges::any_of(left, [&](const std::string& one) {
    return one.starts_with(std::to_string(stubborn) + " (");
  }));
  EXPECT_TRUE(kill_descendants(Deadline::after(std::chrono::minutes(1))));
  EXPECT_TRUE(living_descendants().empty());
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1);
}

TEST_F(Descendants, RunWhereOneOfThemWantsAProcessor) {
  EXPECT_FALSE(a_descendant_runs());
  const pid_t spinning = child_that(spin);
  EXPECT_TRUE(a_descendant_runs());
  end(spinning);
  const pid_t stopped = child_that([] { ::raise(SIGSTOP); });
  int status = 0;
  ASSERT_EQ(::waitpid(stopped, &status, WUNTRACED), stopped);
  EXPECT_FALSE(a_descendant_runs());
  end(stopped);
  const pid_t waiting = child_that([] { ::waitpid(child_that(spin), nullptr, 0); });
  EXPECT_TRUE(tests::eventually([&] { return tests::state_of(waiting) == 'S'; }));
  EXPECT_TRUE(a_descendant_runs());
  end(waiting);
}

}  // namespace
}  // namespace dl::launcher
