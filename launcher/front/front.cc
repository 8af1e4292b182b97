#include "launcher/front/front.h"

#include <fmt/core.h>
#include <signal.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "launcher/verdict/report.h"

namespace dl::launcher {
namespace {

AgentSettings settings_of(const Options& options, const JobOutput& output) {
  AgentSettings settings;
  settings.grace = options.grace;
  settings.join_timeout = options.join_timeout;
  settings.log_dir = options.log_dir;
  settings.master_addr = options.master_addr;
  if (output.out().is_terminal()) {
    const int prefix = static_cast<int>(output.prefix_of(0).size());
    settings.progress_columns = std::max(0, output.out().columns() - 1 - prefix);
  }
  return settings;
}

std::string text_of_lost_output(int error) {
  if (error == EBADF) return "standard output is closed: what ranks write to it is lost";
  return fmt::format("write to standard output: {}", std::strerror(error));
}

}  // namespace

Front::Front(const Options& options, Starter& starter)
    : options_(options),
      disk_(io_),
      output_(io_, disk_, options.prefix, [this](int error) { on_output_lost(error); }),
      agent_(starter.start(
          {io_, disk_, output_, *this, settings_of(options, output_), options.key_file})),
      signals_(io_, [this](int signal) { on_signal(signal); }),
      restarts_(options.max_restarts) {
  output_.show_node(agent_->node_output());
}

int Front::run() {
  agent_->begin();
  io_.run();
  output_.begin_finish();
  return bring_out(agent_->finish());
}

void Front::on_attempt(int, int, int) {}

void Front::on_rank(const RankNews&) {}

rendezvous::Restart Front::on_verdict(const Verdict& verdict) {
  if (verdict.agreed) return *verdict.agreed;
  if (!verdict.may_begin_again) return {};
  return restarts_.decide({.exit_code = verdict.exit_code, .ran = verdict.ran});
}

void Front::on_begins_again(const Verdict& verdict, const rendezvous::Restart& restart) {
  for (const std::string& line : verdict.page) output_.say(line);
  const auto wait = std::chrono::duration_cast<std::chrono::seconds>(restart.delay).count();
  output_.say(fmt::format("restart {} of {}: all ranks begin again{}", restart.number, restart.most,
                          wait == 0 ? ""
                                    : fmt::format(" in {} s, as they fail soon after each "
                                                  "start",
                                                  wait)));
}

// Signals.

void Front::on_signal(int signal) {
  switch (meaning_of(signal)) {
    case SignalMeaning::kSuspend:
      suspend();
      return;
    case SignalMeaning::kReport:
      report();
      return;
    case SignalMeaning::kForward:
      agent_->signal_ranks(signal);
      return;
    case SignalMeaning::kSystem:
      return;
    case SignalMeaning::kEndJob:
      end_for(signal);
      return;
  }
}

void Front::end_for(int signal) {
  if (interrupts_ > 0 && !is_of_a_person(signal)) return;
  last_interrupt_ = signal;
  ++interrupts_;
  output_.hurry_until(interrupts_ == 1 && !output_.is_finishing() ? Clock::now() + options_.grace
                                                                  : Clock::now());
  if (output_.is_finishing()) return;
  if (interrupts_ > 1) {
    agent_->hurry();
    return;
  }
  const std::chrono::duration<double> ran = Clock::now() - began_;
  // Ranks get SIGINT for Ctrl-C, as they would without dlrun: Python's KeyboardInterrupt.
  agent_->stop(
      {128 + signal, fmt::format("stopped by {} after {:.1f} s", signal_name(signal), ran.count())},
      signal == SIGINT ? SIGINT : SIGTERM);
}

void Front::suspend() {
  if (!output_.is_finishing()) agent_->suspend();
  ::raise(SIGSTOP);  // returns once the shell says `fg` or `bg`
  if (!output_.is_finishing()) agent_->resume();
}

void Front::report() {
  for (const std::string& line : output_.who_stands_still()) output_.say(line);
  if (output_.is_finishing()) {
    output_.say("all ranks have ended; what is left is to write their output");
  } else {
    agent_->report();
  }
}

// A program of a pipeline ends without a word when nobody reads it any more.
void Front::on_output_lost(int error) {
  if (error == EPIPE) {
    agent_->stop({128 + SIGPIPE, ""}, SIGTERM);
  } else {
    agent_->stop({1, text_of_lost_output(error)}, SIGTERM);
  }
}

// The end.

int Front::bring_out(Verdict verdict) {
  const std::vector<std::string> left = agent_->left_behind();
  if (!left.empty()) {
    verdict.page.push_back(
        "dlrun ends without these, which SIGKILL has not ended; they end once the system lets "
        "them:");
    for (const std::string& one : left) verdict.page.push_back("  " + one);
  }
  output_.show(verdict.page);
  agent_->keep_files(verdict);
  output_.finish();
  const int error = output_.lost();
  if (error == 0 || verdict.exit_code != 0) return verdict.exit_code;
  if (error == ETIME) return 128 + last_interrupt_;
  if (error == EPIPE) return 128 + SIGPIPE;
  output_.say_last(text_of_lost_output(error));
  return 1;
}

}  // namespace dl::launcher
