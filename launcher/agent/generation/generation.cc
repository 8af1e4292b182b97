#include "launcher/agent/generation/generation.h"

#include <fmt/core.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <string_view>
#include <system_error>

#include "core/base/env.h"
#include "core/base/error.h"
#include "core/base/system/machine/cgroup.h"
#include "core/base/system/machine/limits.h"
#include "core/base/system/process/shell.h"
#include "launcher/plan/environment.h"
#include "launcher/pmi/pmi_server.h"
#include "launcher/pmi/pmix_server.h"
#include "launcher/process/descendants.h"
#include "launcher/process/start/program.h"
#include "launcher/process/start/rank_files.h"
#include "launcher/verdict/report.h"

namespace dl::launcher {

namespace {

constexpr std::size_t kMostSpawnsWaiting = 4;  // each holds six descriptors
constexpr std::chrono::seconds kSlowStart{5};

std::vector<std::string> readable_files(const std::vector<Program>& programs) {
  std::vector<std::string> files;
  for (const Program& program : programs) {
    if (program.can_be_read) files.push_back(program.path);
  }
  return files;
}

// In which each rank starts; empty if dlrun's own directory is gone.
std::vector<std::string> directories_of(const JobOptions& job, const std::vector<int>& ranks) {
  std::error_code ignored;
  const std::string here = std::filesystem::current_path(ignored);
  std::vector<std::string> directories;
  for (const int rank : ranks) {
    const std::string& own = job.apps[job.app_of(rank)].wdir;
    directories.push_back(own.empty() ? here : own);
  }
  return directories;
}

// SLURM signals every process of a step, unless its proctrack plugin knows the step's own child.
// Such a signal ends a rank that does not handle it, and the rank's end tells nothing about a
// cause.
bool is_signal_of_slurm(int status) {
  if (!WIFSIGNALED(status) || !env::is_set(env::Var::kSlurmJobId)) return false;
  const int signal = WTERMSIG(status);
  return signal == SIGTERM || signal == SIGUSR1 || signal == SIGUSR2;
}

}  // namespace

Generation::Generation(boost::asio::io_context& io, Setting setting, Meeting meeting, bool judges,
                       UniqueFd channel, GenerationEvents events)
    : io_(io),
      set_(std::move(setting)),
      meeting_(std::move(meeting)),
      judges_(judges),
      events_(std::move(events)),
      supervisor_(
          io, std::move(channel), [this](Message message) { on_message(std::move(message)); },
          [this] {
            if (!finished_) events_.on_supervisor_lost();
          }),
      start_timer_(io),
      abort_timer_(io),
      ranks_(meeting_.ranks),
      search_(io, ranks_, judges, set_.plan.job.end.on_failure,
              {.on_found = [this] { events_.on_cause(); },
               .on_goes_on = [this](int rank) { events_.on_rank_goes_on(rank); },
               .on_answered = [this] { check_ended(); }}) {}

// On several nodes, what one of them needs counts for all.
Mpi Generation::mpi() const {
  if (set_.plan.job.nnodes == 1) return set_.plan.mpi;
  return meeting_.serves_pmix ? Mpi::kPmix : Mpi::kNone;
}

void Generation::serve_mpi() {
  MpiServer::Events events{.on_note =
                               [this](const std::string& line) {
                                 if (!stopping_) events_.on_note(line);
                               },
                           .on_abort = [this](int rank, int number) { on_mpi_abort(rank, number); },
                           .on_left = [this](int rank) { judge_left(rank); },
                           .on_line =
                               [this] {
                                 judge_mpi();
                                 search_.settle();
                               },
                           .on_lost = [this](const std::string& why) { events_.on_stop(1, why); }};
  const NodePlan& plan = set_.plan;
  const bool others_go_on = plan.job.end.keeps_others();
  const std::vector<int> apps = plan.job.started.ranks_of_apps(meeting_.world_size);
  if (mpi() == Mpi::kPmi1) {
    mpi_ = std::make_unique<PmiServer>(io_, meeting_.world_size, apps, others_go_on,
                                       std::move(events));
    return;
  }
  PmixServer::Job job{
      .name = fmt::format("{}.{}", plan.job.name.substr(0, 200), meeting_.generation),
      .size = meeting_.world_size,
      .apps = apps,
      .ranks = meeting_.ranks,
      .directories = directories_of(plan.job.started, meeting_.ranks),
      .programs = readable_files(plan.programs),
      .host = plan.host,
      .node = meeting_.group_rank,
      .nodes = plan.job.nnodes,
      .others_go_on = others_go_on,
      .is_oversubscribed = plan.is_oversubscribed,
      .iface = meeting_.mpi_interface,
      .store = meeting_.store,
      .store_job = plan.job.name,
      .generation = meeting_.generation,
      .key = &set_.key};
  mpi_ = std::make_unique<PmixServer>(io_, set_.warden, std::move(job), std::move(events));
}

// Open MPI also aborts a rank that has lost a peer. If the peer was of another node, its end is
// known here only later.
void Generation::on_mpi_abort(int rank, int number) {
  if (stopping_) return;
  if (set_.plan.job.nnodes == 1) {
    judge_abort(rank, number);
    return;
  }
  abort_timer_.expires_after(rendezvous::kLostPeerWait);
  abort_timer_.async_wait([this, rank, number](const boost::system::error_code& error) {
    if (!error && !stopping_) judge_abort(rank, number);
  });
}

// The rank still runs, so nothing but this tells of its failure.
void Generation::judge_abort(int number_of_rank, int number) {
  Rank& rank = ranks_.at(static_cast<std::size_t>(meeting_.local_rank_of(number_of_rank)));
  rank.end.rank = rank.number;
  rank.end.pid = rank.pid;
  rank.end.aborted = number;
  RankEnd end = rank.end;
  rank.end.stopped = true;  // its end says nothing more
  const int exit_code = rank.end.exit_code();
  if (exit_code == 0 || set_.plan.job.end.keeps_others()) {
    const std::string abort = fmt::format("rank {} {}", rank.number, rank.end.how());
    // With --on-failure keep: it may have aborted for want of a rank that has failed.
    const auto& failure = search_.finding();
    const auto first =
        std::ranges::find(search_.ends(), failure ? failure->rank : -1, &RankEnd::rank);
    const bool is_known = first != search_.ends().end() && !first->text.empty();
    if (is_known && failure->rank != rank.number) {
      events_.on_stop(failure->exit_code, fmt::format("{}; then {}", first->text, abort));
    } else {
      events_.on_stop(exit_code, abort);
    }
    return;
  }
  rank.err->take_what_is_there();
  tell_end(rank, std::move(end));
  search_.settle();
}

// The others may wait for it without an end.
void Generation::judge_left(int number) {
  Rank& rank = ranks_.at(static_cast<std::size_t>(meeting_.local_rank_of(number)));
  if (stopping_ || rank.end.stopped || rank.end.failed()) return;
  if (set_.plan.job.end.keeps_others() || !ranks_.is_any_alive()) return;
  rank.end.left_mpi = true;
  tell_end(rank, rank.end);
  search_.settle();
}

// The start.

void Generation::start() {
  memory_kills_before_ = memory_kills();
  const auto start = [this] {
    start_some();
    watch_start();
  };
  if (mpi() == Mpi::kNone) {
    start();
    return;
  }
  try {
    serve_mpi();
  } catch (const Error& error) {
    events_.on_stop(1, error.what());
    return;
  }
  mpi_->when_ready(start);
}

bool Generation::is_starting() const {
  return begun_ > 0 && begun_ < ranks_.size() && !stopping_;
}

void Generation::start_some() {
  while (begun_ < ranks_.size() && !stopping_) {
    if (supervisor_.waiting() > kMostSpawnsWaiting) {
      supervisor_.when_sent([this] { start_some(); });
      return;
    }
    Rank& rank = ranks_.at(begun_);
    rank.asked = true;
    start_rank(rank, set_.plan.ranks[begun_]);
    ++begun_;
  }
}

void Generation::start_rank(Rank& rank, const LocalRank& where) {
  Pipe out_pipe = make_pipe();
  Pipe err_pipe = make_pipe();
  auto [lifeline, rank_lifeline] = make_channel();
  rank.lifeline = std::make_unique<RankLifeline>(io_, std::move(lifeline),
                                                 [this, &rank](const rendezvous::Waiting& waiting) {
                                                   rank.waits.reset();
                                                   if (waiting.rank >= 0) rank.waits = waiting;
                                                   search_.waits(rank.number, waiting);
                                                   events_.on_rank_waits(rank.number, waiting);
                                                   search_.settle();
                                                 });

  rank.recorder = make_recorder({.rank = rank.number,
                                 .world_size = meeting_.world_size,
                                 .generation = meeting_.generation,
                                 .host = set_.plan.host,
                                 .job = set_.plan.job.name});
  rank.error_memory = make_memory_file("error-file");

  Handles handles;
  handles.key_fd = kKeyFd;
  handles.key_file = path_of_descriptor(set_.key.get());
  handles.lifeline_fd = kLifelineFd;
  if (rank.recorder) handles.recorder_fd = kRecorderFd;
  handles.error_file = path_of_descriptor(rank.error_memory.get());
  handles.checkpoint = set_.checkpoint;
  handles.progress_width = set_.progress_columns;
  if (mpi() == Mpi::kPmi1) handles.pmi_fd = kPmiFd;

  Message spawn;
  spawn.kind = MessageKind::kSpawn;
  spawn.slot = static_cast<std::uint32_t>(where.local_rank);
  spawn.number = static_cast<std::int32_t>(set_.plan.job.started.app_of(rank.number));
  spawn.environment = rank_environment(set_.plan, meeting_, where, handles);
  spawn.cpus = where.binding.cpus;
  const auto give = [&spawn](UniqueFd fd, int child_number) {
    spawn.fds.push_back(std::move(fd));
    spawn.fd_numbers.push_back(child_number);
  };
  give(rank.number == 0 ? stdin_for_rank() : open_empty_input(), STDIN_FILENO);
  give(std::move(out_pipe.write), STDOUT_FILENO);
  give(std::move(err_pipe.write), STDERR_FILENO);
  give(duplicate(set_.key.get()), kKeyFd);
  give(std::move(rank_lifeline), kLifelineFd);
  if (rank.recorder) give(duplicate(rank.recorder.get()), kRecorderFd);
  if (mpi_) {
    MpiServer::Part part = mpi_->add(rank.number);
    give(std::move(part.fd), kPmiFd);
    std::ranges::move(part.environment, std::back_inserter(spawn.environment));
  }
  rank.started = Rank::Clock::now();
  supervisor_.send(std::move(spawn));

  rank.out = &set_.output.add(std::move(out_pipe.read), Stream::kOut, rank.number);
  rank.err = &set_.output.add(std::move(err_pipe.read), Stream::kErr, rank.number);
}

// While the supervisor executes a program it does nothing else.
void Generation::watch_start() {
  start_timer_.expires_after(kSlowStart);
  start_timer_.async_wait([this](const boost::system::error_code& error) {
    if (error || stopping_) return;
    const std::vector<int> missing = ranks_.being_started();
    if (missing.empty()) return;
    events_.on_note(
        fmt::format("{} {} not started yet after {} s: the system does not come to the end of "
                    "executing {}; does its file system hang?",
                    rank_list(missing), missing.size() == 1 ? "is" : "are", kSlowStart.count(),
                    set_.plan.program_of(missing.front()).path));
  });
}

// Messages of the supervisor.

void Generation::on_message(Message message) {
  if (message.kind == MessageKind::kFinished) {
    finished_ = true;
    start_timer_.cancel();
    abort_timer_.cancel();
    search_.cancel();
    if (mpi_) {
      mpi_->finish([this] { events_.on_finished(); });
    } else {
      events_.on_finished();
    }
    return;
  }
  if (message.kind == MessageKind::kWardenGone) {
    events_.on_warden_lost();
    return;
  }
  Rank& rank = ranks_.at(message.slot);
  switch (message.kind) {
    case MessageKind::kStarted:
      rank.pid = message.number;
      rank.running = true;
      events_.on_rank_started(rank.number, rank.pid);
      return;
    case MessageKind::kNotStarted:
      on_not_started(rank, message);
      return;
    case MessageKind::kExited:
      on_exited(rank, message.number);
      return;
    default:
      throw_error(ErrorKind::kInternal, "the supervisor sent a message of kind {}",
                  static_cast<std::uint32_t>(message.kind));
  }
}

void Generation::on_not_started(Rank& rank, const Message& message) {
  rank.asked = false;
  const int error = message.number;
  // The program is to blame only if its execution failed.
  const bool is_programs = message.text == "exec" && !is_resource_exhausted(error);
  const int exit_code = !is_programs ? 1 : error == ENOENT ? kExitNotFound : kExitNotExecutable;
  const std::string& program = set_.plan.program_of(rank.number).path;
  std::string why = spawn_error_text(error);
  if (is_programs && error == ENOENT) why += ": " + why_no_interpreter(program);
  if (is_programs && error == ENOEXEC) why += ": " + why_not_executed(program);
  const JobOptions& job = set_.plan.job.started;
  const std::string step = message.text == "chdir"
                               ? wdir_error(job.apps[job.app_of(rank.number)].wdir, error)
                               : fmt::format("{} of {}: {}", message.text, program, why);
  events_.on_stop(exit_code, fmt::format("rank {} could not be started: {}", rank.number, step));
  check_ended();
}

void Generation::on_exited(Rank& rank, int status) {
  rank.running = false;
  rank.ended = true;
  rank.stopped = Rank::Clock::now();
  rank.ended_at = recorder_ticks();
  rank.end.rank = rank.number;
  rank.end.pid = rank.pid;
  rank.end.status = status;
  const bool is_dlruns = WIFSIGNALED(status) && signals_sent_.contains(WTERMSIG(status));
  const bool is_slurms = !stopping_ && !is_dlruns && is_signal_of_slurm(status);
  rank.end.stopped = stopping_ || is_slurms;
  if (is_dlruns) rank.ended_by = WTERMSIG(status);
  events_.on_rank_gone(rank);
  judge(rank);
  if (is_slurms) {
    events_.on_stop(128 + WTERMSIG(status),
                    fmt::format("rank {} was ended by {}, which SLURM sends to every process of a "
                                "step; the job ends",
                                rank.number, signal_name(WTERMSIG(status))));
  }
  check_ended();
}

void Generation::check_ended() {
  if (ranks_.is_any_alive() || is_starting()) return;
  // No rank is left on this node that could still fail first.
  search_.answer_all();
  events_.on_all_ended(std::none_of(ranks_.begin(), ranks_.end(),
                                    [](const Rank& rank) { return rank.end.failed(); }));
}

// Orders.

void Generation::stop(int to_send) {
  stopping_ = true;
  search_.stop();
  signal(to_send);
  signal(SIGCONT);  // a stopped process takes no other signal
}

// Reaches every rank that was requested before, because the supervisor takes messages in order.
void Generation::signal(int signal) {
  signals_sent_.insert(signal);
  supervisor_.send(signal_message(kEverySlot, signal));
}

void Generation::finish(Leftovers order) {
  to_finish_ = true;
  Message message;
  message.kind = MessageKind::kFinish;
  message.number = static_cast<std::int32_t>(order);
  supervisor_.send(std::move(message));
}

// The first cause.

void Generation::judge(Rank& rank) {
  // A rank reports before it ends, so its last report has arrived by now.
  rank.lifeline->close();
  const bool was_in_mpi = mpi_ && mpi_->ended(rank.number);
  // As with mpirun. Others might wait for it without an end.
  rank.end.left_mpi = was_in_mpi && rank.end.status == 0 && !rank.end.stopped;
  std::string last;
  if (rank.end.failed()) {
    rank.err->take_what_is_there();
    last = last_message(rank.err->tail());
    last += "\n" + read_error_file(rank.error_file()).text;
    if (const auto now = memory_kills(); now && memory_kills_before_) {
      rank.memory_kills = *now - *memory_kills_before_;
    }
  }
  rank.end.follows = rank.lifeline->failures().explanation(rank.number, last);
  if (rank.end.failed()) {
    rank.end.lost_peer = !rank.end.follows && says_peer_was_lost(rank.err->tail());
  }
  tell_end(rank, rank.end);
  search_.settle();
}

void Generation::tell_end(const Rank& rank, RankEnd end) {
  if ((!judges_ || set_.plan.job.end.keeps_others()) && !end.stopped) {
    const RankFacts facts = rank.facts();
    end.text = describe_end(facts, {set_.plan.host, meeting_.group_rank});
    for (const std::string& line : last_words(facts)) end.detail += line + "\n";
  }
  search_.ended(end);
  if (mpi_) judge_mpi();
  events_.on_rank_ended(end, meeting_.local_rank_of(end.rank));
}

void Generation::judge_mpi() {
  for (const auto& [rank, waiting] : search_.mpi_waits(mpi_->waits())) {
    events_.on_rank_waits(rank, waiting);
  }
}

}  // namespace dl::launcher
