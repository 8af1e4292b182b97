// dlrun on a terminal: rank 0's unfinished line stays last, everything else scrolls above it.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "core/base/system/unique_fd.h"
#include "tests/support/gate.h"
#include "tests/support/process.h"
#include "tests/support/temp_dir.h"

namespace dl {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::Not;

// What a person at an 80-column terminal would have on the screen is the end of text().
class Terminal : public testing::Test {
 protected:
  void SetUp() override {
    int screen, line;
    winsize size{};
    size.ws_row = 24;
    size.ws_col = 80;
    ASSERT_EQ(::openpty(&screen, &line, nullptr, nullptr, &size), 0);
    screen_.reset(screen);
    line_.reset(line);
    ::fcntl(screen, F_SETFD, FD_CLOEXEC);
    ::fcntl(line, F_SETFD, FD_CLOEXEC);
    ::fcntl(screen, F_SETFL, O_NONBLOCK);
    termios raw{};
    ::tcgetattr(line, &raw);
    raw.c_oflag &= ~static_cast<tcflag_t>(OPOST);  // `\n` stays `\n`
    ::tcsetattr(line, TCSANOW, &raw);
  }

  std::unique_ptr<tests::Process> start(const std::vector<std::string>& options,
                                        const std::string& script) {
    std::vector<std::string> line = {tests::program("dlrun")};
    line.insert(line.end(), options.begin(), options.end());
    line.insert(line.end(), {"sh", "-c", script});
    return std::make_unique<tests::Process>(
        line, tests::Process::Options{.stdout_fd = line_.get(), .stderr_fd = line_.get()});
  }

  // So far: the kernel brings what was written to the other end by a thread of its own.
  const std::string& text() {
    char part[4096];
    for (ssize_t n; (n = ::read(screen_.get(), part, sizeof part)) > 0;) {
      text_.append(part, static_cast<std::size_t>(n));
    }
    return text_;
  }
  void type(const std::string& keys) const {
    EXPECT_EQ(::write(screen_.get(), keys.data(), keys.size()), static_cast<ssize_t>(keys.size()));
  }
  bool shows(const std::string& wanted) {
    return tests::eventually([&] { return text().find(wanted) != std::string::npos; });
  }

  UniqueFd screen_;
  UniqueFd line_;
  std::string text_;
};

TEST_F(Terminal, RankZerosProgressStaysBelowTheOthersLines) {
  const tests::TempDir folder;
  const std::string go = folder.path() + "/go";
  const auto job = start({"--nproc-per-node", "2"},
                         "if test $RANK = 0; then printf 'step 1\\r'; "
                         "while ! test -e " +
                             go +
                             "; do sleep 0.01; done; "
                             "printf 'step 2\\r'; printf 'done\\n'; "
                             "else while ! test -e " +
                             go + "1; do sleep 0.01; done; echo line; fi");
  ASSERT_TRUE(shows("[rank 0] step 1")) << text();
  {
    UniqueFd made(::open((go + "1").c_str(), O_CREAT | O_WRONLY, 0600));
  }
  EXPECT_TRUE(shows("\r\x1b[K[rank 1] line\n[rank 0] step 1")) << text();
  {
    UniqueFd made(::open(go.c_str(), O_CREAT | O_WRONLY, 0600));
  }
  EXPECT_EQ(job->wait(), 0);
  EXPECT_TRUE(shows("\r\x1b[K[rank 0] done\n")) << text();
  EXPECT_TRUE(text().ends_with("[rank 0] done\n")) << text();
}

TEST_F(Terminal, RankZeroIsToldTheWidthBesideItsPrefix) {
  const auto job = start({"--nproc-per-node", "2"}, "echo \"width <$DLRUN_PROGRESS_WIDTH>\"");
  EXPECT_EQ(job->wait(), 0);
  EXPECT_TRUE(shows("[rank 0] width <70>\n")) << text();  // 80 - 1 - 9
  EXPECT_TRUE(shows("[rank 1] width <>\n")) << text();
}

TEST_F(Terminal, AProgressLineThatIsTooLongIsCutNotWrapped) {
  const tests::Gate gate;
  const auto job = start({}, "printf '%0100d\\r' 7; " + gate.wait());
  EXPECT_TRUE(shows("[rank 0] " + std::string(70, '0')));
  EXPECT_THAT(text(), Not(HasSubstr(std::string(71, '0'))));
  gate.open();
  EXPECT_EQ(job->wait(), 0);
}

// As in a container or below an editor: the terminal has no size until one is set.
TEST_F(Terminal, APromptOnATerminalWithoutASizeIsShown) {
  const winsize none{};
  ::ioctl(line_.get(), TIOCSWINSZ, &none);
  const tests::Gate gate;
  const auto job = start({}, "printf 'your name, please? '; " + gate.wait());
  EXPECT_TRUE(shows("[rank 0] your name, please? ")) << text();
  gate.open();
  EXPECT_EQ(job->wait(), 0);
}

TEST_F(Terminal, OverwrittenTextOfOtherRanksShowsItsLastState) {
  const auto job =
      start({"--nproc-per-node", "2"}, "test $RANK = 0 || printf '1 %%\\r2 %%\\rready\\n'");
  EXPECT_EQ(job->wait(), 0);
  EXPECT_TRUE(shows("[rank 1] ready\n")) << text();
  EXPECT_THAT(text(), Not(HasSubstr("2 %")));
}

// Ctrl-D ends the input of the attempt that reads, and not that of the next one; Ctrl-C ends the
// job.
TEST_F(Terminal, RankZeroReadsTheTerminalInEachAttempt) {
  tests::Process job({"setsid", "--ctty", tests::program("dlrun"), "--nproc-per-node", "2",
                      "--max-restarts", "1", "sh", "-c",
                      "n=$TORCHELASTIC_RESTART_COUNT; test $RANK = 0 || exec sleep 300; cat; "
                      "echo end $n; test $n = 1 || exit 3; exec sleep 300"},
                     tests::Process::Options{.stdin_fd = line_.get()});
  type("one\n\x04");
  ASSERT_TRUE(job.wait_for_err("restart 1 of 1")) << job.out() << job.err();
  type("two\n\x04");
  ASSERT_TRUE(job.wait_for_out("[rank 0] end 1\n")) << job.out() << job.err();
  EXPECT_EQ(job.out(), "[rank 0] one\n[rank 0] end 0\n[rank 0] two\n[rank 0] end 1\n");
  type("\x03");
  EXPECT_EQ(job.wait(), 128 + SIGINT) << job.err();
  EXPECT_THAT(job.err(), HasSubstr("dlrun: stopped by SIGINT"));
}

TEST_F(Terminal, TheReportComesLastAndOnALineOfItsOwn) {
  const tests::Gate gate;
  const auto job =
      start({"--nproc-per-node", "2"},
            "test $RANK = 1 && { " + gate.wait() + "exit 3; }; printf 'step 1\\r'; exec sleep 300");
  EXPECT_TRUE(shows("step 1"));
  gate.open();
  EXPECT_EQ(job->wait(), 3);
  EXPECT_TRUE(shows("\ndlrun: rank 1 (node 0")) << text();
}

}  // namespace
}  // namespace dl
