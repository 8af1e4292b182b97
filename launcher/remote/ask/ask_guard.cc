#include "launcher/remote/ask/ask_guard.h"

#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>

#include "core/base/deadline.h"
#include "launcher/process/start/rank_files.h"

namespace dl::launcher::remote {
namespace {

constexpr std::uint8_t kDismissed = 1;
constexpr int kLook = 20;  // ms

bool is_there(const AskedGroup& group) noexcept {
  return ::kill(-group.leader, 0) == 0;
}

void end(const std::vector<AskedGroup>& groups) {
  std::chrono::seconds longest{0};
  for (const AskedGroup& group : groups) {
    ask_to_end(group);
    longest = std::max(longest, group.time_to_end);
  }
  const auto deadline = rendezvous::Deadline::after(longest);
  while (!deadline.has_passed() && std::ranges::any_of(groups, is_there)) {
    ::poll(nullptr, 0, kLook);
  }
  for (const AskedGroup& group : groups) ::kill(-group.leader, SIGKILL);
}

[[noreturn]] void be_guard(int line, const std::vector<AskedGroup>& groups) {
  constexpr int kLine = 3;
  ::setpgid(0, 0);
  sigset_t all;
  ::sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, nullptr);
  ::dup2(line, kLine);
  // What reads this process's output must not wait for the guard.
  const UniqueFd null = open_null();
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::dup2(null.get(), fd);
  ::syscall(SYS_close_range, kLine + 1, ~0U, 0);
  std::uint8_t word = 0;
  ssize_t n = 0;
  do {
    n = ::read(kLine, &word, 1);
  } while (n < 0 && errno == EINTR);
  if (n == 0) end(groups);
  ::_exit(0);
}

}  // namespace

AskGuard::AskGuard(const std::vector<AskedGroup>& groups) {
  Pipe line = make_pipe();
  pid_ = ::fork();
  if (pid_ == 0) {
    line.write.reset();
    be_guard(line.read.get(), groups);
  }
  line_ = std::move(line.write);
}

AskGuard::~AskGuard() {
  if (pid_ < 0) return;
  while (::write(line_.get(), &kDismissed, 1) < 0 && errno == EINTR) {
  }
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void ask_to_end(const AskedGroup& group) noexcept {
  ::kill(-group.leader, SIGTERM);
  ::kill(-group.leader, SIGCONT);
}

}  // namespace dl::launcher::remote
