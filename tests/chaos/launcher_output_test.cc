// Promise P5: no line is torn, lost or late, and each says who wrote it.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>

#include "tests/support/gate.h"
#include "tests/support/process.h"
#include "tests/support/read_file.h"
#include "tests/support/temp_dir.h"

namespace dl {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::Not;
using tests::dlrun;
using tests::read_file;

TEST(Output, GoesWhereItCameFrom) {
  tests::Process job(dlrun({"--nproc-per-node", "2", "sh", "-c", "echo out; echo err >&2"}));
  EXPECT_EQ(job.wait(), 0);
  EXPECT_THAT(job.out(), HasSubstr("[rank 0] out\n"));
  EXPECT_THAT(job.out(), HasSubstr("[rank 1] out\n"));
  EXPECT_THAT(job.err(), HasSubstr("[rank 0] err\n"));
  EXPECT_EQ(job.out().find("err"), std::string::npos);
}

TEST(Output, LongLinesOfSeveralRanksAreNotTorn) {
  // Three lines of 1 MB a rank, written in pieces; a line is right if all its characters are the
  // rank's own. On a loaded machine a line may take longer than dlrun holds its beginning back.
  tests::Process job(
      dlrun({"--nproc-per-node", "4", tests::program("../tests/launcher_probe"), "long-lines"}));
  EXPECT_EQ(job.wait(60s), 0);
  std::map<char, std::size_t> written;
  std::istringstream out(job.out());
  for (std::string line; std::getline(out, line);) {
    const char rank = line.at(6);
    ASSERT_EQ(line.substr(0, 9), std::string("[rank ") + rank + "] ");
    const bool goes_on = line.compare(9, 4, "... ") == 0;
    ASSERT_EQ(goes_on, written[rank] % 1'000'000 != 0);
    const std::size_t begin = goes_on ? 13 : 9;
    ASSERT_EQ(line.find_first_not_of(rank, begin), std::string::npos);
    written[rank] += line.size() - begin;
  }
  const std::size_t all = 3'000'000;
  EXPECT_EQ(written, (std::map<char, std::size_t>{{'0', all}, {'1', all}, {'2', all}, {'3', all}}));
}

TEST(Output, APartOfALineIsShownBeforeItsEnd) {
  const tests::TempDir folder;
  const tests::Gate first, second;
  tests::Process job(dlrun({"--log-dir", folder.path(), "sh", "-c",
                            "printf '10 %%\\r'; " + first.wait() + "printf '20 %%\\r'; " +
                                second.wait() + "printf 'done\\nnext\\n'"}));
  EXPECT_TRUE(job.wait_for_out("[rank 0] 10 %\r"));
  const std::string log = folder.path() + "/latest/attempt_0/0/stdout.log";
  EXPECT_TRUE(tests::eventually([&] { return read_file(log) == "10 %\r"; }));
  first.open();
  EXPECT_TRUE(job.wait_for_out("[rank 0] 10 %\r20 %\r"));
  second.open();
  EXPECT_EQ(job.wait(), 0);
  EXPECT_EQ(job.out(), "[rank 0] 10 %\r20 %\rdone\n[rank 0] next\n");
}

TEST(Output, OfAnotherRankEndsAShownPart) {
  const tests::Gate one, zero;
  tests::Process job(dlrun({"-n", "2", "sh", "-c",
                            "test $RANK = 1 && { " + one.wait() + "echo b; exit; }; printf a; " +
                                zero.wait() + "echo c; printf d"}));
  EXPECT_TRUE(job.wait_for_out("[rank 0] a"));
  one.open();
  EXPECT_TRUE(job.wait_for_out("[rank 1] b\n"));
  zero.open();
  EXPECT_EQ(job.wait(), 0);
  EXPECT_EQ(job.out(), "[rank 0] a\n[rank 1] b\n[rank 0] ... c\n[rank 0] d\n");
}

TEST(Output, OfDlrunItselfEndsAShownPart) {
  tests::Process job(
      {"sh", "-c",
       "exec " + tests::program("dlrun") + " sh -c 'printf \"name? \"; exec sleep 300' 2>&1"});
  EXPECT_TRUE(job.wait_for_out("[rank 0] name? "));
  job.signal(SIGTERM);
  EXPECT_EQ(job.wait(), 143);
  EXPECT_THAT(job.out(), testing::StartsWith("[rank 0] name? \ndlrun: stopped by SIGTERM"));
}

TEST(Output, ASlowReaderLosesNothing) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  ::fcntl(ends[1], F_SETPIPE_SZ, 4096);
  tests::Process job(dlrun({"--nproc-per-node", "3", "sh", "-c", "seq 1 40000"}),
                     {.stdout_fd = ends[1]});
  ::close(ends[1]);
  std::string out;
  std::vector<char> part(8192);
  for (ssize_t n; (n = ::read(ends[0], part.data(), part.size())) > 0;) {
    out.append(part.data(), static_cast<std::size_t>(n));
    if (out.size() % 65536 < 100) std::this_thread::sleep_for(2ms);
  }
  ::close(ends[0]);
  EXPECT_EQ(job.wait(), 0);
  std::map<std::string, int> last;
  std::istringstream lines(out);
  for (std::string word, rank, number; lines >> word >> rank >> number;) {
    ASSERT_EQ(std::stoi(number), ++last[rank]) << word << " " << rank;
  }
  EXPECT_EQ(last, (std::map<std::string, int>{{"0]", 40000}, {"1]", 40000}, {"2]", 40000}}));
}

