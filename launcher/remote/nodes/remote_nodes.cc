#include "launcher/remote/nodes/remote_nodes.h"

#include <fmt/core.h>
#include <signal.h>

#include <algorithm>
#include <utility>

#include "core/base/deadline.h"
#include "core/base/text/name_list.h"
#include "launcher/frontend/starter.h"
#include "launcher/process/descendants.h"
#include "launcher/process/start/program.h"
#include "launcher/process/start/rank_files.h"

namespace dl::launcher::remote {
namespace {

// Time for all processes below dlrun to end after SIGKILL.
constexpr std::chrono::seconds kLastWait{5};
// Time for ssh to end after its agent's last message.
constexpr std::chrono::seconds kFarewell{3};
constexpr std::size_t kMostRemembered = 64;
// Time for the service to reach all nodes when the first node knows how the job ends, and then for
// their ranks to end before the user hears of it.
constexpr std::chrono::seconds kToDecide{1};
constexpr std::chrono::seconds kToName{1};

}  // namespace

RemoteNodes::RemoteNodes(AgentStart start, RemoteJob job, WardenHandle warden)
    : io_(start.io),
      job_(std::move(job)),
      events_(start.events),
      warden_(io_, std::move(warden)),
      output_(
          job_.plan.hosts.size(), start.disk, start.output,
          {.log_dir = start.settings.log_dir, .run = job_.plan.run},
          [this](const std::string& line) { events_.on_sentence(line); },
          [this](const std::string& failed) { end_job({1, {failed}}, SIGTERM); }),
      input_(io_, stdin_for_rank(),
             [this](std::string bytes) { hosts_.front()->send(Input{std::move(bytes)}); }),
      starts_(
          io_, hosts_, job_.join_timeout,
          {.on_sentence = [this](const std::string& line) { events_.on_sentence(line); },
           .on_late = [this](const std::string& why) { end_job({kExitTimeout, {why}}, SIGTERM); }}),
      heartbeat_(io_, hosts_, job_.beat, job_.most_silence,
                 {.ends = [this] { return verdict_.get().has_value(); },
                  .on_silent = [this](const std::string& text) { events_.on_sentence(text); },
                  .on_lost =
                      [this](RemoteHost& host, const std::string& how) {
                        // After a stop, on_failed() shows nothing: other failures follow from the
                        // stop.
                        if (stop_)
                          verdict_.add(fmt::format("host {} was lost: {}", host.name(), how));
                        host.lose(how);
                      }}),
      verdict_(job_.plan.hosts.size()),
      decided_timer_(io_),
      farewell_timer_(io_) {
  const std::string key = job_secret(/*nnodes=*/1, start.key_file).hex();
  warden_.on_events({.on_swept = {}, .on_no_supervisor = {}, .on_gone = [this](std::optional<int>) {
                       end_job({1, {"the warden of the processes that reach the hosts is gone"}},
                               SIGTERM);
                       // No other process would report their end.
                       warden_.end_orphans();
                     }});
  std::vector<std::unique_ptr<AgentLine>> lines = job_.lines(io_, warden_);
  for (std::size_t i = 0; i < job_.plan.hosts.size(); ++i) {
    job_.starts[i].key = key;
    job_.starts[i].progress_columns = start.settings.progress_columns;
    if (const auto wait = start.settings.preempt_wait) job_.starts[i].preempt_wait = wait->count();
    hosts_.push_back(std::make_unique<RemoteHost>(io_, static_cast<int>(i), std::move(lines[i]),
                                                  job_.dlrun, std::move(job_.starts[i]),
                                                  static_cast<RemoteHostEvents&>(*this)));
  }
}

// The start.

void RemoteNodes::begin() {
  starts_.begin();
  heartbeat_.begin();
}

void RemoteNodes::on_answered(RemoteHost& host) {
  if (stop_) {
    host.send(Stop{.exit_code = 1, .text = stop_->first, .signal = stop_->second});
    return;
  }
  if (host.node() != 0 && !endpoints_.empty()) host.send(Meet{endpoints_});
  if (host.node() == 0 && to_save_) host.send(Save{*std::exchange(to_save_, std::nullopt)});
  starts_.start_some();
}

void RemoteNodes::on_listening(RemoteHost& from, const std::vector<std::string>& endpoints) {
  if (from.node() != 0 || !endpoints_.empty()) return;
  endpoints_ = endpoints;
  for (const auto& host : hosts_) {
    if (host->node() != 0 && host->is_there()) host->send(Meet{endpoints_});
  }
}

// While it runs.

// All nodes report what concerns the whole job, so each sentence is shown once.
void RemoteNodes::on_sentence(RemoteHost& host, const std::string& text) {
  if (std::ranges::find(said_, text) != said_.end()) return;
  if (said_.size() == kMostRemembered) said_.erase(said_.begin());
  said_.push_back(text);
  events_.on_sentence(fmt::format("host {}: {}", host.name(), text));
}

void RemoteNodes::on_attempt(RemoteHost& host, const Attempt& attempt) {
  attempt_ = std::max(attempt_, attempt.attempt);
  if (host.node() == 0) {
    if (!std::exchange(gives_input_, true)) input_.give(kFirstInput);
    say_that_all_begin_again();  // the nodes have met, and another node's word may be on its way
  }
  output_.logs().begin_attempt(attempt.attempt, attempt.ranks);
  events_.on_attempt(attempt.attempt, attempt.ranks);
}

// Orders.

void RemoteNodes::stop(StopCause cause, int signal) {
  Verdict verdict{.exit_code = cause.exit_code, .page = {}, .attempt = attempt_};
  if (!cause.text.empty()) verdict.page.push_back(cause.text);
  end_job(std::move(verdict), signal);
}

void RemoteNodes::end_job(Verdict verdict, int signal) {
  const std::string text = verdict.page.empty() ? "" : verdict.page.front();
  const int exit_code = verdict.exit_code;
  verdict_.fail(std::move(verdict));
  if (stop_) return;
  stop_.emplace(text, signal);
  starts_.stop();
  for (const auto& host : hosts_) {
    if (host->is_there()) {
      host->send(Stop{.exit_code = exit_code, .text = text, .signal = signal});
    } else if (!host->has_answered()) {
      host->kill();
    }
  }
  check_over();
}

void RemoteNodes::kill_now() {
  if (++kill_requests_ > 1) {
    warden_.wake();  // it kills for this process
    for (const auto& host : hosts_) host->kill();
    if (is_over_) return;
    farewell_timer_.expires_after(kFarewell);
    farewell_timer_.async_wait([this](const boost::system::error_code& error) {
      if (!error) end_without_hosts();
    });
    return;
  }
  for (const auto& host : hosts_) {
    host->send(Order{Order::What::kKillNow});
    if (!host->has_answered()) host->kill();
  }
  heartbeat_.hurry();
}

void RemoteNodes::signal_ranks(int signal) {
  for (const auto& host : hosts_) host->send(SignalRanks{signal});
}

// The nodes tell each other.
void RemoteNodes::ask_to_save(const std::string& why) {
  if (hosts_.front()->is_there()) {
    hosts_.front()->send(Save{why});
  } else {
    to_save_ = why;
  }
}

void RemoteNodes::suspend() {
  for (const auto& host : hosts_) host->send(Order{Order::What::kSuspend});
}

void RemoteNodes::resume() {
  for (const auto& host : hosts_) host->send(Order{Order::What::kResume});
  input_.resume();
}

void RemoteNodes::report() {
  said_.clear();
  for (const auto& host : hosts_) {
    if (host->is_there()) {
      host->send(Order{Order::What::kReport});
    } else if (host->is_connecting()) {
      events_.on_sentence(fmt::format("host {} has not answered", host->name()));
    }
  }
}

// The end.

void RemoteNodes::on_begins_again(RemoteHost& host, BeginsAgain news) {
  if (verdict_.begins_again(host.node(), std::move(news))) say_that_all_begin_again();
}

void RemoteNodes::say_that_all_begin_again() {
  if (stop_) return;
  const std::optional<BeginsAgain> news = verdict_.take_restart();
  if (!news) return;
  events_.on_begins_again(news->verdict, {.again = true,
                                          .delay = std::chrono::milliseconds(news->delay_ms),
                                          .number = news->number,
                                          .most = news->most});
}

// The service tells all nodes at once. A node that its word does not reach must not run on.
void RemoteNodes::on_decided(RemoteHost& host, Verdict verdict) {
  const bool is_first = decided_.empty() && verdict.exit_code != 0;
  decided_.insert(host.node());
  verdict_.decided(std::move(verdict));
  if (!is_first) return;
  decided_timer_.expires_after(kToDecide);
  decided_timer_.async_wait([this](const boost::system::error_code& error) {
    if (!error) end_undecided();
  });
}

std::vector<RemoteHost*> RemoteNodes::undecided() const {
  std::vector<RemoteHost*> hosts;
  for (const auto& host : hosts_) {
    if (host->is_there() && !decided_.contains(host->node())) hosts.push_back(host.get());
  }
  return hosts;
}

void RemoteNodes::end_undecided() {
  if (!verdict_.get()) return;
  const std::string& text = verdict_.get()->page.empty() ? "" : verdict_.get()->page.front();
  for (RemoteHost* const host : undecided()) {
    host->send(Stop{.exit_code = verdict_.get()->exit_code, .text = text, .signal = SIGTERM});
  }
  decided_timer_.expires_after(kToName);
  decided_timer_.async_wait([this](const boost::system::error_code& error) {
    if (!error) name_cause();
  });
}

// A user need not wait for the end of all ranks to read why the job ends.
void RemoteNodes::name_cause() {
  std::vector<std::string> names;
  for (const auto& host : hosts_) {
    if (host->is_there()) names.push_back(host->name());
  }
  if (names.empty() || verdict_.get()->page.empty()) return;
  events_.on_sentence(fmt::format("{}; waiting for the end of host{} {}",
                                  verdict_.get()->page.front(), names.size() == 1 ? "" : "s",
                                  detail::name_list(names)));
}

void RemoteNodes::on_failed(RemoteHost& host, int exit_code, const std::string& failure) {
  std::string text = failure;
  const auto stood = std::chrono::round<std::chrono::seconds>(heartbeat_.stood_still());
  if (host.has_answered() && heartbeat_.stood_still().count() > 0) {
    text = fmt::format(
        "this dlrun stood still for about {} s (stopped, or its machine was paused), and its hosts "
        "gave "
        "it up: {}",
        stood.count(), failure);
  }
  // Another node may have reported first that it lost this node, without the reason.
  if (verdict_.get() && !stop_) verdict_.add(text);
  end_job({.exit_code = exit_code, .page = {text}, .attempt = attempt_}, SIGTERM);
}

void RemoteNodes::keep_files(const Verdict& verdict) {
  if (verdict.exit_code == 0 || !output_.has_recorders()) return;
  events_.on_sentence(fmt::format("  the last operations of each rank: dlrun autopsy {}",
                                  output_.logs().run_folder()));
}

void RemoteNodes::on_over(RemoteHost& host, const Over& over) {
  if (over.verdict.exit_code != 0) verdict_.fail(over.verdict);
  for (const std::string& line : over.left) {
    left_.push_back(fmt::format("host {}: {}", host.name(), line));
  }
  host.close();
  check_over();
}

void RemoteNodes::on_gone(RemoteHost& host) {
  output_.end_streams_of(host);
  starts_.start_some();
  check_over();
}

void RemoteNodes::check_over() {
  if (is_over_) return;
  const bool all_gone = std::ranges::all_of(
      hosts_, [&](const auto& host) { return host->is_gone() && (stop_ || host->is_over()); });
  if (all_gone) {
    say_over();
    return;
  }
  if (kill_requests_ > 1) return;  // its timer runs
  const bool all_said = std::ranges::all_of(hosts_, [](const auto& host) {
    return host->is_over() || host->is_gone() || host->has_failed();
  });
  if (!all_said) return;
  farewell_timer_.expires_after(kFarewell);
  farewell_timer_.async_wait([this](const boost::system::error_code& error) {
    if (error) return;
    for (const auto& host : hosts_) host->kill();
  });
}

// The user does not want to wait any more.
void RemoteNodes::end_without_hosts() {
  if (is_over_) return;
  for (const auto& host : hosts_) {
    if (!host->is_gone()) left_.push_back(fmt::format("host {}: its dlrun", host->name()));
  }
  say_over();
}

void RemoteNodes::say_over() {
  is_over_ = true;
  heartbeat_.cancel();
  starts_.cancel();
  decided_timer_.cancel();
  farewell_timer_.cancel();
  events_.on_over();
}

Verdict RemoteNodes::finish() {
  kill_descendants(rendezvous::Deadline::after(kLastWait));
  return verdict_.get().value_or(Verdict());
}

}  // namespace dl::launcher::remote
