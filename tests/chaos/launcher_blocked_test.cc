// dlrun's output is not read, or the disk of its logs is full: dlrun reports it, and everything
// that does not need the reader or the disk continues.
#include <fcntl.h>
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>

#include "core/base/sanitizers.h"
#include "core/base/system/unique_fd.h"
#include "tests/support/gate.h"
#include "tests/support/process.h"
#include "tests/support/read_file.h"
#include "tests/support/temp_dir.h"

namespace dl {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using tests::read_file;
namespace fs = std::filesystem;

std::vector<std::string> job(std::vector<std::string> options, const std::string& script,
                             int ranks = 2) {
  options.insert(options.begin(), tests::program("dlrun"));
  options.insert(options.end(), {"--nproc-per-node", std::to_string(ranks), "sh", "-c", script});
  return options;
}

// What `ulimit -f 1` of sh leaves a file.
constexpr std::size_t kBlock = 512;

// A pipe that is not read until read_all().
class Unread {
 public:
  Unread() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("pipe2");
    reader_.reset(ends[0]);
    writer_.reset(ends[1]);
  }
  int writer() const { return writer_.get(); }
  bool is_full() const {
    pollfd end{.fd = writer_.get(), .events = POLLOUT, .revents = 0};
    return ::poll(&end, 1, 0) == 0;
  }
  // Until every writer is gone.
  std::string read_all() {
    writer_.reset();
    std::string text;
    std::vector<char> part(1 << 16);
    for (ssize_t n; (n = ::read(reader_.get(), part.data(), part.size())) > 0;) {
      text.append(part.data(), static_cast<std::size_t>(n));
    }
    return text;
  }
  void leave() {
    writer_.reset();
    reader_.reset();
  }

 private:
  UniqueFd reader_, writer_;
};

std::string latest(const tests::TempDir& folder, const std::string& file) {
  return folder.path() + "/latest/" + file;
}

// All of them wait for the same five seconds.
TEST(BlockedOutput, IsReportedOnAnotherStreamAndEndsInTime) {
  const tests::TempDir logs, merged_logs;
  Unread out, err, logged, merged;
  tests::Process on_err(job({"--grace", "1"}, "exec yes"), {.stdout_fd = out.writer()});
  tests::Process on_out(job({"--grace", "1"}, "exec yes >&2"), {.stderr_fd = err.writer()});
  tests::Process goes_on(
      job({"--grace", "1", "--log-dir", logs.path()}, "while :; do seq 1 20000; sleep 0.02; done"),
      {.stdout_fd = logged.writer()});
  tests::Process in_log(job({"--grace", "1", "--log-dir", merged_logs.path()},
                            "echo up >&2; seq 1 1000000; sleep 300"),
                        {.stdout_fd = merged.writer(), .stderr_fd = merged.writer()});

  EXPECT_TRUE(on_err.wait_for_err("dlrun: stdout has not been read for ")) << on_err.err();
  EXPECT_THAT(on_err.err(), HasSubstr("ranks 0-1 stand still until it is read"));
  on_err.signal(SIGUSR1);
  EXPECT_TRUE(on_err.wait_for_err("dlrun: ranks 0-1 stand still in a write: stdout has not been"));
  EXPECT_TRUE(on_out.wait_for_out("dlrun: stderr has not been read for ")) << on_out.out();
  EXPECT_TRUE(goes_on.wait_for_err("the ranks go on, and what they write is in " + logs.path()));
  const auto size = [&] { return fs::file_size(latest(logs, "attempt_0/1/stdout.log")); };
  const auto before = size();
  EXPECT_TRUE(tests::eventually([&] { return size() > before + 1'000'000; }));
  EXPECT_TRUE(tests::eventually([&] {
    return read_file(latest(merged_logs, "node_0.log")).find("has not been read for") !=
           std::string::npos;
  }));

  for (tests::Process* one : {&on_err, &on_out, &goes_on, &in_log}) one->signal(SIGTERM);
  for (tests::Process* one : {&on_err, &on_out, &goes_on, &in_log}) {
    EXPECT_EQ(one->wait(), 128 + SIGTERM);
    EXPECT_THAT(tests::processes_with(one->mark()), testing::IsEmpty());
  }
  EXPECT_THAT(on_err.err(), HasSubstr("dlrun: stopped by SIGTERM"));
  EXPECT_THAT(on_err.err(), testing::ContainsRegex("[0-9]+ bytes for stdout were not read in time "
                                                   "and are lost"));
  EXPECT_THAT(on_out.out(), HasSubstr("dlrun: stopped by SIGTERM"));
  EXPECT_THAT(goes_on.err(), HasSubstr("were not read in time; " + logs.path()));
  EXPECT_THAT(read_file(latest(merged_logs, "node_0.log")), HasSubstr("dlrun: stopped by SIGTERM"));
}

