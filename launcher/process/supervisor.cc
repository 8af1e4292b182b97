#include "launcher/process/supervisor.h"

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "core/base/deadline.h"
#include "launcher/process/descendants.h"
#include "launcher/process/slots.h"

namespace dl::launcher {
namespace {

class Supervisor {
 public:
  Supervisor(const RankProgram& program, UniqueFd channel, UniqueFd warden_life, UniqueFd signals)
      : program_(program),
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
  // One turn of the loop. Returns false if the generation must end.
  bool serve() {
    pollfd ready[] = {{channel_.get(), POLLIN, 0},
                      {signals_.get(), POLLIN, 0},
                      {warden_life_.get(), POLLIN, 0}};  // poll() passes over a number below 0
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
      case MessageKind::kSpawn: {
        const Message answer = start_process(spawner_, program_, message);
        if (answer.kind == MessageKind::kStarted) ranks_.add(answer.number, answer.slot);
        tell(answer);
        return true;
      }
      case MessageKind::kSignal:
        ranks_.signal(message.slot, message.number);
        return true;
      default:  // kFinish
        patience_ = std::chrono::milliseconds(message.number);
        return false;
    }
  }

  // Kills everything at once, because only this process and dlrun are left to do it.
  void on_warden_gone() {
    warden_life_.reset();
    Message gone;
    gone.kind = MessageKind::kWardenGone;
    tell(gone);
    kill_descendants_but([](pid_t) { return false; },
                         [this](pid_t pid, int status) { on_child_ended(pid, status); });
  }

  void reap() {
    reap_children(signals_.get(), [this](pid_t pid, int status) { on_child_ended(pid, status); });
  }

  void on_child_ended(pid_t pid, int status) {
    if (const auto exited = ranks_.ended(pid, status)) tell(*exited);
  }

  // Waits, then sends SIGTERM, then SIGKILL; returns as soon as no child is left.
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
      if (::poll(&dlrun, 1, 0) > 0) return false;  // dlrun is gone, or has sent a word
      if (all_gone_within(kLook)) return true;
    }
    return false;
  }

  // Ignores errors: serve() notices if dlrun is gone.
  void tell(const Message& message) { send_message(channel_.get(), message); }

  const RankProgram& program_;
  UniqueFd channel_;
  UniqueFd warden_life_;  // none: the warden is gone
  UniqueFd signals_;
  Spawner spawner_;
  Slots ranks_;
  std::chrono::milliseconds patience_{0};
};

}  // namespace

void be_supervisor(const RankProgram& program, UniqueFd channel, UniqueFd warden_life,
                   CommandLine line) {
  rename_process(kSupervisorName, line);
  become_subreaper();
  Supervisor(program, std::move(channel), std::move(warden_life), take_signals()).run();
  ::_exit(0);
}

}  // namespace dl::launcher
