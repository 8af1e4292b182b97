#include "launcher/process/warden/warden.h"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>

#include "core/base/deadline.h"
#include "core/base/error.h"
#include "core/base/system/machine/limits.h"
#include "launcher/process/descendants.h"
#include "launcher/process/slots.h"
#include "launcher/process/supervisor/supervisor.h"

namespace dl::launcher {
namespace {

class Warden {
 public:
  Warden(const RankPrograms& programs, CommandLine line, UniqueFd channel, UniqueFd signals,
         int front)
      : programs_(programs),
        line_(line),
        channel_(std::move(channel)),
        signals_(std::move(signals)),
        front_(front) {}

  // Returns only in the warden: the child becomes the supervisor.
  void fork_supervisor(UniqueFd channel) {
    auto [life, supervisor_end] = make_channel();
    supervisor_ = ::fork();
    if (supervisor_ < 0) {
      Message refused;
      refused.kind = MessageKind::kNoSupervisor;
      refused.number = errno;
      tell(refused);
      return;
    }
    if (supervisor_ > 0) {
      life_ = std::move(life);
      return;
    }
    // Otherwise neither dlrun nor the supervisor would see the warden's end.
    channel_.reset();
    life.reset();
    signals_.reset();
    try {
      be_supervisor(programs_, std::move(channel), std::move(supervisor_end), line_);
    } catch (...) {
      ::_exit(1);
    }
  }

  void run() {
    while (channel_ || supervisor_ > 0) serve();
    // A helper may have to report dlrun's end to other nodes.
    const rendezvous::Deadline farewell = rendezvous::Deadline::after(kLastGrace);
    while (!helpers_.empty() && !farewell.has_passed()) {
      pollfd ready{signals_.get(), POLLIN, 0};
      ::poll(&ready, 1, farewell.poll_timeout());
      reap();
    }
    kill_descendants();
  }

 private:
  void serve() {
    pollfd ready[] = {{signals_.get(), POLLIN, 0},
                      {channel_.get(), POLLIN, 0},
                      {front_, POLLRDHUP, 0}};  // and POLLHUP
    const auto next = rendezvous::Deadline::earlier(to_kill_, to_kill_agent_);
    ::poll(ready, 3, next.poll_timeout());  // it passes over a number below 0
    if (ready[0].revents != 0) reap();
    if (ready[2].revents != 0) {
      front_ = -1;
      to_kill_agent_ = rendezvous::Deadline::after(kTimeToHear);
    }
    if (to_kill_agent_.has_passed()) {
      // This process is no child of the agent any more once the agent is gone.
      if (channel_ && ::getppid() == agent_) ::kill(agent_, SIGKILL);
      to_kill_agent_ = rendezvous::Deadline::never();
    }
    if (supervisor_ > 0 && to_kill_.has_passed()) {
      ::kill(supervisor_, SIGKILL);
      to_kill_ = rendezvous::Deadline::never();
    }
    if (ready[1].revents == 0) return;
    Message message;
    switch (receive_message(channel_.get(), message)) {
      case Received::kNothing:
        return;
      case Received::kClosed:
        channel_.reset();
        if (supervisor_ > 0) ::kill(supervisor_, SIGCONT);  // it may be stopped
        to_kill_ = rendezvous::Deadline::after(kTimeToEndTree);
        return;
      case Received::kMessage:
        break;
    }
    switch (message.kind) {
      case MessageKind::kSpawn: {
        const Message answer = start_process(spawner_, programs_, message);
        if (answer.kind == MessageKind::kStarted) helpers_.add(answer.number, answer.slot);
        tell(answer);
        return;
      }
      case MessageKind::kSignal:
        helpers_.signal(message.slot, message.number);
        return;
      default:  // kBegin
        if (!message.fds.empty()) fork_supervisor(std::move(message.fds.front()));
        return;
    }
  }

  void reap() {
    reap_children(signals_.get(), [this](pid_t pid, int status) { on_child_ended(pid, status); });
  }

  void on_child_ended(pid_t pid, int status) {
    if (pid != supervisor_) {
      if (const auto exited = helpers_.ended(pid, status)) tell(*exited);
      return;
    }
    supervisor_ = -1;
    life_.reset();
    kill_descendants_but([this](pid_t child) { return helpers_.has(child); },
                         [this](pid_t child, int its) { on_child_ended(child, its); });
    Message swept;
    swept.kind = MessageKind::kSwept;
    swept.number = status;
    tell(swept);
  }

  void tell(const Message& message) {
    if (channel_) send_message(channel_.get(), message);
  }

  const RankPrograms& programs_;
  CommandLine line_;
  UniqueFd channel_;  // none: dlrun is gone
  UniqueFd signals_;
  Spawner spawner_;
  Slots helpers_;
  pid_t supervisor_ = -1;  // -1: none runs
  UniqueFd life_;          // the supervisor sees it close when the warden dies
  rendezvous::Deadline to_kill_ = rendezvous::Deadline::never();
  pid_t agent_ = ::getppid();
  int front_;  // -1: none, or it has closed
  rendezvous::Deadline to_kill_agent_ = rendezvous::Deadline::never();
};

// `first_supervisor`: empty if the warden has only helpers.
[[noreturn]] void be_warden(const RankPrograms& programs, CommandLine line, UniqueFd channel,
                            UniqueFd first_supervisor, int front) {
  ::setsid();
  take_default_actions();
  let_go_of_standard_streams();
  become_subreaper();
  Warden warden(programs, line, std::move(channel), take_signals(), front);
  if (first_supervisor) warden.fork_supervisor(std::move(first_supervisor));
  rename_process(kWardenName, line);
  warden.run();
  ::_exit(0);
}

WardenHandle fork_warden(const RankPrograms& programs, CommandLine line, UniqueFd our_supervisor,
                         UniqueFd supervisors, int front) {
  become_subreaper();
  auto [ours, wardens] = make_channel();
  const pid_t warden = ::fork();
  if (warden < 0) throw_error(ErrorKind::kIo, "fork: {}", spawn_error_text(errno));
  if (warden == 0) {
    ours.reset();
    our_supervisor.reset();
    try {
      be_warden(programs, line, std::move(wardens), std::move(supervisors), front);
    } catch (...) {
      ::_exit(1);
    }
  }
  return {warden, std::move(ours), std::move(our_supervisor)};
}

}  // namespace

WardenHandle start_warden(const RankPrograms& programs, CommandLine line, int front) {
  auto [ours, supervisors] = make_channel();
  return fork_warden(programs, line, std::move(ours), std::move(supervisors), front);
}

WardenHandle start_warden_of_helpers(CommandLine line) {
  return fork_warden({}, line, {}, {}, -1);
}

}  // namespace dl::launcher
