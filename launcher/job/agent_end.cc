// The agent's way to the end of the job, and its last word.
#include <fmt/core.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/base/deadline.h"
#include "core/base/error.h"
#include "launcher/job/agent.h"
#include "launcher/process/descendants.h"
#include "launcher/process/rank_files.h"

namespace dl::launcher {

void Agent::end_job(OtherCause cause, int signal) {
  if (link_ && !link_over_) {
    link_->leave(fmt::format("node {} (host {}): {}", plan_.node_rank, plan_.host,
                             cause.text.empty() ? "nobody reads its output any more" : cause.text));
    link_over_ = true;
  }
  if (!other_cause_ && !job_failure_ && !first_cause_.finding()) {
    other_cause_ = std::move(cause);
  }
  stop_ranks(signal);
}

void Agent::stop_ranks(int signal) {
  if (stopping_) return;
  stopping_ = true;
  signal_ranks(signal);
  signal_ranks(SIGCONT);  // a stopped process takes no other signal
  timer_.expires_after(options_.grace);
  timer_.async_wait([this](const boost::system::error_code& error) {
    if (!error) kill_ranks();
  });
}

// Reaches every rank that was asked for before: the supervisor takes messages in order.
void Agent::signal_ranks(int signal) {
  Message message;
  message.kind = MessageKind::kSignal;
  message.slot = kEveryRank;
  message.number = signal;
  supervisor_.send(std::move(message));
}

void Agent::finish_if_all_ended() {
  if (alive_ > 0 || is_starting() || finishing_) return;
  // No rank is left on this node that could still fail first.
  while (question_) answer();
  if (!link_) {
    finish();
    return;
  }
  if (!link_over_) {
    const bool all_well = std::none_of(ranks_.begin(), ranks_.end(),
                                       [](const Rank& rank) { return rank.end.failed(); });
    if (!stopping_ && all_well) {
      link_->done();  // and then on_all_done(), whenever the others are
    } else if (stopping_) {
      // The service names one first cause to all; without its word, ours stands.
      link_timer_.expires_after(kFarewell);
      link_timer_.async_wait([this](const boost::system::error_code& error) {
        if (!error) close_link();
      });
    }
    return;
  }
  if (helper_runs_) {
    close_link();
  } else {
    finish();
  }
}

void Agent::finish() {
  if (finishing_) return;
  finishing_ = true;
  timer_.cancel();
  watch_timer_.cancel();
  link_timer_.cancel();
  if (helper_runs_) {
    Message kill;
    kill.kind = MessageKind::kSignal;
    kill.slot = kFirstHelperSlot;
    kill.number = SIGKILL;  // it keeps nothing that anybody still needs
    supervisor_.send(std::move(kill));
  }
  Message message;
  message.kind = MessageKind::kFinish;
  message.number = interrupts_ > 1 ? -1 : stopping_ ? 0 : static_cast<int>(kPatience.count());
  supervisor_.send(std::move(message));
  expect_end(kMostPatience);
}

void Agent::on_signal(int signal) {
  switch (meaning_of(signal)) {
    case SignalMeaning::kSuspend:
      suspend();
      return;
    case SignalMeaning::kReport:
      on_request();
      return;
    case SignalMeaning::kForward:
      signal_ranks(signal);
      return;
    case SignalMeaning::kSystem:
      return;
    case SignalMeaning::kEndJob:
      break;
  }
  if (interrupts_ > 0 && !is_of_a_person(signal)) return;
  last_interrupt_ = signal;
  output_.hurry_until(++interrupts_ == 1 && !output_.is_finishing() ? Clock::now() + options_.grace
                                                                    : Clock::now());
  if (output_.is_finishing()) return;
  if (interrupts_ > 1) {
    if (said_left_) {
      gave_up_ = true;
      io_.stop();
    } else {
      kill_ranks();
    }
    return;
  }
  // Ranks get SIGINT for Ctrl-C, as they would without dlrun: Python's KeyboardInterrupt.
  end_job({128 + signal, fmt::format("stopped by {} after {:.1f} s", signal_name(signal),
                                     std::chrono::duration<double>(Clock::now() - began_).count())},
          signal == SIGINT ? SIGINT : SIGTERM);
  finish_if_all_ended();
}

void Agent::suspend() {
  if (!output_.is_finishing()) {
    signal_ranks(SIGSTOP);
    supervisor_.flush(Deadline::after(kSilence));
    if (link_) link_->suspended();
  }
  ::raise(SIGSTOP);  // returns once the shell says `fg` or `bg`
  if (output_.is_finishing()) return;
  if (link_) link_->resumed();
  signal_ranks(SIGCONT);
}

void Agent::on_output_lost(int error) {
  // As any program of a pipeline ends when nobody reads it any more, and without a word.
  if (error == EPIPE) {
    end_job({128 + SIGPIPE, ""}, SIGTERM);
  } else {
    end_job({1, fmt::format("write to standard output: {}", std::strerror(error))}, SIGTERM);
  }
}

namespace {

int shell_code(int status) {
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

// What is known of a supervisor that is gone, from its warden's end.
std::string supervisor_end(std::optional<int> warden) {
  if (!warden) return "the supervisor is gone, and the warden did not end what it left";
  if (WIFSIGNALED(*warden)) {
    return fmt::format("the warden {}, and the supervisor is gone too", how_it_ended(*warden));
  }
  const int code = WEXITSTATUS(*warden);
  return fmt::format("the supervisor {}", how_it_ended(code > 128 ? code - 128 : code << 8));
}

}  // namespace

void Agent::on_supervisor_gone() {
  if (finished_) return;
  const std::optional<int> warden = end_of_warden();
  const int code = shell_code(warden.value_or(0));
  end_job({code == 0 ? 1 : code, supervisor_end(warden) + "; all ranks were ended"}, SIGTERM);
  io_.stop();
}

void Agent::wait_for_wardens_end() {
  warden_life_.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                          [this](const boost::system::error_code& error) {
                            if (!error) on_warden_gone();
                          });
}

// One that ends in order does so after the supervisor, whose channel then says more.
void Agent::on_warden_gone() {
  const std::optional<int> status = end_of_warden();
  if (finished_ || !status || !WIFSIGNALED(*status)) return;
  end_job({shell_code(*status),
           fmt::format("the warden {}; all ranks were ended", how_it_ended(*status))},
          SIGKILL);
  finish_if_all_ended();
}

// Waits until the warden has ended what the supervisor left.
std::optional<int> Agent::end_of_warden() {
  if (warden_ <= 0) return warden_status_;
  ::kill(warden_, SIGCONT);  // it may be stopped
  pollfd life{warden_life_.native_handle(), POLLIN, 0};
  const Deadline deadline = Deadline::after(kTimeToEndTree);
  while (::poll(&life, 1, deadline.poll_timeout()) < 0 && errno == EINTR) {
  }
  const bool has_ended = life.revents != 0;
  if (!has_ended) ::kill(warden_, SIGKILL);  // what is left falls to dlrun
  int status = 0;
  pid_t ended;
  do {
    ended = ::waitpid(warden_, &status, 0);
  } while (ended < 0 && errno == EINTR);
  if (has_ended && ended == warden_) warden_status_ = status;
  warden_ = -1;
  return warden_status_;
}

std::vector<RankFacts> Agent::facts() const {
  std::vector<RankFacts> facts;
  for (const Rank& rank : ranks_) facts.push_back(facts_of(rank));
  return facts;
}

RankFacts Agent::facts_of(const Rank& rank) const {
  RankFacts one;
  one.rank = rank_number(rank);
  one.pid = rank.pid;
  one.started = rank.pid > 0;
  one.ended = rank.ended;
  one.ran = ran(rank);
  one.end = rank.end;
  if (rank.err) one.stderr_tail = rank.err->tail();
  if (rank.out) one.stdout_tail = rank.out->tail();
  if (rank.error_memory) {
    one.error_file = read_file(path_of_descriptor(rank.error_memory.get()));
  }
  return one;
}

void Agent::say(const std::string& line) {
  output_.say(line);
}

Agent::Ending Agent::ending() {
  if (other_cause_) {
    if (other_cause_->text.empty()) return {other_cause_->exit_code, {}};
    return {other_cause_->exit_code, {other_cause_->text}, /*keeps_recorders=*/true};
  }
  if (job_failure_) {
    Ending failed{1, {job_failure_->text}, /*keeps_recorders=*/true};
    for (std::string_view rest = job_failure_->detail; !rest.empty();) {
      const std::size_t end = rest.find('\n');
      failed.page.emplace_back(rest.substr(0, end));
      rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
    }
    const std::string fate = fate_of_others(job_failure_->rank, facts());
    if (!fate.empty()) failed.page.push_back(fmt::format("  on this node: {}", fate));
    if (job_failure_->exit_code != 0) failed.exit_code = job_failure_->exit_code;
    if (job_failure_->signal != 0) failed.exit_code = 128 + job_failure_->signal;
    return failed;
  }
  return first_cause_.finding() ? ending_of(*first_cause_.finding()) : Ending();
}

Agent::Ending Agent::ending_of(const rendezvous::Finding& found) {
  const std::vector<RankFacts> all = facts();
  const RankFacts& named = all.at(static_cast<std::size_t>(found.rank - meeting_->first_rank));
  Ending ending{found.exit_code, {}, /*keeps_recorders=*/true};
  ending.page.push_back(found.headline.empty()
                            ? describe_end(named, {plan_.host, meeting_->group_rank}) + found.clause
                            : found.headline);
  ending.page.insert(ending.page.end(), found.notes.begin(), found.notes.end());
  const std::vector<std::string> words = last_words(named);
  ending.page.insert(ending.page.end(), words.begin(), words.end());
  if (const std::string others = fate_of_others(named.rank, all); !others.empty()) {
    ending.page.push_back(fmt::format("  the others: {}", others));
  }
  return ending;
}

// dlrun's exit code.
int Agent::bring_out(Ending ending) {
  if (gave_up_) {
    ending.page.push_back(
        "dlrun ends without these, which SIGKILL has not ended; they end once the system lets "
        "them:");
    for (const std::string& left : who_is_left()) ending.page.push_back("  " + left);
  }
  output_.show(ending.page);
  keep_error_files();
  if (ending.keeps_recorders) keep_recorders();
  output_.finish();
  const int error = output_.lost();
  if (error == 0 || ending.exit_code != 0) return ending.exit_code;
  if (error == ETIME) return 128 + last_interrupt_;
  if (error == EPIPE) return 128 + SIGPIPE;
  say(fmt::format("write to standard output: {}", std::strerror(error)));
  return 1;
}

}  // namespace dl::launcher
