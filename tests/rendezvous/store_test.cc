#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "rendezvous/stores/file_store.h"
#include "rendezvous/stores/key_table.h"
#include "rendezvous/stores/memory_store.h"
#include "tests/rendezvous/store_conformance.h"
#include "tests/support/eventually.h"
#include "tests/support/temp_dir.h"

namespace dl::rendezvous {
namespace {

class MemoryWorld final : public StoreWorld {
 public:
  explicit MemoryWorld(std::chrono::nanoseconds warn_after) : store_(warn_after) {}
  Store& client(int) override { return store_; }

 private:
  MemoryStore store_;
};

class FileWorld final : public StoreWorld {
 public:
  explicit FileWorld(std::chrono::nanoseconds warn_after) {
    for (auto& client : clients_) {
      client = std::make_unique<FileStore>(directory_.path() + "/store", warn_after);
    }
  }
  Store& client(int number) override { return *clients_[static_cast<std::size_t>(number)]; }

 private:
  tests::TempDir directory_;
  std::unique_ptr<FileStore> clients_[3];
};

INSTANTIATE_TEST_SUITE_P(
    Stores, StoreConformance,
    ::testing::Values(
        StoreParam{"Memory", [](auto after) { return std::make_unique<MemoryWorld>(after); }},
        StoreParam{"File", [](auto after) { return std::make_unique<FileWorld>(after); }}),
    store_param_name);

Deadline soon() {
  return Deadline::after(std::chrono::seconds(30));
}

TEST(KeyTable, CancelledWaitIsNotCalled) {
  KeyTable table;
  bool called = false;
  const KeyTable::Ticket ticket =
      table.when_present({"a", "b"}, [&](KeyTable::Result) { called = true; });
  table.set("a", "");
  EXPECT_TRUE(table.cancel(ticket));
  EXPECT_FALSE(table.cancel(ticket));
  table.set("b", "");
  EXPECT_FALSE(called);
}

TEST(KeyTable, CallbackMayUseTheTable) {
  KeyTable table;
  table.when_value("a", [&](const KeyTable::Result& result) { table.set("b", result.value); });
  table.set("a", "v");
  EXPECT_EQ(table.find("b"), "v");
}

TEST(FileStore, DirectoryThatOthersCanWriteIsRefused) {
  const tests::TempDir directory;
  const std::string path = directory.path() + "/store";
  ASSERT_EQ(::mkdir(path.c_str(), 0700), 0);
  ASSERT_EQ(::chmod(path.c_str(), 0770), 0);
  try {
    FileStore store(path);
    FAIL() << "it was taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    EXPECT_THAT(error.what(), HasSubstr("mode 0770"));
  }
}

TEST(FileStore, SurvivesAWriterThatIsKilledWhileItHoldsTheLock) {
  const tests::TempDir directory;
  const std::string path = directory.path() + "/store";
  FileStore store(path);
  store.set("k", "v", soon());
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    // Holds the lock, in the middle of a write.
    const int fd = ::open((path + "/lock").c_str(), O_RDWR | O_CREAT, 0600);
    const int half = ::open((path + "/new").c_str(), O_WRONLY | O_CREAT, 0600);
    if (::flock(fd, LOCK_EX) != 0 || ::write(half, "half", 4) != 4) ::_exit(1);
    if (::write(ready[1], "r", 1) != 1) ::_exit(1);
    ::pause();
    ::_exit(0);
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  try {
    store.set("k", "w", Deadline::after(std::chrono::milliseconds(50)));
    ADD_FAILURE() << "it did not wait for the lock";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kTimeout);
    EXPECT_THAT(error.what(), HasSubstr(std::to_string(::getpid())));
  }
  EXPECT_EQ(store.get("k", soon()), "v");
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  ::close(ready[0]);
  ::close(ready[1]);
  store.set("k", "w", soon());
  EXPECT_EQ(store.get("k", soon()), "w");
}

TEST(FileStore, KilledWritersLoseNoCountAndTearNoValue) {
  const tests::TempDir directory;
  const std::string path = directory.path() + "/store";
  FileStore store(path);
  std::int64_t before = 0;
  for (int round = 0; round < 20; ++round) {
    const pid_t child = ::fork();
    if (child == 0) {
      FileStore mine(path);
      for (;;) {
        mine.add("n", 1, Deadline::never());
        mine.set("v", std::string(5000, static_cast<char>('a' + round)), Deadline::never());
      }
    }
    // Once the child is in the middle of its work, it is killed.
    EXPECT_TRUE(tests::eventually(
        tests::kPatience,
        [&] { return std::stoll(store.try_get("n", soon()).value_or("0")) >= before + 3; },
        std::chrono::milliseconds(0)));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    const std::int64_t after = store.add("n", 0, soon());
    EXPECT_GE(after, before + 3);
    before = after;
    const std::string value = store.get("v", soon());
    EXPECT_EQ(value, std::string(5000, value.front()));
  }
}

TEST(FileStore, FileThatIsNotOfTheStoreIsNamed) {
  const tests::TempDir directory;
  const std::string path = directory.path() + "/store";
  FileStore store(path);
  store.set("k", "v", soon());
  for (const auto& entry : std::filesystem::directory_iterator(path)) {
    if (entry.path().filename().string().starts_with("key-")) {
      std::ofstream(entry.path(), std::ios::trunc) << "garbage";
    }
  }
  try {
    store.get("k", soon());
    FAIL() << "it was read";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kParse);
    EXPECT_THAT(error.what(), HasSubstr("is not a file of this store"));
  }
}

}  // namespace
}  // namespace dl::rendezvous
