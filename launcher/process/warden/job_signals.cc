#include "launcher/process/warden/job_signals.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

#include "core/base/error.h"
#include "launcher/process/descendants.h"

namespace dl::launcher {
namespace {

constexpr int kMostSignals = 64;

// The kernel's own signal set. glibc's leaves out the two signals that glibc uses for threads; they
// end a process if another process sends them.
using KernelSet = std::uint64_t;

constexpr KernelSet just(int signal) {
  return KernelSet{1} << (signal - 1);
}

// True if the signal is neither ignored nor handled. glibc does not tell about its own signals.
bool has_default_action(int signal) {
  struct sigaction action{};
  return ::sigaction(signal, nullptr, &action) != 0 || action.sa_handler == SIG_DFL;
}

void block(KernelSet signals) {
  if (::syscall(SYS_rt_sigprocmask, SIG_BLOCK, &signals, nullptr, sizeof signals) != 0) {
    throw_errno(errno, "blocking signals");
  }
}

KernelSet meant_for_dlrun() {
  KernelSet set = just(SIGCHLD);
  for (int signal = 1; signal <= kMostSignals; ++signal) {
    if (meaning_of(signal) != SignalMeaning::kSystem && has_default_action(signal))
      set |= just(signal);
  }
  return set;
}

KernelSet blocked_now() {
  KernelSet set = 0;
  ::syscall(SYS_rt_sigprocmask, SIG_BLOCK, nullptr, &set, sizeof set);
  return set;
}

}  // namespace

void JobSignals::block_report_signals() {
  KernelSet set = just(SIGXFSZ);
  for (const int asks : {SIGUSR1, SIGUSR2}) {
    if (has_default_action(asks)) set |= just(asks);
  }
  // The kernel drops a signal that process 1 neither handles nor blocks.
  if (::getpid() == 1) set |= meant_for_dlrun();
  block(set);
}

void JobSignals::block_signals() {
  block(meant_for_dlrun());
}

JobSignals::JobSignals(boost::asio::io_context& io, std::function<void(int)> on_signal)
    : waiting_(io), on_signal_(std::move(on_signal)) {
  // The program that started dlrun may have blocked it: a signal that is not dlrun's stays unread.
  const KernelSet set = blocked_now() & meant_for_dlrun();
  const long fd = ::syscall(SYS_signalfd4, -1, &set, sizeof set, SFD_CLOEXEC | SFD_NONBLOCK);
  if (fd < 0) throw_errno(errno, "signalfd");
  waiting_.assign(static_cast<int>(fd));
  reap_orphans();  // those that ended before the signal was held
  wait();
}

void JobSignals::wait() {
  waiting_.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                      [this](const boost::system::error_code& error) {
                        if (!error) take();
                      });
}

// Takes one signal at a time, so that its effect is complete before the next one is read.
void JobSignals::take() {
  signalfd_siginfo info{};
  const ssize_t n = ::read(waiting_.native_handle(), &info, sizeof info);
  wait();
  if (n != static_cast<ssize_t>(sizeof info)) return;
  const int number = static_cast<int>(info.ssi_signo);
  if (number == SIGCHLD) {
    reap_orphans();
    return;
  }
  // The kernel sends these two for a write of dlrun's own, which handles the error itself.
  const bool is_of_a_write = (number == SIGPIPE || number == SIGXFSZ) &&
                             info.ssi_pid == static_cast<std::uint32_t>(::getpid());
  if (!is_of_a_write) on_signal_(number);
}

}  // namespace dl::launcher
