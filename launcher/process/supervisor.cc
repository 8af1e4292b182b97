#include "launcher/process/supervisor.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <map>
#include <string_view>

#include "core/base/deadline.h"
#include "core/base/error.h"
#include "launcher/process/descendants.h"
#include "launcher/process/spawn.h"
#include "launcher/process/supervisor_channel.h"

namespace dl::launcher {
namespace {

// Above all numbers that children see.
constexpr int kFirstSafeFd = 256;

// The ranks' environment: dlrun's own, with a rank's entries in place of those of the same name.
std::vector<char*> merged_environment(const std::vector<std::string>& entries) {
  std::vector<char*> merged;
  for (char** old = environ; *old != nullptr; ++old) {
    const char* const equals = std::strchr(*old, '=');
    const std::size_t name = equals == nullptr ? 0 : static_cast<std::size_t>(equals - *old) + 1;
    bool replaced = false;
    for (const std::string& entry : entries) {
      if (entry[0] == (*old)[0] && entry.compare(0, name, *old, name) == 0) replaced = true;
    }
    if (!replaced) merged.push_back(*old);
  }
  for (const std::string& entry : entries) merged.push_back(const_cast<char*>(entry.c_str()));
  merged.push_back(nullptr);
  return merged;
}

class Supervisor {
 public:
  Supervisor(const Job& job, UniqueFd channel, UniqueFd warden_life, UniqueFd signals)
      : job_(job),
        channel_(std::move(channel)),
        warden_life_(std::move(warden_life)),
        signals_(std::move(signals)) {}

  void run() {
    while (serve()) {
    }
    end_everything();
    Message finished;
    finished.kind = MessageKind::kFinished;
    tell(finished);
  }

 private:
  // One turn; false once there is nothing more to do than to end.
  bool serve() {
    pollfd ready[] = {{channel_.get(), POLLIN, 0},
                      {signals_.get(), POLLIN, 0},
                      {warden_life_.get(), POLLIN, 0}};  // a number below 0 is passed over
    if (::poll(ready, 3, -1) < 0 && errno != EINTR) return false;
    if (ready[2].revents != 0) on_warden_gone();
    if (ready[1].revents != 0) reap();
    if (ready[0].revents == 0) return true;
    Message message;
    switch (receive_message(channel_.get(), message)) {
      case Received::kNothing:
        return true;
      case Received::kClosed:  // dlrun died
        patience_ = std::chrono::milliseconds(warden_life_ ? 0 : -1);
        return false;
      case Received::kMessage:
        break;
    }
    switch (message.kind) {
      case MessageKind::kSpawn:
        start(message);
        return true;
      case MessageKind::kSignal:
        for (const auto& [pid, slot] : slots_) {
          const bool meant =
              message.slot == kEveryRank ? slot < kFirstHelperSlot : slot == message.slot;
          if (meant) ::kill(-pid, message.number);
        }
        return true;
      default:  // kFinish
        patience_ = std::chrono::milliseconds(message.number);
        return false;
    }
  }

  // Ranks and all that they have started are killed here and now: only two processes are left that
  // could do it. dlrun's helpers still have to tell the other nodes.
  void on_warden_gone() {
    warden_life_.reset();
    Message gone;
    gone.kind = MessageKind::kWardenGone;
    tell(gone);
    kill_descendants_but(
        [this](pid_t pid) {
          const auto found = slots_.find(pid);
          return found != slots_.end() && found->second >= kFirstHelperSlot;
        },
        [this](pid_t pid, int status) { on_child_ended(pid, status); });
  }

