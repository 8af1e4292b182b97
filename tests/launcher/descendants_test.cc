#include "launcher/process/descendants.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "core/base/system/unique_fd.h"
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

TEST_F(Descendants, OfAnotherUserStayBecauseThisUserMayNotSignalThem) {
  if (::geteuid() != 0) GTEST_SKIP() << "becoming another user needs root";
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const UniqueFd read_end(ends[0]);
  UniqueFd write_end(ends[1]);
  const pid_t roots = child_that(spin);
  const pid_t nobodys = ::fork();
  if (nobodys == 0) {
    if (::setresuid(65534, 65534, 65534) != 0) ::_exit(1);
    const std::string why = why_it_stays(roots);
    ::_exit(::write(ends[1], why.data(), why.size()) == static_cast<ssize_t>(why.size()) ? 0 : 1);
  }
  write_end.reset();
  int status = -1;
  EXPECT_EQ(::waitpid(nobodys, &status, 0), nobodys);
  EXPECT_EQ(status, 0);
  std::string why(200, '\0');
  why.resize(static_cast<std::size_t>(::read(read_end.get(), why.data(), why.size())));
  EXPECT_EQ(why, "it runs as user 0, and user 65534 may not signal it");
  EXPECT_EQ(why_it_stays(roots).find("may not"), std::string::npos);  // root may
  end(roots);
}

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
  EXPECT_TRUE(kill_descendants(rendezvous::Deadline::after(std::chrono::minutes(1))));
  EXPECT_TRUE(living_descendants().empty());
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1);
}

// A supervisor that waits for its children, and what it has started: they have the same names if
// the test is a rank of a dlrun.
TEST_F(Descendants, OfTheSupervisorAreTheRanksProcesses) {
  EXPECT_TRUE(processes_of_ranks().empty());
  const pid_t beside = child_that(spin);
  const pid_t supervisor = child_that([] {
    ::prctl(PR_SET_NAME, kSupervisorName);
    child_that([] {});  // it has ended, and is not reaped
    ::waitpid(child_that([] { ::waitpid(child_that(spin), nullptr, 0); }), nullptr, 0);
  });
  std::vector<pid_t> found;
  EXPECT_TRUE(tests::eventually([&] {
    found = processes_of_ranks();
    return found.size() == 2 && tests::state_of(found[0]) == 'S';
  }));
  EXPECT_FALSE(std::ranges::count(found, beside) + std::ranges::count(found, supervisor));
  end(beside);
  end(supervisor);
  for (const pid_t pid : found) ::kill(pid, SIGKILL);
}

}  // namespace
}  // namespace dl::launcher
