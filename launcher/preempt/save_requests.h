// SaveRequests: decides which signals ask a job to save and end (--preempt, --preempt-usr2). The
// frontend and each agent have one, because SLURM signals both.
#pragma once

#include <chrono>
#include <csignal>
#include <optional>

namespace dl::launcher {

class SaveRequests {
 public:
  using Time = std::chrono::steady_clock::time_point;
  enum class Is {
    kNone,      // no request: the signal means what it means without --preempt
    kFirst,     // ask the ranks
    kRepeated,  // the ranks were asked before
  };

  SaveRequests(bool on_term, bool on_usr2) : on_term_(on_term), on_usr2_(on_usr2) {}

  Is take(int signal, Time now) {
    if (!(signal == SIGTERM && on_term_) && !(signal == SIGUSR2 && on_usr2_)) return Is::kNone;
    if (!asked_) {
      asked_ = now;
      return Is::kFirst;
    }
    // A later SIGTERM ends the job.
    return signal != SIGTERM || now < *asked_ + kOneRequest ? Is::kRepeated : Is::kNone;
  }
  // To be called if something other than a signal asks. Returns false if there was a request
  // before.
  bool ask(Time now) {
    if (asked_) return false;
    asked_ = now;
    return true;
  }

 private:
  // SLURM may send one signal to dlrun both by itself and through srun.
  static constexpr std::chrono::seconds kOneRequest{2};

  bool on_term_;
  bool on_usr2_;
  std::optional<Time> asked_;
};

}  // namespace dl::launcher
