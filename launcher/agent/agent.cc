#include "launcher/agent/agent.h"

#include <fmt/core.h>
#include <signal.h>

#include <utility>

#include "core/base/deadline.h"
#include "core/base/error.h"
#include "launcher/process/start/program.h"

namespace dl::launcher {

Agent::Agent(boost::asio::io_context& io, const NodePlan& plan, AgentSettings settings,
             UniqueFd key, WardenHandle warden, DiskThread& disk, FrameTaker& frontend,
             AgentEvents& events)
    : io_(io),
      plan_(plan),
      settings_(std::move(settings)),
      key_(std::move(key)),
      events_(events),
      output_(io, disk, frontend, settings_.log_dir,
              [this](const std::string& line) { say(line); }),
      left_alarm_(io),
      delay_alarm_(io),
      overseers_(io, std::move(warden), generations_, left_alarm_, events_of_overseers()),
      gathering_(io, plan),
      saving_(io, settings_.preempt_wait),
      cleanup_(io, plan, generations_, overseers_, [this](const std::string& line) { say(line); }),
      ending_(io, /*has_others=*/plan.job.nnodes > 1,
              {plan.job.end.grace, plan.job.end.longest_linger()},
              {generations_, saving_, cleanup_, left_alarm_}, events_of_ending()),
      outcome_(plan, generations_, gathering_, saving_),
      evidence_(generations_, output_, [this](const std::string& line) { say(line); }) {}

// The start.

void Agent::begin() {
  gathering_.begin(overseers_.warden(), output_, key_, events_of_gathering());
  gathering_.meet(attempt_);
}

void Agent::begin_generation(Meeting meeting) {
  if (const Program* const bad = plan_.bad_program()) {
    // main() has reported it on this node; the other nodes would wait for ranks that never start.
    gathering_.others()->leave(with_node(meeting.group_rank, plan_.host, bad->error),
                               bad->exit_code);
    stop({bad->exit_code, ""}, SIGTERM);
    return;
  }
  try {
    gathering_.serve_torch_store(meeting);
  } catch (const Error& error) {
    stop({1, error.what()}, SIGTERM);
    return;
  }
  saving_.begin_generation(meeting.ranks, events_of_saving());
  const Checkpointing* const request = saving_.current();
  generations_.begin(std::make_unique<Generation>(
      io_,
      Generation::Setting{plan_, key_, output_, overseers_.warden(), settings_.progress_columns,
                          request != nullptr ? request->name() : ""},
      std::move(meeting), /*judges=*/plan_.job.nnodes == 1, overseers_.warden().begin_generation(),
      events_of_generation()));
  const Meeting& met = generations_.current()->meeting();
  outcome_.begin_generation();
  attempt_ = static_cast<int>(met.generation);
  gathering_.begin_generation(met.generation);
  events_.on_attempt(attempt_, met.ranks);
  output_.begin_attempt(attempt_, met.run, met.group_rank, met.ranks,
                        [this](const std::string& error) { start_ranks(error); });
}

// `error`: why the folders for logs could not be made; empty: they are.
void Agent::start_ranks(const std::string& error) {
  if (ending_.is_stopping()) return;
  if (!error.empty()) {
    stop({1, error}, SIGTERM);
    return;
  }
  if (const std::string why = why_no_recorders(); !why.empty()) say(why);
  generations_.current()->start();
}

void Agent::begin_next() {
  output_.drain_ranks();
  const Verdict last = verdict();
  keep_files(last);
  events_.on_begins_again(last, restart_);
  ++attempt_;
  ending_.begin_next();
  cleanup_.end_generation();
  generations_.end();
  outcome_.end_generation();
  saving_.end_generation();
  gathering_.end_generation();
  if (restart_.delay.count() == 0) {
    meet_again();
  } else {
    delay_alarm_.set(restart_.delay, [this] { meet_again(); });
  }
}

void Agent::meet_again() {
  if (ending_.is_stopping()) return;
  try {
    gathering_.meet(attempt_);
  } catch (const Error& error) {
    stop({1, error.what()}, SIGTERM);
  }
}

// Events.

OtherNodesEvents Agent::events_of_gathering() {
  return {.on_meeting =
              [this](Meeting meeting) {
                if (!ending_.is_stopping()) begin_generation(std::move(meeting));
              },
          .on_failed = [this](JobFailure failure) { on_job_failed(std::move(failure)); },
          .on_all_done = [this] { ending_.others_agreed(); },
          .on_question =
              [this](rendezvous::Question question) {
                if (Generation* const ranks = generations_.current()) ranks->ask(question);
              },
          .on_preempt =
              [this](const std::string& why) {
                if (Checkpointing* const request = saving_.current()) request->request(why);
              },
          .on_checkpoint =
              [this](std::uint64_t call) {
                if (Checkpointing* const request = saving_.current()) request->agree(call);
              },
          .on_lost = [this](int exit_code,
                            const std::string& text) { stop({exit_code, text}, SIGTERM); },
          .on_closed = [this] { ending_.others_left(); },
          .on_sentence = [this](const std::string& line) { say(line); }};
}

Overseers::Events Agent::events_of_overseers() {
  return {.on_swept = [this] { ending_.swept(); },
          .on_supervisor_gone =
              [this](const std::string& why) {
                stop_for_this_node(why, SIGTERM);
                ending_.swept();  // a sweep that was under way
              },
          .on_warden_gone =
              [this](const std::string& why) {
                stop_for_this_node(why, SIGKILL);
                const Generation* const generation = generations_.current();
                if (generation != nullptr && generation->is_finished()) ending_.swept();
              }};
}

CheckpointEvents Agent::events_of_saving() {
  CheckpointEvents events;
  if (OtherNodes* const others = gathering_.others()) {
    events.ask_all = [others](const std::string& why) { others->preempt(why); };
    events.say_calls = [others](std::uint64_t calls) { others->called(calls); };
  }
  events.on_late = [this](const std::string& complaint) { stop({1, complaint}, SIGTERM); };
  events.on_sentence = [this](const std::string& line) { say(line); };
  return events;
}

GenerationEvents Agent::events_of_generation() {
  OtherNodes* const others = gathering_.others();
  return {
      .on_rank_started =
          [this](int rank, pid_t pid) {
            events_.on_rank({.what = RankNews::What::kStarted, .rank = rank, .pid = pid});
          },
      .on_rank_gone =
          [this](const Rank& rank) {
            events_.on_rank({.what = RankNews::What::kEnded,
                             .rank = rank.number,
                             .pid = rank.pid,
                             .status = rank.end.status});
          },
      .on_rank_ended = [this](const RankEnd& end,
                              int local_rank) { on_rank_ended(end, local_rank); },
      .on_rank_waits =
          [others](int rank, const rendezvous::Waiting& waiting) {
            if (others != nullptr) others->waits(rank, waiting);
          },
      .on_rank_goes_on =
          [others](int rank) {
            if (others != nullptr) others->goes_on(rank);
          },
      // On several nodes, the service decides whether a generation follows.
      .on_cause =
          [this] {
            if (!plan_.job.end.keeps_others()) ending_.stop(SIGTERM, /*is_final=*/false);
          },
      .on_stop = [this](int exit_code, const std::string& why) { stop({exit_code, why}, SIGTERM); },
      .on_all_ended = [this](bool all_well) { on_ranks_ended(all_well); },
      .on_finished =
          [this] {
            // If the next generation begins, the warden must first have swept this one.
            if (!ending_.begins_again()) ending_.swept();
          },
      .on_warden_lost = [this] { overseers_.lose_warden(); },
      .on_supervisor_lost = [this] { overseers_.lose_supervisor(); },
      .on_note = [this](const std::string& line) { say(line); }};
}

Ending::Events Agent::events_of_ending() {
  return {.say_done = [this] { gathering_.others()->done(); },
          .leave_others = [this] { gathering_.others()->close(); },
          .close_store = [this] { gathering_.close_store(); },
          .on_verdict =
              [this] {
                say_who_was_outlived();
                restart_ = events_.on_verdict(verdict());
                return restart_.again;
              },
          .on_next = [this] { begin_next(); },
          .on_over =
              [this] {
                is_over_ = true;
                overseers_.end();
                events_.on_over();
              }};
}

void Agent::on_rank_ended(const RankEnd& end, int local_rank) {
  if (end.stopped) return;
  if (OtherNodes* const others = gathering_.others()) others->ended(end, local_rank);
  if (!plan_.job.end.keeps_others() || !end.failed()) return;
  if (Checkpointing* const request = saving_.current()) request->forget(end.rank);
  // On several nodes the service tells all of them.
  if (gathering_.others() != nullptr) return;
  const Generation& ranks = *generations_.current();
  const std::string news = rendezvous::goes_on_without(ranks.ends(), ranks.ranks().size());
  if (!news.empty()) say(news);
}

// The ranks that the job has lost without failing. On several nodes the service tells it.
void Agent::say_who_was_outlived() {
  const Generation* const generation = generations_.current();
  if (generation == nullptr || gathering_.others() != nullptr || outcome_.has_reason()) return;
  const std::string news = rendezvous::went_on_without(generation->ends());
  if (!news.empty()) say(news);
}

// If the ranks live on when one fails, a failure is one of the job only if no rank has outlived it.
// On several nodes the service knows that, once each of them has said that its ranks have ended.
void Agent::on_ranks_ended(bool all_well) {
  if (plan_.job.end.keeps_others()) {
    all_well = !outcome_.has_reason();
    if (!all_well) ending_.stop(SIGTERM, /*is_final=*/false);
  }
  ending_.ranks_ended(all_well);
}

// The service has found the first cause in the whole job.
void Agent::on_job_failed(JobFailure failure) {
  const bool again = failure.restart.again;
  outcome_.set_failure(std::move(failure));
  ending_.stop(SIGTERM, /*is_final=*/!again);
  ending_.others_agreed();
  check_ended();
}

// Orders.

void Agent::stop(StopCause cause, int signal) {
  if (is_over_) return;
  if (cause.exit_code == kExitTimeout) evidence_.report_waits();
  if (OtherNodes* const others = gathering_.others()) {
    const std::string text = cause.text.empty() ? "its output is not read any more" : cause.text;
    others->leave(cause.names_node ? text : with_this_node(text), cause.exit_code);
  }
  // A wait for leftovers that is cut short does not undo what all ranks have saved.
  const bool has_saved = cleanup_.is_lingering() && saving_.has_saved();
  if (!(has_saved || outcome_.has_reason()) || ending_.begins_again()) {
    outcome_.set_stop(std::move(cause));
  }
  ending_.stop(signal, /*is_final=*/true);
  ending_.others_agreed();
  check_ended();
}

// A part of dlrun itself is lost. On one node, the sentence needs no name.
void Agent::stop_for_this_node(const std::string& why, int signal) {
  const bool is_one_of_several = gathering_.others() != nullptr;
  stop({.exit_code = 1,
        .text = is_one_of_several ? with_this_node(why) : why,
        .names_node = is_one_of_several},
       signal);
}

std::string Agent::with_this_node(const std::string& text) const {
  const Generation* const generation = generations_.current();
  const int number = generation != nullptr ? generation->meeting().group_rank : plan_.node_rank;
  return with_node(number, plan_.host, text);
}

void Agent::check_ended() {
  if (Generation* const generation = generations_.current()) {
    generation->check_ended();
  } else {
    ending_.ranks_ended(/*all_well=*/true);
  }
}

void Agent::signal_ranks(int signal) {
  if (Generation* const generation = generations_.current()) generation->signal(signal);
}

void Agent::ask_to_save(const std::string& why) {
  if (cleanup_.is_lingering()) {
    ending_.linger_over();  // no rank is left that could save
  } else {
    saving_.ask(why);
  }
}

void Agent::suspend() {
  cleanup_.suspend();
  signal_ranks(SIGSTOP);
  if (Generation* const generation = generations_.current()) {
    generation->flush(rendezvous::Deadline::after(Cleanup::kSilence));
  }
  if (OtherNodes* const others = gathering_.others()) others->suspended();
}

void Agent::resume() {
  if (OtherNodes* const others = gathering_.others()) others->resumed();
  signal_ranks(SIGCONT);
  cleanup_.resume();
}

void Agent::report() {
  const int cause = outcome_.cause_rank();
  if (!evidence_.report(cause)) {
    say("no rank runs");
    cleanup_.report();
  }
  evidence_.keep_recorders(cause);
}

// The end.

Verdict Agent::finish() {
  cleanup_.finish();
  output_.drain();
  return verdict();
}

Verdict Agent::verdict() const {
  Verdict verdict = outcome_.verdict();
  verdict.attempt = attempt_;
  return verdict;
}

void Agent::keep_files(const Verdict& verdict) {
  evidence_.keep_error_files();
  if (verdict.keeps_recorders) evidence_.keep_recorders(outcome_.cause_rank());
}

std::vector<RecorderCopy> Agent::recorders(const Verdict& verdict) const {
  return verdict.keeps_recorders ? evidence_.recorders(outcome_.cause_rank())
                                 : std::vector<RecorderCopy>();
}

}  // namespace dl::launcher
