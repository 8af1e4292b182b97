#include "core/base/error.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <string>
#include <system_error>
#include <thread>

#include "core/base/sanitizers.h"
#include "core/base/system/machine/limits.h"
#include "core/base/system/process/stopped.h"
#include "core/base/system/process/terminate.h"
#include "tests/support/no_threads.h"

namespace dl {
namespace {

TEST(Error, CarriesKindAndText) {
  try {
    DL_CHECK(1 + 1 == 3, kShape, "sum is {}, wanted {}", 2, 3);
    FAIL() << "no exception";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kShape);
    EXPECT_STREQ(error.what(), "sum is 2, wanted 3");
  }
}

// 0.0 / 0.0 is "-nan" on x86.
TEST(Error, TextShowsNaNWithoutASign) {
  const auto text_of = [](double number) -> std::string {
    try {
      throw_error(ErrorKind::kInvalidArgument, "p is {}, wanted {}", number, "a number");
    } catch (const Error& error) {
      return error.what();
    }
  };
  EXPECT_EQ(text_of(-std::numeric_limits<double>::quiet_NaN()), "p is nan, wanted a number");
  EXPECT_EQ(text_of(-2.5), "p is -2.5, wanted a number");
}

// A NUL would end the text for every reader of what(), and an escape sequence would rule the
// terminal.
TEST(Error, ControlBytesOfANameFromOutsideAreShownAsTheirCode) {
  const Error error(ErrorKind::kParse,
                    std::string("tensor \"0.w\0eight\"\x1b[2J\r\x7f:\n\tis ü", 32));
  EXPECT_STREQ(error.what(), "tensor \"0.w\\x00eight\"\\x1b[2J\\x0d\\x7f:\n\tis ü");
}

TEST(Error, TextIsNotBuiltIfTheConditionHolds) {
  int built = 0;
  const auto text = [&] { return ++built; };
  DL_CHECK(true, kInternal, "{}", text());
  EXPECT_EQ(built, 0);
}

TEST(Error, MissingFileIsNotFoundAndOthersAreIo) {
  try {
    throw_errno(ENOENT, "open /a/b");
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kNotFound);
    EXPECT_STREQ(error.what(), "open /a/b: No such file or directory");
  }
  try {
    throw_errno(EACCES, "open /a/b");
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kIo);
  }
}

TEST(SystemErrorText, NamesTheLimitThatIsWhy) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit lower = before;
  lower.rlim_cur = 100;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &lower), 0);
  const std::string text = system_error_text(EMFILE);
  std::string thrown;
  try {
    throw_errno(EMFILE, "socket");
  } catch (const Error& error) {
    thrown = error.what();
  }
  ::setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_EQ(
      text,
      "Too many open files; the limit (ulimit -n) is 100 and one more is wanted: `ulimit -n " +
          std::to_string(before.rlim_max) + "` is allowed");
  EXPECT_EQ(thrown, "socket: " + text);
  EXPECT_TRUE(is_out_of_files(EMFILE));
  EXPECT_FALSE(is_out_of_files(EACCES));
  EXPECT_EQ(system_error_text(EACCES), "Permission denied");
}

TEST(TextWithLimits, NamesTheLimitOfOpenFiles) {
  const std::system_error error(EMFILE, std::generic_category(), "epoll");
  EXPECT_EQ(text_with_limits(error), system_error_text(EMFILE));
  EXPECT_NE(text_with_limits(error).find("(ulimit -n)"), std::string::npos);
  const std::system_error other(EACCES, std::generic_category(), "epoll");
  EXPECT_EQ(text_with_limits(other), "epoll: Permission denied");
}

// For death tests: ends the process with 1 and the error's text, or with 0.
[[noreturn]] void exit_with_refusal(std::uint64_t more, std::string_view who) {
  try {
    require_open_files(more, who);
  } catch (const Error& error) {
    std::fputs(error.what(), stderr);
    std::_Exit(1);
  }
  std::_Exit(0);
}

TEST(RequireOpenFiles, NamesWhatIsWantedWhatIsOpenAndTheLimit) {
  const auto ask_under_a_limit = [] {
    rlimit limit{};
    limit.rlim_cur = limit.rlim_max = 100;
    ::setrlimit(RLIMIT_NOFILE, &limit);
    require_open_files(10, "a small group");
    exit_with_refusal(99, "group 'world'");
  };
  EXPECT_EXIT(ask_under_a_limit(), testing::ExitedWithCode(1),
              "group 'world' wants 99 more open files, [0-9]+ are open, and the limit "
              "\\(ulimit -n\\) is 100: it is the hard limit");
}

