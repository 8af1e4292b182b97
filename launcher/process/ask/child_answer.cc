#include "launcher/process/ask/child_answer.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "core/base/error.h"
#include "core/base/system/machine/limits.h"
#include "core/base/system/output.h"
#include "core/base/system/unique_fd.h"

namespace dl::launcher {
namespace {

[[noreturn]] void answer_and_exit(const std::function<std::string()>& function, int fd) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const rlimit none{};
  ::setrlimit(RLIMIT_CORE, &none);  // a library that crashes leaves nothing in the user's directory
  write_all(fd, function());
  ::_exit(0);
}

// nullopt: not in time.
std::optional<std::string> read_until(int fd, std::chrono::steady_clock::time_point until) {
  std::string text;
  while (true) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
    pollfd ready{fd, POLLIN, 0};
    const int n = ::poll(&ready, 1, static_cast<int>(std::max<std::int64_t>(0, left.count())));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return std::nullopt;
    char some[4096];
    const ssize_t got = ::read(fd, some, sizeof some);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return text;
    text.append(some, static_cast<std::size_t>(got));
  }
}

}  // namespace

std::optional<std::string> answer_of_child(const std::function<std::string()>& function,
                                           std::chrono::milliseconds deadline) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw_errno(errno, "pipe");
  const UniqueFd out(ends[0]);
  UniqueFd in(ends[1]);
  const pid_t child = ::fork();
  if (child < 0) throw_error(ErrorKind::kIo, "fork: {}", spawn_error_text(errno));
  if (child == 0) answer_and_exit(function, in.get());
  in.reset();
  std::optional<std::string> answer =
      read_until(out.get(), std::chrono::steady_clock::now() + deadline);
  if (!answer) {
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, WNOHANG);
    return std::nullopt;
  }
  while (::waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
  return answer;
}

}  // namespace dl::launcher
