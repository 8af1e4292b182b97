// The lines that this process writes to stderr, to be waited for. What was written is passed on
// when it ends. One at a time in a process; one thread reads.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <string>
#include <string_view>

#include "core/base/deadline.h"
#include "core/base/system/unique_fd.h"

namespace dl::tests {

class StderrLines {
 public:
  StderrLines() : stderr_(::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0)) {
    int ends[2] = {-1, -1};
    if (::pipe2(ends, O_CLOEXEC) != 0) return;
    read_ = UniqueFd(ends[0]);
    const UniqueFd write(ends[1]);
    ::dup2(write.get(), STDERR_FILENO);
  }
  ~StderrLines() {
    ::dup2(stderr_.get(), STDERR_FILENO);
    while (read_some(detail::Deadline::never())) {
    }
    [[maybe_unused]] const ssize_t n = ::write(STDERR_FILENO, seen_.data(), seen_.size());
  }
  StderrLines(const StderrLines&) = delete;
  StderrLines& operator=(const StderrLines&) = delete;

  // Waits for the first line that contains `text`; empty if it does not come.
  std::string line_with(std::string_view text) {
    const detail::Deadline deadline = detail::Deadline::after(std::chrono::seconds(60));
    for (;;) {
      for (std::size_t begin = 0, end; (end = seen_.find('\n', begin)) != std::string::npos;
           begin = end + 1) {
        std::string line = seen_.substr(begin, end - begin);
        if (line.find(text) != std::string::npos) return line;
      }
      if (!read_some(deadline)) return "";
    }
  }

 private:
  bool read_some(detail::Deadline deadline) {
    pollfd entry{.fd = read_.get(), .events = POLLIN, .revents = 0};
    if (::poll(&entry, 1, deadline.poll_timeout()) <= 0) return false;
    char bytes[4096];
    const ssize_t n = ::read(read_.get(), bytes, sizeof bytes);
    if (n <= 0) return false;
    seen_.append(bytes, static_cast<std::size_t>(n));
    return true;
  }

  UniqueFd stderr_;
  UniqueFd read_;
  std::string seen_;
};

}  // namespace dl::tests
