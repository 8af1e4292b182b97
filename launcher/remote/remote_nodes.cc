#include "launcher/remote/remote_nodes.h"

#include <fmt/core.h>
#include <fmt/ranges.h>
#include <signal.h>

#include <algorithm>
#include <utility>

#include "collectives/record/snapshot.h"
#include "core/base/deadline.h"
#include "launcher/plan/job_secret.h"
#include "launcher/process/descendants.h"
#include "launcher/process/start/program.h"
#include "launcher/process/start/rank_files.h"

namespace dl::launcher::remote {
namespace {

// Bytes of output that are acknowledged in one message.
constexpr std::uint32_t kCreditPart = kFirstCredit / 8;
constexpr std::size_t kMostRemembered = 64;

}  // namespace

RemoteNodes::RemoteNodes(AgentStart start, RemoteJob job, WardenHandle warden)
    : io_(start.io),
      job_(std::move(job)),
      output_(
          start.disk, start.output, {.log_dir = start.settings.log_dir, .run = job_.plan.run},
          [this](const std::string& line) { events_.on_sentence(line); },
          [this](const std::string& failed) { end_job({1, {failed}}, SIGTERM); }),
      events_(start.events),
      warden_(io_, std::move(warden)),
      input_(io_, stdin_for_rank(),
             [this](std::string bytes) { hosts_.front()->send(Input{std::move(bytes)}); }),
      beat_timer_(io_),
      start_timer_(io_),
      farewell_timer_(io_) {
  restarts_.resize(job_.plan.hosts.size());
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

RemoteNodes::~RemoteNodes() = default;

// The start.

void RemoteNodes::begin() {
  start_some();
  watch_start();
  beat();
}

void RemoteNodes::start_some() {
  while (begun_ < hosts_.size() && !stop_) {
    const auto connecting =
        std::ranges::count_if(hosts_, [](const auto& host) { return host->is_connecting(); });
    if (static_cast<std::size_t>(connecting) >= kMostStarting) return;
    hosts_[begun_++]->connect();
  }
}

// Reports for which hosts it waits, and gives up when the nodes' own time to join is over.
void RemoteNodes::watch_start() {
  start_timer_.expires_after(kSilence);
  start_timer_.async_wait([this](const boost::system::error_code& error) {
    if (error || stop_) return;
    std::vector<std::string> missing;
    for (const auto& host : hosts_) {
      if (host->is_connecting()) missing.push_back(host->name());
    }
    if (missing.empty()) return;
    const auto waited = std::chrono::duration_cast<std::chrono::seconds>(Clock::now() - began_);
    const std::string who =
        fmt::format("{} {}", missing.size() == 1 ? "host" : "hosts", fmt::join(missing, ", "));
    if (waited >= job_.join_timeout) {
      end_job(
          {kExitTimeout, {fmt::format("no dlrun answered within {} s on {}", waited.count(), who)}},
          SIGTERM);
      return;
    }
    events_.on_sentence(fmt::format("waiting for {} for {} s", who, waited.count()));
    watch_start();
  });
}

void RemoteNodes::on_answered(RemoteHost& host) {
  if (stop_) {
    host.send(Stop{.exit_code = 1, .text = stop_->first, .signal = stop_->second});
    return;
  }
  if (host.node() != 0 && !endpoints_.empty()) host.send(Meet{endpoints_});
  if (host.node() == 0 && to_save_) host.send(Save{*std::exchange(to_save_, std::nullopt)});
  start_some();
}

void RemoteNodes::on_listening(RemoteHost& from, const std::vector<std::string>& endpoints) {
  if (from.node() != 0 || !endpoints_.empty()) return;
  endpoints_ = endpoints;
  for (const auto& host : hosts_) {
    if (host->node() != 0 && host->is_there()) host->send(Meet{endpoints_});
  }
}

// While it runs.

// An agent that hears nothing assumes that the front is gone.
void RemoteNodes::beat() {
  look_for_silence();
  for (const auto& host : hosts_) {
    if (host->is_there()) host->send(Alive{});
  }
  beat_timer_.expires_after(job_.beat);
  beat_timer_.async_wait([this](const boost::system::error_code& error) {
    if (!error) beat();
  });
}

// While the job runs, the nodes notice each other's silence.
void RemoteNodes::look_for_silence() {
  const Clock::time_point now = Clock::now();
  const Clock::duration late = now - std::exchange(last_beat_, now) - job_.beat;
  if (!verdict_) return;
  // Time in which this process did not run does not count as an agent's silence.
  if (!ends_from_ || late > job_.beat) ends_from_ = now;
  for (const auto& host : hosts_) {
    if (host->is_there() && now - std::max(host->heard(), *ends_from_) >= job_.most_silence) {
      host->lose(fmt::format("its dlrun has said nothing for {:g} s",
                             std::chrono::duration<double>(job_.most_silence).count()));
    }
  }
}

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
  output_.begin_attempt(attempt.attempt, attempt.ranks);
  events_.on_attempt(attempt.attempt, attempt.ranks);
}

void RemoteNodes::on_output(RemoteHost& host, const Output& output) {
  const Stream stream = output.id.stream;
  if (output.is_last) {
    host.open_streams().erase(output.id);
  } else {
    host.open_streams().insert(output.id);
  }
  output_.take(
      {.id = output.id,
       .time = std::chrono::system_clock::time_point(std::chrono::microseconds(output.time_us)),
       .bytes = output.bytes,
       .is_last = output.is_last});
  host.owed(stream) += static_cast<std::uint32_t>(output.bytes.size());
  if (host.owed(stream) >= kCreditPart) give_credit(host, stream);
}

void RemoteNodes::give_credit(RemoteHost& host, Stream stream) {
  if (host.waits_for_room(stream)) return;
  if (!output_.has_room(stream)) {
    host.waits_for_room(stream) = true;
    output_.when_room(stream, [this, &host, stream] {
      host.waits_for_room(stream) = false;
      give_credit(host, stream);
    });
    return;
  }
  if (host.owed(stream) == 0) return;
  host.send(Credit{stream, std::exchange(host.owed(stream), 0)});
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
  if (!verdict_) keep(std::move(verdict));
  if (stop_) return;
  stop_.emplace(text, signal);
  for (const auto& host : hosts_) {
    if (host->is_there()) {
      host->send(Stop{.exit_code = exit_code, .text = text, .signal = signal});
    } else if (!host->has_answered()) {
      host->kill();
    }
  }
  check_over();
}

// Before it, what failed last and was to begin again.
void RemoteNodes::keep(Verdict verdict) {
  if (next_) {
    const std::vector<std::string>& before = next_->verdict.page;
    verdict.page.insert(verdict.page.begin(), before.begin(), before.end());
    next_.reset();
  }
  verdict_ = std::move(verdict);
}

void RemoteNodes::hurry() {
  if (++hurried_ > 1) {
    for (const auto& host : hosts_) host->kill();
    return;
  }
  for (const auto& host : hosts_) {
    host->send(Order{Order::What::kHurry});
    if (!host->has_answered()) host->kill();
  }
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

void RemoteNodes::on_decided(RemoteHost&, Verdict verdict) {
  if (verdict.exit_code == 0) return;
  // One node may report more than another.
  const bool says_more =
      verdict_ && verdict_->page.empty() && verdict_->exit_code == verdict.exit_code;
  if (!verdict_ || says_more) keep(std::move(verdict));
}

// If a node is lost between two generations, no node restarts.
void RemoteNodes::on_begins_again(RemoteHost& host, BeginsAgain news) {
  restarts_[static_cast<std::size_t>(host.node())] = news.number;
  if (host.node() == 0) next_ = std::move(news);
  const auto begins = [this](int number) { return next_ && number >= next_->number; };
  if (std::ranges::all_of(restarts_, begins)) say_that_all_begin_again();
}

void RemoteNodes::say_that_all_begin_again() {
  if (!next_ || stop_) return;
  const BeginsAgain news = *std::exchange(next_, std::nullopt);
  events_.on_begins_again(news.verdict, {.again = true,
                                         .delay = std::chrono::milliseconds(news.delay_ms),
                                         .number = news.number,
                                         .most = news.most});
}

void RemoteNodes::on_failed(RemoteHost&, int exit_code, const std::string& text) {
  // Another node may have reported first that it lost this node, without the reason.
  if (verdict_ && !stop_) verdict_->page.push_back(text);
  end_job({.exit_code = exit_code, .page = {text}, .attempt = attempt_}, SIGTERM);
}

void RemoteNodes::on_file(const RankFile& file) {
  if (!output_.keep(file.attempt, file.rank, file.name, file.bytes)) return;
  has_recorders_ = has_recorders_ || file.name == collectives::record::kFileName;
}

void RemoteNodes::keep_files(const Verdict& verdict) {
  if (verdict.exit_code == 0 || !has_recorders_) return;
  events_.on_sentence(
      fmt::format("  the last operations of each rank: dlrun autopsy {}", output_.run_folder()));
}

void RemoteNodes::on_over(RemoteHost& host, const Over& over) {
  if (over.verdict.exit_code != 0 && !verdict_) keep(over.verdict);
  for (const std::string& line : over.left) {
    left_.push_back(fmt::format("host {}: {}", host.name(), line));
  }
  host.close();
  check_over();
}

void RemoteNodes::on_gone(RemoteHost& host) {
  // A lost agent has not ended its streams.
  for (const StreamId& id : std::exchange(host.open_streams(), {})) {
    output_.take(
        {.id = id, .time = std::chrono::system_clock::now(), .bytes = {}, .is_last = true});
  }
  start_some();
  check_over();
}

void RemoteNodes::check_over() {
  if (is_over_) return;
  const bool all_gone = std::ranges::all_of(
      hosts_, [&](const auto& host) { return host->is_gone() && (stop_ || host->is_over()); });
  if (all_gone) {
    is_over_ = true;
    for (auto* const timer : {&beat_timer_, &start_timer_, &farewell_timer_}) timer->cancel();
    events_.on_over();
    return;
  }
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

Verdict RemoteNodes::finish() {
  kill_descendants(rendezvous::Deadline::after(kSilence));
  return verdict_.value_or(Verdict());
}

}  // namespace dl::launcher::remote
