#include "launcher/process/signal_meaning.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <set>

namespace dl::launcher {
namespace {

// Against signal(7): whatever ends a process by default ends the job.
TEST(SignalMeaning, FollowsTheDefaultAction) {
  const std::set<int> left = {SIGKILL, SIGSTOP, SIGCONT, SIGTTIN,
                              SIGTTOU, SIGCHLD, SIGURG,  SIGWINCH};
  for (int signal = 1; signal <= 64; ++signal) {
    const SignalMeaning wanted = left.contains(signal) ? SignalMeaning::kSystem
                                 : signal == SIGTSTP   ? SignalMeaning::kSuspend
                                 : signal == SIGUSR1   ? SignalMeaning::kReport
                                 : signal == SIGUSR2   ? SignalMeaning::kForward
                                                       : SignalMeaning::kEndJob;
    EXPECT_EQ(meaning_of(signal), wanted) << signal;
  }
}

TEST(SignalMeaning, OnlySignalsOfAPersonCountAsImpatience) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) EXPECT_TRUE(is_of_a_person(signal));
  for (const int signal : {SIGXCPU, SIGALRM, SIGVTALRM, SIGPROF, SIGXFSZ, SIGPIPE}) {
    EXPECT_FALSE(is_of_a_person(signal));
  }
}

}  // namespace
}  // namespace dl::launcher