TEST(BlockedOutput, WithLogsHoldsNoRankAndLosesNothing) {
  constexpr int kLines = 300'000;  // of 2 MiB, over what pipes and queues hold
  const tests::TempDir folder;
  Unread out;
  tests::Process run(job({"--log-dir", folder.path()}, "seq 1 " + std::to_string(kLines)),
                     {.stdout_fd = out.writer()});
  const auto ranks_are_done = [&] {
    return std::ranges::all_of(std::vector<std::string>{"0", "1"}, [&](const std::string& rank) {
      std::error_code none;
      return fs::file_size(latest(folder, "attempt_0/" + rank + "/stdout.log"), none) == 1988895;
    });
  };
  EXPECT_TRUE(tests::eventually(ranks_are_done));
  EXPECT_FALSE(run.has_ended());
  std::map<std::string, int> last;
  std::istringstream lines(out.read_all());
  for (std::string word, rank, number; lines >> word >> rank >> number;) {
    ASSERT_EQ(std::stoi(number), ++last[rank]) << word << " " << rank;
  }
  EXPECT_EQ(last, (std::map<std::string, int>{{"0]", kLines}, {"1]", kLines}}));
  EXPECT_EQ(run.wait(), 0) << run.err();
}

TEST(BlockedOutput, HidesNoFailure) {
  Unread out;
  const tests::Gate gate;
  tests::Process run(job({}, "test $RANK = 0 && exec yes; " + gate.wait() + "exit 7"),
                     {.stdout_fd = out.writer()});
  EXPECT_TRUE(tests::eventually([&] { return out.is_full(); }));
  gate.open();
  EXPECT_TRUE(run.wait_for_err("dlrun: rank 1 (node 0, host ")) << run.err();
  EXPECT_TRUE(run.wait_for_err("ended with exit code 7"));
  EXPECT_FALSE(run.has_ended()) << "a reader may come back";
  out.leave();
  EXPECT_EQ(run.wait(), 7);
}

TEST(BlockedOutput, WaitsForItsReaderUntilASignal) {
  Unread out;
  const tests::Gate gate;
  tests::Process run(job({"--grace", "0.1"}, "seq 1 100000; " + gate.opener()),
                     {.stdout_fd = out.writer()});
  // The rank stands still: it never comes to open the gate, and one signal is enough.
  EXPECT_FALSE(run.has_ended());
  const tests::TempDir ended;
  tests::Process done(job({"--grace", "300"}, "seq 1 9000; : > " + ended.path() + "/$RANK", 8),
                      {.stdout_fd = out.writer()});
  // Its ranks end, as pipes and queue hold what they write; dlrun does not.
  EXPECT_TRUE(tests::eventually([&] {
    return std::distance(fs::directory_iterator(ended.path()), fs::directory_iterator()) == 8 &&
           tests::processes_with(done.mark()) == std::vector<pid_t>{done.pid()};
  }));
  done.signal(SIGINT);
  EXPECT_EQ(done.wait(), 128 + SIGINT);
  EXPECT_THAT(done.err(), HasSubstr("bytes for stdout were not read in time and are lost"));
  run.signal(SIGINT);
  EXPECT_EQ(run.wait(), 128 + SIGINT);
}

