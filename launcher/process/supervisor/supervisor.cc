#include "launcher/process/supervisor/supervisor.h"

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
  Supervisor(const RankPrograms& programs, UniqueFd channel, UniqueFd warden_life, UniqueFd signals)
      : programs_(programs),
        channel_(std::move(channel)),
        warden_life_(std::move(warden_life)),
        signals_(std::move(signals)) {}

  void run() {
    while (serve() && !(waits_ && has_no_child())) {
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
        kills_ = !warden_life_;
        return false;
      case Received::kMessage:
        break;
    }
    switch (message.kind) {
      case MessageKind::kSpawn: {
        const Message answer = start_process(spawner_, programs_, message);
        if (answer.kind == MessageKind::kStarted) ranks_.add(answer.number, answer.slot);
        tell(answer);
        return true;
      }
      case MessageKind::kSignal:
        ranks_.signal(message.slot, message.number);
        // Ctrl-Z stops what the ranks have left behind, too. Their other signals are not for it.
        if (waits_ && (message.number == SIGSTOP || message.number == SIGCONT)) {
          signal_children(message.number);
        }
        return true;
      default:  // kFinish
        kills_ = message.number == static_cast<std::int32_t>(Leftovers::kKill);
        waits_ = message.number == static_cast<std::int32_t>(Leftovers::kWait);
        return waits_;
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

  // Sends SIGTERM, then SIGKILL; returns as soon as no child is left.
  void end_everything() {
    if (!kills_) {
      signal_children(SIGTERM);
      signal_children(SIGCONT);  // a stopped process takes no other signal
      if (all_gone_within(kLastGrace)) return;
    }
    kill_descendants();
  }

  static bool has_no_child() {
    siginfo_t none{};
    return ::waitid(P_ALL, 0, &none, WEXITED | WNOHANG | WNOWAIT) < 0 && errno == ECHILD;
  }

  bool all_gone_within(std::chrono::milliseconds time) {
    const rendezvous::Deadline deadline = rendezvous::Deadline::after(time);
    while (true) {
      reap();
      if (has_no_child()) return true;
      if (deadline.has_passed()) return false;
      pollfd ready{signals_.get(), POLLIN, 0};
      ::poll(&ready, 1, deadline.poll_timeout());
    }
  }

  // Ignores errors: serve() notices if dlrun is gone.
  void tell(const Message& message) { send_message(channel_.get(), message); }

  const RankPrograms& programs_;
  UniqueFd channel_;
  UniqueFd warden_life_;  // none: the warden is gone
  UniqueFd signals_;
  Spawner spawner_;
  Slots ranks_;
  bool waits_ = false;  // for the end of what the ranks have left behind
  bool kills_ = false;  // it gets no SIGTERM
};

}  // namespace

void be_supervisor(const RankPrograms& programs, UniqueFd channel, UniqueFd warden_life,
                   CommandLine line) {
  rename_process(kSupervisorName, line);
  become_subreaper();
  Supervisor(programs, std::move(channel), std::move(warden_life), take_signals()).run();
  ::_exit(0);
}

}  // namespace dl::launcher
