#include "launcher/agent/ending/cleanup.h"

#include <fmt/core.h>
#include <signal.h>

#include <utility>

#include "core/base/deadline.h"
#include "launcher/process/descendants.h"

namespace dl::launcher {

Cleanup::Cleanup(boost::asio::io_context& io, const NodePlan& plan, const Generations& generations,
                 const Overseers& overseers, std::function<void(const std::string&)> say)
    : io_(io),
      plan_(plan),
      generations_(generations),
      overseers_(overseers),
      say_(std::move(say)) {}

bool Cleanup::linger(std::chrono::milliseconds time, std::function<void()> on_over) {
  Generation* const generation = generations_.current();
  if (generation == nullptr || !overseers_.has_supervisor()) return false;
  if (time.count() > 0) generation->finish(Leftovers::kWait);
  lingering_.emplace(io_, time,
                     Lingering::Events{.find =
                                           [this, generation] {
                                             return find_leftovers(generation->ranks().by_pid(),
                                                                   plan_.job.name);
                                           },
                                       .on_sentence = say_,
                                       .on_over = std::move(on_over)});
  lingering_->begin();
  return true;
}

bool Cleanup::sweep(Leftovers order) {
  if (lingering_) lingering_->end();
  Generation* const generation = generations_.current();
  if (generation == nullptr || !overseers_.has_supervisor()) return false;
  generation->finish(order);
  return true;
}

void Cleanup::stop_lingering() {
  if (lingering_) lingering_->stop();
}

void Cleanup::suspend() {
  if (lingering_) lingering_->suspend();
}

void Cleanup::resume() {
  if (lingering_) lingering_->resume();
}

void Cleanup::report() const {
  if (lingering_) lingering_->report();
}

// The ranks that are left; if there are none, all other processes that are left.
std::vector<std::string> Cleanup::who_is_left() const {
  std::vector<std::string> left;
  if (const Generation* const generation = generations_.current()) {
    left =
        generation->ranks().who_is_left([this](int rank) { return plan_.program_of(rank).path; });
  }
  return left.empty() ? living_descendants() : left;
}

void Cleanup::wake_overseers() const {
  end_stop_of_overseers(SIGCONT, "continues");
}

void Cleanup::end_stop_of_overseers(int signal, const char* what_dlrun_does) const {
  for (const StoppedOverseer& stopped : stopped_overseers()) {
    say_(fmt::format("{} (pid {}) is stopped and cannot end the ranks; dlrun {} it", stopped.name,
                     stopped.pid, what_dlrun_does));
    ::kill(stopped.pid, signal);
  }
}

bool Cleanup::name_left() const {
  end_stop_of_overseers(SIGKILL, "kills");
  const std::vector<std::string> left = who_is_left();
  if (left.empty()) return false;
  say_(
      fmt::format("not ended within {} s; dlrun waits {} s more, and a further Ctrl-C or SIGTERM "
                  "ends it now:",
                  kSilence.count(), (kMostKilling - kSilence).count()));
  for (const std::string& one : left) say_("  " + one);
  return true;
}

void Cleanup::finish() {
  if (gave_up_ || kill_descendants(rendezvous::Deadline::after(kSilence))) return;
  name_left();
  gave_up_ = !kill_descendants(rendezvous::Deadline::after(kMostKilling - kSilence));
}

std::vector<std::string> Cleanup::left_behind() const {
  return gave_up_ ? who_is_left() : std::vector<std::string>();
}

}  // namespace dl::launcher
