#include "core/base/system/process/shell.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include "tests/support/temp_dir.h"

namespace dl {
namespace {

using ::testing::ElementsAre;

// PATH until the end of the object.
class PathIs {
 public:
  explicit PathIs(const char* path) : before_(std::getenv("PATH")) {
    if (path == nullptr) {
      ::unsetenv("PATH");
    } else {
      ::setenv("PATH", path, 1);
    }
  }
  ~PathIs() { ::setenv("PATH", before_.c_str(), 1); }
  PathIs(const PathIs&) = delete;
  PathIs& operator=(const PathIs&) = delete;

 private:
  std::string before_;
};

TEST(CandidatesInPath, AreInEachFolderInOrder) {
  const PathIs path("/a:/b b::c/");
  EXPECT_THAT(candidates_in_path("x"), ElementsAre("/a/x", "/b b/x", "x", "c//x"));
}

TEST(CandidatesInPath, EndWithTheCurrentFolderAfterALastColon) {
  const PathIs path("/a:");
  EXPECT_THAT(candidates_in_path("x"), ElementsAre("/a/x", "x"));
}

TEST(CandidatesInPath, AreInTheSystemsFoldersWithoutPath) {
  for (const char* none : {static_cast<const char*>(nullptr), ""}) {
    const PathIs path(none);
    EXPECT_THAT(candidates_in_path("x"), ElementsAre("/usr/local/bin/x", "/usr/bin/x", "/bin/x"));
  }
}

TEST(WhyNotExecutable, TellsFoldersAndMissingPermissionsApart) {
  const tests::TempDir folder;
  const std::string file = folder.path() + "/file";
  EXPECT_EQ(why_not_executable(file), ENOENT);
  std::ofstream(file) << "text";
  EXPECT_EQ(why_not_executable(file), EACCES);
  EXPECT_EQ(why_not_executable(file + "/x"), ENOTDIR);
  std::filesystem::permissions(file, std::filesystem::perms::owner_all);
  EXPECT_EQ(why_not_executable(file), 0);
  EXPECT_EQ(why_not_executable(folder.path()), EISDIR);
}

TEST(ShellExitCode, Is128AndTheNumberOfASignal) {
  EXPECT_EQ(shell_exit_code(W_EXITCODE(0, 0)), 0);
  EXPECT_EQ(shell_exit_code(W_EXITCODE(7, 0)), 7);
  EXPECT_EQ(shell_exit_code(W_EXITCODE(0, SIGKILL)), 128 + SIGKILL);
}

TEST(HowItEnded, NamesTheExitCodeOrTheSignal) {
  EXPECT_EQ(how_it_ended(W_EXITCODE(7, 0)), "ended with exit code 7");
  EXPECT_EQ(how_it_ended(W_EXITCODE(0, SIGKILL)), "was killed by signal 9 (SIGKILL)");
  EXPECT_EQ(how_it_ended(W_EXITCODE(0, SIGSEGV) | WCOREFLAG),
            "was killed by signal 11 (SIGSEGV) and left a core dump");
}

TEST(SignalName, IsWhatKillTakes) {
  EXPECT_EQ(signal_name(SIGXCPU), "SIGXCPU");
  EXPECT_EQ(signal_name(SIGRTMIN), "SIGRTMIN");
  EXPECT_EQ(signal_name(SIGRTMIN + 3), "SIGRTMIN+3");
  EXPECT_EQ(signal_name(32), "signal 32");
}

}  // namespace
}  // namespace dl