  void start(Message& message) {
    std::vector<char*> argv;
    const bool own = !message.argv.empty();
    for (const std::string& argument : own ? message.argv : job_.argv) {
      argv.push_back(const_cast<char*>(argument.c_str()));
    }
    argv.push_back(nullptr);
    const std::vector<char*> environment = merged_environment(message.environment);

    std::vector<FdAt> fds;
    for (std::size_t i = 0; i < message.fds.size(); ++i) {
      UniqueFd& fd = message.fds[i];
      // In the child, no descriptor may be overwritten before it has got its own number.
      if (std::find(message.fd_numbers.begin(), message.fd_numbers.end(), fd.get()) !=
          message.fd_numbers.end()) {
        fd.reset(::fcntl(fd.get(), F_DUPFD_CLOEXEC, kFirstSafeFd));
      }
      fds.push_back({fd.get(), message.fd_numbers[i]});
    }
    const Spawned spawned = spawner_.spawn({.path = own ? message.text.c_str() : job_.path.c_str(),
                                            .argv = argv.data(),
                                            .envp = environment.data(),
                                            .fds = fds,
                                            .cpus = message.cpus,
                                            .open_files = own ? nullptr : &job_.open_files});
    Message answer;
    answer.slot = message.slot;
    if (spawned.pid < 0) {
      answer.kind = MessageKind::kNotStarted;
      answer.number = spawned.error;
      answer.text = spawned.what;
    } else {
      slots_[spawned.pid] = message.slot;
      answer.kind = MessageKind::kStarted;
      answer.number = spawned.pid;
    }
    tell(answer);
  }

  void reap() {
    signalfd_siginfo drained[16];
    while (::read(signals_.get(), drained, sizeof drained) > 0) {
    }
    while (true) {
      int status = 0;
      const pid_t pid = ::waitpid(-1, &status, WNOHANG);
      if (pid <= 0) return;
      on_child_ended(pid, status);
    }
  }

  void on_child_ended(pid_t pid, int status) {
    const auto found = slots_.find(pid);
    if (found == slots_.end()) return;  // an orphan of some rank
    Message exited;
    exited.kind = MessageKind::kExited;
    exited.slot = found->second;
    exited.number = status;
    slots_.erase(found);
    tell(exited);
  }

  // Patience, SIGTERM, SIGKILL; ends as soon as nobody is left.
  void end_everything() {
    if (patience_.count() >= 0) {
      if (all_gone_within(patience_) || all_gone_with_work_to_do()) return;
      signal_children(SIGTERM);
      signal_children(SIGCONT);  // a stopped process takes no other signal
      if (all_gone_within(kLastGrace)) return;
    }
    kill_descendants();
  }

  bool all_gone_within(std::chrono::milliseconds time) {
    const Deadline deadline = Deadline::after(time);
    while (true) {
      reap();
      siginfo_t none{};
      if (::waitid(P_ALL, 0, &none, WEXITED | WNOHANG | WNOWAIT) < 0 && errno == ECHILD)
        return true;
      if (deadline.has_passed()) return false;
      pollfd ready{signals_.get(), POLLIN, 0};
      ::poll(&ready, 1, deadline.poll_timeout());
    }
  }

  // On a loaded machine 100 ms may pass before a `tee` has written what it read.
  bool all_gone_with_work_to_do() {
    constexpr std::chrono::milliseconds kLook{10};
    const Deadline deadline = Deadline::after(kMostPatience);
    while (patience_.count() > 0 && !deadline.has_passed() && a_descendant_runs()) {
      pollfd dlrun{channel_.get(), POLLIN, 0};
      if (::poll(&dlrun, 1, 0) > 0) return false;  // it is gone, or somebody has interrupted it
      if (all_gone_within(kLook)) return true;
    }
    return false;
  }

  // A dlrun that is gone is seen in serve().
  void tell(const Message& message) { send_message(channel_.get(), message); }

