#include "launcher/output/logs/log_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <fstream>
#include <iterator>
#include <mutex>

#include "core/base/error.h"
#include "core/base/system/machine/limits.h"
#include "launcher/output/logs/log_folder.h"
#include "tests/support/no_threads.h"
#include "tests/support/read_file.h"
#include "tests/support/temp_dir.h"

namespace dl::launcher {
namespace {

UniqueFd opened(const std::string& path, int flags) {
  return UniqueFd(::open(path.c_str(), flags | O_CLOEXEC, 0600));
}

// Something that the disk's thread has under way until the test says so.
class Hanging {
 public:
  explicit Hanging(DiskThread& disk) {
    disk.run(
        [this] {
          std::unique_lock lock(mutex_);
          changed_.wait(lock, [this] { return over_; });
          return 0;
        },
        [](int) {});
  }
  void go_on() {
    const std::lock_guard lock(mutex_);
    over_ = true;
    changed_.notify_one();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool over_ = false;
};

struct LogFileTest : testing::Test {
  void run_until_idle() {
    while (!disk.is_idle()) io.run_one();
  }
  std::string read_all(LogFile& log) {
    std::string text;
    while (text.size() < log.size()) {
      std::size_t before = text.size();
      bool came = false;
      log.read(before, [&](const std::string& part) {
        text += part;
        came = true;
      });
      while (!came) io.run_one();
      if (text.size() == before) break;
    }
    return text;
  }

  boost::asio::io_context io;
  DiskThread disk{io};
  tests::TempDir folder;
};

TEST_F(LogFileTest, IsWrittenInOrderAndReadBackFromDiskOrMemory) {
  const std::string path = folder.path() + "/log";
  LogFile log(disk, opened(path, O_RDWR | O_CREAT), [] { FAIL(); });
  std::string wanted;
  for (int i = 0; i < 1000; ++i) {
    const std::string line = "line " + std::to_string(i) + "\n";
    log.append(line);
    wanted += line;
    if (i % 100 == 0) io.poll();
  }
  EXPECT_EQ(read_all(log), wanted);
  run_until_idle();
  EXPECT_EQ(tests::read_file(path), wanted);
  EXPECT_EQ(read_all(log), wanted);
  EXPECT_EQ(log.unwritten(), 0U);
}

TEST_F(LogFileTest, HoldsBackWhoWritesMoreThanAHangingDiskTakes) {
  Hanging hanging(disk);
  EXPECT_TRUE(disk.waits_since().has_value());
  LogFile log(disk, opened(folder.path() + "/log", O_RDWR | O_CREAT), [] { FAIL(); });
  const std::string part(10'000, 'x');
  int parts = 0;
  for (; !log.is_full(); ++parts) log.append(part);
  EXPECT_LT(parts, 100) << "memory has a bound";
  bool room = false;
  log.when_room([&] { room = true; });
  io.poll();
  EXPECT_FALSE(room);
  EXPECT_EQ(read_all(log).size(), log.size()) << "what is in memory needs no disk";
  hanging.go_on();
  while (!room) io.run_one();
  run_until_idle();
  EXPECT_FALSE(disk.waits_since().has_value());
  EXPECT_EQ(log.written(), log.size());
}

TEST_F(LogFileTest, OfAFullDiskSaysSoAndKeepsTheRestInMemory) {
  bool broken = false;
  LogFile log(disk, opened("/dev/full", O_RDWR), [&] { broken = true; });
  log.append("abc");
  log.append("def");
  run_until_idle();
  EXPECT_TRUE(broken);
  EXPECT_EQ(log.error(), "No space left on device");
  EXPECT_EQ(log.written(), 0U);
  log.append("ghi");
  EXPECT_EQ(read_all(log), "abcdefghi");
}

TEST(DiskThread, ThatHangsIsLeftBehind) {
  boost::asio::io_context io;
  DiskThread disk(io);
  static const Hanging* const hanging = new Hanging(disk);  // of the thread that is left
  EXPECT_NE(hanging, nullptr);
  disk.run([] { return 1; }, [](int) { FAIL() << "nobody is there to be told"; });
}

TEST(DiskThread, ThatCannotStartNamesTheLimitAndTriesAgain) {
  boost::asio::io_context io;
  DiskThread disk(io);
  int result = 0;
  const auto run = [&] { disk.run([] { return 1; }, [&](int got) { result = got; }); };
  {
    const tests::NoThreads no_threads;
    try {
      run();
      FAIL() << "there is a thread";
    } catch (const Error& error) {
      EXPECT_EQ(error.what(), "the log files: no thread for it: " + spawn_error_text(EAGAIN));
    }
  }
  EXPECT_TRUE(disk.is_idle());
  run();
  while (!disk.is_idle()) io.run_one();
  EXPECT_EQ(result, 1);
}

TEST(LogFolder, OfARunIsNeverAnotherOnes) {
  const tests::TempDir folder;
  const std::string run = new_run_name("a job/../x");
  EXPECT_EQ(run.find('/'), std::string::npos);
  EXPECT_NE(run, new_run_name("a job/../x"));
  const LogFolder made = make_log_folder(folder.path(), run, 0, 0, true, {0, 1});
  EXPECT_EQ(made.error + made.no_link, "");
  EXPECT_EQ(made.ranks.size(), 2U);
  // Another node of the job in the same folder; files of other jobs stay.
  EXPECT_EQ(make_log_folder(folder.path(), run, 1, 0, true, {2, 3}).error, "");
  EXPECT_NE(make_log_folder(folder.path(), run, 2, 0, true, {3}).error.find("File exists"),
            std::string::npos);
  EXPECT_NE(make_log_folder(folder.path(), "../x", 0, 0, true, {0}).error, "");
  EXPECT_EQ(newest_attempt(folder.path()), folder.path() + "/latest/attempt_0");
  EXPECT_EQ(newest_attempt(folder.path() + "/" + run), folder.path() + "/" + run + "/attempt_0");
  EXPECT_EQ(newest_attempt("/dev"), "/dev");
}

}  // namespace
}  // namespace dl::launcher
