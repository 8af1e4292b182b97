// What SIGKILL does not end, and what does not come to its start: said, and no reason to wait for
// ever. The file system that hangs is a FUSE of ours (hung_fs.c), which needs root.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include "tests/support/process.h"
#include "tests/support/temp_dir.h"

namespace dl {
namespace {

using testing::HasSubstr;
using testing::Not;

class HungFileSystem : public testing::Test {
 protected:
  void SetUp() override {
    const bool is_up = tests::eventually(
        [&] { return server_.has_ended() || server_.out().find("ready") != std::string::npos; });
    ASSERT_TRUE(is_up);
    if (server_.has_ended()) GTEST_SKIP() << "no FUSE: mounting one needs root and /dev/fuse";
  }
  // Every wait for the file system ends, and with it what SIGKILL could not end.
  void TearDown() override {
    if (server_.has_ended()) return;
    server_.signal(SIGTERM);
    EXPECT_EQ(server_.wait(), 0);
  }
  std::string file() const { return folder_.path() + "/file"; }
  static std::vector<std::string> dlrun(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), tests::program("dlrun"));
    return arguments;
  }

  tests::TempDir folder_;
  tests::Process server_{{tests::program("../tests/hung_fs"), folder_.path()}};
};

TEST_F(HungFileSystem, HoldsNeitherAJobsEndNorItsStart) {
  // Rank 1 is in the kernel's hands: the shell itself opens the file.
  tests::Process ends(dlrun({"--grace", "0.1", "--nproc-per-node", "2", "sh", "-c",
                             "echo up; test $RANK = 0 && exec sleep 300; : < " + file()}));
  int out[2];
  ASSERT_EQ(::pipe2(out, O_CLOEXEC), 0);
  tests::Process starts(dlrun({"--grace", "0.1", "--nproc-per-node", "2", file()}),
                        {.stdout_fd = out[1]});
  ::close(out[1]);
  ASSERT_TRUE(ends.wait_for_out("[rank 0] up") && ends.wait_for_out("[rank 1] up"));
  ASSERT_TRUE(server_.wait_for_out("open\nopen\n")) << server_.out();
  ends.signal(SIGTERM);
  EXPECT_TRUE(starts.wait_for_err("dlrun: ranks 0-1 are not started yet after 5 s"))
      << starts.err();
  EXPECT_THAT(starts.err(), HasSubstr("executing " + file() + "; does its file system hang?"));
  starts.signal(SIGTERM);

  for (tests::Process* const job : {&ends, &starts}) {
    EXPECT_TRUE(job->wait_for_err("dlrun: not ended within 5 s")) << job->err();
    job->signal(SIGTERM);
    EXPECT_EQ(job->wait(), 128 + SIGTERM);
    EXPECT_THAT(job->err(), HasSubstr("dlrun ends without these, which it could not end:"));
  }
  EXPECT_THAT(ends.err(), testing::ContainsRegex("rank 1, pid [0-9]+: state D \\(uninterrupt"));
  EXPECT_THAT(ends.err(), Not(HasSubstr("rank 0, pid")));
  EXPECT_THAT(starts.err(), HasSubstr("rank 1, which is not started yet"));

  // What dlrun asked the file system before the start holds its output no longer than dlrun.
  char byte;
  pollfd end{out[0], POLLIN, 0};
  EXPECT_EQ(::poll(&end, 1, std::chrono::milliseconds(tests::kPatience).count()), 1);
  EXPECT_EQ(::read(out[0], &byte, 1), 0);
  ::close(out[0]);

  // Once the file system is gone, nothing of the jobs is left.
  server_.signal(SIGTERM);
  EXPECT_EQ(server_.wait(), 0);
  for (const tests::Process* const job : {&ends, &starts}) {
    EXPECT_TRUE(tests::eventually([&] { return tests::processes_with(job->mark()).empty(); }));
  }
}

}  // namespace
}  // namespace dl