  const Job& job_;
  UniqueFd channel_;
  UniqueFd warden_life_;  // none: the warden is gone
  UniqueFd signals_;
  Spawner spawner_;
  std::map<pid_t, std::uint32_t> slots_;
  std::chrono::milliseconds patience_{0};
};

// A name of its own in `ps`, `killall` and `pkill -f`, with no word of dlrun in it.
void rename_process(const char* name, int argc, char** argv) {
  ::prctl(PR_SET_NAME, name);
  char* const begin = argv[0];
  char* const end = argv[argc - 1] + std::strlen(argv[argc - 1]);
  const std::size_t room = static_cast<std::size_t>(end - begin);
  std::memset(begin, 0, room);
  std::copy_n(name, std::min(room, std::strlen(name)), begin);
}

// dlrun's terminal, pipes and files belong to dlrun: a reader of its output must see the end when
// dlrun ends.
void let_go_of_standard_streams() {
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  if (null < 0) return;
  for (int fd = 0; fd < 3; ++fd) ::dup2(null, fd);
  if (null > 2) ::close(null);
}

// Blocks every signal; readable when a child has ended.
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

[[noreturn]] void be_supervisor(const Job& job, UniqueFd channel, UniqueFd warden_life, int argc,
                                char** argv) {
  rename_process(kSupervisorName, argc, argv);
  become_subreaper();
  Supervisor(job, std::move(channel), std::move(warden_life), take_signals()).run();
  ::_exit(0);
}

// Waits until the supervisor has ended, which it gets kTimeToEndTree for once dlrun is gone. Its
// exit status.
int wait_for_supervisor(pid_t supervisor, UniqueFd dlrun_life, const UniqueFd& signals) {
  Deadline deadline = Deadline::never();
  while (true) {
    int status = 0;
    if (::waitpid(supervisor, &status, WNOHANG) == supervisor) return status;
    if (deadline.has_passed()) {
      ::kill(supervisor, SIGKILL);  // what it has left to do is done below, by the warden
      deadline = Deadline::never();
    }
    pollfd ready[] = {{signals.get(), POLLIN, 0}, {dlrun_life.get(), POLLIN, 0}};
    ::poll(ready, 2, deadline.poll_timeout());
    signalfd_siginfo drained[16];
    while (::read(signals.get(), drained, sizeof drained) > 0) {
    }
    if (ready[1].revents != 0) {
      dlrun_life.reset();
      ::kill(supervisor, SIGCONT);  // it may be stopped
      deadline = Deadline::after(kTimeToEndTree);
    }
  }
}

[[noreturn]] void be_warden(const Job& job, UniqueFd channel, UniqueFd dlrun_life, int argc,
                            char** argv) {
  ::setsid();
  let_go_of_standard_streams();
  become_subreaper();
  auto [warden_end, supervisor_end] = make_channel();
  const UniqueFd signals = take_signals();
  const pid_t supervisor = ::fork();
  if (supervisor < 0) ::_exit(1);
  if (supervisor == 0) {
    warden_end.reset();
    dlrun_life.reset();  // or dlrun would not see the warden's end
    try {
      be_supervisor(job, std::move(channel), std::move(supervisor_end), argc, argv);
    } catch (...) {
      ::_exit(1);  // dlrun sees the channel close and says so
    }
  }
  channel.reset();
  supervisor_end.reset();
  rename_process(kWardenName, argc, argv);
  const int status = wait_for_supervisor(supervisor, std::move(dlrun_life), signals);
  kill_descendants();
  ::_exit(WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status));
}

}  // namespace

SupervisorHandle start_supervisor(const Job& job, int argc, char** argv) {
  become_subreaper();
  auto [ours, theirs] = make_channel();
  auto [warden_life, dlrun_life] = make_channel();
  const pid_t warden = ::fork();
  if (warden < 0) throw_errno(errno, "fork");
  if (warden == 0) {
    ours.reset();
    warden_life.reset();
    try {
      be_warden(job, std::move(theirs), std::move(dlrun_life), argc, argv);
    } catch (...) {
      ::_exit(1);
    }
  }
  return {std::move(ours), warden, std::move(warden_life)};
}

}  // namespace dl::launcher