// Also if few are wanted. Sanitizers need some descriptors themselves.
TEST(RequireOpenFiles, CountsWhatIsOpen) {
  const auto fill = [] {
    rlimit limit{};
    limit.rlim_cur = limit.rlim_max = 100;
    ::setrlimit(RLIMIT_NOFILE, &limit);
    const int some = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    int left = 100;
    for (int fd = 0; fd < 100; ++fd) left -= ::fcntl(fd, F_GETFD) >= 0 ? 1 : 0;
    for (; left > 8; --left) ::fcntl(some, F_DUPFD_CLOEXEC, 0);
    require_open_files(8, "a store");
    exit_with_refusal(9, "a store");
  };
  EXPECT_EXIT(fill(), testing::ExitedWithCode(1),
              "a store wants 9 more open files, 92 are open, and the limit \\(ulimit -n\\) is 100");
}

TEST(SystemErrorText, NamesTheHardLimitAndTheLimitOfAFile) {
  const auto say_under_limits = [] {
    rlimit limit{};
    limit.rlim_cur = limit.rlim_max = 100;
    ::setrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max = 512;
    ::setrlimit(RLIMIT_FSIZE, &limit);
    std::fputs((system_error_text(EMFILE) + system_error_text(EFBIG)).c_str(), stderr);
    std::_Exit(file_size_limit() == 512 ? 0 : 1);
  };
  EXPECT_EXIT(say_under_limits(), testing::ExitedWithCode(0),
              "is 100 and one more is wanted: it is the hard limit.*is 512 bytes");
}

TEST(WatchForStops, NamesTheLimitIfThereIsNoThread) {
  sigset_t before;
  ::pthread_sigmask(SIG_SETMASK, nullptr, &before);
  const tests::NoThreads no_threads;
  for (int i = 0; i < 2; ++i) {
    try {
      watch_for_stops();
      FAIL() << "there is a thread";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kIo);
      EXPECT_EQ(error.what(), "the watch for stops: no thread for it: " + spawn_error_text(EAGAIN));
    }
  }
  sigset_t after;
  ::pthread_sigmask(SIG_SETMASK, nullptr, &after);
  EXPECT_EQ(::sigismember(&after, SIGTERM), ::sigismember(&before, SIGTERM));
}

TEST(ErrorDeathTest, UncaughtErrorEndsWithItsTextAndExitCodeOne) {
  const auto throw_through_noexcept = []() noexcept {
    throw_error(ErrorKind::kInternal, "the boiler is {}", "cold");
  };
  EXPECT_EXIT(throw_through_noexcept(), testing::ExitedWithCode(1), "error: the boiler is cold");
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // they map terabytes
TEST(SystemErrorText, NamesTheLimitOfAddressSpace) {
  const auto say_under_limit = [] {
    constexpr rlimit kLimit{std::size_t{1} << 40, std::size_t{1} << 40};
    ::setrlimit(RLIMIT_AS, &kLimit);
    std::fputs(system_error_text(ENOMEM).c_str(), stderr);
    std::_Exit(0);
  };
  EXPECT_EXIT(say_under_limit(), testing::ExitedWithCode(0),
              "^Cannot allocate memory; the limit .ulimit -v. is 1099511627776 bytes$");
}
#endif

// In a thread of a library, say, which has no memory left.
TEST(ErrorDeathTest, UncaughtBadAllocSaysOutOfMemory) {
  const auto want_memory = [] {
    end_with_text_when_uncaught();
    std::thread([] { throw std::bad_alloc(); }).join();
  };
  EXPECT_EXIT(want_memory(), testing::ExitedWithCode(1), "error: out of memory");
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // they map terabytes
TEST(ErrorDeathTest, ALibraryWithoutAddressSpaceEndsWithTheLimit) {
  const auto fault_under_limit = [](void (*fault)(), bool has_room) {
    rlimit limit{};
    ::getrlimit(RLIMIT_CORE, &limit);
    limit.rlim_cur = 0;
    ::setrlimit(RLIMIT_CORE, &limit);
    limit = {std::size_t{1} << 40, std::size_t{1} << 40};
    ::setrlimit(RLIMIT_AS, &limit);
    end_with_text_without_address_space();
    end_with_text_without_address_space();
    if (!has_room) {
      limit.rlim_cur = std::size_t{1} << 20;  // less than there is already
      ::setrlimit(RLIMIT_AS, &limit);
    }
    fault();
  };
  const auto read_nothing = [] {
    static volatile std::uintptr_t nothing = 8;
    std::printf("%d", *reinterpret_cast<volatile int*>(nothing));
  };
  const auto be_sent_one = [] { ::kill(::getpid(), SIGSEGV); };
  for (void (*const fault)() : {static_cast<void (*)()>(std::abort), +read_nothing}) {
    EXPECT_EXIT(fault_under_limit(fault, false), testing::ExitedWithCode(1),
                "error: out of memory: the limit .ulimit -v. is 1099511627776 bytes");
  }
  EXPECT_EXIT(fault_under_limit(std::abort, true), testing::KilledBySignal(SIGABRT), "^$");
  EXPECT_EXIT(fault_under_limit(+read_nothing, true), testing::KilledBySignal(SIGSEGV), "^$");
  EXPECT_EXIT(fault_under_limit(+be_sent_one, true), testing::KilledBySignal(SIGSEGV), "^$");
}
#endif

}  // namespace
}  // namespace dl
