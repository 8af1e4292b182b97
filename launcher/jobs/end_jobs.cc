#include "launcher/jobs/end_jobs.h"

#include <fmt/core.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <optional>

#include "core/base/deadline.h"
#include "core/base/error.h"
#include "core/base/system/process/shell.h"
#include "core/base/system/unique_fd.h"
#include "launcher/jobs/find/processes.h"
#include "launcher/process/descendants.h"
#include "launcher/process/signal_meaning.h"
#include "rendezvous/first_cause/first_cause.h"

namespace dl::launcher::jobs {
namespace {

using rendezvous::Deadline;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kBetweenRemarks{5};

UniqueFd open_process(pid_t pid) {
  return UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
}

bool ends_a_job(int signal) {
  return signal == SIGKILL || meaning_of(signal) == SignalMeaning::kEndJob;
}

// From "SigIgn:\t0000000000001000", bit N-1 for signal N.
bool ignores(pid_t pid, int signal) {
  std::ifstream file(fmt::format("/proc/{}/status", pid));
  for (std::string word; file >> word;) {
    if (word != "SigIgn:") continue;
    std::uint64_t mask = 0;
    file >> std::hex >> mask;
    return (mask >> (signal - 1) & 1U) != 0;
  }
  return false;
}

pid_t warden_of(pid_t dlrun) {
  for (const auto& [pid, stat] : own_processes()) {
    if (stat.parent == dlrun && stat.name == kWardenName) return pid;
  }
  return -1;
}

bool has_ended(const UniqueFd& process) {
  pollfd entry{.fd = process.get(), .events = POLLIN, .revents = 0};
  return !process || ::poll(&entry, 1, 0) > 0;
}

// One dlrun: signalled once, then watched.
class Target {
 public:
  explicit Target(const Chosen& chosen)
      : name_(name_of(chosen)), job_(chosen.job), process_(open_process(job_.pid)) {
    open_error_ = process_ ? 0 : errno;
    outcome_ = {.host = chosen.host, .id = job_.id, .name = job_.name, .pid = job_.pid, .text = {}};
  }

  void send(int signal) {
    signal_ = signal;
    sent_ = Clock::now();
    if (open_error_ != 0 && open_error_ != ESRCH) {
      throw_errno(open_error_, fmt::format("a handle of process {}", job_.pid));
    }
    // The process may have ended and its pid be another's since it was found. With the pidfd open,
    // the pid cannot change its process any more while this one lives.
    const std::optional<FoundDlrun> now = process_ ? look_at_dlrun(job_.pid) : std::nullopt;
    if (!now || id_of(job_.pid, now->stat.start_ticks) != job_.id) {
      end(Outcome::Is::kEnded, "had ended already");
      return;
    }
    if (signal != SIGKILL && signal != SIGSTOP && ignores(job_.pid, signal)) {
      end(Outcome::Is::kFailed,
          fmt::format("was started with {} ignored, as nohup does; give another --signal",
                      signal_name(signal)));
      return;
    }
    if (signal == SIGKILL) warden_ = open_process(warden_of(job_.pid));
    if (::syscall(SYS_pidfd_send_signal, process_.get(), signal, nullptr, 0) != 0) {
      if (errno != ESRCH) throw_errno(errno, fmt::format("signal to dlrun {}", job_.pid));
      end(Outcome::Is::kEnded, "had ended already");
      return;
    }
    if (!ends_a_job(signal)) {
      end(Outcome::Is::kSent, fmt::format("got {}", signal_name(signal)));
      return;
    }
    // Only a process that runs takes a signal.
    if (signal != SIGKILL && (now->stat.state == 'T' || now->stat.state == 't')) {
      ::syscall(SYS_pidfd_send_signal, process_.get(), SIGCONT, nullptr, 0);
    }
  }

  bool is_over() const { return is_over_; }
  // The descriptor that is readable when the next of its processes has ended.
  int fd() const { return has_ended(process_) ? warden_.get() : process_.get(); }
  void check_end() {
    if (is_over_ || !has_ended(process_) || !has_ended(warden_)) return;
    outcome_.seconds = std::chrono::duration<double>(Clock::now() - sent_).count();
    end(Outcome::Is::kEnded,
        fmt::format("has ended, {:.1f} s after {}", outcome_.seconds, signal_name(signal_)));
  }
  void give_up(std::chrono::milliseconds patience) {
    if (is_over_) return;
    end(Outcome::Is::kStillHere,
        fmt::format("has not ended within {:g} s of {}{}",
                    static_cast<double>(patience.count()) / 1e3, signal_name(signal_),
                    signal_ == SIGKILL ? "" : "; `--signal KILL` ends it at once"));
  }
  // What it waits for.
  std::string remark() const {
    const std::optional<FoundDlrun> now = look_at_dlrun(job_.pid);
    std::vector<int> left;
    if (now) {
      for (const CardRank& rank : now->card.ranks) {
        if (rank.is == CardRank::Is::kRunning) left.push_back(rank.rank);
      }
    }
    return fmt::format("waiting for {}{}", name_,
                       left.empty() ? ""
                                    : fmt::format(": {} {}", rendezvous::rank_list(left),
                                                  left.size() == 1 ? "runs" : "run"));
  }
  const Outcome& outcome() const { return outcome_; }

 private:
  void end(Outcome::Is is, const std::string& text) {
    is_over_ = true;
    outcome_.is = is;
    outcome_.text = fmt::format("{} {}", name_, text);
  }

  std::string name_;
  JobView job_;
  UniqueFd process_;  // the dlrun
  UniqueFd warden_;   // SIGKILL: it ends the ranks
  int open_error_ = 0;
  int signal_ = 0;
  Clock::time_point sent_;
  Outcome outcome_;
  bool is_over_ = false;
};

void wait_for_ends(std::vector<Target>& targets, const EndingOptions& options) {
  const Deadline deadline = Deadline::after(options.patience);
  Deadline remark = Deadline::after(kBetweenRemarks);
  for (;;) {
    std::vector<pollfd> entries;
    for (Target& target : targets) {
      target.check_end();
      if (!target.is_over()) entries.push_back({.fd = target.fd(), .events = POLLIN, .revents = 0});
    }
    if (entries.empty()) break;
    if (remark.has_passed()) {
      for (const Target& target : targets) {
        if (!target.is_over() && options.on_waiting) options.on_waiting(target.remark());
      }
      remark = Deadline::after(kBetweenRemarks);
    }
    if (deadline.has_passed()) break;
    if (::poll(entries.data(), entries.size(), Deadline::earlier(deadline, remark).poll_timeout()) <
            0 &&
        errno != EINTR) {
      throw_errno(errno, "poll");
    }
  }
  for (Target& target : targets) target.give_up(options.patience);
}

}  // namespace

std::vector<Outcome> end_here(const std::vector<Chosen>& chosen, const EndingOptions& options) {
  std::vector<Target> targets;
  for (const Chosen& one : chosen) targets.emplace_back(one);
  for (Target& target : targets) target.send(options.signal);
  wait_for_ends(targets, options);
  std::vector<Outcome> outcomes;
  for (const Target& target : targets) outcomes.push_back(target.outcome());
  return outcomes;
}

}  // namespace dl::launcher::jobs