TEST(Output, DoesNotMakeTheReadersDescriptorNonBlocking) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const tests::Gate gate;
  tests::Process job(dlrun({"sh", "-c", "echo x; " + gate.wait()}), {.stdout_fd = ends[1]});
  char byte;
  ASSERT_EQ(::read(ends[0], &byte, 1), 1);
  EXPECT_EQ(::fcntl(ends[1], F_GETFL) & O_NONBLOCK, 0);
  gate.open();
  EXPECT_EQ(job.wait(), 0);
  ::close(ends[1]);
  ::close(ends[0]);
}

TEST(Output, GoesThroughASocketThatStaysBlocking) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  const int small = 4096;
  ::setsockopt(ends[1], SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
  tests::Process job(dlrun({"--nproc-per-node", "2", "sh", "-c", "seq 1 20000"}),
                     {.stdout_fd = ends[1]});
  const auto unread = [&] {
    int bytes = 0;
    ::ioctl(ends[0], FIONREAD, &bytes);
    return bytes;
  };
  EXPECT_TRUE(tests::eventually([&] { return unread() > 0; }));
  EXPECT_EQ(::fcntl(ends[1], F_GETFL) & O_NONBLOCK, 0);
  ::close(ends[1]);
  std::size_t lines = 0;
  std::vector<char> part(8192);
  for (ssize_t n; (n = ::read(ends[0], part.data(), part.size())) > 0;) {
    lines += static_cast<std::size_t>(std::count(part.begin(), part.begin() + n, '\n'));
  }
  ::close(ends[0]);
  EXPECT_EQ(lines, 40000U);
  EXPECT_EQ(job.wait(), 0);
}

TEST(Output, ClosedStandardStreamsAreNotReusedAsDescriptors) {
  tests::Process job(
      {"sh", "-c", tests::program("dlrun") + " --nproc-per-node 2 sh -c 'echo x >&2' <&- >&-"});
  EXPECT_EQ(job.wait(), 0);
  EXPECT_THAT(job.err(), HasSubstr("[rank 1] x\n"));
}

TEST(Output, AClosedStreamIsAnErrorIfSomethingIsWritten) {
  const std::string line = tests::program("dlrun") + " --nproc-per-node 2 ";
  tests::Process silent({"sh", "-c", line + "true >&-"});
  EXPECT_EQ(silent.wait(), 0) << silent.err();
  tests::Process loud({"sh", "-c", line + "echo hi >&-"});
  EXPECT_EQ(loud.wait(), 1);
  EXPECT_THAT(loud.err(),
              HasSubstr("dlrun: standard output is closed: what ranks write to it is lost\n"));
  tests::Process no_err({"sh", "-c", line + "sh -c 'echo hi >&2' 2>&-"});
  EXPECT_EQ(no_err.wait(), 1);
  EXPECT_THAT(no_err.out(),
              HasSubstr("dlrun: standard error is closed: what ranks write to it is lost\n"));
  tests::Process silent_err({"sh", "-c", line + "true 2>&-"});
  EXPECT_EQ(silent_err.wait(), 0) << silent_err.out();
  for (const char* other : {" --help", " autopsy --help"}) {
    tests::Process help({"sh", "-c", tests::program("dlrun") + other + " >&-"});
    EXPECT_EQ(help.wait(), 1);
    EXPECT_EQ(help.err(), "dlrun: write to standard output: Bad file descriptor\n");
  }
}

TEST(Output, AnUnfinishedLastLineIsShown) {
  tests::Process job(dlrun({"--nproc-per-node", "1", "sh", "-c", "printf 'a\\nb'"}));
  EXPECT_EQ(job.wait(), 0);
  EXPECT_EQ(job.out(), "[rank 0] a\n[rank 0] b\n");
}

TEST(Output, WaitsForWhatARanksHelperStillWrites) {
  // The rank ends at once; what it left writes after that, however late it is let run.
  tests::Process job(
      dlrun({"sh", "-c", "(while kill -0 $$ 2> /dev/null; do :; done; echo late) & true"}));
  EXPECT_EQ(job.wait(), 0);
  EXPECT_EQ(job.out(), "[rank 0] late\n");
}

