// As long as it lives, files of this process end at a size, as on a full disk: writing more fails
// with "File too large".
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

namespace dl::tests {

class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : action_(::signal(SIGXFSZ, SIG_IGN)) {
    EXPECT_EQ(::getrlimit(RLIMIT_FSIZE, &before_), 0);
    const rlimit limit{.rlim_cur = bytes, .rlim_max = before_.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    ::signal(SIGXFSZ, action_);
  }

 private:
  rlimit before_{};
  void (*action_)(int);
};

}  // namespace dl::tests
