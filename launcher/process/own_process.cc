#include "launcher/process/own_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/base/error.h"

namespace dl::launcher {

const std::filesystem::path& own_file() {
  static const std::filesystem::path file = [] {
    std::error_code error;
    std::filesystem::path target = std::filesystem::read_symlink("/proc/self/exe", error);
    DL_CHECK(!error, kIo, "dlrun's own file is not found by /proc/self/exe ({}): is /proc mounted?",
             error.message());
    return target;
  }();
  return file;
}

void rename_process(const char* name, CommandLine line) {
  ::prctl(PR_SET_NAME, name);
  char* const begin = line.argv[0];
  char* const end = line.argv[line.argc - 1] + std::strlen(line.argv[line.argc - 1]);
  const std::size_t room = static_cast<std::size_t>(end - begin);
  std::memset(begin, 0, room);
  std::copy_n(name, std::min(room, std::strlen(name)), begin);
}

void let_go_of_standard_streams() {
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  if (null < 0) return;
  for (int fd = 0; fd < 3; ++fd) ::dup2(null, fd);
  if (null > 2) ::close(null);
}

void take_default_actions() {
  for (int signal = 1; signal < NSIG; ++signal) ::signal(signal, SIG_DFL);
}

UniqueFd take_signals() {
  sigset_t all;
  ::sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, nullptr);
  sigset_t child;
  ::sigemptyset(&child);
  ::sigaddset(&child, SIGCHLD);
  UniqueFd signals(::signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals) throw_errno(errno, "signalfd");
  return signals;
}

void drain_signals(int signals) {
  signalfd_siginfo drained[16];
  while (::read(signals, drained, sizeof drained) > 0) {
  }
}

void reap_children(int signals, const std::function<void(pid_t pid, int status)>& on_ended) {
  drain_signals(signals);
  while (true) {
    int status = 0;
    const pid_t pid = ::waitpid(-1, &status, WNOHANG);
    if (pid <= 0) return;
    on_ended(pid, status);
  }
}

}  // namespace dl::launcher
