#include "launcher/frontend/frontend.h"

#include <fmt/core.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "core/base/deadline.h"
#include "core/base/system/output.h"
#include "core/base/system/process/shell.h"
#include "launcher/cli/line_prefix.h"
#include "launcher/plan/machine/machine.h"
#include "launcher/process/start/program.h"
#include "launcher/process/start/rank_files.h"
#include "launcher/verdict/report.h"

namespace dl::launcher {
namespace {

std::string text_of_lost_output(LostStream lost) {
  const char* const name = lost.stream == Stream::kOut ? "standard output" : "standard error";
  if (lost.error == ETIME) return fmt::format("{} was not read in time; its end is lost", name);
  if (lost.error == EBADF) return fmt::format("{} is closed: what ranks write to it is lost", name);
  return fmt::format("write to {}: {}", name, std::strerror(lost.error));
}

CardFacts card_of(const Starter& starter, const std::string& host, const std::string& log_dir) {
  CardFacts facts = starter.card();
  facts.host = host;
  facts.log_dir = log_dir;
  return facts;
}

}  // namespace

Frontend::Frontend(const Options& options, Starter& starter)
    : options_(options),
      host_(host_name()),
      card_(card_of(starter, host_, options.output.log_dir)),
      disk_(io_),
      output_(
          io_, disk_, [this](const StreamId& id) { return look_of(id); },
          [this](LostStream lost) { on_output_lost(lost); }),
      agent_(starter.start({io_, disk_, output_, *this, settings(), options.meet.key_file})),
      signals_(io_, [this](int signal) { on_signal(signal); }),
      restarts_(options.end.max_restarts),
      timeout_(io_),
      allocation_timer_(io_),
      save_requests_(options.end.preempt_on_term, options.end.preempt_on_usr2) {
  output_.show_node(agent_->node_output());
}

AgentSettings Frontend::settings() const {
  AgentSettings settings;
  settings.log_dir = options_.output.log_dir;
  settings.preempt_wait = options_.end.patience_with_saving();
  if (output_.out().is_terminal()) {
    const int prefix = static_cast<int>(look_of({.attempt = 0, .rank = 0}).prefix.size());
    settings.progress_columns = std::max(0, output_.out().columns() - 1 - prefix);
  }
  return settings;
}

LineLook Frontend::look_of(const StreamId& id) const {
  const auto found = local_ranks_.find(id.rank);
  const int local_rank = found == local_ranks_.end() ? id.rank : found->second;
  const Streams shown = options_.output.shown_streams(local_rank);
  return {.prefix = line_prefix_of(options_.output.line_prefix, {.role_name = options_.job.role,
                                                                 .rank = id.rank,
                                                                 .local_rank = local_rank,
                                                                 .hostname = host_}),
          .shown = id.stream == Stream::kOut ? shown.out : shown.err,
          .timestamps = options_.output.timestamps};
}

int Frontend::run() {
  limit_time();
  discard_input_of_other_nodes();
  agent_->begin();
  watch_allocation();
  io_.run();
  timeout_.cancel();
  card_.set_state(CardState::kEnding);
  output_.begin_finish();
  Verdict verdict = agent_->finish();
  if (verdict.exit_code == 0) discard_rest_of_input();
  return finish_and_print(std::move(verdict));
}

void Frontend::limit_time() {
  if (!options_.end.timeout) return;
  timeout_.expires_after(*options_.end.timeout);
  timeout_.async_wait([this](const boost::system::error_code& error) {
    if (error) return;
    const std::chrono::duration<double> limit = *options_.end.timeout;
    agent_->stop({kExitTimeout,
                  fmt::format("the job has run for {:g} s, which is its --timeout", limit.count())},
                 SIGTERM);
  });
}

// srun sends its standard input to the dlrun of every node, and reads on only if all of them do.
// Only node 0's ranks read theirs, so the other nodes discard it. They stop at the end of the job:
// srun may kill a step of which one node reads on when another has left with input unread.
void Frontend::discard_input_of_other_nodes() {
  if (options_.where.slurm_step.empty() || options_.where.node_rank.value_or(0) == 0) return;
  constexpr std::uint32_t kPart = 64 << 10;
  discarded_.emplace(io_, duplicate(STDIN_FILENO), [this](const std::string& bytes) {
    may_have_input_left_ = !bytes.empty();
    if (discards_input_) discarded_->give(static_cast<std::uint32_t>(bytes.size()));
  });
  discarded_->give(kPart);
}

// Rank 0 may have read all of it while srun still sends the end to this node.
void Frontend::discard_rest_of_input() {
  constexpr std::chrono::milliseconds kMostPause{200};
  const auto end = rendezvous::Deadline::after(std::chrono::seconds(1));
  std::array<char, std::size_t{64} << 10> part;
  while (may_have_input_left_ && !end.has_passed()) {
    pollfd ready{STDIN_FILENO, POLLIN, 0};
    const auto pause = rendezvous::Deadline::earlier(end, rendezvous::Deadline::after(kMostPause));
    may_have_input_left_ = ::poll(&ready, 1, pause.poll_timeout()) == 1 &&
                           ::read(STDIN_FILENO, part.data(), part.size()) > 0;
  }
}

void Frontend::on_attempt(int attempt, const std::vector<int>& ranks) {
  state_.attempt_began(attempt, ranks, Clock::now());
  card_.attempt_began(attempt, ranks);
  if (attempt != attempt_) local_ranks_.clear();
  attempt_ = attempt;
  for (std::size_t i = 0; i < ranks.size(); ++i) local_ranks_[ranks[i]] = static_cast<int>(i);
}

void Frontend::on_rank(const RankNews& news) {
  state_.rank_changed(news, Clock::now());
  show_on(card_, news);
}

rendezvous::Restart Frontend::on_verdict(const Verdict& verdict) {
  rendezvous::Restart restart;
  if (verdict.agreed) {
    restart = *verdict.agreed;
  } else if (verdict.may_begin_again) {
    restart = restarts_.decide({.exit_code = verdict.exit_code, .ran = verdict.ran});
  }
  discards_input_ = restart.again;
  return restart;
}

void Frontend::on_begins_again(const Verdict& verdict, const rendezvous::Restart& restart) {
  state_.attempt_ended(verdict, Clock::now());
  for (const std::string& line : verdict.page) output_.say(line);
  output_.say(restart_sentence(restart));
}

// Signals.

bool Frontend::is_to_handle(int signal) const {
  const std::vector<int>& named = options_.end.signals_to_handle;
  return std::find(named.begin(), named.end(), signal) != named.end();
}

void Frontend::on_signal(int signal) {
  if (asks_to_save(signal)) return;
  if (is_to_handle(signal)) {
    end_for(signal);
    return;
  }
  switch (options_.end.meaning_of(signal)) {
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

bool Frontend::asks_to_save(int signal) {
  if (output_.is_finishing() || interrupts_ > 0) return false;
  switch (save_requests_.take(signal, Clock::now())) {
    case SaveRequests::Is::kFirst:
      agent_->ask_to_save(signal_name(signal));
      return true;
    case SaveRequests::Is::kRepeated:
      return true;
    case SaveRequests::Is::kNone:
      return false;
  }
  return false;
}

void Frontend::watch_allocation() {
  if (!options_.end.preempt_at) return;
  const auto left = *options_.end.preempt_at - std::chrono::system_clock::now();
  allocation_timer_.expires_after(std::max<std::chrono::system_clock::duration>(left, {}));
  allocation_timer_.async_wait([this](const boost::system::error_code& error) {
    if (error || interrupts_ > 0 || !save_requests_.ask(Clock::now())) return;
    agent_->ask_to_save("the end of SLURM's allocation, which is near");
  });
}

void Frontend::end_for(int signal) {
  if (interrupts_ > 0 && !is_of_a_person(signal)) return;
  last_interrupt_ = signal;
  ++interrupts_;
  card_.set_state(CardState::kEnding);
  output_.set_reader_deadline(interrupts_ == 1 && !output_.is_finishing()
                                  ? Clock::now() + options_.end.grace
                                  : Clock::now());
  if (output_.is_finishing()) return;
  if (interrupts_ > 1) {
    agent_->kill_now();
    return;
  }
  const std::chrono::duration<double> ran = Clock::now() - began_;
  // Ranks get SIGINT for Ctrl-C, as they would without dlrun: Python's KeyboardInterrupt.
  const bool as_it_is = signal == SIGINT || is_to_handle(signal);
  agent_->stop(
      {128 + signal, fmt::format("stopped by {} after {:.1f} s", signal_name(signal), ran.count())},
      as_it_is ? signal : SIGTERM);
}

void Frontend::suspend() {
  if (!output_.is_finishing()) agent_->suspend();
  ::raise(SIGSTOP);  // returns once the shell says `fg` or `bg`
  if (!output_.is_finishing()) agent_->resume();
}

void Frontend::report() {
  for (const std::string& line : output_.who_stands_still()) output_.say(line);
  if (output_.is_finishing()) {
    output_.say("all ranks have ended; what is left is to write their output");
  } else {
    for (const std::string& line : state_.page(Clock::now())) output_.say(line);
    agent_->report();
  }
}

// EPIPE: a program in a pipeline ends silently when its reader is gone.
void Frontend::on_output_lost(LostStream lost) {
  if (!lost_) lost_ = lost;
  if (lost.error == EPIPE) {
    agent_->stop({128 + SIGPIPE, ""}, SIGTERM);
  } else {
    agent_->stop({1, text_of_lost_output(lost)}, SIGTERM);
  }
}

// The end.

int Frontend::finish_and_print(Verdict verdict) {
  state_.attempt_ended(verdict, Clock::now());
  const std::vector<std::string> left = agent_->left_behind();
  if (!left.empty()) {
    verdict.page.emplace_back("dlrun ends without these, which it could not end:");
    for (const std::string& one : left) verdict.page.push_back("  " + one);
  }
  output_.log(verdict.page);
  if (!has_reported(verdict)) output_.show(verdict.page);
  agent_->keep_files(verdict);
  output_.finish();
  if (verdict.exit_code != 0 || !output_.lost()) return verdict.exit_code;
  lost_ = output_.lost();
  const Verdict after_loss{exit_code_of(*lost_), {}};
  const bool was_said = lost_->error == ETIME || lost_->error == EPIPE;
  if (!has_reported(after_loss) && !was_said) output_.say_last(text_of_lost_output(*lost_));
  return after_loss.exit_code;
}

// ETIME: finish() has reported it. EPIPE: see on_output_lost().
int Frontend::exit_code_of(LostStream lost) const {
  if (lost.error == ETIME && last_interrupt_ != 0) return 128 + last_interrupt_;
  return lost.error == EPIPE ? 128 + SIGPIPE : 1;
}

bool Frontend::has_reported(const Verdict& verdict) {
  if (options_.output.report_fd < 0 || verdict.exit_code == 0) return false;
  std::string page = fmt::format("{}", fmt::join(verdict.page, "\n"));
  if (page.empty() && lost_) page = text_of_lost_output(*lost_);
  const int error =
      write_all(options_.output.report_fd,
                fmt::format("failed {} {}\n{}\n", verdict.rank, verdict.exit_code, page));
  if (error == 0) return true;
  output_.say(fmt::format("write to descriptor {} of --report-fd: {}", options_.output.report_fd,
                          std::strerror(error)));
  return false;
}

}  // namespace dl::launcher