TEST(Output, AReaderThatLeavesEndsTheJobQuietly) {
  tests::Process job(
      {"sh", "-c",
       tests::program("dlrun") +
           " --nproc-per-node 2 sh -c 'while true; do echo x; done' | head -1; true"});
  EXPECT_EQ(job.wait(), 0);
  EXPECT_THAT(job.out(), testing::MatchesRegex("\\[rank [01]\\] x\n"));
  EXPECT_EQ(job.err(), "");
  EXPECT_TRUE(tests::eventually([&] { return tests::processes_with(job.mark()).empty(); }));
}

TEST(Output, LogDirKeepsEveryRanksBytes) {
  const tests::TempDir folder;
  tests::Process job(dlrun({"--log-dir", folder.path() + "/a/b", "--nproc-per-node", "2", "sh",
                            "-c", "printf \"out $RANK\\r\\nx\"; echo err $RANK >&2"}));
  EXPECT_EQ(job.wait(), 0);
  for (const std::string rank : {"0", "1"}) {
    const std::string own = folder.path() + "/a/b/latest/attempt_0/" + rank;
    EXPECT_EQ(read_file(own + "/stdout.log"), "out " + rank + "\r\nx");
    EXPECT_EQ(read_file(own + "/stderr.log"), "err " + rank + "\n");
  }
}

TEST(Output, ALogDirThatCannotBeMadeIsSaid) {
  tests::Process job(dlrun({"--log-dir", "/proc/nothing", "true"}));
  EXPECT_EQ(job.wait(), 1);
  EXPECT_THAT(job.err(), HasSubstr("dlrun: --log-dir: create /proc/nothing/"));
  EXPECT_TRUE(tests::eventually([&] { return tests::processes_with(job.mark()).empty(); }));
}

TEST(Output, AnAnswerThatFindsNoRoomIsAnError) {
  tests::Process job({"sh", "-c", tests::program("dlrun") + " --dry-run true >/dev/full"});
  EXPECT_EQ(job.wait(), 1);
  EXPECT_EQ(job.err(), "dlrun: write to standard output: No space left on device\n");
}

TEST(Output, OfRanksThatFindsNoRoomEndsTheJobWithWhatTheSystemSays) {
  const std::string echo = tests::program("dlrun") + " --nproc-per-node 2 echo x";
  tests::Process full({"sh", "-c", echo + " >/dev/full"});
  EXPECT_EQ(full.wait(), 1);
  EXPECT_EQ(full.err(), "dlrun: write to standard output: No space left on device\n");
  tests::Process full_err(
      {"sh", "-c", tests::program("dlrun") + " -n 2 sh -c 'echo x >&2' 2>/dev/full"});
  EXPECT_EQ(full_err.wait(), 1);
  EXPECT_EQ(full_err.out(), "dlrun: write to standard error: No space left on device\n");
  const tests::TempDir folder;
  tests::Process limited(
      {"sh", "-c",
       "ulimit -f 1; " + tests::program("dlrun") + " seq 1 2000 >" + folder.path() + "/out"});
  EXPECT_EQ(limited.wait(), 1);
  EXPECT_THAT(limited.err(), HasSubstr("dlrun: write to standard output: File too large\n"));
}

// What is said last has to come into a file, too, which a thread writes.
TEST(Output, TheLastSentencesComeIntoAFileAndNoOtherStream) {
  const tests::TempDir folder;
  const std::string err = folder.path() + "/err";
  tests::Process job({"sh", "-c",
                      "ulimit -f 64; exec " + tests::program("dlrun") + " --log-dir " +
                          folder.path() + "/logs seq 1 30000 2>" + err});
  EXPECT_EQ(job.wait(), 0);
  EXPECT_THAT(job.out(), testing::EndsWith("[rank 0] 30000\n"));
  EXPECT_THAT(job.out(), Not(HasSubstr("dlrun:")));
  EXPECT_THAT(read_file(err), HasSubstr("dlrun: the logs of rank 0 in "));
  EXPECT_THAT(read_file(err), testing::EndsWith(" are incomplete\n"));

  tests::Process limited({"sh", "-c",
                          "ulimit -f 1; exec " + tests::program("dlrun") + " seq 1 2000 >" +
                              folder.path() + "/out 2>" + err});
  EXPECT_EQ(limited.wait(), 1);
  EXPECT_THAT(read_file(err),
              testing::EndsWith("dlrun: write to standard output: File too large\n"));
}

TEST(Output, NoPrefixLeavesLinesAsTheyAre) {
  tests::Process job(dlrun({"--no-prefix", "echo", "{}"}));
  EXPECT_EQ(job.wait(), 0);
  EXPECT_EQ(job.out(), "{}\n");
}

TEST(Output, StdinGoesToRank0Only) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  ASSERT_EQ(::write(ends[1], "hello\n", 6), 6);
  ::close(ends[1]);
  tests::Process job(dlrun({"--nproc-per-node", "2", "cat"}), {.stdin_fd = ends[0]});
  ::close(ends[0]);
  EXPECT_EQ(job.wait(), 0);
  EXPECT_EQ(job.out(), "[rank 0] hello\n");
}

}  // namespace
}  // namespace dl
