#include "rendezvous/net/handshake/job_key.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include "core/base/error.h"
#include "tests/support/temp_dir.h"

namespace dl::rendezvous {
namespace {

using ::testing::HasSubstr;

template <typename Call>
std::string error_of(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

// Sets both variables for the length of one test.
struct KeyEnvironment {
  KeyEnvironment(const std::string& fd, const std::string& file) {
    ::setenv("DLRUN_KEY_FD", fd.c_str(), 1);
    ::setenv("DLRUN_KEY_FILE", file.c_str(), 1);
  }
  ~KeyEnvironment() {
    ::unsetenv("DLRUN_KEY_FD");
    ::unsetenv("DLRUN_KEY_FILE");
  }
};

TEST(JobKey, GeneratedKeysDiffer) {
  EXPECT_NE(JobKey::generate().bytes(), JobKey::generate().bytes());
}

TEST(JobKey, SurvivesItsHexadecimalText) {
  const JobKey key = JobKey::generate();
  EXPECT_EQ(JobKey::from_hex(" \n" + key.hex() + "\r\n").bytes(), key.bytes());
}

TEST(JobKey, RefusesOtherTextsWithoutQuotingThem) {
  const std::string almost = std::string(63, 'a') + "x";
  EXPECT_THAT(error_of([&] { JobKey::from_hex(almost); }),
              ::testing::AllOf(HasSubstr("character 63 or 64"), Not(HasSubstr("aaaa"))));
  EXPECT_THAT(error_of([] { JobKey::from_hex(""); }), HasSubstr("has 0 characters"));
  EXPECT_THAT(error_of([] { JobKey::from_hex(std::string(65, 'a')); }), HasSubstr("65 characters"));
}

TEST(JobKey, IsReadFromASealedMemfdAgainAndAgain) {
  const JobKey key = JobKey::generate();
  const UniqueFd fd = key.to_memfd();
  const KeyEnvironment environment(std::to_string(fd.get()), "");
  EXPECT_EQ(JobKey::from_environment()->bytes(), key.bytes());
  EXPECT_EQ(JobKey::from_environment()->bytes(), key.bytes());
  EXPECT_LT(::pwrite(fd.get(), "x", 1, 0), 0) << "the memfd is not sealed";
}

// As a kernel under vm.memfd_noexec=1 makes it: with a seal more.
TEST(JobKey, IsReadFromAMemfdWithMoreSealsThanItsOwn) {
  const JobKey key = JobKey::generate();
  const UniqueFd fd(::memfd_create("key", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  const std::string text = key.hex();
  ASSERT_EQ(::write(fd.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
  ASSERT_EQ(::fcntl(fd.get(), F_ADD_SEALS,
                    F_SEAL_FUTURE_WRITE | F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL),
            0);
  const KeyEnvironment environment(std::to_string(fd.get()), "");
  EXPECT_EQ(JobKey::from_environment()->bytes(), key.bytes());
}

TEST(JobKey, ClosedDescriptorFallsBackToTheFile) {
  const tests::TempDir directory;
  const JobKey key = JobKey::generate();
  const std::string path = directory.path() + "/key";
  key.write_file(path);
  {
    const KeyEnvironment environment("987654", path);
    EXPECT_EQ(JobKey::from_environment()->bytes(), key.bytes());
  }
  {
    const KeyEnvironment environment("987654", "/proc/1/fd/987654");  // dlrun's, seen elsewhere
    EXPECT_THAT(error_of([] { JobKey::from_environment(); }),
                HasSubstr("and DLRUN_KEY_FILE names no file here; let the descriptor through"));
  }
  const KeyEnvironment environment("987654", "");
  EXPECT_THAT(error_of([] { JobKey::from_environment(); }),
              HasSubstr("DLRUN_KEY_FD=987654 is not the job key's descriptor"));
}

TEST(JobKey, AnotherFileUnderTheDescriptorsNumberIsNotTheKey) {
  const UniqueFd other(::open("/dev/zero", O_RDONLY | O_CLOEXEC));
  const KeyEnvironment environment(std::to_string(other.get()), "");
  EXPECT_THAT(error_of([] { JobKey::from_environment(); }), HasSubstr("is not the job key's"));
}

TEST(JobKey, FileThatOthersCanReadIsRefused) {
  const tests::TempDir directory;
  const std::string path = directory.path() + "/key";
  JobKey::generate().write_file(path);
  struct stat status{};
  ASSERT_EQ(::stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0600U);
  ASSERT_EQ(::chmod(path.c_str(), 0640), 0);
  const KeyEnvironment environment("", path);
  EXPECT_THAT(error_of([] { JobKey::from_environment(); }),
              ::testing::AllOf(HasSubstr("mode 0640"), HasSubstr("chmod 600")));
}

TEST(JobKey, MissingFileIsNamedAndAnExistingOneKept) {
  const tests::TempDir directory;
  const std::string path = directory.path() + "/key";
  {
    const KeyEnvironment environment("", path);
    EXPECT_THAT(error_of([] { JobKey::from_environment(); }), HasSubstr(path));
  }
  const JobKey key = JobKey::generate();
  key.write_file(path);
  EXPECT_THAT(error_of([&] { key.write_file(path); }), HasSubstr("File exists"));
}

TEST(JobKey, NothingInTheEnvironmentIsNoKey) {
  const KeyEnvironment environment("", "");
  EXPECT_FALSE(JobKey::from_environment().has_value());
}

TEST(JobKey, AKeyThatMustBeThereIsAskedForWithWhatToDo) {
  {
    const KeyEnvironment environment("", "");
    EXPECT_EQ(error_of([] { JobKey::require_from_environment(); }),
              "no job key: DLRUN_KEY_FD and DLRUN_KEY_FILE are not set; start the program with "
              "dlrun, or make a file with `(umask 077; openssl rand -hex 32 > job.key)` and set "
              "DLRUN_KEY_FILE to it in every process of the job");
  }
  const tests::TempDir directory;
  const std::string path = directory.path() + "/key";
  const JobKey key = JobKey::generate();
  key.write_file(path);
  const KeyEnvironment environment("", path);
  EXPECT_EQ(JobKey::require_from_environment().bytes(), key.bytes());
}

// In namespaces of its own, as a container: 0, or the number of the first check that fails.
int check_secrets_of_a_container(const std::string& folder) {
  const auto mount_secret = [&](unsigned long flags) {
    return ::mount("secret", folder.c_str(), "tmpfs", flags, "mode=0755,size=64k") == 0;
  };
  if (::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 || !mount_secret(0))
    return 9;
  const auto make = [&](const std::string& name, mode_t mode) {
    std::ofstream(folder + "/" + name) << JobKey::generate().hex() << "\n";
    ::chmod((folder + "/" + name).c_str(), mode);
  };
  const auto is_taken = [&](const std::string& name) {
    return error_of([&] { JobKey::from_file(folder + "/" + name); }) == "no error";
  };
  make("all", 0644);
  make("group", 0440);
  make("writable", 0664);
  make("foreign", 0644);
  if (::chown((folder + "/foreign").c_str(), 1234, 1234) != 0) return 9;
  if (is_taken("all") || is_taken("group")) return 1;  // others may put files there
  if (!mount_secret(MS_REMOUNT | MS_RDONLY)) return 9;
  if (!is_taken("all") || !is_taken("group")) return 2;
  if (is_taken("writable")) return 3;
  return is_taken("foreign") ? 4 : 0;
}

TEST(JobKey, AContainersSecretKeepsItsModeOnAReadOnlyTmpfs) {
  const tests::TempDir folder;
  const pid_t child = ::fork();
  if (child == 0) {
    if (::unshare(CLONE_NEWNS | CLONE_NEWPID) != 0) ::_exit(77);
    const pid_t first = ::fork();
    if (first == 0) ::_exit(check_secrets_of_a_container(folder.path()));
    int status = 0;
    ::waitpid(first, &status, 0);
    ::_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 8);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "no namespaces: they need root";
  EXPECT_EQ(status, 0) << "check " << WEXITSTATUS(status);
}

}  // namespace
}  // namespace dl::rendezvous
