#include "launcher/process/signal_meaning.h"

#include <signal.h>

namespace dl::launcher {

SignalMeaning meaning_of(int signal) noexcept {
  switch (signal) {
    case SIGKILL:
    case SIGSTOP:
    case SIGCONT:  // SIGTSTP's other half; dlrun sees that it goes on
    case SIGTTIN:  // the terminal's word to a background process, which must stop then and there
    case SIGTTOU:
    case SIGCHLD:
    case SIGURG:
    case SIGWINCH:
      return SignalMeaning::kSystem;
    case SIGTSTP:
      return SignalMeaning::kSuspend;
    case SIGUSR1:
      return SignalMeaning::kReport;
    case SIGUSR2:
      return SignalMeaning::kForward;
    default:
      return SignalMeaning::kEndJob;
  }
}

bool is_of_a_person(int signal) noexcept {
  return signal == SIGINT || signal == SIGTERM || signal == SIGHUP || signal == SIGQUIT;
}

}  // namespace dl::launcher