// What a line costs is CPU time, which a loaded machine does not stretch as it does a wait.
double cpu_of_children() {
  rusage used{};
  ::getrusage(RUSAGE_CHILDREN, &used);
  const auto seconds = [](timeval time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

TEST(LongLine, OfRankZeroCostsWhatOneOfRankOneDoes) {
  const auto cost_of = [](const std::string& rank) {
    const double before = cpu_of_children();
    tests::Process run({tests::program("dlrun"), "--nproc-per-node", "2", "sh", "-c",
                        "test $RANK = " + rank + " && head -c 20000000 /dev/zero | tr '\\0' x; :"});
    EXPECT_EQ(run.wait(), 0);
    EXPECT_EQ(run.out().size(), 20'000'000U + 10);
    return cpu_of_children() - before;
  };
  const double of_one = cost_of("1");
  EXPECT_LT(cost_of("0"), 5 * of_one + 1);
}

TEST(LongLine, WithoutAnEndFreezesNoOtherRank) {
  const tests::TempDir folder;
  const tests::Gate gate;
  const std::string path = folder.path() + "/out";
  const UniqueFd file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  tests::Process run(
      job({"--grace", "0.1"}, "test $RANK = 1 && head -c 70000000 /dev/zero; " + gate.wait() +
                                  "test $RANK = 0 && echo here; exec sleep 300"),
      {.stdout_fd = file.get()});
  // The whole line is there, and its end is not.
  const std::size_t line = 9 + 70'000'000;
  ASSERT_TRUE(tests::eventually([&] { return fs::file_size(path) == line; }));
  gate.open();
  const std::string rest = "\n[rank 0] here\n";
  EXPECT_TRUE(tests::eventually([&] { return fs::file_size(path) == line + rest.size(); }));
  run.signal(SIGTERM);
  EXPECT_EQ(run.wait(), 128 + SIGTERM);
  EXPECT_TRUE(read_file(path).ends_with(rest));
}

// The disk.

class SlowDisk : public testing::Test {
 protected:
  void SetUp() override {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "a sanitizer's own library must come first";
#endif
  }
  tests::Process::Options slow(const char* what) const {
    return {.environment = {"LD_PRELOAD=" + tests::program("../tests/libslow_disk.so"),
                            std::string(what) + "=" + gate()}};
  }
  std::string gate() const { return gate_.path() + "/hangs"; }
  void hang() const { std::ofstream{gate()}; }
  void goes_on() const { fs::remove(gate()); }

  tests::TempDir gate_, logs_;
};

TEST_F(SlowDisk, HoldsUpNeitherFailuresNorSignals) {
  const tests::TempDir other_logs;
  const tests::Gate fails;
  hang();
  tests::Process writes(job({"--grace", "1", "--log-dir", logs_.path()},
                            "test $RANK = 0 && exec yes; " + fails.wait() + "exit 7"),
                        slow("SLOW_DISK_WRITES"));
  tests::Process starts(job({"--grace", "1", "--log-dir", other_logs.path()}, "echo up"),
                        slow("SLOW_DISK_FOLDERS"));
  const std::string silent = "dlrun: the disk of --log-dir " + logs_.path() + " has taken nothing";
  EXPECT_TRUE(writes.wait_for_err(silent)) << writes.err();
  EXPECT_THAT(writes.err(), HasSubstr("rank 0 stands still until it goes on"));
  writes.signal(SIGUSR1);
  EXPECT_TRUE(writes.wait_for_err("dlrun: rank 0 stands still in a write: the disk of --log-dir"));
  fails.open();
  EXPECT_TRUE(writes.wait_for_err("dlrun: rank 1 (node 0, host ")) << writes.err();
  writes.signal(SIGTERM);
  EXPECT_EQ(writes.wait(), 7);
  EXPECT_THAT(writes.err(), HasSubstr("dlrun: the logs in " + logs_.path()));
  EXPECT_THAT(writes.err(), HasSubstr("are incomplete: the disk has taken nothing for "));

  EXPECT_TRUE(starts.wait_for_err("no rank is started before its log is there")) << starts.err();
  starts.signal(SIGINT);
  EXPECT_EQ(starts.wait(), 128 + SIGINT);
  EXPECT_EQ(starts.out(), "");
}

TEST_F(SlowDisk, ThatGoesOnHasLostNothing) {
  hang();
  tests::Process run(job({"--log-dir", logs_.path()}, "seq 1 300000"), slow("SLOW_DISK_WRITES"));
  // More than the pipes hold is shown while the disk hangs.
  EXPECT_TRUE(run.wait_for_out("[rank 0] 20000\n") && run.wait_for_out("[rank 1] 20000\n"));
  goes_on();
  EXPECT_EQ(run.wait(), 0) << run.err();
  std::string wanted;
  for (int i = 1; i <= 300'000; ++i) wanted += std::to_string(i) + "\n";
  for (const std::string rank : {"0", "1"}) {
    EXPECT_EQ(read_file(latest(logs_, "attempt_0/" + rank + "/stdout.log")), wanted);
    EXPECT_THAT(run.out(), HasSubstr("[rank " + rank + "] 300000\n"));
  }
}

TEST_F(SlowDisk, UnderAFileThatOutputGoesToHoldsUpNoSignal) {
  hang();
  tests::Process::Options options = slow("SLOW_DISK_WRITES");
  const UniqueFd file(
      ::open((logs_.path() + "/all.log").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  options.stdout_fd = file.get();
  tests::Process run(job({"--grace", "0.1"}, "echo up; echo up >&2; exec sleep 300"), options);
  EXPECT_TRUE(run.wait_for_err("[rank 0] up\n"));
  run.signal(SIGINT);
  EXPECT_EQ(run.wait(), 128 + SIGINT);
}

TEST(FullDisk, IsSaidAtOnceAndTheJobGoesOn) {
  const tests::TempDir logs;
  const tests::Gate gate;
  tests::Process run({"sh", "-c",
                      "ulimit -f 64; exec " + tests::program("dlrun") + " --log-dir " +
                          logs.path() + " --nproc-per-node 2 sh -c 'seq 1 100000; " + gate.wait() +
                          "seq 1 5'"});
  EXPECT_TRUE(run.wait_for_err(" is incomplete: File too large (its stdout.log has ")) << run.err();
  EXPECT_THAT(run.err(), HasSubstr("; the job goes on\n"));
  gate.open();
  EXPECT_EQ(run.wait(), 0) << run.err();
  EXPECT_THAT(run.err(), HasSubstr("dlrun: the logs of ranks 0-1 in " + logs.path()));
  std::map<std::string, int> lines;
  std::istringstream out(run.out());
  for (std::string word, rank, number; out >> word >> rank >> number;) ++lines[rank];
  EXPECT_EQ(lines, (std::map<std::string, int>{{"0]", 100'005}, {"1]", 100'005}}));
}

// Logs are in this folder.

TEST(LogDir, IsSharedByJobsThatLeaveEachOtherAlone) {
  const tests::TempDir folder;
  std::ofstream(folder.path() + "/0") << "not dlrun's\n";
  const tests::Gate gate;
  const auto script = [&](const std::string& text) {
    return "echo " + text + "; " + gate.wait() + "echo " + text;
  };
  tests::Process one(job({"--log-dir", folder.path(), "--rdzv-id", "a/b"}, script("one")));
  ASSERT_TRUE(one.wait_for_out("[rank 1] one"));
  const fs::path first = fs::canonical(folder.path() + "/latest");
  EXPECT_TRUE(first.filename().string().starts_with("a_b_")) << first;
  tests::Process two(job({"--log-dir", folder.path(), "--rdzv-id", "a/b"}, script("two")));
  ASSERT_TRUE(two.wait_for_out("[rank 1] two"));
  const fs::path second = fs::canonical(folder.path() + "/latest");
  EXPECT_NE(first, second);
  gate.open();
  EXPECT_EQ(one.wait(), 0);
  EXPECT_EQ(two.wait(), 0);
  for (const std::string rank : {"0", "1"}) {
    EXPECT_EQ(read_file(first / "attempt_0" / rank / "stdout.log"), "one\none\n");
    EXPECT_EQ(read_file(second / "attempt_0" / rank / "stdout.log"), "two\ntwo\n");
  }
  EXPECT_EQ(read_file(folder.path() + "/0"), "not dlrun's\n");
  EXPECT_EQ(fs::canonical(folder.path() + "/latest"), second);
}

TEST(LogDir, ALatestThatIsNoLinkStaysAndIsSaid) {
  const tests::TempDir folder;
  fs::create_directories(folder.path() + "/latest/of/the/user");
  tests::Process run(job({"--log-dir", folder.path()}, "true"));
  EXPECT_EQ(run.wait(), 0);
  EXPECT_THAT(run.err(), HasSubstr("dlrun: --log-dir: link " + folder.path() + "/latest: "));
  EXPECT_TRUE(fs::exists(folder.path() + "/latest/of/the/user"));
}

TEST(LogDir, KeepsWhatDlrunSays) {
  const tests::TempDir folder;
  tests::Process run(job({"--log-dir", folder.path()},
                         "test $RANK = 0 && exec sleep 300; "
                         "echo '{\"message\": \"bad batch\"}' > $TORCHELASTIC_ERROR_FILE; exit 3"));
  EXPECT_EQ(run.wait(), 3);
  EXPECT_THAT(read_file(latest(folder, "node_0.log")), HasSubstr(": bad batch\n"));
}

// --report-fd takes the page instead of stderr, for a program that has started dlrun.

UniqueFd inherited(int fd) {
  const int own = ::fcntl(fd, F_DUPFD, 100);
  if (own < 0) throw std::runtime_error("dup");
  return UniqueFd(own);
}

TEST(Report, HasThePageThatTheLogHasToo) {
  const tests::TempDir folder;
  Unread report;
  UniqueFd end = inherited(report.writer());
  tests::Process run(job({"--report-fd", std::to_string(end.get()), "--log-dir", folder.path()},
                         "test $RANK = 1 || exec sleep 300; exit 3"));
  EXPECT_EQ(run.wait(), 3);
  end.reset();
  EXPECT_THAT(report.read_all(), testing::StartsWith("failed 1 3\nrank 1 "));
  EXPECT_EQ(run.err(), "");
  EXPECT_THAT(read_file(latest(folder, "node_0.log")), HasSubstr(" ended with exit code 3"));
}

TEST(Report, ThatCannotBeWrittenLeavesThePageOnStderr) {
  Unread nobody;
  UniqueFd pipe = inherited(nobody.writer());
  nobody.leave();
  const UniqueFd device(::open("/dev/full", O_WRONLY | O_CLOEXEC));
  const UniqueFd full = inherited(device.get());
  for (const auto& [fd, why] :
       {std::pair(pipe.get(), "Broken pipe"), std::pair(full.get(), "No space left on device")}) {
    tests::Process run(job({"--report-fd", std::to_string(fd)}, "exit 3", 1));
    EXPECT_EQ(run.wait(), 3);
    EXPECT_THAT(run.err(), AllOf(HasSubstr("dlrun: rank 0 "), HasSubstr(" ended with exit code 3"),
                                 HasSubstr("of --report-fd: " + std::string(why) + "\n")));
  }
}

TEST(Report, OfWhichAFileTakesAPartIsOnStderrToo) {
  const tests::TempDir folder;
  const std::string line = fmt::format(
      "ulimit -f 1; exec {} --report-fd 9 --nproc-per-node 1 sh -c 'exit 3' 9>>{}/report",
      tests::program("dlrun"), folder.path());
  std::ofstream(folder.path() + "/report") << std::string(kBlock - 20, 'x');
  tests::Process run({"sh", "-c", line});
  EXPECT_EQ(run.wait(), 3);
  EXPECT_THAT(read_file(folder.path() + "/report"), testing::EndsWith("xfailed 0 3\nrank 0 (n"));
  EXPECT_THAT(run.err(), HasSubstr("dlrun: rank 0 "));
}

TEST(Report, SaysThatOutputWasLost) {
  const tests::TempDir folder;
  Unread output, report;
  UniqueFd end = inherited(report.writer());
  tests::Process run(job({"--report-fd", std::to_string(end.get())}, "seq 1 40000", 1),
                     {.stdout_fd = output.writer()});
  end.reset();
  ASSERT_TRUE(run.wait_for_err("all ranks have ended")) << run.err();
  output.leave();
  EXPECT_EQ(run.wait(), 128 + SIGPIPE);
  EXPECT_EQ(report.read_all(), "failed -1 141\nwrite to standard output: Broken pipe\n");
}

TEST(Report, SaysThatTheReaderHasLeftBeforeTheRanks) {
  Unread output, report;
  UniqueFd end = inherited(report.writer());
  const int writer = output.writer();
  tests::Process run(job({"--report-fd", std::to_string(end.get())}, "exec yes", 1),
                     {.stdout_fd = writer});
  end.reset();
  EXPECT_TRUE(tests::eventually([&] { return output.is_full(); }));
  output.leave();
  EXPECT_EQ(run.wait(), 128 + SIGPIPE);
  EXPECT_EQ(report.read_all(), "failed -1 141\nwrite to standard output: Broken pipe\n");
}

}  // namespace
}  // namespace dl
