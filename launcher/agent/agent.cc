#include "launcher/agent/agent.h"

#include <fmt/core.h>
#include <signal.h>

#include <algorithm>
#include <utility>

#include "core/base/deadline.h"
#include "core/base/error.h"
#include "core/base/system/machine/limits.h"
#include "core/base/system/process/shell.h"
#include "launcher/plan/machine/this_host.h"
#include "launcher/process/descendants.h"
#include "launcher/process/supervisor/supervisor.h"
#include "launcher/torch_store/serve.h"

namespace dl::launcher {

Agent::Agent(boost::asio::io_context& io, const NodePlan& plan, AgentSettings settings,
             UniqueFd key, WardenHandle warden, DiskThread& disk, FrameTaker& front,
             AgentEvents& events)
    : io_(io),
      plan_(plan),
      settings_(std::move(settings)),
      key_(std::move(key)),
      events_(events),
      output_(io, disk, front, settings_.log_dir,
              [this](const std::string& line) { events_.on_sentence(line); }),
      warden_(io, std::move(warden)),
      grace_timer_(io),
      verdict_timer_(io),
      left_timer_(io),
      delay_timer_(io),
      machine_(/*has_others=*/plan.job.nnodes > 1) {
  warden_.on_events({.on_swept = [this](int status) { on_swept(status); },
                     .on_no_supervisor = [this](int error) { on_no_supervisor(error); },
                     .on_gone = [this](std::optional<int> status) { on_warden_gone(status); }});
}

Agent::~Agent() = default;

// The start.

void Agent::begin() {
  if (plan_.job.nnodes == 1) {
    store_ = std::make_unique<StoreService>(
        io_, warden_, output_, key_, plan_.job.name, [this](const std::string& how) {
          end_job({1, fmt::format("{}, which the ranks meet through, {}", kRendezvousName, how)},
                  SIGTERM);
        });
  } else {
    others_ = std::make_unique<OtherNodes>(
        io_, warden_, output_, key_, plan_, plan_.meet.join_timeout, std::move(listener_),
        OtherNodesEvents{
            .on_meeting =
                [this](Meeting meeting) {
                  if (machine_.is_stopping()) return;
                  if (!plan_.meet.master_addr.empty()) meeting.master_addr = plan_.meet.master_addr;
                  meeting.gloo_interface = interface_beside_name(meeting.own_addr);
                  begin_generation(std::move(meeting));
                },
            .on_failed = [this](JobFailure failure) { on_job_failed(std::move(failure)); },
            .on_all_done = [this] { act(machine_.others_agreed()); },
            .on_question =
                [this](rendezvous::Question question) {
                  if (generation_) generation_->ask(question);
                },
            .on_preempt =
                [this](const std::string& why) {
                  if (checkpointing_) checkpointing_->request(why);
                },
            .on_checkpoint =
                [this](std::uint64_t call) {
                  if (checkpointing_) checkpointing_->agree(call);
                },
            .on_lost = [this](int exit_code,
                              const std::string& text) { end_job({exit_code, text}, SIGTERM); },
            .on_closed = [this] { act(machine_.others_left()); },
            .on_sentence = [this](const std::string& line) { events_.on_sentence(line); }});
  }
  meet();
}

void Agent::meet() {
  Meeting meeting = supposed_meeting(plan_);
  if (others_) {
    const bool is_free = !plan_.job.shares_master_port();
    if (plan_.wants_torch_store && others_->is_node_0() && is_free) {
      store_port_.reset();
      store_port_ = hold_store_port(plan_, meeting.master_port);
    }
    others_->join(meeting.master_port);
    return;
  }
  meeting.generation = static_cast<std::uint64_t>(attempt_);
  meeting.store = store_->address();
  begin_generation(std::move(meeting));
}

void Agent::begin_generation(Meeting meeting) {
  if (plan_.program.exit_code != 0) {
    // main() has reported it on this node; the other nodes would wait for ranks that never start.
    others_->leave(with_node(meeting.group_rank, plan_.program.error), plan_.program.exit_code);
    end_job({plan_.program.exit_code, ""}, SIGTERM);
    return;
  }
  try {
    torch_store_ =
        serve_torch_store(io_, plan_, meeting, std::exchange(store_port_, std::nullopt),
                          [this](const std::string& line) { events_.on_sentence(line); });
  } catch (const Error& error) {
    end_job({1, error.what()}, SIGTERM);
    return;
  }
  open_checkpoint_door(meeting);
  generation_ = std::make_unique<Generation>(
      io_,
      Generation::Setting{plan_, settings_, key_, output_,
                          checkpointing_ ? checkpointing_->name() : ""},
      std::move(meeting),
      /*judges=*/plan_.job.nnodes == 1, warden_.begin_generation(),
      static_cast<GenerationEvents&>(*this));
  const Meeting& met = generation_->meeting();
  began_ = Clock::now();
  attempt_ = static_cast<int>(met.generation);
  if (store_) store_->begin_generation(met.generation);
  events_.on_attempt(attempt_, met.ranks);
  output_.begin_attempt(attempt_, met.run, met.group_rank, met.ranks,
                        [this](const std::string& error) {
                          if (machine_.is_stopping()) return;
                          if (!error.empty()) {
                            end_job({1, error}, SIGTERM);
                            return;
                          }
                          if (const std::string why = why_no_recorders(); !why.empty())
                            events_.on_sentence(why);
                          generation_->start();
                        });
}

void Agent::open_checkpoint_door(const Meeting& meeting) {
  if (!settings_.preempt_wait) return;
  CheckpointEvents events;
  if (others_) {
    events.ask_all = [this](const std::string& why) { others_->preempt(why); };
    events.say_calls = [this](std::uint64_t calls) { others_->called(calls); };
  }
  events.on_late = [this](const std::string& complaint) { end_job({1, complaint}, SIGTERM); };
  events.on_sentence = [this](const std::string& line) { events_.on_sentence(line); };
  checkpointing_ = std::make_unique<Checkpointing>(io_, meeting.ranks, *settings_.preempt_wait,
                                                   std::move(events));
  if (early_request_) checkpointing_->ask(*std::exchange(early_request_, std::nullopt));
}

// Events.

void Agent::on_rank_started(int rank, pid_t pid) {
  events_.on_rank({.what = RankNews::What::kStarted, .rank = rank, .pid = pid});
}

void Agent::on_rank_ended(const RankEnd& end, int local_rank) {
  events_.on_rank(
      {.what = RankNews::What::kEnded, .rank = end.rank, .pid = end.pid, .status = end.status});
  if (others_ && !end.stopped) others_->ended(end, local_rank);
}

void Agent::on_rank_waits(int rank, const rendezvous::Waiting& waiting) {
  if (others_) others_->waits(rank, waiting);
}

void Agent::on_rank_goes_on(int rank) {
  if (others_) others_->goes_on(rank);
}

// A rank of this node has failed by itself; on several nodes, the service decides.
void Agent::on_cause() {
  act(machine_.stop(SIGTERM, /*is_final=*/false));
}

void Agent::on_stop(StopCause why) {
  end_job(std::move(why), SIGTERM);
}

void Agent::on_all_ended(bool all_well) {
  act(machine_.ranks_ended(all_well));
}

void Agent::on_note(const std::string& line) {
  events_.on_sentence(line);
}

// The service has found the first cause in the whole job.
void Agent::on_job_failed(JobFailure failure) {
  const bool is_of_this_node =
      failure.rank < 0 && generation_ && failure.group_rank == generation_->meeting().group_rank;
  const bool again = failure.restart.again;
  if (!is_of_this_node && !stop_cause_) job_failure_ = std::move(failure);
  act(machine_.stop(SIGTERM, /*is_final=*/!again));
  act(machine_.others_agreed());
  check_ended();
}

// Orders.

void Agent::stop(StopCause cause, int signal) {
  end_job(std::move(cause), signal);
}

// A sentence for the other nodes.
std::string Agent::with_node(int number, const std::string& text) const {
  return fmt::format("{} (host {}): {}", number < 0 ? "a node" : fmt::format("node {}", number),
                     plan_.host, text);
}

void Agent::end_job(StopCause cause, int signal) {
  if (is_over_) return;
  if (others_) {
    const int number = generation_ ? generation_->meeting().group_rank : plan_.node_rank;
    others_->leave(
        with_node(number, cause.text.empty() ? "its output is not read any more" : cause.text),
        cause.exit_code);
  }
  // A wait for leftovers that is cut short does not undo what all ranks have saved.
  const bool has_saved =
      lingering_ && checkpointing_ && checkpointing_->outcome() == Preemption::Outcome::kSaved;
  const bool has_cause = has_saved || stop_cause_ || job_failure_ ||
                         (generation_ && generation_->finding().has_value());
  if (!has_cause || machine_.begins_again()) stop_cause_ = std::move(cause);
  act(machine_.stop(signal, /*is_final=*/true));
  act(machine_.others_agreed());
  check_ended();
}

void Agent::check_ended() {
  if (generation_) {
    generation_->check_ended();
  } else {
    act(machine_.ranks_ended(/*all_well=*/true));
  }
}

void Agent::hurry() {
  act(machine_.hurry());
}

void Agent::signal_ranks(int signal) {
  if (generation_) generation_->signal(signal);
}

void Agent::ask_to_save(const std::string& why) {
  if (lingering_) return act(machine_.linger_over());  // no rank is left that could save
  if (checkpointing_ && !checkpointing_->is_over()) {
    checkpointing_->ask(why);
  } else {
    early_request_ = why;  // for the generation that begins next, if one does
  }
}

void Agent::suspend() {
  if (lingering_) lingering_->suspend();
  signal_ranks(SIGSTOP);
  if (generation_) generation_->flush(rendezvous::Deadline::after(kSilence));
  if (others_) others_->suspended();
}

void Agent::resume() {
  if (others_) others_->resumed();
  signal_ranks(SIGCONT);
  if (lingering_) lingering_->resume();
}

// The end.

void Agent::act(const Actions& actions) {
  for (const EndMachine::Action action : actions) act(action);
}

void Agent::act(EndMachine::Action action) {
  using Do = EndMachine::Do;
  switch (action.what) {
    case Do::kSignalRanks:
      if (checkpointing_) checkpointing_->announce_end();
      if (generation_) generation_->stop(action.signal);
      return;
    case Do::kStartGrace:
      after(grace_timer_, plan_.job.end.grace, &Agent::on_grace_over);
      return;
    case Do::kKillRanks:
      signal_ranks(SIGKILL);
      return;
    case Do::kWatchKilled:
      after(left_timer_, kSilence, &Agent::on_silence);
      return;
    case Do::kWatchSwept:
      after(left_timer_, kLastGrace + kSilence, &Agent::on_silence);
      return;
    case Do::kWatchToGiveUp:
      after(left_timer_, kMostKilling - kSilence, &Agent::on_patience_over);
      return;
    case Do::kSayDone:
      others_->done();
      return;
    case Do::kAwaitVerdict:
      // The service names one first cause to all nodes. If no answer comes, this node's own verdict
      // counts.
      verdict_timer_.expires_after(OtherNodes::kFarewell);
      verdict_timer_.async_wait([this](const boost::system::error_code& error) {
        if (!error) act(machine_.others_agreed());
      });
      return;
    case Do::kDecide:
      restart_ = events_.on_verdict(verdict());
      act(machine_.decided(restart_.again));
      return;
    case Do::kLeaveOthers:
      others_->close();
      return;
    case Do::kLinger:
      linger();
      return;
    case Do::kSweep:
      sweep(Leftovers::kEnd);
      return;
    case Do::kSweepNow:
      sweep(Leftovers::kKill);
      return;
    case Do::kGiveUp:
      gave_up_ = true;
      is_over_ = true;
      events_.on_over();
      return;
    case Do::kOver:
      grace_timer_.cancel();
      verdict_timer_.cancel();
      left_timer_.cancel();
      if (lingering_) lingering_->stop();
      if (machine_.begins_again()) {
        begin_next();
      } else {
        is_over_ = true;
        events_.on_over();
      }
      return;
  }
}

void Agent::after(boost::asio::steady_timer& timer, std::chrono::milliseconds time,
                  void (Agent::*then)()) {
  timer.expires_after(time);
  timer.async_wait([this, then](const boost::system::error_code& error) {
    if (!error) (this->*then)();
  });
}

void Agent::linger() {
  close_store();
  if (checkpointing_) checkpointing_->announce_end();
  if (!generation_ || supervisor_is_lost_) {
    act(machine_.swept());
    return;
  }
  if (plan_.job.end.longest_linger().count() > 0) generation_->finish(Leftovers::kWait);
  lingering_ = std::make_unique<Lingering>(
      io_, plan_.job.end.longest_linger(),
      Lingering::Events{
          .find = [this] { return find_leftovers(generation_->ranks_by_pid(), plan_.job.name); },
          .on_sentence = [this](const std::string& line) { events_.on_sentence(line); },
          .on_over = [this] { act(machine_.linger_over()); }});
  lingering_->begin();
}

void Agent::close_store() {
  if (store_) store_->close();
  if (others_) others_->kill();  // it keeps nothing that is still needed
}

void Agent::sweep(Leftovers order) {
  grace_timer_.cancel();
  verdict_timer_.cancel();
  if (lingering_) lingering_->end();
  if (!machine_.begins_again()) close_store();
  if (generation_ && !supervisor_is_lost_) {
    generation_->finish(order);
  } else {
    act(machine_.swept());
  }
}

void Agent::on_finished() {
  // If the next generation begins, the warden must first have swept this one: on_swept().
  if (!machine_.begins_again()) act(machine_.swept());
}

void Agent::begin_next() {
  output_.drain_ranks();
  const Verdict last = verdict();
  keep_files(last);
  events_.on_begins_again(last, restart_);
  ++attempt_;
  machine_ = EndMachine(/*has_others=*/plan_.job.nnodes > 1);
  lingering_.reset();
  previous_ = std::move(generation_);
  job_failure_.reset();
  // The other nodes had not got the request when this generation failed.
  if (checkpointing_ && checkpointing_->is_requested()) early_request_ = checkpointing_->why();
  checkpointing_.reset();
  torch_store_.reset();  // no key and no client of the old generation reaches the next one
  if (restart_.delay.count() == 0) {
    meet_again();
  } else {
    after(delay_timer_, restart_.delay, &Agent::meet_again);
  }
}

void Agent::meet_again() {
  if (machine_.is_stopping()) return;
  try {
    meet();
  } catch (const Error& error) {
    end_job({1, error.what()}, SIGTERM);
  }
}

// The end of a supervisor or of the warden.

void Agent::on_supervisor_lost() {
  if (is_over_ || std::exchange(supervisor_is_lost_, true)) return;
  if (warden_is_gone_) {
    end_without_supervisor(1, "the warden and the supervisor are gone; all ranks were ended");
    return;
  }
  warden_.wake();  // it says kSwept
  after(left_timer_, kTimeToEndTree, &Agent::on_warden_late);
}

void Agent::on_warden_late() {
  warden_.kill();
  warden_.wait_for_end();
}

void Agent::on_swept(int status) {
  if (is_over_) return;
  // The supervisor's own message, on another channel, may still be unread.
  if (generation_ && generation_->is_to_finish() && status == 0) {
    act(machine_.swept());
    return;
  }
  end_without_supervisor(
      shell_exit_code(status),
      fmt::format("the supervisor {}; all ranks were ended", how_it_ended(status)));
}

void Agent::on_no_supervisor(int error) {
  if (is_over_) return;
  end_without_supervisor(1,
                         fmt::format("the supervisor of the ranks could not be started: fork: {}",
                                     spawn_error_text(error)));
}

void Agent::end_without_supervisor(int exit_code, const std::string& why) {
  supervisor_is_lost_ = true;
  left_timer_.cancel();
  if (generation_) generation_->forget_ranks();
  end_job({exit_code == 0 ? 1 : exit_code, why}, SIGTERM);
  act(machine_.swept());  // a sweep that was under way
}

void Agent::on_warden_lost() {
  warden_.wait_for_end();
}

void Agent::on_warden_gone(std::optional<int> status) {
  if (is_over_) return;
  warden_is_gone_ = true;
  const int code = shell_exit_code(status.value_or(0));
  const std::string how = "the warden " + how_it_ended(status.value_or(0));
  if (supervisor_is_lost_) {
    end_without_supervisor(code, how + ", and the supervisor is gone too; all ranks were ended");
    return;
  }
  end_job({code == 0 ? 1 : code, how + "; all ranks were ended"}, SIGKILL);
  if (generation_ && generation_->is_finished()) act(machine_.swept());
}

}  // namespace dl::launcher
